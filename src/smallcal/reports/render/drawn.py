"""The figures of the page, drawn from what the report keeps of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from smallcal.reports.render.blocks import Figure
from smallcal.reports.render.inline import inline_svg

Content = Mapping[str, Any]


def figures_of(specs: Iterable[Content]) -> list[Figure]:
    """Draw each figure that the content describes.

    Examples
    --------
    >>> figures_of([])
    []
    """
    return [_figure(spec, number) for number, spec in enumerate(specs)]


def _figure(spec: Content, number: int) -> Figure:
    from markupsafe import Markup

    from smallcal.plots import style

    style.require_matplotlib()
    import matplotlib

    from smallcal.plots.redraw import redraw

    # Neither a user's style file nor what else they have set may change the page.
    with matplotlib.rc_context(matplotlib.rcParamsDefault):
        figure = style.figure_of(redraw(spec["plot"], spec["data"]))
        prefix = f"f{number}-"
        svg = style.to_svg(figure, prefix=prefix)
    tips = style.tips_of(figure, prefix=prefix)
    text = inline_svg(svg, tips, label=spec["alt"])
    return Figure(spec["id"], spec["title"], spec["caption"], Markup(text))

"""What holds of every figure of a study."""

import re

from smallcal import plots


def require_same(draw, make):
    """The same picture twice, in the package's colours."""
    from smallcal.plots.style import COLOURS

    first, second = (draw(make()).figure for _ in range(2))
    svg = plots.to_svg(first)
    assert svg == plots.to_svg(second)
    colours = {colour.lower() for colour in re.findall(r"#[0-9a-fA-F]{6}\b", svg)}
    assert colours - {"#ffffff"} <= set(COLOURS)


def require_axes(draw, make):
    """Axes that are given are used, and no others."""
    from matplotlib.figure import Figure

    figure = Figure()
    left, right = figure.subplots(1, 2)
    by_hand = figure.add_axes((0.1, 0.5, 0.3, 0.4))
    assert draw(make(), ax=left) is left
    assert draw(make(), ax=by_hand) is by_hand
    assert not right.has_data()

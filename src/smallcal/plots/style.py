"""What all plots share: colours, marks, axes, texts that appear on hover, and SVG to put in a page.

Nothing here touches pyplot: a figure that smallcal makes belongs to whoever asked for it, and is
gone when they drop it.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.data.shown import latex, visible
from smallcal.errors import InputError, missing_extra
from smallcal.metrics.units import PERCENT

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import ArrayLike

#: Okabe and Ito's colours, which people who see few colours can tell apart; yellow is left out,
#: since it vanishes on white.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
#: Text and axes; lines that refer to something; lines and bars that stay behind.
INK, GREY, FAINT = "#222222", "#767676", "#d9d9d9"
#: Every colour that a figure may hold, so that a page can replace each.
COLOURS = (*PALETTE, INK, GREY, FAINT)

#: One more mark than colours, so that the pairs do not repeat among 42 series.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)), (0, (9, 2)))

#: A line that others are compared with.
REFERENCE: Mapping[str, Any] = MappingProxyType(
    {"color": GREY, "linewidth": 1, "linestyle": (0, (4, 3)), "zorder": 1}
)

SMALL = 9.0
#: Letters of that size in a line over axes.
_CAPTION = 68

#: Of a figure, in inches, unless a plot has its own.
SIZE = (5.4, 4.2)

_TIPS = "_smallcal_tips"

Row = TypeVar("Row")


class Look(NamedTuple):
    """How one series is drawn; in grey the mark and the dashes still tell it from others."""

    color: str
    marker: str
    linestyle: Any

    @property
    def stroke(self) -> dict[str, Any]:
        """How its line is drawn."""
        return {"color": self.color, "linestyle": self.linestyle}

    @property
    def mark(self) -> dict[str, Any]:
        """How its marks are drawn."""
        return {"color": self.color, "marker": self.marker}


def look(index: int) -> Look:
    """Return the look of the n-th series.

    Examples
    --------
    >>> look(0).color, look(0).marker
    ('#0072b2', 'o')
    """
    return Look(
        PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)], DASHES[index % len(DASHES)]
    )


def looks(found: Mapping[str, Row]) -> Iterator[tuple[str, Row, Look]]:
    """Yield the name of each series, what was found for it, and its look."""
    for index, (name, row) in enumerate(found.items()):
        yield name, row, look(index)


def require_matplotlib() -> None:
    """Raise one clear line where matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise missing_extra("matplotlib", "plots", "drawing") from None


def axes_or_new(ax: Axes | None, *, size: tuple[float, float] = SIZE) -> Axes:
    """Return the axes given, or those of a new figure of this size in inches.

    The new figure is not pyplot's: nothing has to be closed. ``ax.figure.savefig`` saves it.
    """
    require_matplotlib()
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    if ax is not None:
        if not isinstance(ax, Axes):
            raise InputError(
                f"ax must be matplotlib axes or None; got {type(ax).__name__}", code="option-type"
            )
        return ax
    figure = Figure(figsize=size, layout="constrained")
    return figure.add_subplot()


def figure_of(artist: Artist) -> Figure:
    """Return the whole figure that an artist is in, also where it is in a part of one."""
    from matplotlib.figure import Figure

    figure: Any = getattr(artist, "figure", None)
    while figure is not None and not isinstance(figure, Figure):
        figure = figure.figure
    if figure is None:
        raise InputError("the artist must be in a figure; add it to axes first")
    return figure


def literal(text: str) -> str:
    r"""Return text that a figure shows as it is: no mathematics, no controls.

    Examples
    --------
    >>> print(literal("gain in $"), literal("_hidden"))
    gain in \$  _hidden
    """
    import matplotlib

    shown = visible(text, keep="\n")
    if matplotlib.rcParams["text.usetex"]:
        return latex(text)
    # A label that begins with an underscore would be left out of the legend.
    return (" " if shown.startswith("_") else "") + shown.replace("$", r"\$")


def dress(ax: Axes, *, xlabel: str, ylabel: str, title: str = "") -> None:
    """Write the labels, and take away what says nothing."""
    ax.set_xlabel(literal(xlabel), color=INK)
    ax.set_ylabel(literal(ylabel), color=INK)
    if title:
        ax.set_title(literal(title), color=INK, fontsize="medium", loc="left")
    ax.tick_params(colors=INK, which="both")
    for side, spine in ax.spines.items():
        spine.set_color(GREY)
        spine.set_visible(side in ("left", "bottom"))
    for offset in (ax.xaxis.get_offset_text(), ax.yaxis.get_offset_text()):
        offset.set_color(INK)


def caption(ax: Axes, *texts: str, pad: float = 6.0) -> None:
    """Write over axes what they show, in small lines that a figure is wide enough for."""
    lines = [line for text in texts for line in textwrap.wrap(text, _CAPTION)]
    ax.set_title(literal("\n".join(lines)), color=INK, fontsize=SMALL, loc="left", pad=pad)


def legend(ax: Axes, entries: tuple[list[Any], list[str]] | None = None, **options: Any) -> None:
    """Draw the legend without a frame: these handles and labels, or all there are, if any."""
    handles, labels = ax.get_legend_handles_labels()
    if entries is not None:
        handles, labels = entries[0], list(map(literal, entries[1]))
    if handles:
        chosen = {"frameon": False, "fontsize": SMALL, "labelcolor": INK, **options}
        ax.legend(handles, labels, **chosen)


def percent(ax: Axes, which: str = "xy") -> None:
    """Show fractions as percent on these axes; the label should say so."""
    from matplotlib.ticker import FuncFormatter

    for name in which:
        axis = ax.xaxis if name == "x" else ax.yaxis
        # Rounded: 0.07 is 7, not 7.000000000000001.
        hundredfold = FuncFormatter(
            lambda value, _: f"{round(PERCENT.scale * value, 9):g}".replace("-", "\N{MINUS SIGN}")
        )
        axis.set_major_formatter(hundredfold)


def name_series(ax: Axes, name: str, style: Look) -> None:
    """Put a series into the legend with both its mark and its line."""
    ax.plot([], [], label=literal(name), **style._asdict(), markersize=5)


def strip_over(ax: Axes, *, ylabel: str) -> Axes:
    """Return a low strip over the axes that shares their x axis."""
    strip = ax.inset_axes((0, 1.03, 1, 0.16), sharex=ax)
    dress(strip, xlabel="", ylabel=ylabel)
    strip.yaxis.label.set_fontsize(SMALL)
    strip.tick_params(labelbottom=False)
    return strip


def frame_reliability(ax: Axes, *, xlabel: str, ylabel: str) -> None:
    """Make axes those of accuracy against confidence, with a line where the two agree."""
    ax.plot([0, 1], [0, 1], **REFERENCE)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    percent(ax)
    dress(ax, xlabel=xlabel, ylabel=ylabel)


def band(ax: Axes, x: FloatArray, low: FloatArray, high: FloatArray, look: Look) -> None:
    """Fill an interval along a line, where there is one."""
    if np.isfinite(low).any():
        ax.fill_between(x, low, high, color=look.color, alpha=0.18, linewidth=0, zorder=2)


def dots(
    ax: Axes, x: ArrayLike, y: ArrayLike, look: Look, *, tips: Sequence[str], name: str, **how: Any
) -> None:
    """Draw marks whose sizes (``s``) may differ; see :func:`with_tips` for tips and name."""
    drawn = ax.scatter(x, y, **look.mark, linewidths=0, **how)
    with_tips(drawn, tips, name=name)


def marks(
    ax: Axes,
    x: ArrayLike,
    y: ArrayLike,
    look: Look,
    *,
    tips: Sequence[str],
    name: str,
    hollow: bool = False,
    **how: Any,
) -> Line2D:
    """Draw marks of one size and return them; see :func:`with_tips` for tips and name."""
    face = "none" if hollow else look.color
    (drawn,) = ax.plot(x, y, **look.mark, markerfacecolor=face, linestyle="none", **how)
    with_tips(drawn, tips, name=name)
    return drawn


def with_tips(
    artist: Artist | Sequence[Artist], texts: Sequence[str], *, name: str = "marks"
) -> None:
    """Remember what each mark of an artist says when it is pointed at.

    The artist gets an id of its own, ``tip-NAME-NUMBER`` in small letters, digits and dashes. In
    the SVG the n-th ``<use>`` or ``<path>`` outside ``<defs>`` in the group of that id is the
    mark that the n-th text belongs to.

    Parameters
    ----------
    artist : Line2D with markers and no line, a collection, or a sequence of patches
        Already part of a figure. Patches, such as bars, get an id and one text each.
    texts : sequence of str
        As many as marks. A mark without a place (NaN) is not drawn, and must not be counted.
    name : str
        Part of the id; for instance the plot and the series.
    """
    if isinstance(artist, Sequence):
        if len(artist) != len(texts):
            raise InputError(f"{len(texts)} texts for {len(artist)} patches of {name}")
        for patch, text in zip(artist, texts, strict=True):
            with_tips(patch, [text], name=name)
        return
    marks = _n_marks(artist)
    if marks != len(texts):
        raise InputError(f"{len(texts)} texts for {marks} marks of {name}")
    figure = figure_of(artist)
    number = getattr(figure, _TIPS, 0)
    setattr(figure, _TIPS, number + 1)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    artist.set_gid(f"tip-{slug}-{number}")
    setattr(artist, _TIPS, list(map(visible, texts)))


def _n_marks(artist: Artist) -> int:
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D

    if isinstance(artist, Line2D):
        places = np.asarray(artist.get_xydata(), dtype=np.float64)
        return int(np.isfinite(places).all(axis=1).sum())
    if isinstance(artist, Collection):
        return max(len(np.asarray(artist.get_offsets())), len(artist.get_paths()))
    return 1


def tips_of(figure: Figure, *, prefix: str = "") -> dict[str, list[str]]:
    """Return the texts of a figure's marks by the id of their group, in the order drawn.

    ``prefix`` is that given to :func:`to_svg`.
    """
    found = [a for a in figure.findobj() if hasattr(a, _TIPS) and a is not figure]
    tips = {str(artist.get_gid()): list(getattr(artist, _TIPS)) for artist in found}
    in_order = sorted(tips, key=lambda gid: int(gid.rpartition("-")[2]))
    return {prefix + gid: tips[gid] for gid in in_order}


def to_svg(figure: Figure, *, prefix: str = "") -> str:
    """Return a figure as SVG text to put into a page; the same figure gives the same text.

    Text stays text, there is no date and no background, and there are no colours but
    ``COLOURS``, so that a page may replace them.

    Parameters
    ----------
    figure : Figure
    prefix : str
        Put before every id, those of :func:`tips_of` among them: give each figure of a page its
        own.

    Examples
    --------
    >>> axes = axes_or_new(None)
    >>> to_svg(axes.figure)[:4]
    '<svg'
    """
    require_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    target = io.StringIO()
    fixed: dict[Any, Any] = {"svg.hashsalt": "smallcal", "svg.fonttype": "none"}
    engine, canvas, dpi = figure.get_layout_engine(), figure.canvas, figure.dpi
    _settle(figure)
    figure.set_layout_engine("none")
    try:
        # Not by savefig, which draws everything twice: the first time to lay it out.
        with matplotlib.rc_context(fixed), _without_background(figure):
            drawing: Any = FigureCanvasSVG(figure)
            drawing.print_svg(target, metadata=_NO_METADATA)
    finally:
        figure.set_layout_engine(engine)
        figure.set_canvas(canvas)
        figure.dpi = dpi
    text = target.getvalue()
    text = text[text.index("<svg") :]
    # Whatever is left of the metadata would be repeated in a page once per figure.
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    return with_prefix(text, prefix)


def with_prefix(svg: str, prefix: str) -> str:
    """Return SVG with a prefix before every id, so that several figures share a page.

    Examples
    --------
    >>> with_prefix('<g id="a"><use href="#a"/></g>', "one-")
    '<g id="one-a"><use href="#one-a"/></g>'
    """
    return re.sub(r"<[^>]+>", lambda tag: _prefixed(tag.group(), prefix), svg)


@contextmanager
def _without_background(figure: Figure) -> Iterator[None]:
    """Take the colours of what lies behind figures and axes away for as long as they are drawn."""
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    parts: list[Any] = figure.findobj(lambda artist: isinstance(artist, FigureBase | Axes))
    behind = [part.patch for part in parts]
    colours = [(patch.get_facecolor(), patch.get_edgecolor()) for patch in behind]
    for patch in behind:
        patch.set(facecolor="none", edgecolor="none")
    try:
        yield
    finally:
        for patch, (face, edge) in zip(behind, colours, strict=True):
            patch.set(facecolor=face, edgecolor=edge)


def _settle(figure: Figure) -> None:
    """Lay the figure out until little moves: a layout starts from where the last one ended.

    Where axes stand is rounded, so that to lay the same figure out again moves nothing.
    """
    engine = figure.get_layout_engine()
    if engine is None:
        return
    before = np.full((len(figure.axes), 4), np.inf)
    for _ in range(_LAYOUTS):
        engine.execute(figure)
        now = np.array([ax.get_position().bounds for ax in figure.axes]).reshape(-1, 4)
        if (abs(now - before) < _NEAR).all():
            break
        before = now
    for ax, (left, bottom, width, height) in zip(figure.axes, now.round(3), strict=True):
        inside = ax.get_in_layout()
        ax.set_position((left, bottom, width, height))
        ax.set_in_layout(inside)  # set_position takes it out


#: Each layout brings axes a hundred times nearer to where they will stay.
_LAYOUTS = 15
#: Near enough: a fifth of what positions are rounded to.
_NEAR = 2e-4

_NO_METADATA: Mapping[str, None] = {"Date": None, "Creator": None, "Format": None, "Type": None}


def _prefixed(tag: str, prefix: str) -> str:
    tag = re.sub(r'(\sid=")', rf"\g<1>{prefix}", tag)
    return re.sub(r'((?:href="|url\()#)', rf"\g<1>{prefix}", tag)

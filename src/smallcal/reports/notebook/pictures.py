"""Pictures in what a notebook shows: small figures as SVG, in the colours of the box.

Figures have fixed margins: to let matplotlib lay them out takes longer than to draw them.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smallcal.data.shown import visible
from smallcal.metrics.units import PERCENT
from smallcal.plots import style
from smallcal.reports.notebook.markup import MOST_SAID, Safe, shortened
from smallcal.reports.render.svg import inline_svg, plain_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from smallcal.metrics.units import Unit
    from smallcal.statistics.interval import Interval

#: Letters of a name in a figure, and rows of one.
_LETTERS, MOST_ROWS = 26, 15
#: Inches of a letter, of a row, and of what stands over and under axes.
_LETTER, _ROW, _OVER, _UNDER = 0.085, 0.26, 0.34, 0.5
#: Pixels of an inch of a figure in a page.
_PIXELS = 84


class Axis(NamedTuple):
    """What stands along the axis of a figure, and a line that others are compared with."""

    label: str
    line: float | None = None
    percent: bool = False


class Bar(NamedTuple):
    """A value of a figure with its ends, what it is called, and what it says when pointed at."""

    name: str
    value: float
    low: float
    high: float
    tip: str
    verdict: str = ""

    @classmethod
    def of(cls, name: str, row: Interval, unit: Unit, *, about: str, verdict: str) -> Bar:
        """Return a difference with its interval, in the unit that people read."""
        value, low, high = (unit.scale * each for each in (row.point, row.low, row.high))
        told = f"{unit.difference(row.point)} ({unit.interval(*row, signed=True)})"
        return cls(name, value, low, high, f"{about}: {told}", verdict)


Drawn = Callable[["Figure"], None]


def picture(draw: Drawn, size: tuple[float, float], *, words: str) -> Safe:
    """Return a figure of so many inches; nothing where matplotlib is not installed or fails.

    Parameters
    ----------
    draw : callable
        Given an empty figure, draws on it.
    size : pair of float
    words : str
        The figure in words, for those who do not see it.

    Examples
    --------
    >>> shown = picture(lambda figure: None, (2.0, 1.0), words="Nothing")
    >>> shown[:17], 'aria-label="Nothing"' in shown
    ('<svg width="168" ', True)
    """
    try:
        svg, tips = _svg(draw, size)
        shown = inline_svg(svg, tips, label=shortened(words, MOST_SAID), focus=False)
        return Safe(_sized(shown, size[0]))
    # The tables have all the numbers. That matplotlib is missing, or broken, is no reason to show
    # nothing, and what it may raise is not ours to list.
    except Exception:  # noqa: BLE001
        return Safe("")


def _svg(draw: Drawn, size: tuple[float, float]) -> tuple[str, dict[str, list[str]]]:
    """Draw, and give ids that no other figure of a page has unless it is the same one."""
    from matplotlib.figure import Figure

    with warnings.catch_warnings(), plain_settings():
        # A letter that matplotlib has no shape for is shown by the browser all the same.
        warnings.simplefilter("ignore")
        figure = Figure(figsize=size)
        draw(figure)
        svg = style.to_svg(figure)
        prefix = f"smallcal-{hashlib.sha256(svg.encode()).hexdigest()[:10]}-"
        return style.with_prefix(svg, prefix), style.tips_of(figure, prefix=prefix)


def _sized(svg: str, inches: float) -> str:
    return svg.replace("<svg ", f'<svg width="{round(inches * _PIXELS)}" ', 1)


def axes_of(figure: Figure, *, left: float = 0.7, right: float = 0.2, over: float = _OVER) -> Any:
    """Return axes with margins of so many inches."""
    width, height = figure.get_size_inches()
    inside = (width - left - right) / width, (height - over - _UNDER) / height
    return figure.add_axes((left / width, _UNDER / height, *inside))


def bars(rows: Sequence[Bar], axis: Axis, *, total: int = 0, words: str) -> Safe:
    """Draw values with their ends, one row each; nothing without rows.

    Of many the first are drawn, and the axis says so; there are ``total`` where not all are given.
    The colour and the mark of a row are those of its verdict, see ``plots.forest``.
    """
    shown = [row for row in rows if np.isfinite([row.value, row.low, row.high]).all()][:MOST_ROWS]
    if not shown:
        return Safe("")
    many = max(total, len(rows))
    few = f", first {MOST_ROWS} of {many:,}" if many > MOST_ROWS else ""
    names = [short(row.name) for row in shown]
    left = 0.25 + _LETTER * max(map(len, names))
    height = _OVER + _UNDER + _ROW * len(shown)

    def draw(figure: Figure) -> None:
        ax = axes_of(figure, left=left)
        if axis.line is not None:
            ax.axvline(axis.line, **style.REFERENCE)
        for place, row in enumerate(shown):
            look = _LOOKS[row.verdict]
            ax.hlines(place, row.low, row.high, color=look.color, linewidth=2.4, alpha=0.55)
            style.marks(
                ax,
                [row.value],
                [place],
                look,
                hollow=row.verdict == "tie",
                markersize=6,
                tips=[row.tip],
                name="bar",
            )
        ax.set_yticks(range(len(shown)), [style.literal(name) for name in names])
        ax.set_ylim(len(shown) - 0.5, -0.5)
        ax.locator_params(axis="x", nbins=5)
        if axis.percent:
            style.percent(ax, "x")
        style.dress(ax, xlabel=axis.label + few, ylabel="")
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        _legend(ax, shown)

    return picture(draw, (left + 3.2, height), words=words)


_LOOKS = {
    "": style.Look(style.PALETTE[0], "o", "-"),
    "better": style.Look(style.PALETTE[0], "o", "-"),
    "worse": style.Look(style.PALETTE[1], "X", "-"),
    "tie": style.Look(style.GREY, "D", "-"),
}


def _legend(ax: Any, rows: Sequence[Bar]) -> None:
    """Say what the marks mean, where rows have verdicts."""
    for verdict in dict.fromkeys(row.verdict for row in rows if row.verdict):
        look = _LOOKS[verdict]
        face = "none" if verdict == "tie" else look.color
        ax.plot([], [], **look.mark, markerfacecolor=face, linestyle="none", label=verdict)
    style.legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)


def moved(before: float, after: float, goal: float, *, called: tuple[str, str], words: str) -> Safe:
    """Draw a mean confidence before and after, and the accuracy that it should meet."""
    first, second = style.look(1), style.look(0)
    sure, right = called

    def draw(figure: Figure) -> None:
        ax = axes_of(figure, left=0.25)
        ax.axvline(goal, color=style.INK, linewidth=1.6, label=f"{right} {100 * goal:.1f} %")
        ax.plot([before, after], [0, 0], color=style.GREY, linewidth=1.4, zorder=1)
        for value, look, when in ((before, first, "before"), (after, second, "after")):
            tip = f"mean {sure} {when}: {PERCENT.value(value)}"
            label = f"{when} {100 * value:.1f} %"
            style.marks(ax, [value], [0], look, markersize=8, label=label, tips=[tip], name=when)
        ends = np.array([before, after, goal])
        room = max(0.02, 0.15 * float(np.ptp(ends)))
        ax.set_xlim(ends.min() - room, ends.max() + room)
        ax.set_yticks([])
        ax.locator_params(axis="x", nbins=5)
        style.percent(ax, "x")
        style.dress(ax, xlabel=f"mean {sure} (%)", ylabel="")
        ax.spines["left"].set_visible(False)
        how: dict[str, Any] = {
            "bbox_to_anchor": (0, 1),
            "ncols": 3,
            "borderaxespad": 0.2,
            "columnspacing": 1,
        }
        style.legend(ax, loc="lower left", handletextpad=0.3, **how)

    return picture(draw, (4.7, _OVER + _UNDER + 0.45), words=words)


def curve(x: Sequence[float], y: Sequence[float], *, labels: tuple[str, str], words: str) -> Safe:
    """Draw a share along a number."""

    def draw(figure: Figure) -> None:
        ax = axes_of(figure, over=0.12)
        ax.plot(x, y, **style.look(0).stroke, linewidth=1.8)
        ax.set_ylim(0, 1)
        style.percent(ax, "y")
        style.dress(ax, xlabel=labels[0], ylabel=labels[1])

    return picture(draw, (4.2, 2.2), words=words)


class Line(NamedTuple):
    """Values along sizes, with a band around them."""

    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    tips: Sequence[str]


def lines(rows: Mapping[str, Line], levels: Mapping[str, float], axis: Axis, *, words: str) -> Safe:
    """Draw what is expected along numbers of samples, and levels that do not depend on them."""

    def draw(figure: Figure) -> None:
        ax = axes_of(figure, over=0.62)
        for name, row, look in style.looks(rows):
            x = np.asarray(row.x, dtype=np.float64)
            style.band(ax, x, np.asarray(row.low), np.asarray(row.high), look)
            ax.plot(x, row.y, **look.stroke, linewidth=1.5, zorder=3)
            style.marks(ax, x, row.y, look, markersize=5, tips=row.tips, name="line", zorder=4)
            style.name_series(ax, short(name), look)
        for name, level in levels.items():
            ax.axhline(level, **style.REFERENCE, label=style.literal(short(name)))
        if axis.line is not None:
            ax.axvline(axis.line, color=style.FAINT, linewidth=1.2, zorder=0)
        ax.set_xscale("log")
        _plain_sizes(ax, [x for row in rows.values() for x in row.x])
        ax.set_ylim(bottom=0)
        style.percent(ax, "y")
        style.dress(ax, xlabel="calibration samples", ylabel=axis.label)
        style.legend(ax, loc="lower left", bbox_to_anchor=(-0.08, 1), ncols=2, borderaxespad=0.2)

    return picture(draw, (4.6, 2.9), words=words)


def _plain_sizes(ax: Any, sizes: Sequence[float]) -> None:
    """Name a few sizes as people write them, not as powers of ten."""
    from matplotlib.ticker import NullFormatter, NullLocator

    chosen: list[float] = []
    for size in sorted(set(sizes)):
        if not chosen or size >= 1.9 * chosen[-1]:
            chosen.append(size)
    ax.set_xticks(chosen, [f"{size:,.0f}" for size in chosen])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())


def steps(now: Sequence[float], before: Sequence[float], *, label: str, words: str) -> Safe:
    """Draw shares in bins, as they are now and as they were."""
    edges = np.arange(len(now) + 1)

    def draw(figure: Figure) -> None:
        ax = axes_of(figure)
        for values, name, look in (
            (before, "calibration split", style.look(1)),
            (now, "rows seen", style.look(0)),
        ):
            ax.stairs(values, edges, **look.stroke, linewidth=1.5)
            tips = [f"{name}, part {i + 1}: {100 * v:.1f} %" for i, v in enumerate(values)]
            middle = edges[:-1] + 0.5
            style.marks(ax, middle, values, look, markersize=4, tips=tips, name="step")
            style.name_series(ax, name, look)
        ax.set_ylim(bottom=0)
        ax.set_xticks([])
        style.percent(ax, "y")
        style.dress(ax, xlabel=label, ylabel="share of rows (%)")
        style.legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)

    return picture(draw, (4.2, 2.4), words=words)


def reliability(draw_on: Callable[[Any], object], *, words: str) -> Safe:
    """Draw a reliability diagram by a function that is given axes for it."""

    def draw(figure: Figure) -> None:
        ax = axes_of(figure, over=0.72)
        draw_on(ax)
        for strip in ax.child_axes:  # its numbers would stand on those below
            strip.set(yticks=[], ylabel="")

    return picture(draw, (3.9, 3.7), words=words)


def short(name: object) -> str:
    """Return a name for a figure: what would not be seen spelled out, and short."""
    return shortened(visible(name), _LETTERS)

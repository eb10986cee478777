"""How curves are drawn: means, differences in a panel of their own, marks that show ties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.plots import style
from smallcal_lab.plots.curves import Curves, Line, about, bars_text, tip

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Transform

#: The size of a figure with panels, in inches.
PANELS = (6.8, 6.4)

#: Verdicts under which a mark is drawn hollow.
_OPEN = ("tie", "no interval")

#: A difference so many times as large as the median method's leaves the scale.
_FAR = 4.0

#: Intervals of more methods than these are bars side by side, so many inches apart.
_MOST_BANDS = 4
_APART = 0.06
#: Room at the sides for the outermost of them, as a share of the width.
_ROOM = 0.1


def looks_of(curves: Curves) -> dict[str, style.Look]:
    """Return how each method is drawn: the baseline in the colour of the text."""
    others = [line.label for line in curves.lines if line.label != curves.baseline]
    looks = {curves.baseline: style.Look(style.INK, "o", "-")}
    return looks | {label: style.look(i) for i, label in enumerate(others)}


def draw_panels(
    ax: Axes, curves: Curves, places: FloatArray, plot: str, *more: float
) -> list[Axes]:
    """Draw means and, in a panel below, differences from the baseline.

    Returns that panel, and empty ones under it of these shares of the height of the first.
    """
    gaps, *strips = strips_under(ax, 0.75, *more)
    draw_lines(ax, curves, places, plot)
    style.dress(ax, xlabel="", ylabel=curves.unit)
    style.caption(ax, about(curves), bars_text(curves, "Bars" if _many(curves) else "Bands"))
    name_lines(ax, curves)
    draw_gaps(gaps, curves, places, plot)
    style.dress(gaps, xlabel="", ylabel=f"minus {curves.baseline}")
    return [gaps, *strips]


def draw_lines(ax: Axes, curves: Curves, places: FloatArray, plot: str) -> None:
    """Draw the means of every method."""
    for line in curves.lines:
        width = 2.2 if line.label == curves.baseline else 1.4
        _draw_line(ax, curves, line, (places, line.value), plot, linewidth=width, zorder=3)


def _draw_line(
    ax: Axes,
    curves: Curves,
    line: Line,
    points: tuple[FloatArray, FloatArray],
    plot: str,
    *,
    linewidth: float,
    zorder: float = 2,
    **how: Any,
) -> None:
    """Draw a method's line, and its marks, which are hollow where there is a tie."""
    look, (x, y) = looks_of(curves)[line.label], points
    ax.plot(x, y, **look.stroke, linewidth=linewidth, zorder=zorder, **how)
    for hollow in (False, True):
        chosen = np.flatnonzero([(verdict in _OPEN) == hollow for verdict in line.verdict])
        if len(chosen):
            style.marks(
                ax,
                x[chosen],
                y[chosen],
                look,
                hollow=hollow,
                markersize=5.5,
                zorder=4,
                tips=[tip(curves, line, i) for i in chosen.tolist()],
                name=f"{plot} {line.label} {'open' if hollow else ''}",
                **how,
            )


def draw_gaps(ax: Axes, curves: Curves, places: FloatArray, plot: str) -> None:
    """Draw the differences from the baseline with their intervals, as bands or, of many, as bars.

    A method much further away than the others, as the uncalibrated model often is, leaves the
    scale, which is said: it would press all others together.
    """
    rivals, many = _rivals(curves), _many(curves)
    ax.axhline(0, color=style.INK, linewidth=1.2, zorder=1)
    for i, line in enumerate(rivals):
        look = looks_of(curves)[line.label]
        at = _beside(ax, i - (len(rivals) - 1) / 2 if many else 0.0)
        if many:
            ax.vlines(places, line.low, line.high, color=look.color, linewidth=1.2, transform=at)
        else:
            style.band(ax, places, line.low, line.high, look)
        points = (places, line.difference)
        _draw_line(ax, curves, line, points, plot, linewidth=0.8, transform=at)
    _scale(ax, rivals)


def _rivals(curves: Curves) -> list[Line]:
    return [line for line in curves.lines if line.label != curves.baseline]


def _many(curves: Curves) -> bool:
    """Whether intervals are drawn as bars, for bands would cover each other."""
    return len(_rivals(curves)) > _MOST_BANDS


def _beside(ax: Axes, steps: float) -> Transform:
    """Return where things are drawn so that those of one place do not cover each other."""
    from matplotlib.transforms import ScaledTranslation

    return ax.transData + ScaledTranslation(_APART * steps, 0, style.figure_of(ax).dpi_scale_trans)


def _scale(ax: Axes, rivals: Sequence[Line]) -> None:
    """Choose a scale for all differences but those that are far from the others."""
    limit = _FAR * float(np.median([line.reach for line in rivals])) if rivals else 0.0
    far = [line.label for line in rivals if line.reach > limit]
    near = [line for line in rivals if line.reach <= limit]
    if far:
        head(ax, f"off this scale: {', '.join(far)}")
    ends = [end for line in near for end in (line.difference, line.low, line.high)]
    low, high = float(np.nanmin(ends, initial=0.0)), float(np.nanmax(ends, initial=0.0))
    if high > low:
        room = 0.08 * (high - low)
        ax.set_ylim(low - room, high + room)


def head(ax: Axes, text: str) -> None:
    """Write something small over a panel."""
    ax.set_title(style.literal(text), color=style.GREY, fontsize=style.SMALL, pad=2)


def name_lines(ax: Axes, curves: Curves) -> None:
    """Draw the legend beside the axes: each method, and what a hollow mark means."""
    from matplotlib.lines import Line2D

    handles, names = [], []
    for label, look in looks_of(curves).items():
        handles.append(Line2D([], [], **look._asdict()))
        names.append(f"{label} (baseline)" if label == curves.baseline else label)
    handles.append(Line2D([], [], color=style.GREY, marker="o", mfc="none", linestyle="none"))
    bare = any("no interval" in line.verdict for line in curves.lines)
    names.append(f"tie with {curves.baseline}" + (",\nor no interval" if bare else ""))
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    style.legend(ax, (handles, names), **place)


def strips_under(ax: Axes, *shares: float) -> list[Axes]:
    """Return axes below others with the same horizontal axis; shares are of their height."""
    spec = ax.get_subplotspec()
    if spec is None:  # axes that were put somewhere by hand keep their place
        tops = -np.cumsum([share + 0.12 for share in shares])
        places = zip(tops, shares, strict=True)
        strips = [ax.inset_axes((0, float(low), 1, share), sharex=ax) for low, share in places]
    else:
        grid = spec.subgridspec(1 + len(shares), 1, height_ratios=(1, *shares))
        ax.set_subplotspec(grid[0])
        strips = [ax.figure.add_subplot(grid[i], sharex=ax) for i in range(1, 1 + len(shares))]
    for panel in (ax, *strips):
        panel.margins(x=_ROOM)
    for upper in (ax, *strips[:-1]):
        upper.tick_params(labelbottom=False)
    return strips


def beside(ax: Axes) -> Axes:
    """Return axes to the right of others, which make room for them; theirs are their own."""
    spec = ax.get_subplotspec()
    if spec is None:  # axes that were put somewhere by hand keep their place
        return ax.inset_axes((1.3, 0, 1, 1))
    grid = spec.subgridspec(1, 2)
    ax.set_subplotspec(grid[0])
    return ax.figure.add_subplot(grid[1])

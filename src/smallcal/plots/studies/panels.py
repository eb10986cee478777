"""How curves are drawn: means, differences in a panel of their own, marks that show ties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.plots.studies.curves import Curves, Line, tip
from smallcal.plots.style import BAND_ALPHA, GREY, INK, SMALL, Look, figure_of, look, with_tips

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Transform

#: Verdicts under which a mark is drawn hollow.
_OPEN = ("tie", "no interval")

#: A difference so many times as large as the median method's leaves the scale.
_FAR = 4.0

#: Intervals of more methods than these are bars side by side, so many inches apart.
_MOST_BANDS = 4
_APART = 0.06
#: Room at the sides for the outermost of them, as a share of the width.
_ROOM = 0.1


def looks_of(curves: Curves) -> dict[str, Look]:
    """Return how each method is drawn: the baseline in the colour of the text."""
    others = [line.label for line in curves.lines if line.label != curves.baseline]
    looks = {curves.baseline: look(0)._replace(color=INK, linestyle="-", marker="o")}
    return looks | {label: look(i) for i, label in enumerate(others)}


def draw_lines(ax: Axes, curves: Curves, places: FloatArray, plot: str) -> None:
    """Draw the means of every method; marks are hollow where there is a tie."""
    for line in curves.lines:
        style = looks_of(curves)[line.label]
        ax.plot(
            places,
            line.value,
            color=style.color,
            linestyle=style.linestyle,
            linewidth=2.2 if line.label == curves.baseline else 1.4,
            zorder=3,
        )
        texts = [tip(curves, line, i) for i in range(len(places))]
        draw_marks(ax, line, (places, line.value), style, texts=texts, name=plot)


def draw_gaps(ax: Axes, curves: Curves, places: FloatArray, plot: str) -> None:
    """Draw the differences from the baseline with their intervals, as bands or, of many, as bars.

    A method much further away than the others, as the raw model often is, leaves the scale, which
    is said: it would press all others together.
    """
    rivals = [line for line in curves.lines if line.label != curves.baseline]
    ax.axhline(0, color=INK, linewidth=1.2, zorder=1)
    for i, line in enumerate(rivals):
        style = looks_of(curves)[line.label]
        at = _beside(ax, i - (len(rivals) - 1) / 2 if len(rivals) > _MOST_BANDS else 0.0)
        if len(rivals) > _MOST_BANDS:
            ax.vlines(places, line.low, line.high, color=style.color, linewidth=1.2, transform=at)
        else:
            draw_band(ax, places, line.low, line.high, style)
        ax.plot(
            *(places, line.difference),
            color=style.color,
            linestyle=style.linestyle,
            linewidth=0.8,
            transform=at,
        )
        texts = [tip(curves, line, k) for k in range(len(places))]
        marks = draw_marks(ax, line, (places, line.difference), style, texts=texts, name=plot)
        for mark in marks:
            mark.set_transform(at)
    _scale(ax, rivals)


def _beside(ax: Axes, steps: float) -> Transform:
    """Return where things are drawn so that those of one place do not cover each other."""
    from matplotlib.transforms import ScaledTranslation

    return ax.transData + ScaledTranslation(_APART * steps, 0, figure_of(ax).dpi_scale_trans)


def _scale(ax: Axes, rivals: Sequence[Line]) -> None:
    """Choose a scale for all differences but those that are far from the others."""
    limit = _FAR * float(np.median([line.reach for line in rivals])) if rivals else 0.0
    far = [line.label for line in rivals if line.reach > limit]
    near = [line for line in rivals if line.reach <= limit]
    if far:
        ax.set_title(f"off this scale: {', '.join(far)}", color=GREY, fontsize=SMALL, pad=2)
    ends = [end for line in near for end in (line.difference, line.low, line.high)]
    low, high = float(np.nanmin(ends, initial=0.0)), float(np.nanmax(ends, initial=0.0))
    if high > low:
        room = 0.08 * (high - low)
        ax.set_ylim(low - room, high + room)


def draw_band(ax: Axes, places: FloatArray, low: FloatArray, high: FloatArray, style: Look) -> None:
    """Draw an interval along a line, where there is one."""
    if np.isfinite(low).any():
        ax.fill_between(
            places, low, high, color=style.color, alpha=BAND_ALPHA, linewidth=0, zorder=2
        )


def draw_marks(
    ax: Axes,
    line: Line,
    points: tuple[FloatArray, FloatArray],
    style: Look,
    *,
    texts: Sequence[str],
    name: str,
) -> list[Line2D]:
    """Draw the marks of a line, hollow where there is a tie, and return them."""
    drawn = []
    for hollow in (False, True):
        chosen = np.array([(verdict in _OPEN) == hollow for verdict in line.verdict])
        if not chosen.any():
            continue
        (marks,) = ax.plot(
            points[0][chosen],
            points[1][chosen],
            linestyle="none",
            marker=style.marker,
            markersize=5.5,
            color=style.color,
            markerfacecolor="none" if hollow else style.color,
            zorder=4,
        )
        kept = [text for text, keep in zip(texts, chosen, strict=True) if keep]
        with_tips(marks, kept, name=f"{name} {line.label} {'open' if hollow else ''}")
        drawn.append(marks)
    return drawn


def name_lines(ax: Axes, curves: Curves) -> None:
    """Draw the legend beside the axes: each method, and what a hollow mark means."""
    from matplotlib.lines import Line2D

    handles, names = [], []
    for label, style in looks_of(curves).items():
        handles.append(
            Line2D([], [], color=style.color, marker=style.marker, linestyle=style.linestyle)
        )
        name = f"{label}:\n{curves.methods[label]}" if label in curves.methods else label
        names.append(f"{name} (baseline)" if label == curves.baseline else name)
    hollow = Line2D([], [], color=GREY, marker="o", markerfacecolor="none", linestyle="none")
    bare = any("no interval" in line.verdict for line in curves.lines)
    ax.legend(
        [*handles, hollow],
        [*names, f"tie with {curves.baseline}" + (",\nor no interval" if bare else "")],
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
    )


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


def settle(figure: Figure) -> None:
    """Lay a figure out once and for all, at places that do not differ from run to run.

    The solver of the layout goes through its unknowns in no fixed order, so that its answers differ
    in the last digits, and with them the names of parts in the SVG.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, low, width, height = (round(float(side), 4) for side in axes.get_position().bounds)
        axes.set_position((left, low, width, height))

"""Curves of a metric, method by method: their numbers, those of the tables, and how they look."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.plots import style
from smallcal_lab.plots.given import Run
from smallcal_lab.studies.frame import ALL, Frame
from smallcal_lab.studies.tables.clean import (
    ENOUGH_MODELS,
    difference,
    intervals_text,
    number_of,
    shown,
    verdict_on,
    win_rate,
)
from smallcal_lab.studies.tables.table import Number, heading_of, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What is said of the method that the others are compared with.
BASELINE = "baseline"
#: The size of a figure with panels, in inches.
PANELS = (6.8, 6.4)
#: Verdicts under which a mark is drawn hollow.
_OPEN = ("tie", "no interval")
#: A difference so many times as large as the median method's leaves the scale.
_FAR = 4.0
#: Intervals of more methods than these are bars side by side, so many inches apart.
_MOST_BANDS, _APART = 4, 0.06
#: Room at the sides for the outermost of them, as a share of the width.
_ROOM = 0.1


@dataclass(frozen=True, eq=False)
class Line:
    """A method's numbers along an axis, in the units of the tables; NaN where there is none.

    Attributes
    ----------
    label : str
    value, spread : ndarray
        Mean over cells, and standard deviation (ddof = 0) over them, as in the table of means.
    difference, low, high : ndarray
        Paired difference from the baseline with its 95 % interval: models, seeds in each, draws
        (or shifted sets) in each are resampled, as in the table of differences.
    verdict : tuple of str
        ``better``, ``worse``, ``tie``, ``no interval`` or ``baseline``.
    wins : ndarray
        Percent of cells and draws in which the method is strictly better than the baseline.
    """

    label: str
    value: FloatArray
    spread: FloatArray
    difference: FloatArray
    low: FloatArray
    high: FloatArray
    verdict: tuple[str, ...]
    wins: FloatArray

    @property
    def band(self) -> tuple[FloatArray, FloatArray]:
        """The interval of the difference, put around the line; no width where it is the baseline.

        Where every model has as many seeds, it holds the baseline's value exactly in a tie.
        """
        own = np.array([verdict == BASELINE for verdict in self.verdict])
        ends = (np.where(own, 0.0, end - self.difference) for end in (self.low, self.high))
        low, high = (self.value + end for end in ends)
        return low, high


@dataclass(frozen=True, eq=False)
class Curves:
    """A metric along an axis, for every method.

    Attributes
    ----------
    metric, unit, baseline : str
        The unit is the heading of the metric's column in the tables.
    x : ndarray
    names : tuple of str
        What is written at each place.
    lines : tuple of Line
    models : tuple of str
        Data sets and backbones that the numbers are of.
    n_cells : int
        How many these are with their seeds.
    left_out : tuple of str
        What was not measured everywhere, so that it is in no number here.
    fitted : str
        On how many samples, and how many draws of them; empty where that is not known.
    intervals : str
        What the intervals of the differences are.
    """

    metric: str
    unit: str
    baseline: str
    x: FloatArray
    names: tuple[str, ...]
    lines: tuple[Line, ...]
    models: tuple[str, ...]
    n_cells: int
    left_out: tuple[str, ...]
    fitted: str
    intervals: str

    def line(self, label: str) -> Line:
        """Return a method's line."""
        return next(line for line in self.lines if line.label == label)

    @property
    def about(self) -> str:
        """What the numbers are of, and on how many samples the methods were fitted."""
        n, cells = len(self.models), self.n_cells
        text = self.models[0] if n == 1 else f"{n} models"
        if cells > n:
            text += f", {cells} {'seeds' if n == 1 else 'cells'}"
        if self.left_out:
            text += f" ({len(self.left_out)} left out)"
        return "; ".join(filter(None, (text, self.fitted)))

    def bars_text(self, mark: str) -> str:
        """Say what the bars or bands of the differences are; that there are none, if so."""
        if self.lines and all(np.isnan(line.low).all() for line in self.lines):
            return "No intervals: each difference is of a single fit."
        few = 1 < len(self.models) < ENOUGH_MODELS
        return f"{mark}: {self.intervals}." + " Of so few models they are too narrow." * few


# --- numbers -------------------------------------------------------------------------------------


def curves_of(
    run: Run,
    x: Iterable[float] = (),
    names: tuple[str, ...] = (),
    lines: tuple[Line, ...] = (),
    left_out: tuple[str, ...] = (),
    *,
    units: tuple[str, ...] = (),
) -> Curves:
    """Put lines together with what they are of; ``units`` are what the intervals resample."""
    return Curves(
        run.metric,
        heading_of(run.metric),
        run.study.baseline,
        np.array(list(x), dtype=float),
        names,
        lines,
        models_in(run),
        len(run.frame.unique("cell")),
        left_out,
        fitted_on(run.frame),
        intervals_text(run.study, *units),
    )


def subject(run: Run, *more: str) -> str:
    """Say what a figure without curves is of: models, cells, samples, and whatever else."""
    return "; ".join([curves_of(run).about, *more])


def models_in(run: Run) -> tuple[str, ...]:
    """Return the models of a run as the tables call them."""
    return tuple(f"{a} {b}" for (a, b), _ in run.frame.groups("dataset", "backbone"))


def fitted_on(frame: Frame) -> str:
    """Say how many samples the fits had, and how many draws of them there are.

    Examples
    --------
    >>> fitted_on(Frame.of([{"budget": 250, "draw": draw} for draw in range(20)]))
    '20 draws of 250 samples'
    """
    draws, sizes = len(frame.unique("draw")), frame.sizes
    if len(frame.unique("budget")) > 1:
        return f"{draws} draws of each budget" if draws > 1 else ""
    if not sizes:
        return ""
    text = f"{sizes[0]:,} samples"
    if len(sizes) > 1:
        text = f"whole splits of {sizes[0]:,} to {sizes[-1]:,} samples"
    elif frame.unique("budget") == [ALL]:
        text = f"whole splits of {text}"
    return f"{draws} draws of {text}" if draws > 1 else f"fitted on {text}"


def lines_of(run: Run, parts: Sequence[Frame], *, wins: bool = False) -> tuple[Line, ...]:
    """Return a line for each method, with a point in each part of the rows."""
    return tuple(
        line_of(run, label, [(rows, label) for rows in parts], wins=wins) for label in run.labels
    )


def line_of(
    run: Run, name: str, points: Sequence[tuple[Frame, str]], *, wins: bool = False
) -> Line:
    """Measure a line as the tables do: at each point, the rows of a part and a method's label."""
    study, metric = run.study, run.metric
    means, gaps, won, verdicts = [], [], [], []
    for rows, label in points:
        means.append(number_of(rows.values(metric, label), metric))
        rival = label != study.baseline
        found = difference(rows, study, metric, label) if rival else None
        gaps.append(shown(found, metric))
        verdicts.append(verdict_on({metric: found}).partition(":")[0] if rival else BASELINE)
        share = win_rate(rows, study, metric, label).value if rival and wins else math.nan
        won.append(share)
    return Line(
        name,
        value=_floats(mean.value for mean in means),
        spread=_floats(mean.spread for mean in means),
        difference=_floats(gap.value for gap in gaps),
        low=_floats(gap.low for gap in gaps),
        high=_floats(gap.high for gap in gaps),
        verdict=tuple(verdicts),
        wins=np.array(won),
    )


def _floats(values: Iterable[float | None]) -> FloatArray:
    return np.array([math.nan if value is None else value for value in values])


def mean_at(frame: Frame, metric: str, label: str) -> float:
    """Return the mean of a metric over cells in the units of the tables; NaN where it is not."""
    return number_of(frame.values(metric, label), metric).value


# --- pictures ------------------------------------------------------------------------------------


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
    gaps, *strips = _strips_under(ax, 0.75, *more)
    draw_means(ax, curves, places, plot)
    style.dress(ax, xlabel="", ylabel=curves.unit)
    rivals = [line for line in curves.lines if line.label != curves.baseline]
    bars = len(rivals) > _MOST_BANDS  # bands would cover each other
    style.caption(ax, curves.about, curves.bars_text("Bars" if bars else "Bands"))
    _name_lines(ax, curves)
    _draw_gaps(gaps, curves, rivals, places, plot, bars=bars)
    style.dress(gaps, xlabel="", ylabel=f"minus {curves.baseline}")
    return [gaps, *strips]


def draw_means(ax: Axes, curves: Curves, places: FloatArray, plot: str) -> None:
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
            tips = [tip(curves, line, i) for i in chosen.tolist()]
            how |= {"hollow": hollow, "markersize": 5.5, "zorder": 4, "tips": tips}
            name = f"{plot} {line.label} {'open' if hollow else ''}"
            style.marks(ax, x[chosen], y[chosen], look, name=name, **how)


def tip(curves: Curves, line: Line, i: int) -> str:
    """Say what one mark stands for, as the tables write it."""
    digits = unit_of(curves.metric).digits
    low, high, spread = (
        None if math.isnan(values[i]) else float(values[i])
        for values in (line.low, line.high, line.spread)
    )
    text = f"{line.label}, {curves.names[i]}: {curves.unit} "
    text += Number(float(line.value[i]), spread, digits=digits).text()
    if line.verdict[i] == BASELINE:
        return f"{text} (baseline)"
    gap = Number(float(line.difference[i]), None, low, high, digits).text()
    text += f"; minus {curves.baseline} {gap} ({line.verdict[i]})"
    return text if math.isnan(line.wins[i]) else f"{text}; wins {line.wins[i]:.0f} %"


def _draw_gaps(
    ax: Axes,
    curves: Curves,
    rivals: Sequence[Line],
    places: FloatArray,
    plot: str,
    *,
    bars: bool,
) -> None:
    """Draw the differences from the baseline with their intervals, as bands or as bars.

    A method much further away than the others, as the uncalibrated model often is, leaves the
    scale, which is said: it would press all others together.
    """
    from matplotlib.transforms import ScaledTranslation

    ax.axhline(0, color=style.INK, linewidth=1.2, zorder=1)
    inches = style.figure_of(ax).dpi_scale_trans
    for i, line in enumerate(rivals):
        look = looks_of(curves)[line.label]
        beside = _APART * (i - (len(rivals) - 1) / 2) if bars else 0.0
        at = ax.transData + ScaledTranslation(beside, 0, inches)
        if bars:
            ax.vlines(places, line.low, line.high, color=look.color, linewidth=1.2, transform=at)
        else:
            style.band(ax, places, line.low, line.high, look)
        points = (places, line.difference)
        _draw_line(ax, curves, line, points, plot, linewidth=0.8, transform=at)
    ends = {line.label: np.array([line.difference, line.low, line.high]) for line in rivals}
    reach = {label: float(np.nanmax(np.abs(own), initial=0)) for label, own in ends.items()}
    limit = _FAR * float(np.median(list(reach.values()))) if reach else 0.0
    far = [label for label, own in reach.items() if own > limit]
    if far:
        head(ax, f"off this scale: {', '.join(far)}")
    near = [own for label, own in ends.items() if label not in far]
    low, high = float(np.nanmin(near, initial=0)), float(np.nanmax(near, initial=0))
    if high > low:
        room = 0.08 * (high - low)
        ax.set_ylim(low - room, high + room)


def head(ax: Axes, text: str) -> None:
    """Write something small over a panel."""
    ax.set_title(style.literal(text), color=style.GREY, fontsize=style.SMALL, pad=2)


def _name_lines(ax: Axes, curves: Curves) -> None:
    """Draw the legend beside the axes: each method, and what a hollow mark means."""
    from matplotlib.lines import Line2D

    looks = looks_of(curves)
    handles = [Line2D([], [], **look._asdict()) for look in looks.values()]
    names = [f"{name} (baseline)" if name == curves.baseline else name for name in looks]
    handles.append(Line2D([], [], color=style.GREY, marker="o", mfc="none", linestyle="none"))
    bare = any("no interval" in line.verdict for line in curves.lines)
    names.append(f"tie with {curves.baseline}" + (",\nor no interval" if bare else ""))
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    style.legend(ax, (handles, names), **place)


def _strips_under(ax: Axes, *shares: float) -> list[Axes]:
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

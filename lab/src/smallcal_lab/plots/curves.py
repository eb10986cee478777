"""Plots of a metric along an axis, method by method: budgets, severities, margins, groups.

Their numbers are those of the tables. Above stand means; below them paired differences from the
baseline with their 95 % intervals, so that how much models differ does not matter. Marks are hollow
where an interval holds zero, or there is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots import given
from smallcal_lab.plots.given import Run, RunLike, Where
from smallcal_lab.studies.frame import ALL, CLEAN, Frame
from smallcal_lab.studies.probes import TERTILES
from smallcal_lab.studies.tables.clean import (
    ENOUGH_MODELS,
    difference,
    intervals_text,
    number_of,
    shown,
    verdict_on,
    win_rate,
)
from smallcal_lab.studies.tables.groups import in_margin, numbered
from smallcal_lab.studies.tables.shift import at_severity, shifted_rows
from smallcal_lab.studies.tables.table import Number, heading_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What is said of the method that the others are compared with.
BASELINE = "baseline"
#: The size of a figure with panels, in inches, and room at their sides, as a share of the width.
_PANELS, _ROOM = (6.8, 6.4), 0.1
#: A difference so many times as large as the median method's leaves the scale.
_FAR = 4.0
#: Intervals of more methods than these are bars side by side, so many inches apart.
_MOST_BANDS, _APART = 4, 0.06


@dataclass(frozen=True, eq=False)
class Line:
    """A method's numbers along an axis, in the units of the tables; NaN where there is none.

    Mean and standard deviation (ddof = 0) over cells; paired difference from the baseline with its
    interval; percent of cells and draws in which the method is strictly better. The verdict is
    ``better``, ``worse``, ``tie``, ``no interval`` or ``baseline``.
    """

    label: str
    verdict: tuple[str, ...]
    value: FloatArray
    spread: FloatArray
    difference: FloatArray
    low: FloatArray
    high: FloatArray
    wins: FloatArray

    @property
    def band(self) -> tuple[FloatArray, FloatArray]:
        """The interval of the difference, put around the line, or around the baseline itself."""
        own = np.array([verdict == BASELINE for verdict in self.verdict])
        ends = (np.where(own, 0.0, end - self.difference) for end in (self.low, self.high))
        low, high = (self.value + end for end in ends)
        return low, high


@dataclass(frozen=True, eq=False)
class Curves:
    """A metric along an axis, for every method.

    ``models`` and ``n_cells`` say what the numbers are of, ``left_out`` what was not measured
    everywhere, ``fitted`` on how many samples, and ``intervals`` what was resampled.
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
    def rivals(self) -> list[Line]:
        """The lines of all but the baseline."""
        return [line for line in self.lines if line.label != self.baseline]

    @property
    def looks(self) -> dict[str, style.Look]:
        """How each method is drawn: the baseline in the colour of the text."""
        looks = {self.baseline: style.Look(style.INK, "o", "-")}
        return looks | {line.label: style.look(i) for i, line in enumerate(self.rivals)}

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


def curves_of(
    run: Run,
    places: Sequence[tuple[str, float, Frame]] = (),
    left_out: tuple[str, ...] = (),
    *,
    lines: tuple[Line, ...] = (),
    units: tuple[str, ...] = (),
    wins: bool = False,
) -> Curves:
    """Measure a line for each method, unless they are given, at places with rows each.

    ``units`` are what the intervals resample.
    """
    if not lines and places:
        ways = {label: [(rows, label) for *_, rows in places] for label in run.labels}
        lines = tuple(_line(run, label, points, wins=wins) for label, points in ways.items())
    return Curves(
        run.metric,
        heading_of(run.metric),
        run.study.baseline,
        np.array([x for _, x, _ in places], dtype=float),
        tuple(name for name, *_ in places),
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
    """Say how many samples the fits had, and how many draws of them there are."""
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


def mean_at(frame: Frame, metric: str, label: str) -> float:
    """Return the mean of a metric over cells in the units of the tables; NaN where it is not."""
    return number_of(frame.values(metric, label), metric).value


def _line(run: Run, name: str, points: Iterable[tuple[Frame, str]], *, wins: bool = False) -> Line:
    """Measure a line as the tables do: at each point, the rows of a part and a method's label."""
    study, metric = run.study, run.metric
    found: list[tuple[Any, ...]] = []
    for rows, label in points:
        mean = number_of(rows.values(metric, label), metric)
        gap, won, verdict = Number(), math.nan, BASELINE
        if label != study.baseline:
            own = difference(rows, study, metric, label)
            gap, verdict = shown(own, metric), verdict_on({metric: own}).partition(":")[0]
            won = win_rate(rows, study, metric, label).value if wins else won
        found.append((mean.value, mean.spread, gap.value, gap.low, gap.high, won, verdict))
    *numbers, verdicts = zip(*found, strict=True)
    return Line(name, verdicts, *(np.array(own, dtype=float) for own in numbers))


def _draw_panels(ax: Axes, curves: Curves, places: FloatArray, *more: float) -> list[Axes]:
    """Draw means, and differences from the baseline in a panel below.

    Returns that panel, and empty ones under it of these shares of the height of the first.
    """
    gaps, *strips = _strips_under(ax, 0.75, *more)
    for line in curves.lines:
        _draw_line(ax, curves, line, places, line.value)
    style.dress(ax, xlabel="", ylabel=curves.unit)
    bars = len(curves.rivals) > _MOST_BANDS  # bands would cover each other
    style.caption(ax, curves.about, curves.bars_text("Bars" if bars else "Bands"))
    _name_lines(ax, curves)
    _draw_gaps(gaps, curves, places, bars=bars)
    style.dress(gaps, xlabel="", ylabel=f"minus {curves.baseline}")
    return [gaps, *strips]


def _draw_line(
    ax: Axes, curves: Curves, line: Line, x: FloatArray, y: FloatArray, **how: Any
) -> None:
    """Draw a method's line, and its marks, which are hollow where there is no clear difference."""
    look = curves.looks[line.label]
    usual = {"linewidth": 2.2 if line.label == curves.baseline else 1.4, "zorder": 3}
    ax.plot(x, y, **look.stroke, **(usual | how))
    open_ = np.isin(line.verdict, ("tie", "no interval"))
    for face, some in ((look.color, ~open_), ("none", open_)):
        how |= {"linestyle": "none", "markerfacecolor": face, "markersize": 5.5, "zorder": 4}
        ax.plot(x[some], y[some], **look.mark, **how)


def _draw_gaps(ax: Axes, curves: Curves, places: FloatArray, *, bars: bool) -> None:
    """Draw the differences from the baseline with their intervals, as bands or as bars.

    A method much further away than the others leaves the scale, which is said.
    """
    from matplotlib.transforms import ScaledTranslation

    ax.axhline(0, color=style.INK, linewidth=1.2, zorder=1)
    inches, rivals = style.figure_of(ax).dpi_scale_trans, curves.rivals
    for i, line in enumerate(rivals):
        look = curves.looks[line.label]
        sideways = _APART * (i - (len(rivals) - 1) / 2) if bars else 0.0
        at = ax.transData + ScaledTranslation(sideways, 0, inches)
        if bars:
            ax.vlines(places, line.low, line.high, color=look.color, linewidth=1.2, transform=at)
        else:
            style.band(ax, places, line.low, line.high, look)
        how = {"linewidth": 0.8, "zorder": 2, "transform": at}
        _draw_line(ax, curves, line, places, line.difference, **how)
    ends = {line.label: np.array([line.difference, line.low, line.high]) for line in rivals}
    reach = {label: float(np.nanmax(np.abs(own), initial=0)) for label, own in ends.items()}
    limit = _FAR * float(np.median(list(reach.values()))) if reach else 0.0
    if far := [label for label, own in reach.items() if own > limit]:
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

    looks = curves.looks
    handles = [Line2D([], [], **look._asdict()) for look in looks.values()]
    handles.append(Line2D([], [], color=style.GREY, marker="o", mfc="none", linestyle="none"))
    names = [f"{name} (baseline)" if name == curves.baseline else name for name in looks]
    bare = any("no interval" in line.verdict for line in curves.lines)
    names.append(f"tie with {curves.baseline}" + ",\nor no interval" * bare)
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


def budget_curve_data(
    run: RunLike, *, metric: str = "ece15", baseline: str | None = None, where: Where = None
) -> Curves:
    """Return a metric at each budget: means, differences from the baseline, wins.

    Of all models together, and of the cells that were measured with every method at every budget.
    Rows alone are taken to be of the study ``budget``.

    Parameters
    ----------
    metric : str
        Any that was measured.
    """
    opened = given.open_run(run, "budget", metric=metric, baseline=baseline, where=where)
    opened, left_out = given.measured_at_all(given.clean(opened), "budget")
    budgets = sorted(opened.frame.unique("budget"), key=lambda n: (n == ALL, n))
    names = ["all" if n == ALL else f"{n:,}" for n in budgets]
    parts = [opened.frame.where(budget=n) for n in budgets]
    places = list(zip(names, budgets, parts, strict=True))
    return curves_of(opened, places, left_out, wins=True)


@draws(budget_curve_data, size=_PANELS)
def budget_curve(ax: Axes, found: Curves) -> None:
    """Draw a metric against the number of calibration samples, and how often each method wins.

    Above: means over cells. In the middle: paired differences from the baseline with their 95 %
    intervals. Marks are hollow where the interval holds zero, or there is none. Below: the share
    of cells and draws in which a method is strictly better than the baseline.
    """
    # The whole split, whose size differs, stands one doubling to the right of the rest.
    known = found.x[found.x != ALL]
    places = np.where(found.x == ALL, 2 * known.max() if len(known) else 1.0, found.x)
    _, strip = _draw_panels(ax, found, places, 0.4)
    strip.axhline(50, **style.REFERENCE)
    for line in found.rivals:
        look = found.looks[line.label]
        strip.plot(places, line.wins, **look._asdict(), linewidth=1, markersize=4)
    strip.set_ylim(-6, 106)
    strip.set_yticks([0, 50, 100])
    style.dress(strip, xlabel="calibration samples", ylabel="wins %")
    ax.set_xscale("log")
    strip.set_xticks(places, list(map(style.literal, found.names)))
    strip.minorticks_off()


class Occupancy(NamedTuple):
    """Percent of the samples of a method in each group (column) by severity (row)."""

    label: str
    shares: FloatArray


class SeverityCurves(NamedTuple):
    """A metric by severity, and the groups of a grouped method if there is one."""

    curves: Curves
    occupancy: Occupancy | None


def severity_curve_data(
    run: RunLike, *, metric: str | None = None, baseline: str | None = None, where: Where = None
) -> SeverityCurves:
    """Return a metric on clean samples and at each severity, and the occupancy of groups.

    Of all models together; differences are paired by set, with models, seeds in each and sets in
    each resampled. Only corruptions that a cell has at every severity count. Rows alone are taken
    to be of the study ``shift``.
    """
    fit = ["cell", "label"]
    opened = given.one_budget(
        given.open_run(run, "shift", metric=metric, baseline=baseline, where=where)
    )
    rows = opened.frame.where(metric=opened.metric)
    severities = sorted(shifted_rows(rows).unique("severity"))
    if not severities:
        raise InputError(f"run has no shifted sets; the study {opened.study.name} measures them")
    opened, left_out = given.measured_at_all(opened, "severity")
    # Clean samples stand at 0 where every method was measured on those of every cell.
    rows = opened.frame.where(metric=opened.metric)
    own = rows.where(set=CLEAN)
    known = own.data[np.isfinite(own["value"])]
    sets = {s: at_severity(opened.frame, s) for s in severities}
    if len(known.drop_duplicates(fit)) == len(rows.data.drop_duplicates(fit)):
        sets = {0: opened.frame.where(set=CLEAN), **sets}
    places = [(str(s) if s else CLEAN, s, part) for s, part in sets.items()]
    curves = curves_of(opened, places, left_out, units=("models", "seeds", "sets"))
    # Of the study's own method, or of the first that has groups.
    metrics = [f"share_of_group{g}" for g in numbered(opened.frame, r"share_of_group(\d+)")]
    grouped = opened.frame.where(metric=metrics).unique("label")
    ours = [label for label in opened.study.settings.get("ours", ()) if label in grouped]
    for label in [*ours, *grouped][:1]:
        shares = np.array([[mean_at(part, m, label) for m in metrics] for part in sets.values()])
        known = np.isfinite(shares).all(axis=0)
        if known.any():
            return SeverityCurves(curves, Occupancy(label, shares[:, known]))
    return SeverityCurves(curves, None)


@draws(severity_curve_data, size=_PANELS)
def severity_curve(ax: Axes, found: SeverityCurves) -> None:
    """Draw a metric against severity, and below it which groups the samples fall into.

    Panels are as in :func:`~smallcal_lab.plots.budget_curve`; the lightest bars are the groups with
    the lowest scores.
    """
    curves, groups = found.curves, found.occupancy
    panels = _draw_panels(ax, curves, curves.x, *([0.4] if groups else []))
    panels[-1].set_xticks(curves.x, list(map(style.literal, curves.names)))
    panels[-1].set_xlabel("severity", color=style.INK)
    if groups is None:
        return
    last, bottom = groups.shares.shape[1] - 1, np.zeros(len(curves.x))
    for group, share in enumerate(groups.shares.T):
        shade = 0.15 + 0.75 * group / max(last, 1)
        look: dict[str, Any] = {"color": style.PALETTE[0], "alpha": shade, "linewidth": 0}
        panels[-1].bar(curves.x, share, 0.56, bottom, **look)
        bottom = bottom + share
    panels[-1].set_ylim(0, 100)
    style.dress(panels[-1], xlabel="severity", ylabel="samples %")
    head(panels[-1], f"groups of {groups.label}, 0 to {last}: dark is high risk")


def within_margin_data(
    run: RunLike, *, metric: str | None = None, baseline: str | None = None, where: Where = None
) -> Curves:
    """Return a metric within thirds of the logit margin, under shift where there is one.

    Of all models together; differences are paired by set, with models, seeds in each and sets in
    each resampled. ``where={"set": "clean"}`` takes the clean samples of a run that has both. Rows
    alone are taken to be of the study ``within-margin``.
    """
    opened = given.open_run(run, "within-margin", metric=metric, baseline=baseline, where=where)
    shifted = shifted_rows(given.one_budget(opened).frame)
    rows, unit, what = shifted, "sets", "shifted sets"
    if not len(shifted):
        rows, unit, what = opened.frame.where(set=CLEAN), "draws", "clean samples"
    places = [(t, i, in_margin(rows, [opened.metric], t)) for i, t in enumerate(TERTILES)]
    if not all(len(part) for *_, part in places):
        raise InputError(
            f"run has no {opened.metric} within thirds of the margin; the study within-margin "
            "measures them"
        )
    found = curves_of(replace(opened, frame=rows), places, units=("models", "seeds", unit))
    return replace(found, fitted="; ".join(filter(None, (found.fitted, what))))


@draws(within_margin_data, size=_PANELS)
def within_margin(ax: Axes, found: Curves) -> None:
    """Draw a metric within thirds of the logit margin, and differences from the baseline.

    Panels are as in :func:`~smallcal_lab.plots.budget_curve`.
    """
    panels = _draw_panels(ax, found, found.x)
    panels[-1].set_xticks(found.x, list(found.names))
    panels[-1].set_xlabel("third of the calibration split by logit margin", color=style.INK)


class GroupCurves(NamedTuple):
    """A metric by the number of groups: one line of all models together, and the means of each."""

    curves: Curves
    by_model: Mapping[str, FloatArray]


def k_ablation_data(
    run: RunLike, *, metric: str | None = None, baseline: str | None = None, where: Where = None
) -> GroupCurves:
    """Return a metric for each number of groups, of all models and of each.

    Rows alone are taken to be of the study ``k-ablation``, whose labels are ``K=1``, ``K=2``, ...
    """
    opened = given.open_run(run, "k-ablation", metric=metric, baseline=baseline, where=where)
    opened = given.one_budget(given.clean(opened))
    told = {entry.label: entry.options.get("n_groups") for entry in opened.study.entries}
    numbers: dict[str, int] = {}
    for label in opened.labels:
        written = re.fullmatch(r"K=(\d+)", label)
        if number := told.get(label) or (written and written.group(1)):
            numbers[label] = int(number)
    if not numbers:
        there = ", ".join(opened.frame.unique("label"))
        raise InputError(f"no label of run says a number of groups, as K=3 does; it has {there}")
    opened, left_out = given.measured_at_all(opened.only(label=list(numbers)), "label")
    labels = sorted(numbers, key=numbers.__getitem__)
    places = [(f"K={numbers[label]}", numbers[label], opened.frame) for label in labels]
    line = _line(opened, "mean", [(opened.frame, label) for label in labels])
    curves = curves_of(opened, places, left_out, lines=(line,))
    by_model = {
        f"{dataset} {backbone}": np.array([mean_at(rows, opened.metric, own) for own in labels])
        for (dataset, backbone), rows in opened.frame.groups("dataset", "backbone")
    }
    return GroupCurves(curves, by_model)


@draws(k_ablation_data)
def k_ablation(ax: Axes, found: GroupCurves) -> None:
    """Draw a metric against the number of groups: all models together, and each behind.

    The band is the 95 % interval of the paired difference from the baseline, put around the line.
    """
    curves, line = found.curves, found.curves.lines[0]
    if len(found.by_model) > 1:
        for values in found.by_model.values():
            ax.plot(curves.x, values, color=style.FAINT, linewidth=1, zorder=1)
    ax.axhline(float(line.value[line.verdict.index(BASELINE)]), **style.REFERENCE)
    style.band(ax, curves.x, *line.band, style.look(0))
    _draw_line(ax, curves, line, curves.x, line.value)
    style.dress(ax, xlabel="groups", ylabel=curves.unit)
    base = f"Dashed: {curves.baseline}; hollow: tie with it."
    style.caption(ax, curves.about, curves.bars_text("Band, of the difference"), base)
    ax.set_xscale("log")
    ax.set_xticks(curves.x, [f"{k:g}" for k in curves.x])
    ax.minorticks_off()

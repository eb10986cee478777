"""Curves of a metric, method by method, with the numbers of the tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal_lab.plots.run import Run
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

#: What is said of the method that the others are compared with.
BASELINE = "baseline"


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
        below = np.where(own, 0.0, self.low - self.difference)
        above = np.where(own, 0.0, self.high - self.difference)
        return self.value + below, self.value + above

    @property
    def reach(self) -> float:
        """How far from zero the differences and their intervals lie at most."""
        ends = np.abs([self.difference, self.low, self.high])
        return float(np.nanmax(ends, initial=0.0))


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
    left_out: tuple[str, ...] = ()
    fitted: str = ""
    intervals: str = ""

    def line(self, label: str) -> Line:
        """Return a method's line."""
        return next(line for line in self.lines if line.label == label)


def curves_of(
    run: Run,
    x: FloatArray,
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
        x,
        names,
        lines,
        models_in(run),
        len(run.frame.unique("cell")),
        left_out,
        fitted_on(run.frame),
        intervals_text(run.study, *units),
    )


def fitted_on(frame: Frame) -> str:
    """Say how many samples the fits had, and how many draws of them there are.

    Examples
    --------
    >>> fitted_on(Frame.of([{"budget": 250, "draw": draw} for draw in range(20)]))
    '20 draws of 250 samples'
    """
    draws = len(frame.unique("draw"))
    if len(frame.unique("budget")) > 1:
        return f"{draws} draws of each budget" if draws > 1 else ""
    sizes = frame.sizes
    if not sizes:
        return ""
    text = f"{sizes[0]:,} samples"
    if len(sizes) > 1:
        text = f"whole splits of {sizes[0]:,} to {sizes[-1]:,} samples"
    elif frame.unique("budget") == [ALL]:
        text = f"whole splits of {text}"
    return f"{draws} draws of {text}" if draws > 1 else f"fitted on {text}"


def models_in(run: Run) -> tuple[str, ...]:
    """Return the models of a run as the tables call them."""
    return tuple(f"{a} {b}" for (a, b), _ in run.frame.groups("dataset", "backbone"))


def lines_of(run: Run, parts: Sequence[Frame], *, wins: bool = False) -> tuple[Line, ...]:
    """Return a line for each method, with a point in each part of the rows."""
    return tuple(
        line_of(run, label, [(rows, label) for rows in parts], wins=wins) for label in run.labels
    )


def line_of(
    run: Run, name: str, points: Sequence[tuple[Frame, str]], *, wins: bool = False
) -> Line:
    """Measure a line as the tables do: at each point, the rows of a part and a method's label."""
    means = [mean_of(run, rows, label) for rows, label in points]
    gaps, verdicts = zip(*(_gap(run, rows, label) for rows, label in points), strict=True)
    won = [_wins(run, rows, label) if wins else None for rows, label in points]
    return Line(
        name,
        value=_floats(mean.value for mean in means),
        spread=_floats(mean.spread for mean in means),
        difference=_floats(gap.value for gap in gaps),
        low=_floats(gap.low for gap in gaps),
        high=_floats(gap.high for gap in gaps),
        verdict=verdicts,
        wins=_floats(won),
    )


def mean_of(run: Run, rows: Frame, label: str) -> Number:
    """Return a method's mean over cells and the spread over them."""
    return number_of(rows.values(run.metric, label), run.metric)


def _gap(run: Run, rows: Frame, label: str) -> tuple[Number, str]:
    """Return a difference from the baseline, and the verdict on it."""
    if label == run.study.baseline:
        return Number(math.nan), BASELINE
    found = difference(rows, run.study, run.metric, label)
    return shown(found, run.metric), verdict_on({run.metric: found}).partition(":")[0]


def _wins(run: Run, rows: Frame, label: str) -> float | None:
    if label == run.study.baseline:
        return None
    return win_rate(rows, run.study, run.metric, label).value


def _floats(values: Iterable[float | None]) -> FloatArray:
    return np.array([math.nan if value is None else value for value in values])


def tip(curves: Curves, line: Line, i: int) -> str:
    """Say what one mark stands for.

    Examples
    --------
    >>> numbers = np.array([[2.0], [0.5], [0.4], [0.1], [0.7]])
    >>> line = Line("none", *numbers, ("worse",), wins=np.array([math.nan]))
    >>> curves = Curves("nll", "log-loss x100", "ts-nll", np.ones(1), ("250",), (line,), ("a",), 1)
    >>> tip(curves, line, 0)
    'none, 250: log-loss x100 2.00 ±0.50; minus ts-nll +0.40 [+0.10, +0.70] (worse)'
    """
    digits = unit_of(curves.metric).digits
    spread = None if math.isnan(line.spread[i]) else float(line.spread[i])
    text = f"{line.label}, {curves.names[i]}: {curves.unit} "
    text += Number(float(line.value[i]), spread, digits=digits).text()
    if line.verdict[i] == BASELINE:
        return f"{text} (baseline)"
    low, high = (None if math.isnan(side) else float(side) for side in (line.low[i], line.high[i]))
    gap = Number(float(line.difference[i]), None, low, high, digits).text()
    text += f"; minus {curves.baseline} {gap} ({line.verdict[i]})"
    return text if math.isnan(line.wins[i]) else f"{text}; wins {line.wins[i]:.0f} %"


def who(curves: Curves) -> str:
    """Say what the numbers are of.

    Examples
    --------
    >>> who(Curves("nll", "nll", "none", np.empty(0), (), (), ("toy a", "toy b"), 4, ("toy c",)))
    '2 models, 4 cells (1 left out)'
    """
    models = curves.models
    text = models[0] if len(models) == 1 else f"{len(models)} models"
    if curves.n_cells > len(models):
        text += f", {curves.n_cells} {'seeds' if len(models) == 1 else 'cells'}"
    return f"{text} ({len(curves.left_out)} left out)" if curves.left_out else text


def about(curves: Curves) -> str:
    """Say what the numbers are of, and on how many samples the methods were fitted.

    Examples
    --------
    >>> import dataclasses
    >>> found = Curves("nll", "nll", "none", np.empty(0), (), (), ("toy a",), 1)
    >>> about(dataclasses.replace(found, fitted="20 draws of 250 samples"))
    'toy a; 20 draws of 250 samples'
    """
    return "; ".join(filter(None, (who(curves), curves.fitted)))


def bars_text(curves: Curves, mark: str) -> str:
    """Say what the bars or bands of the differences are; that there are none, if so."""
    if curves.lines and all(np.isnan(line.low).all() for line in curves.lines):
        return "No intervals: each difference is of a single fit."
    few = 1 < len(curves.models) < ENOUGH_MODELS
    return f"{mark}: {curves.intervals}." + " Of so few models they are too narrow." * few


def subject(run: Run, *more: str) -> str:
    """Say what a figure without curves is of: models, cells, samples, and whatever else."""
    curves = curves_of(run, np.empty(0))
    return "; ".join(filter(None, (about(curves), *more)))


def mean_at(frame: Frame, metric: str, label: str) -> float:
    """Return the mean of a metric over cells in the units of the tables; NaN where it is not."""
    return number_of(frame.values(metric, label), metric).value

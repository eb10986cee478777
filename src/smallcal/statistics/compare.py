"""Measure calibrators on test samples, alone or side by side, and say how sure one may be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, overload

from smallcal.data.in_notebook import InNotebook
from smallcal.data.plain import plain
from smallcal.errors import InputError
from smallcal.io.progress import Advance
from smallcal.io.threads import in_order
from smallcal.metrics import METRICS, Metric, Scored
from smallcal.metrics.table import chosen_metrics
from smallcal.statistics.bootstrap import (
    DEFAULT_BOOT,
    Resamples,
    intervals_by_method,
    resample,
)
from smallcal.statistics.enough import Enough
from smallcal.statistics.evaluation import Evaluation
from smallcal.statistics.groups import GroupRow, by_group
from smallcal.statistics.interval import Interval, require_options
from smallcal.statistics.noise import FLOORED, noise_floor_of

Table = dict[str, dict[str, float]]
Intervals = dict[str, dict[str, Interval]]

#: What is said of metrics that do not differ.
_SAME = {"tie": " unchanged beyond chance", "equivalent": " equivalent within the margin"}


@overload
def evaluate(
    y_true: object, y_proba: object, *, metrics: Iterable[str] | None = ...
) -> Evaluation[float]: ...


@overload
def evaluate(
    y_true: object,
    y_proba: object,
    *,
    metrics: Iterable[str] | None = ...,
    ci: bool,
    n_boot: int | None = ...,
    level: float = ...,
    clusters: object = ...,
    random_state: int = ...,
    advance: Advance = ...,
) -> Evaluation[Any]: ...


@overload
def evaluate(
    y_true: object,
    y_proba: object,
    *,
    metrics: Iterable[str] | None = ...,
    by: object,
    n_boot: int | None = ...,
    level: float = ...,
    random_state: int = ...,
) -> Evaluation[dict[str, GroupRow]]: ...


def evaluate(
    y_true: object,
    y_proba: object,
    *,
    metrics: Iterable[str] | None = None,
    ci: bool = False,
    by: object = None,
    n_boot: int | None = None,
    level: float = 0.95,
    clusters: object = None,
    random_state: int = 0,
    advance: Advance = lambda rows: None,
) -> Any:
    """Compute all metrics, or those that are named, with intervals if asked.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C), or (n,) for the probability of outcome 1
        Class probabilities.
    metrics : iterable of str, optional
        Names out of :data:`smallcal.metrics.METRICS`, in the order wanted; all by default.
    ci : bool
        Also give bootstrap intervals over test samples, and for calibration errors the noise
        floor: what a perfectly calibrated model would show on average.
    by : array-like of shape (n,), optional
        The group of each sample. Then every group gets its own row, see
        ``smallcal.statistics.groups.by_group``.
    n_boot : int, optional
        Resamples. By default as many as make the ends of the intervals steady, 500 to 2,000, see
        ``smallcal.statistics.enough``; an interval's ``n_boot`` says how many. With ``by``,
        2,000.
    level : float
    clusters : array-like of shape (n,), optional
        Which samples depend on one another, such as those of one patient or prompt: the same name
        or number. Then clusters are resampled, and there is no noise floor.
    random_state : int
    advance : callable, optional
        Told how many resamples were done.

    Returns
    -------
    Evaluation
        A dictionary, which notebooks show as a table: metric name to a fraction; with ``ci`` to an
        :class:`~smallcal.statistics.interval.Interval`; with ``by`` group to metric name to
        :class:`~smallcal.statistics.groups.GroupRow`. NaN means that the data leave the value
        undefined;
        ``METRICS[name].undefined`` says when.

    Examples
    --------
    >>> evaluate([0, 1], [[0.75, 0.25], [0.5, 0.5]], metrics=["accuracy", "confidence_gap"])
    {'accuracy': 0.5, 'confidence_gap': 0.125}
    >>> rows = evaluate([0, 1] * 50, [[0.75, 0.25], [0.5, 0.5]] * 50, metrics=["ece15"], ci=True)
    >>> rows["ece15"].low <= rows["ece15"].point <= rows["ece15"].high
    True
    """
    require_options(n_boot, level, least=1 if ci else 0, why="ci=True asks for intervals")
    chosen = chosen_metrics(METRICS if metrics is None else metrics)
    if by is not None:
        if clusters is not None:
            raise InputError(
                "by takes samples as independent; leave out clusters", code="options-conflict"
            )
        names = [metric.name for metric in chosen]
        grouped = by_group(
            y_true,
            y_proba,
            by,
            metrics=names,
            n_boot=DEFAULT_BOOT if n_boot is None else n_boot,
            level=level,
            random_state=random_state,
        )
        return Evaluation(grouped)
    view = Scored.of(y_true, y_proba, clusters=clusters)
    points = {metric.name: metric.of(view) for metric in chosen}
    if not ci:
        return Evaluation.of(points, view)
    known = {"": points}
    drawn = resample(
        {"": view},
        chosen,
        points=known,
        n_boot=n_boot,
        enough=Enough(level),
        random_state=random_state,
        advance=advance,
    )
    found = intervals_by_method(drawn, unit=view.unit, level=level)[""]
    # How far a perfectly calibrated model's samples depend on one another is not known.
    shown = [name for name in found if name in FLOORED and view.clusters is None]
    floors = noise_floor_of(view, shown, level=level, random_state=random_state)
    rows = {
        name: replace(row, floor=floors[name].mean) if name in floors else row
        for name, row in found.items()
    }
    return Evaluation.of(rows, view)


@dataclass(frozen=True)
class Comparison(InNotebook):
    """Metrics of several methods on the same samples.

    Attributes
    ----------
    values : dict of method to dict of metric to float
    baseline : str
    differences : dict of method to dict of metric to float
        Method minus baseline.
    intervals : dict of method to dict of metric to Interval
        Of those differences, paired by sample; empty when ``n_boot`` is 0. An interval unpacks
        to (low, high). Of calibration errors in bins they are about differences without noise.
    value_intervals : dict of method to dict of metric to Interval
        Of the values.
    level : float
    n_boot, n : int
        Resamples that were drawn, and test samples.
    unit : str
        What was drawn.
    drawn : dict of (method, metric) to Draws
        The resamples behind the intervals.
    """

    values: Table
    baseline: str
    differences: Table
    intervals: Intervals = field(default_factory=dict)
    value_intervals: Intervals = field(default_factory=dict)
    level: float = 0.95
    n_boot: int = 0
    n: int = 0
    unit: str = "test samples"
    drawn: Resamples = field(default_factory=dict, repr=False, compare=False)

    def paired(self, method: str, baseline: str, metric: str) -> Interval:
        """Return the interval of method minus baseline, any two of them, paired by sample."""
        gap = self.drawn[method, metric] - self.drawn[baseline, metric]
        return gap.interval(unit=self.unit, level=self.level)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {
            "n": self.n,
            "baseline": self.baseline,
            "values": self.values,
            "differences": self.differences,
            "intervals": plain(self.intervals),
            "value_intervals": plain(self.value_intervals),
            "verdicts": {name: self.verdict(name) for name in self.intervals},
            "level": self.level,
            "n_boot": self.n_boot,
        }

    def verdict(self, method: str, *, margin: Mapping[str, float] | None = None) -> str:
        """Say in one line how a method differs from the baseline.

        Only a difference whose interval lies on one side of zero is called one.

        Parameters
        ----------
        method : str
        margin : mapping of metric to float, optional
            Differences smaller than this do not matter; a metric whose whole interval is within
            its margin is called equivalent.
        """
        rows = self.intervals.get(method)
        if rows is None:
            raise InputError(
                f"no intervals for {method!r}: compare it with n_boot above 0", code="no-interval"
            )
        margins = margin or {}
        said: list[str] = []
        same: dict[str, list[str]] = {}
        for name, row in rows.items():
            verdict = row.verdict(METRICS[name].better, margin=margins.get(name))
            if row.excludes_zero and verdict != "equivalent":
                said.append(_change(name, row))
            else:
                what = _SAME[verdict]
                if math.isnan(row.low) and row.note:
                    what = f": {row.note}"
                same.setdefault(what, []).append(METRICS[name].title)
        said += [f"{', '.join(titles)}{what}" for what, titles in same.items()]
        return f"{method}: {'; '.join(said)}."


def _change(name: str, row: Interval) -> str:
    metric, unit = METRICS[name], METRICS[name].unit
    verb = "lowers" if row.high < 0 else "raises"
    ends = unit.interval(*sorted((abs(row.low), abs(row.high))))
    return f"{verb} {metric.title} by {unit.size(row.point)}, {100 * row.level:g} % interval {ends}"


def compare(
    y_true: object,
    y_probas: Mapping[str, object],
    *,
    baseline: str | None = None,
    metrics: Iterable[str] | None = None,
    n_boot: int | None = None,
    level: float = 0.95,
    clusters: object = None,
    random_state: int = 0,
    advance: Advance = lambda rows: None,
) -> Comparison:
    """Compare calibrated probabilities of several methods on the same samples.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    y_probas : mapping of method name to array-like of shape (n, C), or (n,)
    baseline : str, optional
        The method others are compared with; the first by default.
    metrics : iterable of str, optional
        Names in :data:`smallcal.metrics.METRICS`; all by default.
    n_boot : int, optional
        Resamples of the test samples, the same for all methods; 0 gives point values only. By
        default as many as make the ends of all intervals steady, 500 to 2,000, see
        ``smallcal.statistics.enough``; the result's ``n_boot`` says how many.
    level : float
        Of the intervals.
    clusters : array-like of shape (n,), optional
        Which samples depend on one another; then clusters are resampled.
    random_state : int
        Seeds the resamples.
    advance : callable, optional
        Told how many resamples were done.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0, 1, 1, 1] * 30)
    >>> sharp = np.array([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9], [0.7, 0.3]] * 30)
    >>> flat = np.full((120, 2), 0.5)
    >>> result = compare(y, {"flat": flat, "sharp": sharp}, metrics=["nll", "accuracy"], n_boot=100)
    >>> round(result.differences["sharp"]["nll"], 3)
    -0.284
    >>> result.verdict("sharp").split("; ")[0]
    'sharp: lowers log-loss by 28.37 points, 95 % interval 20.12 to 36.68'
    >>> result.verdict("sharp").split("; ")[1]
    'raises accuracy by 50.00 points, 95 % interval 40.25 to 59.26.'
    """
    if not y_probas:
        raise InputError("y_probas is empty; pass {name: probabilities}", code="empty")
    reference = next(iter(y_probas)) if baseline is None else baseline
    if reference not in y_probas:
        raise InputError(
            f"baseline {reference!r} is not among {', '.join(y_probas)}", code="unknown-choice"
        )
    require_options(n_boot, level)
    chosen = chosen_metrics(METRICS if metrics is None else metrics)
    scored = {name: Scored.of(y_true, proba, clusters=clusters) for name, proba in y_probas.items()}
    bootstrap = (n_boot, level, random_state)
    return compare_of(scored, chosen, baseline=reference, bootstrap=bootstrap, advance=advance)


def points_of(scored: Mapping[str, Scored], metrics: Sequence[Metric]) -> Table:
    """Return metrics of several checked predictions, by name."""
    return dict(
        in_order(lambda name: {each.name: each.of(scored[name]) for each in metrics}, scored)
    )


def compare_of(
    scored: Mapping[str, Scored],
    metrics: Sequence[Metric],
    *,
    points: Table | None = None,
    baseline: str,
    bootstrap: tuple[int | None, float, int],
    advance: Advance = lambda rows: None,
) -> Comparison:
    """Return :func:`compare` of checked predictions; ``bootstrap`` is (n_boot, level, seed).

    ``points`` has their metrics, these and perhaps others, if they are known.
    """
    n_boot, level, seed = bootstrap
    known = points_of(scored, metrics) if points is None else points
    points = {name: {row.name: known[name][row.name] for row in metrics} for name in scored}
    differences = {
        name: {metric: value - points[baseline][metric] for metric, value in row.items()}
        for name, row in points.items()
        if name != baseline
    }
    view = scored[baseline]
    result = Comparison(points, baseline, differences, level=level, n=view.n, unit=view.unit)
    if n_boot == 0:
        return result
    drawn = resample(
        scored,
        metrics,
        points=points,
        n_boot=n_boot,
        enough=Enough(level, baseline),
        random_state=seed,
        advance=advance,
    )
    told = partial(intervals_by_method, drawn, unit=result.unit, level=level)
    return replace(
        result,
        intervals=told(baseline=baseline),
        value_intervals=told(),
        n_boot=max((len(own.values) for own in drawn.values()), default=0),
        drawn=drawn,
    )

"""The uncertainty of a whole method: resample the calibration split, refit, measure again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from smallcal.advice.calibrated_split import scored_on
from smallcal.advice.refits import refit, resample_counts
from smallcal.calibrators.catalogue import method
from smallcal.data.predictions import FloatArray, IntArray, Predictions
from smallcal.errors import InputError
from smallcal.io.progress import Advance
from smallcal.metrics import Metric, Scored
from smallcal.metrics.debiased import CUTS, estimate
from smallcal.metrics.table import chosen_metrics
from smallcal.statistics.bootstrap import intervals_by_method
from smallcal.statistics.draws import Draws
from smallcal.statistics.interval import Interval, require_options


@dataclass(frozen=True)
class RefitIntervals:
    """Metrics of refitted methods, with intervals.

    Attributes
    ----------
    values : dict of method to dict of metric to Interval
    differences : dict of method to dict of metric to Interval
        Method minus baseline, both fitted on the same resample.
    n_failed : int
        Resamples in which a fit failed; they are left out.
    """

    values: dict[str, dict[str, Interval]]
    differences: dict[str, dict[str, Interval]]
    n_failed: int


def refit_bootstrap(
    cal: tuple[object, object],
    test: tuple[object, object],
    methods: Sequence[str],
    *,
    baseline: str | None = None,
    metrics: Sequence[str] = ("ece15", "nll", "brier", "top_label_bce"),
    n_boot: int = 200,
    resample_test: bool = True,
    level: float = 0.95,
    input: str | None = None,
    random_state: int = 0,
    advance: Advance = lambda fits: None,
) -> RefitIntervals:
    """Resample the calibration split, refit every method, measure on the test samples.

    An interval over test samples says how sure one may be of *this* fitted calibrator. This one
    says how sure one may be of the method: another calibration split would have given another.

    Parameters
    ----------
    cal, test : (logits, labels)
    methods : sequence of str
        Names in :func:`smallcal.methods`; those that need features or labels cannot be used.
    baseline : str, optional
        The first method by default.
    metrics : sequence of str
    n_boot : int
        Resamples, each with a fit of every method.
    resample_test : bool
        Whether test samples are resampled too; otherwise they are held fixed.
    level : float
    input : {"logits", "probabilities", "score"}
        What the numbers of both are.
    random_state : int
    advance : callable, optional
        Told after each resample.

    Returns
    -------
    RefitIntervals

    Notes
    -----
    A resample enters a fit as each drawn row once, weighted by how often it was drawn: copies of
    a row would leak across the folds that risk scores are learned on.

    Examples
    --------
    >>> import smallcal as sc
    >>> val, test = sc.load_demo("cal"), sc.load_demo("test")
    >>> found = refit_bootstrap((val.logits, val.labels), (test.logits[:500], test.labels[:500]),
    ...                         ["none", "tva-ts"], metrics=["top_label_bce"], n_boot=20)
    >>> found.differences["tva-ts"]["top_label_bce"].verdict()
    'better'
    """
    require_options(n_boot, level, least=2)
    reference = methods[0] if methods and baseline is None else baseline
    if not methods or reference not in methods:
        raise InputError("methods must name at least one, the baseline among them", code="empty")
    chosen = chosen_metrics(metrics)
    fitted_on = Predictions.of(*cal, input=input)
    tested_on = Predictions.of(*test, input=input, score=fitted_on.score)
    points = _fit_all(methods, fitted_on, tested_on, np.ones(fitted_on.n))
    rows: dict[tuple[str, str], list[float]] = {}
    failed = 0
    tests = np.random.default_rng([random_state, 1])
    for counts in resample_counts(fitted_on.n, n_boot, random_state=random_state):
        picked = tests.integers(tested_on.n, size=tested_on.n)
        try:
            views = _fit_all(methods, fitted_on, tested_on, counts)
        except InputError:  # too few different rows were drawn, say
            failed += 1
        else:
            _measure(views, chosen, picked if resample_test else None, rows)
        advance(1)
    if failed == n_boot:
        raise InputError(
            "no resample of the calibration split could be fitted", code="too-few-samples"
        )
    unit = "calibration samples" + (" and test samples" if resample_test else "")
    drawn = {
        (name, metric.name): Draws.of(metric, view, np.array(rows[name, metric.name]))
        for name, view in points.items()
        for metric in chosen
    }
    told = partial(intervals_by_method, drawn, unit=unit, level=level)
    return RefitIntervals(told(), told(baseline=reference), failed)


def _fit_all(
    methods: Sequence[str], cal: Predictions, test: Predictions, counts: FloatArray
) -> dict[str, Scored]:
    """Fit every method on one resample and apply it to the test samples."""
    views = {}
    for name in methods:
        fitted = refit(method(name, cal.kind), cal, counts)
        views[name] = scored_on(fitted, test)
    return views


def _measure(
    views: dict[str, Scored],
    metrics: Sequence[Metric],
    picked: IntArray | None,
    rows: dict[tuple[str, str], list[float]],
) -> None:
    """Append each metric of each method, on all test samples or on those picked."""
    for name, view in views.items():
        again = view if picked is None else view.take(picked)
        for metric in metrics:
            rows.setdefault((name, metric.name), []).append(_estimate(metric, again))


def _estimate(metric: Metric, view: Scored) -> float:
    """Return the metric; errors in bins without noise, as their intervals are about that."""
    return estimate(metric.name, view) if metric.name in CUTS else metric.of(view)

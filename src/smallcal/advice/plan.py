"""Plan how many calibration samples to label, from a method's learning curve on a pilot split."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from smallcal.advice.plan_fits import fit_at_size, raw_model, sizes_to_fit, uncalibrated
from smallcal.advice.plan_forecast import FORECAST_METRICS, Forecast, MetricForecast
from smallcal.advice.plan_words import Expected, Plan, PlanRow, Target, notes_on, sentences_of
from smallcal.advice.recommend import recommend
from smallcal.calibrators.catalogue import method as method_named
from smallcal.calibrators.catalogue import true_name
from smallcal.data.checks import whole_number
from smallcal.data.predictions import MIN_FIT_SAMPLES, FloatArray, Predictions
from smallcal.errors import InputError
from smallcal.io.progress import Advance
from smallcal.io.threads import one_core_each
from smallcal.statistics.interval import Interval, interval_of, require_options

#: The fewest rows a plan is made from.
MIN_PILOT = 50

#: Rows of the test set that ``ece15`` is predicted for.
TEST_SIZE = 5_000

#: One temperature for all: what every other method must be better than. Of scores, by NLL: the
#: other one looks at the more probable outcome of the two.
SIMPLE: Mapping[str, str] = MappingProxyType(
    {"logits": "tva-ts", "probabilities": "tva-ts", "score": "ts-nll"}
)

_UNIT = "rows and draws of the pilot"

#: The largest share of the rows that one cluster may have.
_LARGEST = 0.1

#: A target is looked for up to so many times the pilot.
_FAR = 100


@one_core_each()
def plan(
    logits: object,
    labels: object,
    *,
    method: str = "default",
    keep_predictions: bool = False,
    sizes: Iterable[int] | None = None,
    draws: int = 20,
    target: Mapping[str, float] | None = None,
    test_size: int = TEST_SIZE,
    input: str | None = None,
    level: float = 0.9,
    clusters: object = None,
    random_state: int = 0,
    advance: Advance = lambda fits: None,
) -> Plan:
    """Say what calibration with n samples would give, from a pilot split.

    The method is fitted on draws of growing size and measured on the rows left out; beyond the
    pilot the curve is continued. The uncalibrated model and one temperature (``tva-ts``; of scores
    ``ts-nll``) go along.

    Parameters
    ----------
    logits : array-like of shape (n, C)
    labels : array-like of shape (n,)
    method : str
        A name in :func:`smallcal.methods`; one that needs features cannot be planned.
    keep_predictions : bool
        If True, the method keeps the model's predictions; see :class:`smallcal.Calibrator`.
    sizes : iterable of int, optional
        Calibration samples to plan for; by default round numbers up to four times the pilot.
        The pilot's own size is always among the rows.
    draws : int
        Fits at each size.
    target : mapping of metric to float, optional
        Values to reach, as fractions: ``{"ece15": 0.02}``.
    test_size : int
        ``ece15`` is what ``evaluate`` would show on a test set of so many rows; noise makes it
        larger on a smaller one. ``debiased_ece15`` is free of that.
    input : {"logits", "probabilities", "score"}
    level : float
        Of the bands.
    clusters : array-like of shape (n,), optional
        Which samples depend on one another, such as those of one patient or prompt: the same name
        or number. Draws and bands then take whole clusters.
    random_state : int
    advance : callable, optional
        Told after the fits of each size; ``count_steps`` says how often.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> found = sc.plan(val.logits[:400], val.labels[:400], method="tva-ts", sizes=[200, 1600])
    >>> [(row.size, row.measured) for row in found.rows]
    [(200, True), (400, False), (1600, False)]
    >>> first, *_, last = found.rows
    >>> last.metrics["ece15"].value < first.metrics["ece15"].value
    True
    """
    kind = input or "logits"
    name = _true_name(method, kind)
    targets = _checked_targets(target or {})
    preds = Predictions.of(logits, labels, input=input, clusters=clusters)
    preds.require_fittable()
    require_options(draws, level, name="draws", least=5, why="fewer give no standard deviation")
    whole_number(test_size, "test_size", least=1)
    require_pilot(preds.n)
    if preds.clusters is not None and (most := int(np.bincount(preds.clusters).max())) > (
        _LARGEST * preds.n
    ):
        raise InputError(
            f"clusters: the largest has {most:,} of {preds.n:,} rows; a plan needs rows of others "
            f"to measure on, so at most {_LARGEST:.0%} of the rows may be in one",
            code="clusters-invalid",
        )
    wanted = plan_sizes(preds.n, sizes)
    steps = sizes_to_fit(preds.n, wanted)
    raw = raw_model(preds)
    alone = uncalibrated(preds, raw)
    forecasts = {"none": Forecast([alone], test_size=test_size, seed=random_state)}
    shared: dict[str, Any] = {"draws": draws, "seed": random_state, "raw": raw}
    shared["keep_predictions"] = keep_predictions
    for each in dict.fromkeys([name, SIMPLE[kind]]):
        curve = []
        for size in steps:
            curve.append(fit_at_size(preds, each, size, **shared))
            advance(1)
        forecasts[each] = Forecast(curve, test_size=test_size, seed=random_state)
    found = _planned(name, preds, forecasts, wanted, (draws, test_size, level))
    targets_of = (_search(forecasts[name], *each, level) for each in targets.items())
    advised = recommend(preds, keep_predictions=keep_predictions)
    found = replace(found, targets=tuple(targets_of), recommendation=advised)
    simple = {}
    if name != found.simple:
        ours, other = (forecasts[each].at(preds.n) for each in (name, found.simple))
        simple = _differences(ours, other, level)
    notes = tuple(notes_on(found, int((~preds.came).sum())))
    return replace(found, sentences=sentences_of(found, simple), notes=notes)


def count_steps(n: int, sizes: Iterable[int] | None, method: str, *, input: str = "logits") -> int:
    """Return how often :func:`plan` will call ``advance``."""
    methods = {_true_name(method, input), SIMPLE[input]}
    return len(sizes_to_fit(n, plan_sizes(n, sizes))) * len(methods)


def require_pilot(n: int) -> None:
    """Raise when a split is too small to plan from."""
    if n < MIN_PILOT:
        raise InputError(
            f"a plan needs at least {MIN_PILOT} labelled samples, preferably a few hundred; this "
            f"split has {n}",
            code="too-few-samples",
        )


def plan_sizes(n: int, sizes: Iterable[int] | None) -> list[int]:
    """Return the sizes to plan for: those asked for or round numbers, and the pilot's own.

    Examples
    --------
    >>> plan_sizes(250, None)
    [50, 100, 200, 250, 500, 1000]
    """
    if sizes is None:
        rounds = [step * 10**power for power in range(1, 8) for step in (1, 2, 5)]
        return sorted({n, *(size for size in rounds if 50 <= size <= 4 * n)})
    wanted = {whole_number(size, "each size", least=MIN_FIT_SAMPLES) for size in sizes}
    if not wanted:
        raise InputError("sizes names none; give at least one number of samples", code="empty")
    return sorted({n, *wanted})


def _true_name(method: str, input: str) -> str:
    row = method_named(method, input)
    name = true_name(method, input)
    if row.map == "identity":
        raise InputError(
            "none fits nothing, so more samples change nothing; plan another method",
            code="method-unsuitable",
        )
    if row.needs:
        raise InputError(
            f"{name} needs {' and '.join(row.needs)} and cannot be planned; choose a method that "
            "needs logits alone",
            code="method-unsuitable",
        )
    return name


def _checked_targets(target: Mapping[str, float]) -> dict[str, float]:
    for name, value in target.items():
        if name not in FORECAST_METRICS:
            raise InputError(
                f"no target for {name!r}; choose from {', '.join(FORECAST_METRICS)}",
                code="metric-unknown",
            )
        if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
            raise InputError(
                f"the target of {name} must be a number above 0; got {value!r}", code="option-range"
            )
        if value >= 1 and name != "top_label_bce":
            raise InputError(
                f"the target of {name} is a fraction: write {value / 100:g} for {value:g} %",
                code="option-format",
            )
    return dict(target)


def _planned(
    name: str,
    preds: Predictions,
    forecasts: Mapping[str, Forecast],
    sizes: list[int],
    options: tuple[int, int, float],
) -> Plan:
    draws, test_size, level = options
    rows = {
        (each, size): _row(each, size, forecast, level)
        for each, forecast in forecasts.items()
        for size in (sizes if each != "none" else [0])
    }
    ours, now = forecasts[name], preds.n
    return Plan(
        method=name,
        n=preds.n,
        n_classes=preds.n_classes,
        test_size=test_size,
        draws=draws,
        level=level,
        rows=tuple(row for (each, _), row in rows.items() if each == name),
        references=tuple(row for (each, _), row in rows.items() if each != name),
        more=_differences(ours.at(max(sizes)), ours.at(now), level) if max(sizes) > now else {},
        input=preds.kind,
        simple=SIMPLE[preds.kind],
    )


def _row(name: str, size: int, forecast: Forecast, level: float) -> PlanRow:
    expected = forecast.at(size)
    metrics = {}
    for metric, entry in expected.items():
        low, high = interval_of(entry.point, entry.values, unit=_UNIT, level=level)
        metrics[metric] = Expected(entry.point, entry.spread, low, high)
    gains = {} if name == "none" else _differences(expected, forecast.raw.at(size), level)
    return PlanRow(name, size, forecast.measured(size), metrics, gains)


def _differences(
    first: Mapping[str, MetricForecast], second: Mapping[str, MetricForecast], level: float
) -> dict[str, Interval]:
    return {
        metric: interval_of(
            first[metric].point - second[metric].point,
            first[metric].values - second[metric].values,
            unit=_UNIT,
            level=level,
        )
        for metric in first
    }


def _search(forecast: Forecast, metric: str, value: float, level: float) -> Target:
    """Find the size from which on the metric stays at or below a value, in every scenario too."""
    top = forecast.curve[-1].size
    beyond = np.geomspace(top, _FAR * forecast.curve[0].n, 40)[1:]
    sizes = np.array([*(fits.size for fits in forecast.curve), *beyond])
    entries = [forecast.of(metric, size) for size in sizes]
    floor = forecast.of(metric, math.inf).point
    curves = np.column_stack([entry.values for entry in entries])
    points = np.array([entry.point for entry in entries])
    reached = np.array([_first_below(sizes, curve, value) for curve in curves])
    tail = (1 - level) / 2
    low, high = np.quantile(reached, [tail, 1 - tail], method="nearest")
    size = _first_below(sizes, points, value)
    # Where the curve is flat, what other draws would give moves the size by far more than itself.
    draws = len(forecast.curve[0].shift)
    doubt = np.array([entry.spread for entry in entries]) / math.sqrt(draws)
    earliest, latest = (_first_below(sizes, points + side * doubt, value) for side in (-1, 1))
    ends = {"earliest": _whole(earliest), "latest": _whole(latest)}
    return Target(metric, value, _whole(size), _whole(low), _whole(high), floor, **ends)


def _first_below(sizes: FloatArray, curve: FloatArray, value: float) -> float:
    """Return the size from which on a curve is not above a value; infinity if there is none."""
    above = np.flatnonzero(curve > value)
    if not len(above):
        return float(sizes[0])
    last = above[-1]
    if last == len(sizes) - 1:
        return math.inf
    share = (curve[last] - value) / (curve[last] - curve[last + 1])
    return float(sizes[last] * (sizes[last + 1] / sizes[last]) ** share)


def _whole(size: float) -> int | None:
    """Return a size with two digits that mean something; None for infinity."""
    if math.isinf(size):
        return None
    digits = 10 ** max(0, math.floor(math.log10(size)) - 1)
    return int(math.ceil(size / digits) * digits)

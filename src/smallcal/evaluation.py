"""Put several calibrators side by side on the same test samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smallcal.data import FloatArray
from smallcal.errors import InputError
from smallcal.metrics import METRICS, Metric, Scored
from smallcal.metrics.table import chosen_metrics

Table = dict[str, dict[str, float]]

#: Samples x resamples drawn at a time: bounds the memory of the bootstrap to some 60 MB.
_BATCH = 4_000_000


@dataclass(frozen=True)
class Comparison:
    """Metrics of several methods on the same samples.

    Attributes
    ----------
    values : dict of method to dict of metric to float
    baseline : str
    differences : dict of method to dict of metric to float
        Method minus baseline.
    intervals : dict of method to dict of metric to (low, high)
        Percentile intervals of those differences, paired by sample, for the metrics that are
        averages over samples; empty when ``n_boot`` is 0.
    level : float
    n_boot, n : int
    """

    values: Table
    baseline: str
    differences: Table
    intervals: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    level: float = 0.95
    n_boot: int = 0
    n: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {
            "n": self.n,
            "baseline": self.baseline,
            "values": self.values,
            "differences": self.differences,
            "intervals": {
                name: {metric: list(pair) for metric, pair in row.items()}
                for name, row in self.intervals.items()
            },
            "level": self.level,
            "n_boot": self.n_boot,
        }


def compare(
    y_true: object,
    y_probas: Mapping[str, object],
    *,
    baseline: str | None = None,
    metrics: Iterable[str] | None = None,
    n_boot: int = 0,
    random_state: int = 0,
) -> Comparison:
    """Compare calibrated probabilities of several methods on the same samples.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    y_probas : mapping of method name to array-like of shape (n, C)
    baseline : str, optional
        The method others are compared with; the first by default.
    metrics : iterable of str, optional
        Names in :data:`smallcal.metrics.METRICS`; all by default.
    n_boot : int
        Resamples for 95 % intervals of the differences, for metrics that are averages over
        samples; 0 gives point values only.
    random_state : int
        Seeds the resamples.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0, 1, 1, 0])
    >>> sharp = np.array([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9], [0.7, 0.3]])
    >>> flat = np.full((4, 2), 0.5)
    >>> result = compare(y, {"flat": flat, "sharp": sharp}, baseline="flat", n_boot=100)
    >>> round(result.differences["sharp"]["nll"], 3)
    -0.496
    >>> result.intervals["sharp"]["nll"][1] < 0
    True
    """
    if not y_probas:
        raise InputError("y_probas is empty; pass {name: probabilities}")
    reference = next(iter(y_probas)) if baseline is None else baseline
    if reference not in y_probas:
        raise InputError(f"baseline {reference!r} is not among {', '.join(y_probas)}")
    if n_boot < 0:
        raise InputError(f"n_boot must not be negative; got {n_boot}")
    chosen = chosen_metrics(METRICS if metrics is None else metrics)
    scored = {name: Scored.of(y_true, proba) for name, proba in y_probas.items()}
    values = {
        name: {metric.name: metric.of(view) for metric in chosen} for name, view in scored.items()
    }
    differences = {
        name: {metric: value - values[reference][metric] for metric, value in row.items()}
        for name, row in values.items()
        if name != reference
    }
    intervals = _intervals(scored, reference, chosen, n_boot, random_state) if n_boot else {}
    n = len(next(iter(scored.values())).labels)
    return Comparison(values, reference, differences, intervals, n_boot=n_boot, n=n)


def _intervals(
    scored: Mapping[str, Scored],
    baseline: str,
    chosen: Iterable[Metric],
    n_boot: int,
    random_state: int,
) -> dict[str, dict[str, tuple[float, float]]]:
    """Resample test samples; a resampled mean difference is a product with sample counts."""
    keys, columns = [], []
    for metric in chosen:
        if metric.values is None:
            continue
        reference = metric.values(scored[baseline])
        for name, view in scored.items():
            if name != baseline:
                keys.append((name, metric.name))
                columns.append(metric.values(view) - reference)
    result: dict[str, dict[str, tuple[float, float]]] = {}
    if not columns:
        return result
    means = _resampled_means(np.column_stack(columns), n_boot, random_state)
    lows, highs = np.quantile(means, [0.025, 0.975], axis=0)
    for (name, metric_name), low, high in zip(keys, lows, highs, strict=True):
        result.setdefault(name, {})[metric_name] = (float(low), float(high))
    return result


def _resampled_means(values: FloatArray, n_boot: int, random_state: int) -> FloatArray:
    rng = np.random.default_rng(random_state)
    n = len(values)
    means = []
    for start in range(0, n_boot, max(1, _BATCH // n)):
        size = min(max(1, _BATCH // n), n_boot - start)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=size)
        means.append(counts @ values / n)
    return np.concatenate(means)

"""What is kept of predictions when the probabilities of all classes would be too much.

Confidence, doubt and correctness of each sample, and the two losses that look at every class: 33
bytes a sample instead of eight a class. Every metric but ``cwece15`` follows from them, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from smallcal.data.predictions import BoolArray, FloatArray, IntArray
from smallcal.errors import InputError
from smallcal.metrics.scored import Scored
from smallcal.metrics.table import METRICS, Metric

#: Losses whose value of a sample needs the probabilities of all classes.
LOSSES = ("nll", "brier")

#: Metrics that cannot be computed from what is kept.
LOST = ("cwece15",)


@dataclass(frozen=True, eq=False, kw_only=True)
class Kept(Scored):
    """Predictions without the probabilities: every metric but those of ``LOST``.

    Attributes
    ----------
    losses : dict of str to ndarray of shape (n,)
        Values of each sample, of the metrics named in ``LOSSES``.

    Examples
    --------
    >>> scored = Scored.of([0, 1], [[0.75, 0.25], [0.5, 0.5]])
    >>> kept = Kept.from_scored(scored)
    >>> kept.proba.shape, value(METRICS["nll"], kept) == value(METRICS["nll"], scored)
    ((2, 0), True)
    """

    losses: Mapping[str, FloatArray]

    @classmethod
    def from_scored(cls, scored: Scored) -> Kept:
        """Keep what metrics need of predictions."""
        return cls.of_columns(
            labels=scored.labels,
            confidence=scored.confidence,
            doubt=scored.doubt,
            correct=scored.correct,
            losses={name: each(METRICS[name], scored) for name in LOSSES},
        )

    @classmethod
    def of_columns(
        cls,
        *,
        labels: IntArray,
        confidence: FloatArray,
        doubt: FloatArray,
        correct: BoolArray,
        losses: Mapping[str, FloatArray],
    ) -> Kept:
        """Return the view of what was kept."""
        return cls(
            proba=np.empty((len(labels), 0)),
            labels=labels,
            confidence=confidence,
            doubt=doubt,
            correct=correct,
            losses=losses,
        )


def each(metric: Metric, scored: Scored) -> FloatArray:
    """Return the value of each sample of a metric that is a mean."""
    if isinstance(scored, Kept) and metric.name in scored.losses:
        return scored.losses[metric.name]
    if metric.values is None:
        raise InputError(f"{metric.name} is not a mean over samples", code="metric-unknown")
    return metric.values(scored)


def value(metric: Metric, scored: Scored) -> float:
    """Return a metric of predictions, whole or kept."""
    if isinstance(scored, Kept) and metric.name in scored.losses:
        return float(scored.losses[metric.name].mean())
    return metric.of(scored)


def require_kept(metrics: Iterable[str]) -> None:
    """Raise for metrics that cannot be computed from what is kept.

    Examples
    --------
    >>> require_kept(["cwece15"])
    Traceback (most recent call last):
    smallcal.errors.InputError: cwece15 needs the probabilities of all classes, which are not kept
    """
    for name in metrics:
        if name in LOST:
            raise InputError(
                f"{name} needs the probabilities of all classes, which are not kept",
                code="metric-unknown",
            )

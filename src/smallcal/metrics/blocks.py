"""Metrics of predictions that need not fit in memory.

No metric needs the matrix of probabilities: a mean needs its value for each row, a calibration or
ranking error the confidence of each row, and the classwise error a sum for each bin. So blocks of
rows come and go, and what stays is a few numbers for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.binned import classwise_ece_from, classwise_sums
from smallcal.metrics.table import chosen_metrics

#: Metrics that look at the probability of every class, as sums over blocks.
_CLASSWISE = "cwece15"


def evaluate_blocks(
    blocks: Iterable[tuple[IntArray, FloatArray]], *, metrics: Sequence[str] | None = None
) -> tuple[dict[str, float], int]:
    """Compute metrics of blocks of labels and probabilities.

    Parameters
    ----------
    blocks : iterable of (labels, probabilities)
    metrics : sequence of str, optional
        Names in :data:`smallcal.metrics.METRICS`; all by default.

    Returns
    -------
    dict
        Metric name to a fraction, as :func:`smallcal.evaluate` gives for all rows at once, up to
        the rounding of sums.
    int
        The number of samples.

    Examples
    --------
    >>> proba = np.array([[0.75, 0.25], [0.5, 0.5]])
    >>> blocks = [(np.array([0]), proba[:1]), (np.array([1]), proba[1:])]
    >>> evaluate_blocks(blocks, metrics=["accuracy", "confidence_gap"])
    ({'accuracy': 0.5, 'confidence_gap': 0.125}, 2)
    """
    chosen = chosen_metrics(METRICS if metrics is None else metrics)
    means = {row.name: row.values for row in chosen if row.values is not None}
    totals = dict.fromkeys(means, 0.0)
    kept: list[Scored] = []
    sums: FloatArray | None = None
    n_classes = 0
    for labels, proba in blocks:
        view = Scored.of(labels, proba)
        n_classes = view.n_classes
        for name, values in means.items():
            totals[name] += float(values(view).sum())
        if any(row.name == _CLASSWISE for row in chosen):
            block = classwise_sums(view)
            sums = block if sums is None else sums + block
        kept.append(_narrow([view]))
    if not kept:
        raise InputError("there are no blocks to evaluate", code="empty")
    narrow = _narrow(kept)
    found: dict[str, float] = {}
    for row in chosen:
        if row.name in totals:
            found[row.name] = totals[row.name] / narrow.n
        elif row.name == _CLASSWISE and sums is not None:
            found[row.name] = classwise_ece_from(sums, narrow.n, n_classes)
        else:
            found[row.name] = row.of(narrow)
    return found, narrow.n


def _narrow(views: Sequence[Scored]) -> Scored:
    """Join views without their probabilities: a metric that asks for them fails, and is seen."""
    return Scored(
        proba=np.empty((sum(view.n for view in views), 0)),
        labels=np.empty(0, dtype=np.int64),
        confidence=np.concatenate([view.confidence for view in views]),
        doubt=np.concatenate([view.doubt for view in views]),
        correct=np.concatenate([view.correct for view in views]),
        outcome=all(view.outcome for view in views),
    )

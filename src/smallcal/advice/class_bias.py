"""Test whether a model prefers some classes whatever the input.

The labels of a class occur as often as the model expects, the sum of its probabilities, up to
chance. Where the counts differ by more, the class needs a bias, which no temperature can give it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smallcal.data.predictions import BoolArray, FloatArray, Predictions
from smallcal.data.special import softmax

#: Classes whose counts vary by less than this (a variance) are counted together.
_RARE = 1.0


@dataclass(frozen=True)
class ClassBias:
    """How far the counts of labels are from what a model expects.

    Attributes
    ----------
    statistic : float
        Squared differences of counts in units of their variances, summed over classes.
    expected : float
        What chance alone gives.
    p_value : float
    n_counts : int
        Classes, the rare ones counted as one.
    """

    statistic: float
    expected: float
    p_value: float
    n_counts: int


def class_bias(
    preds: Predictions, temperature: float, *, n_null: int, rng: np.random.Generator
) -> ClassBias:
    """Compare the counts of labels with those that softmax(z / T) expects.

    Counts under "the model is right" are nearly normal, with the covariance that its
    probabilities give them; the p-value is of ``n_null`` draws from that.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(500, 3))
    >>> y = (z + [1, 0, 0] + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> class_bias(Predictions.of(z, y), 1.0, n_null=99, rng=rng).p_value
    0.01
    """
    p = softmax(preds.logits.astype(np.float64) / temperature)
    rare = (p * (1 - p)).sum(axis=0) < _RARE
    labels = np.eye(preds.n_classes)[preds.labels]
    expected, occurred = _joined(p, rare), _joined(labels, rare)
    covariance = np.diag(expected.sum(axis=0)) - expected.T @ expected
    variance = np.diag(covariance)
    counted = variance > _RARE / 2
    difference = (occurred - expected).sum(axis=0)[counted]
    sizes, vectors = np.linalg.eigh(covariance[counted][:, counted])
    drawn = rng.normal(size=(n_null, len(sizes))) * np.sqrt(np.maximum(sizes, 0)) @ vectors.T
    found = float((difference**2 / variance[counted]).sum())
    values = (drawn**2 / variance[counted]).sum(axis=1)
    exceeded = int((values >= found).sum())
    return ClassBias(found, float(counted.sum()), (1 + exceeded) / (1 + n_null), int(counted.sum()))


def _joined(table: FloatArray, rare: BoolArray) -> FloatArray:
    """Return the columns of common classes, and the sum of the rare ones."""
    if not rare.any():
        return table
    return np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])

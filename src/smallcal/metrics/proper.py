"""Averages over samples: accuracy, log loss, Brier score, top-label cross-entropy.

Each has a companion ``*_values`` that returns the value of every sample, for paired
comparisons and the bootstrap; the metric is its mean.
"""

from __future__ import annotations

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.metrics.scored import Scored, mean_of, row_blocks

#: Probabilities are floored here before a logarithm, so that no sample costs more than 27.6.
FLOOR = 1e-12


def accuracy_values(scored: Scored) -> FloatArray:
    """Return 1.0 for each correct prediction and 0.0 for each wrong one."""
    return scored.correct.astype(np.float64)


def accuracy(y_true: object, y_proba: object) -> float:
    """Share of samples whose most probable class is the true one.

    ``mean_i b_i`` with b_i = 1 when argmax_j p_ij = y_i. Ties in a row go to the first column.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> accuracy([0, 1], [[0.9, 0.1], [0.8, 0.2]])
    0.5
    """
    return mean_of(accuracy_values, Scored.of(y_true, y_proba))


def nll_values(scored: Scored) -> FloatArray:
    """Return -log of each sample's probability of its true class."""
    truth = scored.proba[np.arange(scored.n), scored.labels]
    return _surprise(truth)


def nll(y_true: object, y_proba: object) -> float:
    """Negative log-likelihood (log loss) in nats.

    ``-mean_i log p_i[y_i]``, each probability floored at 1e-12.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.

    Returns
    -------
    float
        0 at best, 27.6 at worst.

    Examples
    --------
    >>> round(nll([0, 1], [[0.9, 0.1], [0.8, 0.2]]), 4)
    0.8574
    """
    return mean_of(nll_values, Scored.of(y_true, y_proba))


def brier_values(scored: Scored) -> FloatArray:
    """Return each sample's squared distance from the vertex of its true class."""
    values = np.empty(scored.n)
    for rows in row_blocks(scored.proba):
        gap = scored.proba[rows].copy()
        gap[np.arange(len(gap)), scored.labels[rows]] -= 1.0
        values[rows] = np.einsum("ij,ij->i", gap, gap)
    return values


def brier(y_true: object, y_proba: object) -> float:
    """Brier score, summed over the classes.

    ``mean_i sum_j (p_ij - 1[j = y_i])^2``.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.

    Returns
    -------
    float
        Between 0 and 2: two classes give twice the one-column Brier score.

    Examples
    --------
    >>> round(brier([0, 1], [[0.9, 0.1], [0.8, 0.2]]), 4)
    0.65
    """
    return mean_of(brier_values, Scored.of(y_true, y_proba))


def top_label_bce_values(scored: Scored) -> FloatArray:
    """Return -log c for each correct prediction and -log(1 - c) for each wrong one."""
    given: FloatArray = np.where(scored.correct, scored.confidence, scored.doubt)
    return _surprise(given)


def top_label_bce(y_true: object, y_proba: object) -> float:
    """Binary cross-entropy of the confidence as a forecast of being correct, in nats.

    ``-mean_i [b_i log c_i + (1 - b_i) log(1 - c_i)]``, both arguments floored at 1e-12. The
    sum of the other classes' probabilities stands for 1 - c, which is exact near c = 1.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.

    Returns
    -------
    float
        0 at best, 27.6 at worst.

    Examples
    --------
    >>> round(top_label_bce([0, 1], [[0.9, 0.1], [0.8, 0.2]]), 4)
    0.8574
    """
    return mean_of(top_label_bce_values, Scored.of(y_true, y_proba))


def _surprise(probability: FloatArray) -> FloatArray:
    # A row that sums to a little more than 1 may hold p > 1; no loss is negative.
    logs: FloatArray = np.log(np.clip(probability, FLOOR, 1.0))
    return np.abs(logs)

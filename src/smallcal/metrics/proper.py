"""Averages over samples: accuracy, log-loss, Brier score, top-label log-loss.

Each function below returns the value of every sample; the metric is its mean.
"""

from __future__ import annotations

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.metrics.measure import mean
from smallcal.metrics.scored import Scored, row_blocks

#: Probabilities are floored here before a logarithm, so that no sample costs more than 27.6.
FLOOR = 1e-12


@mean
def accuracy(scored: Scored) -> FloatArray:
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
    return scored.correct.astype(np.float64)


@mean
def nll(scored: Scored) -> FloatArray:
    """Log-loss (negative log-likelihood, NLL) in nats.

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
    truth = scored.proba[np.arange(scored.n), scored.labels]
    return _surprise(truth)


@mean
def brier(scored: Scored) -> FloatArray:
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
        Between 0 and 2: two classes give twice the one-column Brier score. One-dimensional
        ``y_proba``, the probabilities of outcome 1, give that: ``mean_i (p_i - y_i)^2``.

    Examples
    --------
    >>> round(brier([0, 1], [[0.9, 0.1], [0.8, 0.2]]), 4)
    0.65
    """
    values = np.empty(scored.n)
    for rows in row_blocks(scored.proba):
        gap = scored.proba[rows].copy()
        gap[np.arange(len(gap)), scored.labels[rows]] -= 1.0
        values[rows] = np.einsum("ij,ij->i", gap, gap)
    return values / 2 if scored.outcome else values


@mean
def top_label_bce(scored: Scored) -> FloatArray:
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
    given: FloatArray = np.where(scored.correct, scored.confidence, scored.doubt)
    return _surprise(given)


def _surprise(probability: FloatArray) -> FloatArray:
    # A row that sums to a little more than 1 may hold p > 1; no loss is negative.
    logs: FloatArray = np.log(np.clip(probability, FLOOR, 1.0))
    return np.abs(logs)

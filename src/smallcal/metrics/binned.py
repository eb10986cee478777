"""Binned calibration errors: ECE, its equal-mass form, and its classwise form.

All of them are one statistic: add up c - b in each bin and average the absolute sums. That
form needs no case for an empty bin, and :func:`bin_sums` is the only place that adds up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smallcal.data.checks import whole_number
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.metrics.measure import measure
from smallcal.metrics.scored import Scored, row_blocks

DEFAULT_BINS = 15


def bin_sums(index: IntArray, values: FloatArray, bins: int) -> FloatArray:
    """Return the sum of ``values`` in each of ``bins`` bins."""
    sums = np.bincount(index, weights=values, minlength=bins)
    return sums.astype(np.float64, copy=False)


def equal_width(values: FloatArray, bins: int) -> IntArray:
    """Return the bin of each value in [0, 1]: [l, u), the last one closed at 1."""
    whole_number(bins, "bins", least=1)
    inner = np.linspace(0.0, 1.0, bins + 1)[1:-1]
    return np.digitize(values, inner).astype(np.int64, copy=False)


def equal_mass(values: FloatArray, bins: int) -> IntArray:
    """Return the bin of each value when the sorted values are cut into equal counts.

    When ``bins`` does not divide n, the first n mod ``bins`` bins hold one value more. Equal
    values may be cut apart; then the earlier samples go to the lower bin.
    """
    whole_number(bins, "bins", least=1)
    n = len(values)
    size = n // bins + (np.arange(bins) < n % bins)
    index = np.empty(n, dtype=np.int64)
    index[np.argsort(values, kind="stable")] = np.repeat(np.arange(bins), size)
    return index


@dataclass(frozen=True, eq=False, kw_only=True)
class BinTable:
    """What a reliability diagram shows: one row per bin, and the bin of each sample.

    Attributes
    ----------
    index : ndarray of shape (n,), int64
        The bin of each sample.
    count : ndarray of shape (bins,), int64
        Samples in each bin.
    confidence, accuracy : ndarray of shape (bins,), float64
        Means in each bin, NaN where it is empty.
    """

    index: IntArray
    count: IntArray
    confidence: FloatArray
    accuracy: FloatArray


def bin_table(scored: Scored, index: IntArray, *, bins: int = DEFAULT_BINS) -> BinTable:
    """Return count, mean confidence and accuracy of each bin.

    Parameters
    ----------
    scored : Scored
    index : ndarray of shape (n,)
        The bin of each sample, from :func:`equal_width` or :func:`equal_mass`.
    bins : int
        How many bins there are.

    Examples
    --------
    >>> scored = Scored.of([0, 1], [[0.9, 0.1], [0.7, 0.3]])
    >>> table = bin_table(scored, equal_width(scored.confidence, 2), bins=2)
    >>> table.count.tolist(), table.confidence.tolist(), table.accuracy.tolist()
    ([0, 2], [nan, 0.8], [nan, 0.5])
    """
    count = bin_sums(index, np.ones(scored.n), bins)
    share = np.where(count > 0, count, np.nan)
    return BinTable(
        index=index,
        count=count.astype(np.int64),
        confidence=bin_sums(index, scored.confidence, bins) / share,
        accuracy=bin_sums(index, scored.correct.astype(np.float64), bins) / share,
    )


@measure
def ece(scored: Scored, *, bins: int = DEFAULT_BINS) -> float:
    """Calibration error (ECE) of the confidence, in bins of equal width.

    ``sum_B |sum_{i in B} (c_i - b_i)| / n``. Bins are [l, u), the last one closed at 1.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.
    bins : int, default 15
        Number of bins.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> round(ece([0, 1], [[0.9, 0.1], [0.7, 0.3]]), 4)
    0.4
    >>> round(ece([0, 1], [[0.9, 0.1], [0.7, 0.3]], bins=1), 4)
    0.3
    """
    index = equal_width(scored.confidence, bins)
    return _mean_absolute(bin_sums(index, scored.residual, bins), scored.n)


@measure
def adaece(scored: Scored, *, bins: int = DEFAULT_BINS) -> float:
    """Adaptive calibration error: as :func:`ece`, in bins of equal count.

    Samples are sorted by confidence and cut into ``bins`` runs whose lengths differ by one at
    most. A run of equal confidences may be cut apart, in the order the samples came in; only
    then does the order of the samples matter.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.
    bins : int, default 15
        Number of bins.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> y_proba = [[0.9, 0.1], [0.7, 0.3], [0.8, 0.2], [0.6, 0.4]]
    >>> round(adaece([0, 1, 0, 0], y_proba, bins=2), 4)
    0.15
    """
    index = equal_mass(scored.confidence, bins)
    return _mean_absolute(bin_sums(index, scored.residual, bins), scored.n)


def classwise_sums(scored: Scored, *, bins: int = DEFAULT_BINS) -> FloatArray:
    """Return the summed gap of every bin of every class; sums of several blocks add up."""
    whole_number(bins, "bins", least=1)
    cells = scored.n_classes * bins
    sums = np.zeros(cells)
    for rows in row_blocks(scored.proba):
        residual = scored.proba[rows].copy()
        # Bin j of class k is cell k * bins + j of one long table.
        cell = equal_width(residual, bins) + bins * np.arange(scored.n_classes)
        residual[np.arange(len(residual)), scored.labels[rows]] -= 1.0
        sums += bin_sums(cell.ravel(), residual.ravel(), cells)
    return sums


def classwise_ece_from(sums: FloatArray, n: int, n_classes: int) -> float:
    """Return the classwise error of n samples from their :func:`classwise_sums`."""
    return _mean_absolute(sums, n) / n_classes


@measure
def classwise_ece(scored: Scored, *, bins: int = DEFAULT_BINS) -> float:
    """Classwise calibration error: that of :func:`ece` for each column, averaged.

    ``(1/C) sum_k sum_B |sum_{i in B} (p_ik - 1[y_i = k])| / n``, where B runs over the
    equal-width bins of column k and every sample is in one of them. Classes without a sample
    count too.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.
    bins : int, default 15
        Number of bins.

    Returns
    -------
    float
        Between 0 and 1; small when C is large, since most probabilities are near 0.

    Examples
    --------
    >>> round(classwise_ece([0, 1], [[0.9, 0.1], [0.7, 0.3]]), 4)
    0.4
    """
    return classwise_ece_from(classwise_sums(scored, bins=bins), scored.n, scored.n_classes)


def _mean_absolute(sums: FloatArray, n: int) -> float:
    return float(np.abs(sums).sum() / n)


def mean_noise(confidence: FloatArray, *, bins: int = DEFAULT_BINS) -> float:
    """Return the ECE that a perfectly calibrated model would show on average, without simulating.

    The number of right predictions in a bin varies as its confidences say, nearly normally.

    Examples
    --------
    >>> round(mean_noise(np.full(100, 0.8)), 3)  # sqrt(2 / pi) times 0.4 / sqrt(100)
    0.032
    """
    variance = bin_sums(equal_width(confidence, bins), confidence * (1 - confidence), bins)
    return float(math.sqrt(2 / math.pi) * np.sqrt(variance).sum() / len(confidence))

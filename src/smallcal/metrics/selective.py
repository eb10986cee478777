"""How well the confidence ranks right above wrong: AUROC, risk-coverage curve, selective risk.

Samples are ranked by their log-odds, which tells apart confidences that all round to 1.0.
Samples of equal rank are averaged over all orders they could stand in, so that no result
depends on the order of the samples.
"""

from __future__ import annotations

import numpy as np

from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError
from smallcal.metrics.binned import bin_sums
from smallcal.metrics.measure import measure
from smallcal.metrics.scored import Scored

DEFAULT_COVERAGE = 0.8

# The doubt is a sum, whose last digits depend on the order of the classes; log-odds that
# agree to this many decimals are the same confidence.
_TIE_DECIMALS = 10


@measure
def auroc_of_correctness(scored: Scored) -> float:
    """Area under the ROC curve of the confidence as a score for being correct.

    The chance that a right prediction is more confident than a wrong one, ties counting one
    half: ``P(c_right > c_wrong) + P(c_right = c_wrong) / 2``.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.

    Returns
    -------
    float
        Between 0 and 1; NaN when all predictions are right or all are wrong.

    Examples
    --------
    >>> auroc_of_correctness([0, 0, 1], [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]])
    0.5
    """
    size, wrong = _sizes_and_errors(scored)
    right = size - wrong
    pairs = float(right.sum() * wrong.sum())
    if pairs == 0:
        return float("nan")
    wrong_below = wrong.sum() - np.cumsum(wrong)
    return float(right @ (wrong_below + wrong / 2) / pairs)


@measure
def aurc(scored: Scored) -> float:
    """Area under the risk-coverage curve.

    ``(1/n) sum_k r_k``, where r_k is the error rate among the k most confident samples.

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
    >>> round(aurc([0, 0, 1], [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]), 4)
    0.2778
    """
    return float(selective_risks_of(scored).mean())


@measure
def eaurc(scored: Scored) -> float:
    """Excess area under the risk-coverage curve: :func:`aurc` minus the least possible.

    The least possible ranks all right predictions before all wrong ones:
    ``(1/n) sum_{k > R} (k - R) / k`` with R right predictions (the finite sum, not its limit).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.

    Returns
    -------
    float
        0 when every right prediction is more confident than every wrong one.

    Examples
    --------
    >>> round(eaurc([0, 0, 1], [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]), 4)
    0.1667
    """
    right = int(scored.correct.sum())
    kept = np.arange(right + 1, scored.n + 1)
    best = float(((kept - right) / kept).sum()) / scored.n
    return max(0.0, aurc.of(scored) - best)


@measure
def selective_risk(scored: Scored, *, coverage: float = DEFAULT_COVERAGE) -> float:
    """Error rate among the most confident share of the samples.

    ``r_k`` of :func:`aurc` at k = coverage * n, rounded to the nearest whole number and from
    the middle to the even one (2.5 to 2).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.
    coverage : float, default 0.8
        The share that is kept, above 0 and at most 1.

    Returns
    -------
    float
        Between 0 and 1; NaN when k rounds to 0.

    Examples
    --------
    >>> y_proba = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]
    >>> selective_risk([0, 0, 1], y_proba, coverage=0.6)
    0.5
    """
    if not 0 < coverage <= 1:
        raise InputError(
            f"coverage must lie above 0 and not above 1; got {coverage!r}", code="option-range"
        )
    kept = round(float(coverage) * scored.n)
    return float(_expected_errors(scored)[kept - 1] / kept) if kept else float("nan")


def selective_risks_of(scored: Scored) -> FloatArray:
    """Return the error rate among the k most confident samples, for k = 1 .. n.

    Examples
    --------
    >>> scored = Scored.of([0, 0, 1], [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]])
    >>> selective_risks_of(scored).round(3).tolist()
    [0.0, 0.5, 0.333]
    """
    return _expected_errors(scored) / np.arange(1, scored.n + 1)


def confidence_blocks(scored: Scored) -> IntArray:
    """Return each sample's group of equal confidence, 0 for the most confident."""
    score = np.round(scored.log_odds, _TIE_DECIMALS)
    return np.asarray(np.unique(-score, return_inverse=True)[1], dtype=np.int64)


def _sizes_and_errors(scored: Scored) -> tuple[FloatArray, FloatArray]:
    """Return size and errors of each group of equal samples, the most confident first."""
    block = confidence_blocks(scored)
    size = np.bincount(block).astype(np.float64)
    return size, size - bin_sums(block, scored.correct.astype(np.float64), len(size))


def _expected_errors(scored: Scored) -> FloatArray:
    """Return, for k = 1 .. n, the expected number of errors among the k most confident."""
    size, wrong = _sizes_and_errors(scored)
    return np.cumsum(np.repeat(wrong / size, size.astype(np.int64)))

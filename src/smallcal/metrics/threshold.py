"""Metrics of a confidence threshold, and the average overconfidence."""

from __future__ import annotations

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.metrics.measure import mean, measure
from smallcal.metrics.scored import Scored

DEFAULT_THRESHOLD = 0.9

#: Thresholds, in percent, of the metrics ``hcfp90``, ``hcfp95`` and ``hcfp99``.
HCFP_PERCENTS = (90, 95, 99)


@measure
def hcfp(scored: Scored, *, threshold: float = DEFAULT_THRESHOLD) -> float:
    """High-confidence false predictions: the share of errors made with high confidence.

    ``#{i wrong and c_i >= t} / #{i wrong}``.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.
    threshold : float, default 0.9
        t, between 0 and 1.

    Returns
    -------
    float
        Between 0 and 1; NaN when no prediction is wrong.

    Examples
    --------
    >>> hcfp([0, 0, 1], [[0.9, 0.1], [0.4, 0.6], [0.95, 0.05]])
    0.5
    """
    _require_threshold(threshold)
    wrong = scored.confidence[~scored.correct]
    return float((wrong >= threshold).mean()) if len(wrong) else float("nan")


@measure
def risk_at_threshold(scored: Scored, *, threshold: float = DEFAULT_THRESHOLD) -> float:
    """Error rate among the predictions that reach a confidence threshold.

    ``#{i wrong and c_i >= t} / #{c_i >= t}``. :func:`coverage_at_threshold` says how many
    those are.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.
    threshold : float, default 0.9
        t, between 0 and 1.

    Returns
    -------
    float
        Between 0 and 1; NaN when no prediction reaches the threshold.

    Examples
    --------
    >>> risk_at_threshold([0, 0, 1], [[0.9, 0.1], [0.4, 0.6], [0.95, 0.05]])
    0.5
    """
    _require_threshold(threshold)
    kept = scored.correct[scored.confidence >= threshold]
    return float((~kept).mean()) if len(kept) else float("nan")


@measure
def coverage_at_threshold(scored: Scored, *, threshold: float = DEFAULT_THRESHOLD) -> float:
    """Share of predictions that reach a confidence threshold.

    ``#{c_i >= t} / n``. The labels are checked and not used.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.
    threshold : float, default 0.9
        t, between 0 and 1.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> coverage_at_threshold([0, 1], [[0.9, 0.1], [0.4, 0.6]])
    0.5
    """
    _require_threshold(threshold)
    return float((scored.confidence >= threshold).mean())


@mean
def confidence_gap(scored: Scored) -> FloatArray:
    """Mean confidence minus accuracy.

    ``mean_i (c_i - b_i)``: positive for an overconfident model, negative for an underconfident one.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.

    Returns
    -------
    float
        Between -1 and 1.

    Examples
    --------
    >>> round(confidence_gap([0, 1], [[0.9, 0.1], [0.7, 0.3]]), 4)
    0.3
    """
    return scored.residual


def _require_threshold(threshold: float) -> None:
    if not 0 <= threshold <= 1:
        raise InputError(
            f"threshold must lie between 0 and 1; got {threshold!r}", code="option-range"
        )

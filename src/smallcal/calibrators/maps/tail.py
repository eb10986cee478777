"""A temperature for the classes that are not predicted.

The log-loss of any calibrated prediction splits exactly: -log p_y is the top-label cross-entropy,
plus, where the prediction is wrong, -log r_y, with r the distribution over the other classes. The
routed temperature decides the first term; a second one, fitted on the wrong samples alone,
decides the second, and the confidence does not change at all.
"""

from __future__ import annotations

import numpy as np

from smallcal.calibrators.maps.temperature import Prior, fit_temperature
from smallcal.calibrators.objectives import OBJECTIVES, Gaps
from smallcal.data.predictions import Predictions

#: Scale of the prior that draws the tail's log-temperature towards the pooled one.
TAIL_SCALE = 0.25


def tail_temperature(preds: Predictions, pooled: float, *, bounds: tuple[float, float]) -> float:
    """Fit the temperature of the classes not predicted, by log-likelihood, on wrong samples.

    Without a wrong sample it is the pooled one.

    Examples
    --------
    >>> preds = Predictions.of(np.tile([5.0, 1.0, 0.0], (20, 1)), [1] * 15 + [2] * 5)
    >>> 0.8 < tail_temperature(preds, 1.0, bounds=(0.05, 20.0)) < 1.1
    True
    """
    wrong = np.flatnonzero(~preds.correct)
    if preds.weight is not None:
        wrong = wrong[preds.weight[wrong] > 0]
    if not len(wrong):
        return pooled
    logits, predicted = preds.logits[wrong].astype(np.float64), preds.predicted[wrong]
    keep = np.ones(logits.shape, dtype=bool)
    keep[np.arange(len(wrong)), predicted] = False
    others = logits[keep].reshape(len(wrong), -1)
    labels = preds.labels[wrong]
    rest = Predictions(
        logits=others,
        labels=labels - (labels > predicted),  # columns after the prediction moved up by one
        squared_norms=np.zeros(len(wrong)),
        weight=None if preds.weight is None else preds.weight[wrong],
    )
    prior = Prior(pooled, TAIL_SCALE)
    return fit_temperature(OBJECTIVES["nll"], Gaps.of(rest), bounds=bounds, prior=prior).value

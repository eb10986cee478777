"""Probabilities of exactly 0, as forests and nearest neighbours give them."""

from __future__ import annotations

import numpy as np

from smallcal.data.checks import PROBABILITY_FLOOR
from smallcal.data.predictions import FloatArray


def floor_of(proba: FloatArray) -> float:
    """Return what a probability of 0 is taken for: half the smallest that is not 0.

    No vote of a hundred trees means less than one vote, not never. Taken as never, a single
    such sample would decide the whole fit.

    Examples
    --------
    >>> floor_of(np.array([[1.0, 0.0], [0.99, 0.01]]))
    0.005
    """
    positive = proba[proba > 0]
    return max(float(positive.min()) / 2, PROBABILITY_FLOOR) if positive.size else PROBABILITY_FLOOR


def floored(proba: FloatArray, floor: float) -> FloatArray:
    """Return probabilities that are nowhere below a floor; rows sum to 1.

    Examples
    --------
    >>> floored(np.array([[1.0, 0.0], [0.5, 0.5]]), 0.25).tolist()
    [[0.8, 0.2], [0.5, 0.5]]
    """
    raised = np.maximum(proba, floor)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))

"""Calibrate scores as the one number they are: no second column, nothing that leaves the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from smallcal.calibrators.maps import FittedMap, TemperatureMap
from smallcal.calibrators.objectives import sigmoid
from smallcal.calibrators.signals import FittedSignal, NoSignal
from smallcal.data.predictions import FloatArray
from smallcal.data.score import ScoreScale

#: Scores that are calibrated at once.
_AT_ONCE = 2**14


@runtime_checkable
class OfOneNumber(Protocol):
    """A map of two classes that needs their difference alone."""

    def probability(self, x: FloatArray, /) -> FloatArray:
        """Return the probability of the second class at x = z1 - z0, float64, shape (m,)."""


def of_one_number(
    fitted_map: FittedMap, signal: FittedSignal
) -> Callable[[FloatArray], FloatArray] | None:
    """Return what gives the probability of outcome 1 at x, where no second column is needed."""
    if isinstance(fitted_map, OfOneNumber):
        return fitted_map.probability
    if not isinstance(fitted_map, TemperatureMap) or not isinstance(signal, NoSignal):
        return None
    (temperature,) = fitted_map(np.zeros(1))
    # Two classes have no tail: whatever its temperature, what one lacks the other has.
    return lambda x: sigmoid(x / temperature)


def applied(
    probability: Callable[[FloatArray], FloatArray], scale: ScoreScale, scores: object
) -> FloatArray:
    """Return the probabilities of scores, block after block.

    Examples
    --------
    >>> applied(sigmoid, ScoreScale("probability"), [0.25, 0.5]).round(6).tolist()
    [0.25, 0.5]
    """
    given = scale.checked(scores)
    result = np.empty(len(given))
    for start in range(0, len(given), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        result[rows] = probability(scale.log_odds(given[rows]))
    return result

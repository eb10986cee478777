"""Whether a split says that confidences should change at all, and how far.

A fit always finds something to improve on the samples it sees. The log-likelihood ratio of those
samples, after against before, says how much; leaving the model alone is the better bet while it is
small, however good the calibrator, because then what was improved is mostly chance.

A gate makes that a yes or a no (``gate="evidence"``) or a matter of degree (``gate="weight"``):
there the raw model and the fitted one are weighed against each other by Akaike's criterion, and
what the fit changes is taken at the share that its weight is.
"""

from __future__ import annotations

import math

import numpy as np

from smallcal.calibrators.maps.base import FittedMap, TemperatureMap
from smallcal.calibrators.objectives import Gaps, log_odds, softplus
from smallcal.data.predictions import FloatArray

#: The samples must be at least this many times as likely after calibration as before ...
LEAST_RATIO = 15.0
#: ... and more when there are many: with them more of the parameters come to life, and what those
#: find by chance grows. The price is that of three parameters in Schwarz's criterion (half a log n
#: each), counted from this many samples on.
PARAMETERS = 3
FREE_SAMPLES = 25


def evidence_needed(n_samples: float) -> float:
    """Return the log-likelihood ratio from which a change is worth making.

    Examples
    --------
    >>> [round(float(np.exp(evidence_needed(n)))) for n in (20, 100, 250, 2500)]
    [15, 15, 32, 1000]
    """
    price = PARAMETERS / 2 * math.log(max(n_samples, FREE_SAMPLES) / FREE_SAMPLES)
    return max(price, math.log(LEAST_RATIO))


def weight_of_change(gain: float, freedom: float) -> float:
    """Return Akaike's weight of a fit against the raw model, between 0 and 1.

    Parameters
    ----------
    gain : float
        By how much the fit raises the log-likelihood.
    freedom : float
        The effective number of parameters: what chance alone would gain.

    Examples
    --------
    >>> [round(weight_of_change(gain, 2.0), 2) for gain in (0, 2, 5, 1000)]
    [0.12, 0.5, 0.95, 1.0]
    """
    return 1 / (1 + math.exp(min(freedom - gain, 700.0)))


def evidence(gaps: Gaps, fitted: FittedMap, scores: FloatArray) -> float:
    """Return by how much a map raises the log-likelihood of being right, or wrong, in the fit."""
    assert isinstance(fitted, TemperatureMap)
    before, after = log_odds(gaps, 1.0), log_odds(gaps, 1 / fitted(scores))
    sign = np.where(gaps.correct, -1.0, 1.0)
    gain = softplus(sign * before) - softplus(sign * after)
    return float(gaps.weights @ gain)

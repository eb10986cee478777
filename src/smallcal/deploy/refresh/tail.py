"""The power of the other classes' proportions, from rows whose prediction is wrong.

Which of the other classes is the true one has nothing to do with whether the prediction is right:
their log-losses add up. So this power is found by itself, the same way as slope and bias: normal in
its logarithm around 0, as sure as the old split was, and less so by what may have moved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy

from smallcal.calibrators.evidence import EXPONENTS, UNIT, Evidence
from smallcal.data.checks import FloatArray

#: What is new is taken where it makes all new rows together likelier by this much, in nats.
WORTH = 0.5

#: Logarithms of powers, so close that sums over them are integrals.
_FINE = np.linspace(EXPONENTS[0], EXPONENTS[-1], 1201)
_ENDS = (0.025, 0.975)


class Tail(NamedTuple):
    """What is believed of the power.

    Attributes
    ----------
    power : float
    interval : (float, float)
        95 %.
    rows : int
        New rows whose prediction is wrong.
    before, after : float
        Mean log-loss of their true class among the others: as it is, and with the power, less what
        a row gains by having taught it.
    """

    power: float = 1.0
    interval: tuple[float, float] = (1.0, 1.0)
    rows: int = 0
    before: float = 0.0
    after: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {**self._asdict(), "interval": list(self.interval)}

    @property
    def better(self) -> bool:
        """Whether the new rows are likelier with it."""
        return self.rows * (self.before - self.after) > WORTH


def tail_of(evidence: Evidence, wrong: float, scales: tuple[FloatArray, FloatArray]) -> Tail:
    """Return what new rows say of the power.

    Parameters
    ----------
    evidence : Evidence
    wrong : float
        Wrong predictions to be expected among the rows of the fit.
    scales : (array, array)
        How far the power may have moved, in its logarithm, and the logarithm of how likely that is.

    Examples
    --------
    >>> tail_of(Evidence(), 10.0, (np.array([0.1]), np.array([0.0]))).power
    1.0
    """
    n = evidence.rows - evidence.held
    if not evidence.tail or not n:
        return Tail()
    told = evidence.spread / UNIT / evidence.rows
    losses = scipy.interpolate.CubicSpline(
        EXPONENTS, np.array(evidence.tail, dtype=np.float64) / UNIT
    )(_FINE)
    moves, chances = scales
    variance = (1 / (wrong * told + 1) + moves**2)[:, None]
    each = chances[:, None] - _FINE**2 / variance / 2 - np.log(variance) / 2
    log = np.logaddexp.reduce(each, axis=0) - losses
    share = np.exp(log - log.max())
    share /= share.sum()
    mean = float(share @ _FINE)
    spread = float(share @ (_FINE - mean) ** 2)
    low, high = np.exp(np.interp(_ENDS, np.cumsum(share), _FINE)).tolist()
    # Left out of what it is judged by, a row loses what it tells times how uncertain the power is.
    taught = n * told * np.exp(2 * mean) * spread
    after = float(np.interp(mean, _FINE, losses)) + taught
    before = float(np.interp(0.0, _FINE, losses))
    return Tail(float(np.exp(mean)), (low, high), n, before / n, float(after) / n)

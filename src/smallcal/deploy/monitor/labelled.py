"""Evidence that calibrated confidence and accuracy differ by more than a tolerance.

The residual r = correct - confidence lies in [-1, 1]. If its mean is at most m, then for every bet
l in [0, 1) the product of 1 + l x over rows, x = (r - m) / (1 + m) >= -1, is a nonnegative
supermartingale: the capital of someone who bets that the mean is larger. It is never less than
exp(l Σx - psi(l) Σx²) with psi(l) = -log(1 - l) - l, which needs the sums alone: so rows can be
added up in any order, those since a start of :mod:`smallcal.deploy.monitor.state` are a difference
of sums, and any m can be asked about afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from smallcal.data.predictions import BoolArray, FloatArray

#: Residuals are kept in whole multiples of 1 / UNIT, so that sums do not depend on their order.
UNIT = 2**20

#: The bets: from those that settle it in a few dozen rows to those for a hundred million.
_BETS = 0.5 ** np.arange(1, 14)
_COSTS = -np.log1p(-_BETS) - _BETS

#: Rows whose squared residuals can be added up in 64 bits.
_BLOCK = 2**20

#: An end of an interval is looked for among so many points, so many times ever nearer.
_POINTS, _ZOOMS = 65, 5


@dataclass(frozen=True)
class Gap:
    """Sums of residuals: rows, residuals in 1 / UNIT, squares in 1 / UNIT².

    Examples
    --------
    >>> gap = Gap.of(np.array([True, False]), np.array([0.75, 0.25]))
    >>> gap.n, gap.mean
    (2, 0.0)
    """

    n: int = 0
    total: int = 0
    squares: int = 0

    @classmethod
    def of(cls, correct: BoolArray, confidence: FloatArray) -> Gap:
        """Sum up rows."""
        units = np.rint((correct - confidence) * UNIT).astype(np.int64)
        blocks = [units[i : i + _BLOCK] for i in range(0, len(units), _BLOCK)]
        return cls(
            len(units),
            sum(int(block.sum()) for block in blocks),
            sum(int((block**2).sum()) for block in blocks),
        )

    def __add__(self, other: Gap) -> Gap:
        return Gap(self.n + other.n, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float:
        """Accuracy minus mean confidence."""
        return self.total / UNIT / self.n if self.n else math.nan


def log_evidence(gap: Gap, tolerance: float) -> float:
    """Return the log of the e-value against "the mean gap lies within the tolerance".

    Examples
    --------
    >>> abs(log_evidence(Gap(), 0.02)) < 1e-12
    True
    >>> over_confident = Gap.of(np.arange(1000) % 2 == 0, np.full(1000, 0.6))
    >>> log_evidence(over_confident, 0.02) > math.log(100)
    True
    """
    larger = _log_capital(gap.n, gap.total, gap.squares, np.array([tolerance]))
    smaller = _log_capital(gap.n, -gap.total, gap.squares, np.array([tolerance]))
    return float(np.logaddexp(larger, smaller)[0] - math.log(2))


def confidence_sequence(gap: Gap, alpha: float) -> tuple[float, float]:
    """Return an interval that holds the mean gap at every look at once, with chance 1 - alpha.

    Examples
    --------
    >>> confidence_sequence(Gap(), 0.05)
    (-1.0, 1.0)
    >>> low, high = confidence_sequence(Gap(10_000, 0, 1200 * UNIT**2), 0.05)
    >>> low < 0 < high and high - low < 0.03
    True
    """
    return _lowest(gap.n, gap.total, gap.squares, alpha), -_lowest(
        gap.n, -gap.total, gap.squares, alpha
    )


def labels_to_bound(tolerance: float, confidence: float, alpha: float) -> int:
    """Return about how many labelled rows pin the gap down to the tolerance.

    ``confidence`` is the mean one: right or wrong then varies by at most c (1 - c).

    Examples
    --------
    >>> labels_to_bound(0.02, 0.8, 0.01) < labels_to_bound(0.01, 0.8, 0.01)
    True
    """
    variance = _variance(confidence)
    return _fewest(lambda n: -_lowest(n, 0, round(n * variance * UNIT**2), alpha) <= tolerance)


def labels_to_show(gap: float, tolerance: float, confidence: float, alpha: float) -> int:
    """Return about how many labelled rows set off the alarm when the gap is this large.

    Examples
    --------
    >>> labels_to_show(0.06, 0.02, 0.8, 0.01) < labels_to_bound(0.02, 0.8, 0.01)
    True
    """
    square = _variance(confidence) + gap**2

    def shown(n: int) -> bool:
        sums = Gap(n, round(n * gap * UNIT), round(n * square * UNIT**2))
        return log_evidence(sums, tolerance) >= -math.log(alpha)

    return _fewest(shown)


def _variance(confidence: float) -> float:
    return max(confidence * (1 - confidence), 0.01)


def _fewest(enough: Callable[[int], bool]) -> int:
    """Return the smallest number that is enough, to about a hundredth, rounded up to tens."""
    low, high = 1.0, 30.0  # powers of two
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(round(2**middle)) else (middle, high)
    return math.ceil(2**high / 10) * 10


def _lowest(n: int, total: int, squares: int, alpha: float) -> float:
    """Return the lowest mean that is not yet refuted, half of alpha spent."""
    limit = math.log(2 / alpha)
    low, high = -0.999, 1.0  # the highest is never refuted
    for _ in range(_ZOOMS):
        grid = np.linspace(low, high, _POINTS)
        refuted = _log_capital(n, total, squares, grid) >= limit
        first = int(np.argmin(refuted))  # of those that are not
        if first == 0:
            return -1.0 if low == -0.999 else float(low)
        low, high = float(grid[first - 1]), float(grid[first])
    return low


def _log_capital(n: int, total: int, squares: int, means: FloatArray) -> FloatArray:
    """Return the log of the mean capital of all bets that the mean is larger than each given."""
    mean, square = total / UNIT, squares / UNIT**2
    won = (mean - n * means) / (1 + means)
    spread = (square - 2 * means * mean + n * means**2) / (1 + means) ** 2
    logs = won[:, None] * _BETS - spread[:, None] * _COSTS
    return np.asarray(np.logaddexp.reduce(logs, axis=1) - math.log(len(_BETS)))

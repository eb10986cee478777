"""The one-dimensional fit every temperature comes from: safeguarded Newton in log 1/T.

The derivative's sign brackets the minimum, Newton steps shrink the bracket, and a step that
leaves it or does not at least halve the last one is replaced by bisection: the iteration
cannot fail, and usually needs six evaluations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smallcal.data import FloatArray
from smallcal.objectives import Gaps, Moments, Objective, Terms, moments

#: Confidences beyond 1 - PLATEAU count as certain where there are no errors.
PLATEAU = 1e-12

#: Newton converges quadratically: a step this small leaves an error near its square.
_LAST_STEP = 1e-6
_WIDTH = 1e-10
_SCAN_POINTS = 33


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature and what must be known about it."""

    value: float
    at_bound: bool = False
    unidentified: bool = False
    evaluations: int = 0


def fit_temperature(
    objective: Objective,
    gaps: Gaps,
    *,
    bounds: tuple[float, float],
    start: float = 1.0,
) -> Temperature:
    """Minimise an objective in one temperature shared by all samples.

    Parameters
    ----------
    objective : Objective
    gaps : Gaps
    bounds : tuple of two floats
        Allowed temperatures.
    start : float
        Where to begin, for objectives with one minimum; the others are scanned.

    Returns
    -------
    Temperature
        To a relative 1e-9 or better. Samples that are all right or all wrong do not identify
        a temperature; the result then follows a stated convention and is flagged.
    """
    if gaps.weight is not None and not gaps.weight.all():
        gaps = gaps.take(gaps.weight > 0)
    right = gaps.correct
    if right.all():
        return plateau_temperature(gaps, bounds=bounds)
    if not right.any():
        # The more uniform the better, for every objective: the upper bound is the minimum.
        return Temperature(bounds[1], at_bound=True, unidentified=True)
    low, high = -math.log(bounds[1]), -math.log(bounds[0])
    search = _Search(objective, gaps)
    begin = min(max(-math.log(start), low), high)
    if objective.unimodal:
        u = _descend(search, begin, low, high)
    else:
        _, below, above = _scan(search, low, high)
        best, *bracket = _scan(search, below, above)
        # A rippled loss may have its slope's zero beside the dip that the scan found.
        u = min(best, _descend(search, best, *bracket), key=lambda v: search(v)[0])
    at_bound = u in (low, high)
    # At a bound give the bound itself, not its logarithm's exponential.
    value = bounds[1] if u == low else bounds[0] if u == high else math.exp(-u)
    return Temperature(value, at_bound=at_bound, evaluations=search.evaluations)


class _Search:
    """An objective as a function of u = log 1/T, counting its evaluations."""

    def __init__(self, objective: Objective, gaps: Gaps) -> None:
        self.objective = objective
        self.gaps = gaps
        self.evaluations = 0

    def __call__(self, u: float) -> tuple[float, float, float]:
        """Return mean loss, first and second derivative in u."""
        self.evaluations += 1
        beta = math.exp(u)
        terms = self.objective.terms(self.gaps, moments(self.gaps, beta))
        loss, slope, curvature = (_average(part, self.gaps.weight) for part in _parts(terms))
        return loss, beta * slope, beta * beta * curvature + beta * slope


def _parts(terms: Terms) -> tuple[FloatArray, FloatArray, FloatArray]:
    return terms.loss, terms.slope, terms.curvature


def _average(values: FloatArray, weight: FloatArray | None) -> float:
    if weight is None:
        return float(values.mean())
    return float(weight @ values / weight.sum())


def _descend(search: _Search, u: float, low: float, high: float) -> float:
    """Find where the slope changes sign between ``low`` and ``high``, or the bound it points to."""
    open_ends = {low, high}  # bounds not looked at yet
    last = high - low
    for _ in range(200):
        _, slope, curvature = search(u)
        if u in open_ends and (slope >= 0 if u == low else slope <= 0):
            return u
        open_ends.discard(u)
        if slope == 0:
            return u
        low, high = (low, u) if slope > 0 else (u, high)
        step = -slope / curvature if curvature > 0 else math.copysign(math.inf, -slope)
        newton = u + step
        if low < newton < high and abs(step) < 0.5 * last:
            if abs(step) < _LAST_STEP:
                return newton
            nxt = newton
        else:
            beyond = low if slope > 0 else high
            nxt = beyond if beyond in open_ends and not low < newton < high else (low + high) / 2
        if high - low < _WIDTH:
            break
        last, u = abs(nxt - u), nxt
    return u


def _scan(search: _Search, low: float, high: float) -> tuple[float, float, float]:
    """Return the best grid point and its neighbours, for objectives with several minima."""
    grid = [float(u) for u in np.linspace(low, high, _SCAN_POINTS)]
    best = min(range(len(grid)), key=lambda i: search(grid[i])[0])
    return grid[best], grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]


def plateau_temperature(gaps: Gaps, *, bounds: tuple[float, float]) -> Temperature:
    """Return the temperature of a group without errors.

    Its loss falls as T falls, for ever. With confidences counted as certain from 1 - 1e-12 on,
    all temperatures below some value are equally good; the largest of them is taken, so the
    answer does not depend on where an optimiser happens to stop.
    """
    target = math.log1p(-PLATEAU) - math.log(PLATEAU)
    low, high = 1 / bounds[1], 1 / bounds[0]
    # The least certain sample's log-odds are concave and increasing in 1/T: Newton from the
    # left never overshoots.
    beta, evaluations = low, 0
    while beta < high:
        state = moments(gaps, beta)
        evaluations += 1
        shortfall, rate = _shortfall(state, target)
        if shortfall <= 1e-12 * target:
            break
        beta = high if rate <= 0 else min(high, beta + shortfall / rate)
    value = bounds[1] if beta == low else bounds[0] if beta == high else 1 / beta
    return Temperature(
        value, at_bound=beta in (low, high), unidentified=True, evaluations=evaluations
    )


def _shortfall(state: Moments, target: float) -> tuple[float, float]:
    weakest = int(np.argmin(state.log_odds))
    return target - float(state.log_odds[weakest]), -float(state.mean[weakest])

"""One temperature for every sample, and the search that every temperature comes from.

The derivative's sign brackets the minimum. Each evaluation gives slope and curvature, and from
the last two of them inverse Hermite interpolation predicts where the slope vanishes, with an
error near (this step x last step)²; alone, the first one gives Newton's step. A prediction that
leaves the bracket, or a step that does not at least halve the last one, is replaced by
bisection: the iteration cannot fail, and usually needs four evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps.base import MapFit, Split, TemperatureMap, recipe
from smallcal.calibrators.objectives import OBJECTIVES, Gaps, Moments, Objective, Terms, moments
from smallcal.calibrators.parts import Rule, rule
from smallcal.calibrators.program import Row, Value
from smallcal.data.predictions import FloatArray, IntArray, Predictions
from smallcal.errors import InputError

#: No temperature is lower: divided by it, the largest logits stay finite, in float32 too.
LEAST_TEMPERATURE = 1e-20

#: Confidences beyond 1 - PLATEAU count as certain where there are no errors.
PLATEAU = 1e-12

#: When the product of the last two steps is this small, the next prediction's error is near its
#: square, well below the promised 1e-8.
_LAST_PRODUCT = 2e-5
_WIDTH = 1e-10
_SCAN_POINTS = 33


#: Where a prior is asked for, the pooled temperature is drawn towards the one that is best by
#: log-likelihood, at this scale: that one sees which class was right, not only whether the
#: prediction was, and so is steadier when there are few errors.
POOLED_SCALE = 0.05

#: Scale of the weak prior that draws the logarithm of that one towards 0: no matter at a hundred
#: samples, and an answer where there are ten, or no errors.
ANCHOR_SCALE = 1.0


class Prior(NamedTuple):
    """A normal prior on the logarithm of a temperature."""

    temperature: float
    scale: float


@dataclass(frozen=True, eq=False)
class Evaluated:
    """An objective's terms at one temperature: where a search stopped, or may begin."""

    temperature: float
    terms: Terms

    def take(self, rows: IntArray) -> Evaluated:
        """Return the terms of some rows."""
        return Evaluated(self.temperature, Terms(*(part[rows] for part in self.terms)))


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature and what must be known about it.

    ``last`` is the search's last evaluation, next to the answer; searches in parts of the same
    data begin there.
    """

    value: float
    at_bound: bool = False
    unidentified: bool = False
    evaluations: int = 0
    last: Evaluated | None = None


def fit_temperature(
    objective: Objective,
    gaps: Gaps,
    *,
    bounds: tuple[float, float],
    start: Evaluated | None = None,
    prior: Prior | None = None,
) -> Temperature:
    """Minimise an objective in one temperature shared by all samples.

    Parameters
    ----------
    objective : Objective
    gaps : Gaps
    bounds : tuple of two floats
        Allowed temperatures.
    start : Evaluated, optional
        This objective's terms of these samples somewhere near, if they are known already.
    prior : Prior, optional
        Draws the temperature towards another one, the more so the fewer the samples. With it,
        every split identifies a temperature.

    Returns
    -------
    Temperature
        To a relative 1e-8 or better. Samples that are all right or all wrong do not identify
        a temperature; the result then follows a stated convention and is flagged.
    """
    if gaps.weight is not None and not gaps.weight.all():
        rows = gaps.take(np.flatnonzero(gaps.weight))
        # Terms of these rows alone are no beginning for a search among all of them.
        return replace(fit_temperature(objective, rows, bounds=bounds, prior=prior), last=None)
    if prior is None and gaps.correct.all():
        return plateau_temperature(gaps, bounds=bounds)
    if prior is None and not gaps.correct.any():
        # The more uniform the better, for every objective: the upper bound is the minimum.
        return Temperature(bounds[1], at_bound=True, unidentified=True)
    low, high = -math.log(bounds[1]), -math.log(bounds[0])
    search = _Search(objective, gaps, prior)
    if objective.unimodal:
        u = _descend(search, search.begin(start, low, high), low, high)
    else:
        u = _descend_from_best(search, low, high)
    # At a bound give the bound itself, not its logarithm's exponential.
    value = bounds[1] if u == low else bounds[0] if u == high else math.exp(-u)
    at_bound = u in (low, high)
    return Temperature(value, at_bound, evaluations=search.evaluations, last=search.last)


def pooled_prior(
    goal: Objective, gaps: Gaps, raw: Moments, *, bounds: tuple[float, float]
) -> Prior:
    """Return what draws the one temperature for all, where a prior is asked for.

    It is drawn towards the one that is best by log-likelihood, and that one towards 1. ``raw``
    are the moments at temperature 1, where the search begins.
    """
    anchor = Prior(1.0, ANCHOR_SCALE)
    if goal.name == "nll":
        return anchor
    nll = OBJECTIVES["nll"]
    start = Evaluated(1.0, nll.terms(gaps, raw))
    found = fit_temperature(nll, gaps, bounds=bounds, start=start, prior=anchor)
    return Prior(found.value, POOLED_SCALE)


def split_of(
    logits: object, labels: object, goal: str = "nll", scores: FloatArray | None = None
) -> Split:
    """Return a split with the usual discipline, to try a map on; without scores, all 0."""
    preds = Predictions.of(logits, labels, input="logits")
    care, chosen = Discipline(), OBJECTIVES[goal]
    gaps = Gaps.of(preds)
    pooled = fit_temperature(chosen, gaps, bounds=care.bounds)
    return Split(preds, gaps, chosen, pooled, np.zeros(gaps.n) if scores is None else scores, care)


class _Point(NamedTuple):
    """Mean loss with two derivatives at u."""

    u: float
    loss: float
    slope: float
    curvature: float


@dataclass(eq=False)
class _Search:
    """An objective as a function of u = log 1/T, counting its evaluations."""

    objective: Objective
    gaps: Gaps
    prior: Prior | None
    evaluations: int = 0
    last: Evaluated | None = None

    def __call__(self, u: float, terms: Terms | None = None) -> _Point:
        """Return the point at u, at no cost when its terms are known."""
        beta = math.exp(u)
        if terms is None:
            terms = self.objective.terms(self.gaps, moments(self.gaps, beta))
            self.evaluations, self.last = self.evaluations + 1, Evaluated(math.exp(-u), terms)
        share = self.gaps.weights / self.gaps.total
        loss, slope, curvature = (float(share @ part) for part in terms)
        point = _Point(u, loss, beta * slope, beta * beta * curvature + beta * slope)
        return point if self.prior is None else self._drawn(point, self.prior)

    def _drawn(self, point: _Point, prior: Prior) -> _Point:
        # The prior is one term beside the sum over samples, so it counts 1/n in the mean.
        pull = 1 / (prior.scale**2 * self.gaps.total)
        away = point.u + math.log(prior.temperature)
        return _Point(
            point.u,
            point.loss + pull * away**2 / 2,
            point.slope + pull * away,
            point.curvature + pull,
        )

    def begin(self, start: Evaluated | None, low: float, high: float) -> _Point:
        """Return the point where a search begins: within bounds, and known if it can be."""
        u = 0.0 if start is None else -math.log(start.temperature)
        known = start.terms if start is not None and low <= u <= high else None
        return self(min(max(u, low), high), known)


def _descend(search: _Search, point: _Point, low: float, high: float) -> float:
    """Find where the slope changes sign between ``low`` and ``high``, or the bound it points to."""
    open_ends = {low, high}  # bounds not looked at yet
    last: _Point | None = None
    last_step = high - low
    for _ in range(200):
        u, slope = point.u, point.slope
        if u in open_ends and (slope >= 0 if u == low else slope <= 0):
            return u
        open_ends.discard(u)
        low, high = (low, u) if slope > 0 else (u, high)
        if slope == 0 or high - low < _WIDTH:
            return u
        step = _step(point, last)
        inside = low < u + step < high
        if inside and abs(step) < 0.5 * last_step:
            if last is not None and abs(step) * last_step < _LAST_PRODUCT:
                return u + step
        elif not inside and (beyond := low if slope > 0 else high) in open_ends:
            step = beyond - u
        else:
            step = (low + high) / 2 - u
        last, last_step = point, abs(step)
        # A step to a bound must land on it, whatever rounding does.
        nxt = next((end for end in open_ends if math.isclose(u + step, end)), u + step)
        point = search(nxt)
    return point.u


def _step(point: _Point, last: _Point | None) -> float:
    """Return the predicted way to the slope's zero: Newton's, or by Hermite with two points."""
    if point.curvature <= 0:
        return math.copysign(math.inf, -point.slope)
    newton = -point.slope / point.curvature
    if last is None or last.curvature <= 0 or last.slope == point.slope:
        return newton
    # Cubic in the slope g through both points: u as a function of g, with du/dg = 1/curvature.
    g0, g1 = last.slope, point.slope
    width = g1 - g0
    t = -g0 / width
    value = (
        (1 + 2 * t) * (1 - t) ** 2 * (last.u - point.u)
        + t * (1 - t) ** 2 * width / last.curvature
        + t * t * (t - 1) * width / point.curvature
    )
    return value if math.isfinite(value) else newton


def _descend_from_best(search: _Search, low: float, high: float) -> float:
    """Find the lowest point of an objective with several minima: scan twice, then descend."""
    _, below, above = _scan(search, low, high)
    best, *bracket = _scan(search, below, above)
    # A rippled loss may have its slope's zero beside the dip that the scan found.
    return min(best, _descend(search, search(best), *bracket), key=lambda v: search(v).loss)


def _scan(search: _Search, low: float, high: float) -> tuple[float, float, float]:
    """Return the best grid point and its neighbours, for objectives with several minima."""
    grid = [float(u) for u in np.linspace(low, high, _SCAN_POINTS)]
    best = min(range(len(grid)), key=lambda i: search(grid[i]).loss)
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
        weakest = int(np.argmin(state.log_odds))
        shortfall, rate = target - float(state.log_odds[weakest]), -float(state.mean[weakest])
        if shortfall <= 1e-12 * target:
            break
        beta = high if rate <= 0 else min(high, beta + shortfall / rate)
    value = bounds[1] if beta == low else bounds[0] if beta == high else 1 / beta
    return Temperature(
        value, at_bound=beta in (low, high), unidentified=True, evaluations=evaluations
    )


@dataclass(frozen=True)
class ScalarMap(TemperatureMap):
    """T(x) = T. ``fitted=False`` marks the identity, which has no parameter."""

    temperature: float
    fitted: bool = True
    kind: ClassVar[str] = "scalar"
    words: ClassVar[str] = "divided by one temperature"
    schema: ClassVar[Mapping[str, Rule]] = {
        "temperature": rule("temperature"),
        "fitted": {
            "type": "boolean",
            "description": "false for the identity, which has no parameter.",
        },
    }

    def __post_init__(self) -> None:
        require_temperatures((self.temperature,))

    @property
    def n_parameters(self) -> int:
        """One, or none for the identity."""
        return int(self.fitted)

    @property
    def steps(self) -> tuple[float, ...]:
        """The one temperature."""
        return (self.temperature,)

    def groups(self, scores: FloatArray, /) -> IntArray:
        """Return group 0 for every row."""
        return np.zeros(len(scores), dtype=np.int64)

    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row."""
        return np.full(len(scores), self.temperature)

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the temperature."""
        return program.constant(self.temperature)


@recipe("identity")
def fit_identity(split: Split) -> MapFit:
    """Leave the model alone."""
    return MapFit(ScalarMap(1.0, fitted=False), (split.gaps.n,))


@recipe("scalar")
def fit_scalar(split: Split) -> MapFit:
    """Use the pooled temperature for all."""
    flags = {name: [0] for name in temperature_flags(split.pooled)}
    return MapFit(ScalarMap(split.pooled.value), (split.gaps.n,), flags)


def scalar_fallback(split: Split, flag: str = "scalar_fallback") -> MapFit:
    """Return one temperature for all, flagged: the split does not bear the map asked for."""
    pooled = fit_scalar(split)
    return MapFit(pooled.map, pooled.counts, {**pooled.flags, flag: []})


def weighted_rows(split: Split) -> IntArray:
    """Return the rows that count: all but those of weight zero."""
    weight = split.gaps.weight
    return np.arange(split.gaps.n) if weight is None else np.flatnonzero(weight)


def one_sided(split: Split) -> bool:
    """Return whether fewer than two predictions are right, or fewer than two wrong."""
    correct = split.gaps.correct[weighted_rows(split)]
    right = int(correct.sum())
    return min(right, len(correct) - right) < 2


def temperature_flags(fitted: Temperature) -> list[str]:
    """Return the names of the flags a temperature carries."""
    return [name for name in ("unidentified", "at_bound") if getattr(fitted, name)]


def require_temperatures(temperatures: tuple[float, ...]) -> None:
    """Raise unless every temperature is finite, positive, and can be divided by."""
    if not temperatures or not all(0 < t < float("inf") for t in temperatures):
        raise InputError(f"temperatures must be finite and positive; got {temperatures}")
    if min(temperatures) < LEAST_TEMPERATURE:
        raise InputError(
            f"temperatures must be at least {LEAST_TEMPERATURE:g}; got {min(temperatures):g}"
        )

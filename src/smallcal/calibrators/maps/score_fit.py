"""The probability of an outcome as a curve of one number, smooth or with steps, by Bayes.

The log-odds are a weighted sum of a few columns of the score (a basis). Normal priors hold the
weights; how firmly is not chosen but averaged over: each of a grid of scales is fitted, and counts
by its evidence (Laplace's approximation). What comes out is not the best curve but the posterior
mean of the probability, which is what log-loss asks for when labels are few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from smallcal.calibrators.logistic import Logistic
from smallcal.calibrators.objectives import sigmoid, softplus
from smallcal.data.predictions import BoolArray, FloatArray

#: Log-odds that a score may be expected to gain over one standard deviation: a score worth having
#: rises, and most are weak.
EXPECTED_SLOPE = 0.5
#: Scales of the priors: of the slope, of the level, of the bends, of the steps.
SLOPE_SCALES = (0.2, 0.5, 1.0, 2.0, 4.0)
LEVEL_SCALE = 3.0
BEND_SCALES = (0.03, 0.1, 0.3)
STEP_SCALES = (0.1, 0.3, 1.0, 3.0)
#: Trust in the score as it is, or nearly so, against 1 for each other basis; and how nearly.
KEPT, KEPT_SCALES = 0.2, (0.01, 0.1, 0.3)
#: Hinges of a line with bends, at quantiles; values between which there may be steps.
N_HINGES, N_STOPS = 6, 24
#: Groups of neighbours that scores are taken for where there are very many.
N_GROUPS = 2048
#: A relation falls only if it is so improbable that it rises.
FALLING = 0.01

#: Spread below which scores are all equal, for all that can be divided by it.
_LEAST_SPREAD = 1e-150
#: Spread below which a column tells nothing.
_NO_SPREAD = 1e-9
#: Precision that holds a coefficient at 0.
_HELD = 1e8
_ENOUGH = 1e-6


class Sample(NamedTuple):
    """Scores, whether the outcome came, and how much each row weighs; no weight is 0."""

    x: FloatArray
    outcome: BoolArray
    weight: FloatArray

    @property
    def mean(self) -> float:
        """Weighted mean of the scores."""
        return float(self.weight @ self.x / self.weight.sum())

    @property
    def spread(self) -> float:
        """Weighted standard deviation of the scores; 0 where all are equal."""
        if self.x.min() == self.x.max():
            return 0.0
        found = math.sqrt(float(self.weight @ (self.x - self.mean) ** 2 / self.weight.sum()))
        return found if found > _LEAST_SPREAD else 0.0

    def quantiles(self, levels: FloatArray) -> FloatArray:
        """Return quantiles of the scores, each once: of copies as of weights, from both ends alike.

        Examples
        --------
        >>> one = Sample(np.array([3.0, 1.0]), np.array([True, False]), np.array([1.0, 3.0]))
        >>> one.quantiles(np.array([0.5, 0.75, 0.9])).tolist()
        [1.0, 2.0, 3.0]
        """
        order = np.argsort(self.x, kind="stable")
        reached = np.cumsum(self.weight[order])
        # Rounding must not decide whether a level falls between two rows.
        wanted, hair = levels * reached[-1], 1e-9 * reached[-1]
        below, above = (
            self.x[order][np.minimum(np.searchsorted(reached, wanted + side), len(order) - 1)]
            for side in (-hair, hair)
        )
        return np.unique((below + above) / 2)

    def stops(self) -> FloatArray:
        """Return the distinct scores, or quantiles where these are many, ascending."""
        found = np.unique(self.x)
        if len(found) > N_STOPS:
            found = self.quantiles((np.arange(N_STOPS) + 0.5) / N_STOPS)
        return apart(found, float(self.x.max() - self.x.min()))

    def tied(self) -> Sample:
        """Return rows of one score and outcome as one, in order: nothing is lost by it.

        Examples
        --------
        >>> Sample(np.array([2.0, 1, 2]), np.array([True, False, True]), np.ones(3)).tied().weight
        array([1., 2.])
        """
        order = np.lexsort((self.weight, self.outcome, self.x))
        x, outcome = self.x[order], self.outcome[order]
        first = np.append(True, (np.diff(x) > 0) | (outcome[1:] != outcome[:-1]))
        weight = np.add.reduceat(self.weight[order], np.flatnonzero(first))
        return Sample(x[first], outcome[first], weight)

    def grouped(self) -> Sample:
        """Return neighbours as one score each where there are very many: no curve tells them apart.

        Examples
        --------
        >>> x = np.linspace(0, 1, 100_000)
        >>> few = Sample(x, x > 0.5, np.ones(100_000)).grouped()
        >>> len(few.x), round(few.weight.sum()), round(few.mean, 3)
        (2048, 100000, 0.5)
        """
        if len(self.x) <= 2 * N_GROUPS or self.spread == 0:
            return self
        order = np.argsort(self.x, kind="stable")
        reached = np.cumsum(self.weight[order])
        group = np.empty(len(order), dtype=np.int64)
        middle = (reached - self.weight[order] / 2) / reached[-1]
        group[order] = np.minimum(N_GROUPS * middle, N_GROUPS - 1)
        total = np.bincount(group, self.weight)
        centre = np.bincount(group, self.weight * self.x) / np.maximum(total, np.finfo(float).tiny)
        came = np.bincount(group, self.weight * self.outcome)
        weight = np.concatenate([total - came, came])
        outcome = np.repeat([False, True], len(total))
        kept = weight > 0
        return Sample(np.tile(centre, 2)[kept], outcome[kept], weight[kept])

    def flipped(self) -> Sample:
        """Return the same seen from the other end of the scores."""
        return self._replace(x=-self.x)


def apart(at: FloatArray, width: float) -> FloatArray:
    """Return ascending scores without those that all but coincide with the one before.

    Two of them would have any slope between them.
    """
    return np.asarray(at[np.append(True, np.diff(at) > 1e-9 * width)])


class Basis(NamedTuple):
    """What the log-odds may be made of.

    Attributes
    ----------
    columns : callable
        From scores (m,) to the columns (p, m).
    centre : ndarray of shape (p,)
        Prior means.
    scales : ndarray of shape (k, p)
        Prior scales, a row for each of the grid.
    positive : tuple of int
        Columns whose weights may not be negative.
    trust : float
        How probable it is thought to be beforehand, against other bases.
    """

    columns: Callable[[FloatArray], FloatArray]
    centre: FloatArray
    scales: FloatArray
    positive: tuple[int, ...] = ()
    trust: float = 1.0


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of the weights of a basis: a normal distribution for each prior of the grid.

    Attributes
    ----------
    basis : Basis
    weights : ndarray of shape (k, p)
    covariance : ndarray of shape (k, p, p)
    evidence : ndarray of shape (k,)
        Logarithm of the probability of what was seen, by Laplace's approximation.
    """

    basis: Basis
    weights: FloatArray
    covariance: FloatArray
    evidence: FloatArray

    def probabilities(self, x: FloatArray) -> FloatArray:
        """Return the posterior mean of the outcome's probability under each prior, (k, m).

        The mean of a sigmoid of something normal is MacKay's approximation.
        """
        columns = self.basis.columns(x)
        z = self.weights @ columns
        variance = ((self.covariance @ columns) * columns).sum(axis=1)
        return sigmoid(z / np.sqrt(1 + math.pi / 8 * variance))

    def negative(self, column: int) -> FloatArray:
        """Return the probability under each prior that a weight is below 0."""
        at = self.weights[:, column] / np.sqrt(2 * self.covariance[:, column, column])
        return np.array([0.5 * math.erfc(each) for each in at])


def averaged(posteriors: Sequence[Posterior], values: Sequence[FloatArray]) -> FloatArray:
    """Return the mean of what each prior of each basis says, weighted by trust and evidence."""
    said = [each.evidence + math.log(each.basis.trust / len(each.evidence)) for each in posteriors]
    evidence = np.concatenate(said)
    share = np.exp(evidence - evidence.max())
    return np.asarray(share / share.sum() @ np.concatenate(values))


def fit_posterior(sample: Sample, basis: Basis) -> Posterior:
    """Fit the weights of a basis under each of its priors."""
    columns, centre = basis.columns(sample.x), basis.centre
    penalty = 1 / basis.scales**2
    centres = np.tile(centre, (len(penalty), 1))
    sign = np.where(sample.outcome, -1.0, 1.0)
    weights = sample.weight[None]

    found = centres
    for _ in range(1 + len(basis.positive)):
        problem = Logistic(columns, sign, penalty, centres)
        found = problem.newton(found, weights, enough=_ENOUGH)
        below = np.zeros_like(found, dtype=bool)
        below[:, basis.positive] = found[:, basis.positive] < -1e-6
        if not below.any():
            break
        penalty, centres = np.where(below, _HELD, penalty), np.where(below, 0.0, centres)
        found = np.where(below, 0.0, found)

    _, curvature = problem.slopes(found, weights)
    loss = softplus(sign * (found @ columns)) @ sample.weight
    loss += 0.5 * (penalty * (found - centres) ** 2).sum(axis=1)
    volume = np.linalg.slogdet(curvature)[1] - np.log(penalty).sum(axis=1)
    return Posterior(basis, found, np.linalg.inv(curvature), -loss - 0.5 * volume)


def level_basis(_sample: Sample) -> Basis:
    """Take one probability for all."""
    return Basis(lambda x: np.ones((1, len(x))), np.zeros(1), np.full((1, 1), LEVEL_SCALE))


def kept_basis(_sample: Sample) -> Basis:
    """Take the score for log-odds that are all but right: so that what is calibrated stays so."""
    scales = np.array(list(product(KEPT_SCALES, KEPT_SCALES)))
    return Basis(lambda x: np.stack([x, np.ones(len(x))]), np.array([1.0, 0.0]), scales, trust=KEPT)


def slope_basis(sample: Sample) -> Basis:
    """Take a slope and nothing else: one temperature."""
    size = math.sqrt(float(sample.weight @ sample.x**2 / sample.weight.sum()))
    return Basis(
        lambda x: x[None] / size, np.full(1, EXPECTED_SLOPE), np.array(SLOPE_SCALES)[:, None]
    )


def line_basis(sample: Sample) -> Basis:
    """Take a slope and a level: Platt's line."""
    mean, spread = sample.mean, sample.spread

    def columns(x: FloatArray) -> FloatArray:
        return np.stack([(x - mean) / spread, np.ones(len(x))])

    scales = np.array([(scale, LEVEL_SCALE) for scale in SLOPE_SCALES])
    return Basis(columns, np.array([EXPECTED_SLOPE, 0.0]), scales)


def beta_basis(sample: Sample) -> Basis:
    """Take slopes of log p and -log(1 - p), where p = sigmoid(score), and a level: the beta map."""
    spread, share = sample.spread, sample.weight / sample.weight.sum()
    shift = np.array([-softplus(-sample.x) @ share, softplus(sample.x) @ share])

    def columns(x: FloatArray) -> FloatArray:
        rising = np.stack([-softplus(-x), softplus(x)]) - shift[:, None]
        return np.vstack([rising / spread, np.ones(len(x))])

    scales = np.array([(scale, scale, LEVEL_SCALE) for scale in SLOPE_SCALES])
    return Basis(columns, np.array([EXPECTED_SLOPE, EXPECTED_SLOPE, 0.0]), scales, (0, 1))


def bent_basis(sample: Sample) -> Basis:
    """Take a line that may bend at quantiles of the scores.

    The bends are hinges without their own slope and level, in units of their spread over the
    sample: so that the line keeps its meaning, and a prior its own whatever the knots.
    """
    line = line_basis(sample)
    knots = sample.quantiles(np.arange(1, N_HINGES + 1) / (N_HINGES + 1))
    knots = knots[(knots > sample.x.min()) & (knots < sample.x.max())]
    root = np.sqrt(sample.weight / sample.weight.sum())

    straight, spread = line.columns(sample.x), sample.spread
    hinges = np.maximum(sample.x - knots[:, None], 0) / spread
    own = np.linalg.lstsq((straight * root).T, (hinges * root).T, rcond=None)[0].T
    size = np.sqrt(((hinges - own @ straight) ** 2 * root**2).sum(axis=1))
    told = size > _NO_SPREAD
    knots, own, size = knots[told], own[told], size[told]

    def columns(x: FloatArray) -> FloatArray:
        flat = line.columns(x)
        bends = np.maximum(x - knots[:, None], 0) / spread - own @ flat
        return np.vstack([flat, bends / size[:, None]])

    grid = [
        (slope, LEVEL_SCALE, *([bend] * len(knots)))
        for slope, bend in product(SLOPE_SCALES, BEND_SCALES)
    ]
    return Basis(columns, np.append(line.centre, np.zeros(len(knots))), np.array(grid))


def stepped_basis(sample: Sample) -> Basis:
    """Take a line and a random walk: a step from each distinct value (or quantile) to the next.

    Between two of them a step is a ramp, so that a value that was never seen lies between.
    """
    line, stops = line_basis(sample), sample.stops()
    start, width = stops[:-1, None], np.diff(stops)[:, None]

    def columns(x: FloatArray) -> FloatArray:
        return np.vstack([line.columns(x), np.clip((x - start) / width, 0, 1) - 0.5])

    grid = [
        (slope, LEVEL_SCALE, *([step] * len(start)))
        for slope, step in product(SLOPE_SCALES, STEP_SCALES)
    ]
    return Basis(columns, np.append(line.centre, np.zeros(len(start))), np.array(grid))


#: What each kind of curve is averaged over.
BASES: Mapping[str, tuple[Callable[[Sample], Basis], ...]] = MappingProxyType(
    {
        "slope": (slope_basis,),
        "line": (line_basis,),
        "beta": (beta_basis,),
        "spline": (kept_basis, line_basis, beta_basis, bent_basis, stepped_basis),
    }
)


def posterior_mean(
    sample: Sample, bases: Sequence[Callable[[Sample], Basis]], x: FloatArray
) -> FloatArray:
    """Return the probability of the outcome at scores x, averaged over bases and their priors.

    Examples
    --------
    >>> coin = Sample(np.zeros(20), np.arange(20) < 12, np.ones(20))
    >>> posterior_mean(coin, (level_basis,), np.zeros(1)).round(2).tolist()
    [0.59]
    """
    found = [fit_posterior(sample, basis(sample)) for basis in bases]
    return averaged(found, [each.probabilities(x) for each in found])


def falls(sample: Sample) -> bool:
    """Return whether higher scores clearly mean fewer of the outcome.

    Examples
    --------
    >>> x = np.linspace(-2, 2, 60)
    >>> falls(Sample(x, x < 0.5, np.ones(60))), falls(Sample(x, x > 0.5, np.ones(60)))
    (True, False)
    """
    line = line_basis(sample)
    impartial = line._replace(centre=np.zeros_like(line.centre))
    found = fit_posterior(sample, impartial)
    return float(averaged([found], [found.negative(0)])) > 1 - FALLING

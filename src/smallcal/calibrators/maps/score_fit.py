"""The probability of an outcome as a smooth curve of one number, by Bayes.

The log-odds are a weighted sum of a few columns of the score (a basis). Normal priors hold the
weights; how firmly is not chosen but averaged over: each of a grid of scales is fitted, and counts
by its evidence (Laplace's approximation). What comes out is not the best curve but the posterior
mean of the probability, which is what log-loss asks for when labels are few.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
#: Scales of the priors: of the slope, of the level, of the bends.
SLOPE_SCALES = (0.2, 0.5, 1.0, 3.0)
LEVEL_SCALE = 2.0
BEND_SCALES = (0.001, 0.03, 0.1, 0.3)
#: Hinges of a spline, at quantiles.
N_HINGES = 6
#: A relation falls only if it is so improbable that it rises.
FALLING = 0.01

#: Spread below which a column tells nothing.
_NO_SPREAD = 1e-9
#: Precision that holds a coefficient at 0.
_HELD = 1e8
_ENOUGH = 1e-8


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
        return math.sqrt(float(self.weight @ (self.x - self.mean) ** 2 / self.weight.sum()))

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

    def flipped(self) -> Sample:
        """Return the same seen from the other end of the scores."""
        return self._replace(x=-self.x)


class Basis(NamedTuple):
    """What the log-odds are made of.

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
    """

    columns: Callable[[FloatArray], FloatArray]
    centre: FloatArray
    scales: FloatArray
    positive: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of the weights: a normal distribution for each of the grid, and its share."""

    basis: Basis
    weights: FloatArray
    covariance: FloatArray
    share: FloatArray

    def probability(self, x: FloatArray) -> FloatArray:
        """Return the posterior mean of the outcome's probability (MacKay's approximation)."""
        columns = self.basis.columns(x)
        z = self.weights @ columns
        variance = np.einsum("kpm,pm->km", self.covariance @ columns, columns)
        return np.asarray(self.share @ sigmoid(z / np.sqrt(1 + math.pi / 8 * variance)))

    def negative(self, column: int) -> float:
        """Return the probability that a weight is below 0."""
        spread = np.sqrt(self.covariance[:, column, column])
        at = self.weights[:, column] / spread
        below = [0.5 * math.erfc(each / math.sqrt(2)) for each in at]
        return float(self.share @ below)


def fit_posterior(sample: Sample, basis: Basis) -> Posterior:
    """Fit the weights under each of the priors, and let the evidence say what each is worth."""
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
    evidence = -loss - 0.5 * volume
    share = np.exp(evidence - evidence.max())
    return Posterior(basis, found, np.linalg.inv(curvature), share / share.sum())


def level_basis(_sample: Sample) -> Basis:
    """One probability for all."""
    return Basis(lambda x: np.ones((1, len(x))), np.zeros(1), np.full((1, 1), LEVEL_SCALE))


def slope_basis(sample: Sample) -> Basis:
    """A slope, and nothing else: one temperature."""
    size = math.sqrt(float(sample.weight @ sample.x**2 / sample.weight.sum()))
    return Basis(
        lambda x: x[None] / size, np.full(1, EXPECTED_SLOPE), np.array(SLOPE_SCALES)[:, None]
    )


def line_basis(sample: Sample) -> Basis:
    """A slope and a level: Platt's line."""
    mean, spread = sample.mean, sample.spread

    def columns(x: FloatArray) -> FloatArray:
        return np.stack([(x - mean) / spread, np.ones(len(x))])

    scales = np.array([(scale, LEVEL_SCALE) for scale in SLOPE_SCALES])
    return Basis(columns, np.array([EXPECTED_SLOPE, 0.0]), scales)


def beta_basis(sample: Sample) -> Basis:
    """The beta map: log p and -log(1 - p) of p = sigmoid(score), each with a slope, and a level."""
    spread, share = sample.spread, sample.weight / sample.weight.sum()
    shift = np.array([-softplus(-sample.x) @ share, softplus(sample.x) @ share])

    def columns(x: FloatArray) -> FloatArray:
        rising = np.stack([-softplus(-x), softplus(x)]) - shift[:, None]
        return np.vstack([rising / spread, np.ones(len(x))])

    scales = np.array([(a, b, LEVEL_SCALE) for a, b in product(SLOPE_SCALES, SLOPE_SCALES)])
    return Basis(columns, np.array([EXPECTED_SLOPE, EXPECTED_SLOPE, 0.0]), scales, (0, 1))


def spline_basis(sample: Sample) -> Basis:
    """A line that may bend at quantiles of the scores.

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


#: Bases by the name that a method gives them.
BASES: MappingProxyType[str, Callable[[Sample], Basis]] = MappingProxyType(
    {"slope": slope_basis, "line": line_basis, "beta": beta_basis, "spline": spline_basis}
)


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
    return fit_posterior(sample, impartial).negative(0) > 1 - FALLING

"""The search behind a regressed temperature: Newton's method.

The log inverse temperature of a row is linear in its scores, plus an effect of its class. Each look
at the data gives slope and curvature; as a row has one class, the block of the effects in it is
diagonal, and a step costs no more with a thousand classes than without.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from smallcal.calibrators.maps.base import Split, minimise
from smallcal.calibrators.objectives import moments
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError

#: Beside the spread that they cause, this share of the coefficients' own squares is penalised: two
#: statistics that nearly agree must not get large coefficients that nearly cancel.
RIDGE = 0.01

_MAX_STEPS = 100
#: Of the mean loss, still to gain by the last step: what is left after it is far less.
_SMALL_GAIN = 1e-11
_SMALL_STEP = 1e-12
_FARTHEST_STEP = 5.0  # of a log-temperature's parameters


class Solved(NamedTuple):
    """Intercept and coefficients, and effects of classes."""

    shared: FloatArray
    effects: FloatArray


class _Look(NamedTuple):
    """The mean loss at one place, its slopes, and the blocks of its curvature; no priors."""

    loss: float
    slope: FloatArray  # of intercept and coefficients
    each: FloatArray  # of effects
    block: FloatArray
    crossed: FloatArray
    diagonal: FloatArray


class _Curved(NamedTuple):
    """The curvature with the priors': the inverse for what is shared, and for each effect."""

    inverse: FloatArray
    ratio: FloatArray
    diagonal: FloatArray

    @classmethod
    def of(cls, look: _Look, pull: FloatArray, held: FloatArray) -> _Curved:
        """Add the priors; raise where the parabola has no minimum."""
        diagonal = look.diagonal + held
        if not (diagonal > 0).all():
            raise np.linalg.LinAlgError
        ratio = look.crossed / diagonal
        schur = look.block + pull - ratio @ look.crossed.T
        # Rounding may leave a hair below 0 where the data say nothing.
        schur += 1e-14 * np.trace(schur) * np.eye(len(schur))
        np.linalg.cholesky(schur)
        return cls(np.linalg.inv(schur), ratio, diagonal)

    def solve(self, slope: FloatArray, each: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the step against a slope."""
        shared = -self.inverse @ (slope - self.ratio @ each)
        return shared, -each / self.diagonal - self.ratio.T @ shared


@dataclass(frozen=True, eq=False)
class Problem:
    """A split, the design of the log inverse temperature, and the priors.

    Attributes
    ----------
    split : Split
    design : ndarray of shape (n, p)
        Ones, and the scores.
    centre : ndarray of shape (p,)
        Where the priors draw intercept and coefficients.
    level, shape : ndarrays of shape (p, p)
        Curvatures of the priors of intercept and coefficients, per sample; the second at scale 1.
    column : ndarray of shape (n,), or None
        Class of each row.
    n_effects : int
        Classes that have an effect.
    spread, each : float
        Scales of coefficients and effects.
    """

    split: Split
    design: FloatArray
    centre: FloatArray
    level: FloatArray
    shape: FloatArray
    spread: float
    column: IntArray | None = None
    n_effects: int = 0
    each: float = 1.0
    share: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", self.split.gaps.weights / self.split.gaps.total)

    @classmethod
    def of(cls, split: Split, scores: FloatArray, prior_scale: float, prior: str) -> Problem:
        """Return the problem without classes."""
        if not prior_scale > 0:
            raise InputError(
                f"prior_scale must be positive; got {prior_scale}", code="option-range"
            )
        if prior not in ("spread", "independent"):
            raise InputError(
                f"prior must be 'spread' or 'independent'; got {prior!r}", code="unknown-choice"
            )
        design = np.column_stack([np.ones(split.gaps.n), scores])
        size, total = design.shape[1], split.gaps.total
        penalised = np.eye(size - 1)
        if prior == "spread":
            weighted = scores * (split.gaps.weights / total)[:, None]
            penalised = weighted.T @ scores + RIDGE * penalised
        centre, level, shape = np.zeros(size), np.zeros((size, size)), np.zeros((size, size))
        shape[1:, 1:] = penalised / total
        if split.prior is not None:
            centre[0] = -np.log(split.prior.temperature)
            level[0, 0] = 1 / (split.prior.scale**2 * total)
        return cls(split, design, centre, level, shape, prior_scale)

    def with_classes(self, column: IntArray, scale: float) -> Problem:
        """Return the problem with an effect of each class."""
        return replace(self, column=column, n_effects=self.split.preds.n_classes, each=scale)

    @property
    def pull(self) -> FloatArray:
        """Curvature of the priors of intercept and coefficients."""
        return self.level + self.shape / self.spread**2

    @property
    def held(self) -> FloatArray:
        """Curvature of the priors of the effects."""
        return np.full(self.n_effects, 1 / (self.each**2 * self.split.gaps.total))

    def look(self, shared: FloatArray, effects: FloatArray, *, dents: bool = True) -> _Look:
        """Look at the data; without ``dents`` what bends downwards is left out."""
        gaps, share = self.split.gaps, self.share
        linear = self.design @ shared
        if self.column is not None:
            linear = linear + effects[self.column]
        beta = np.exp(np.clip(linear, -20, 20))
        terms = self.split.goal.terms(gaps, moments(gaps, beta))
        slope = share * beta * terms.slope
        bend = share * beta**2 * terms.curvature + slope
        if not dents:
            bend = np.maximum(bend, 0)
        bent = self.design * bend[:, None]
        return _Look(
            float(share @ terms.loss),
            slope @ self.design,
            self._by_class(slope),
            bent.T @ self.design,
            np.array([self._by_class(column) for column in bent.T]),
            self._by_class(bend),
        )

    def _by_class(self, values: FloatArray) -> FloatArray:
        if self.column is None:
            return np.empty(0)
        return np.bincount(self.column, values, minlength=self.n_effects).astype(np.float64)

    def loss(self, look: _Look, shared: FloatArray, effects: FloatArray) -> float:
        """Return the loss with the priors' terms."""
        away = shared - self.centre
        return look.loss + float(away @ self.pull @ away + self.held @ effects**2) / 2

    def slopes(
        self, look: _Look, shared: FloatArray, effects: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the slopes with the priors' terms."""
        return look.slope + self.pull @ (shared - self.centre), look.each + self.held * effects

    def solved(self, start: FloatArray | None = None) -> Solved:
        """Minimise by Newton's method, halving steps that go too far."""
        shared, effects = start, np.zeros(self.n_effects)
        if shared is None:
            shared = np.append(-np.log(self.split.pooled.value), np.zeros(len(self.centre) - 1))
        if not self.split.goal.additive:
            return self._descended(shared, effects)
        look = self.look(shared, effects)
        for _ in range(_MAX_STEPS):
            try:
                step, each = self._step(look, shared, effects)
            except np.linalg.LinAlgError:
                look = self.look(shared, effects, dents=False)
                step, each = self._step(look, shared, effects)
            slope, slope_each = self.slopes(look, shared, effects)
            if -(slope @ step + slope_each @ each) < _SMALL_GAIN:
                break
            before = self.loss(look, shared, effects)
            look = self.look(shared + step, effects + each)
            while (
                self.loss(look, shared + step, effects + each) > before
                and np.abs(step).max() > _SMALL_STEP
            ):
                step, each = step / 2, each / 2
                look = self.look(shared + step, effects + each)
            shared, effects = shared + step, effects + each
        return Solved(shared + step, effects + each)

    def _step(
        self, look: _Look, shared: FloatArray, effects: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the step to the parabola's minimum, within limits."""
        curved = _Curved.of(look, self.pull, self.held)
        step, each = curved.solve(*self.slopes(look, shared, effects))
        farthest = max(np.abs(step).max(), np.abs(each).max(initial=0.0))
        shorter = max(1.0, farthest / _FARTHEST_STEP)
        return step / shorter, each / shorter

    def _descended(self, shared: FloatArray, effects: FloatArray) -> Solved:
        """Minimise by slopes alone, where samples have no curvatures of their own."""
        n = len(shared)

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            look = self.look(theta[:n], theta[n:])
            slopes = self.slopes(look, theta[:n], theta[n:])
            return self.loss(look, theta[:n], theta[n:]), np.concatenate(slopes)

        start = np.append(shared, effects)
        found = minimise(loss, start, ftol=1e-12, gtol=1e-9)
        theta = np.asarray(found.x if np.isfinite(found.fun) else start)
        return Solved(theta[:n], theta[n:])

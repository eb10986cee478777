"""Temperature regressed on signals: the log inverse temperature is linear in them.

No router, no folds, no thresholds. A normal prior holds the log-temperature's spread over samples
near zero, where the map is one temperature for all, and another the intercept near what all logits
together say: every split, however small or one-sided, has one best fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.maps.base import (
    MapFit,
    Split,
    TemperatureMap,
    loss_and_slope,
    minimise,
    recipe,
)
from smallcal.calibrators.parts import Rule, rule
from smallcal.calibrators.program import Row, Value
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError

#: Beside the spread that they cause, this share of the coefficients' own squares is penalised: two
#: statistics that nearly agree must not get large coefficients that nearly cancel.
RIDGE = 0.01


@dataclass(frozen=True)
class RegressedMap(TemperatureMap):
    """T = exp(-(intercept + coefficients x scores)), within bounds.

    Examples
    --------
    >>> by_two = RegressedMap(0.0, (1.0, 0.0), 0.05, 20.0)
    >>> by_two(np.array([[0.0, 5.0], [-np.log(2), 5.0]])).tolist()
    [1.0, 2.0]
    """

    intercept: float
    coefficients: tuple[float, ...]
    low: float
    high: float
    extra_columns: ClassVar[int] = 0  # of the scores, beside those with a coefficient
    kind: ClassVar[str] = "regressed"
    words: ClassVar[str] = "divided by a temperature whose logarithm is linear in {signal}"
    schema: ClassVar[Mapping[str, Rule]] = {
        "intercept": rule("number"),
        "coefficients": rule("numbers", "Of the log inverse temperature."),
        "low": rule("temperature"),
        "high": rule("temperature"),
    }

    def __post_init__(self) -> None:
        if not self.coefficients or not 0 < self.low < self.high < float("inf"):
            raise InputError("a regressed map needs coefficients, and 0 < low < high < infinity")

    @property
    def n_parameters(self) -> int:
        """Intercept and coefficients."""
        return 1 + len(self.coefficients)

    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row, from its scores (m, d)."""
        width = len(self.coefficients) + self.extra_columns
        if scores.ndim != 2 or scores.shape[1] != width:
            raise InputError(f"scores must have {width} columns; got shape {scores.shape}")
        with np.errstate(over="ignore"):  # what overflows is clipped
            return np.asarray(np.clip(np.exp(-self._linear(scores)), self.low, self.high))

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the temperature, within bounds."""
        return self._temperature(scores, self.coefficients)

    def _temperature(self, scores: Value, slope: object) -> Value:
        exponent = 0.0 - (scores.dot(slope) + self.intercept)
        highest = program.HIGHEST_EXPONENT
        return program.exp(exponent.at_most(highest)).at_least(self.low).at_most(self.high)

    def _linear(self, scores: FloatArray) -> FloatArray:
        # einsum, not a matrix product: a row's bits must not depend on its batch.
        return np.asarray(
            np.einsum("ij,j->i", scores, np.array(self.coefficients)) + self.intercept
        )


@dataclass(frozen=True)
class ClassRegressedMap(RegressedMap):
    """The same, with an effect of the predicted class, which is the last column of the scores.

    Examples
    --------
    >>> mine = ClassRegressedMap(0.0, (1.0,), 0.05, 20.0, (0.0, np.log(2)))
    >>> mine(np.array([[0.0, 0], [0.0, 1]])).tolist()
    [1.0, 0.5]
    """

    effects: tuple[float, ...] = ()
    extra_columns: ClassVar[int] = 1
    kind: ClassVar[str] = "class_regressed"
    schema: ClassVar[Mapping[str, Rule]] = {
        **RegressedMap.schema,
        "effects": rule("numbers", "Of each predicted class, on the log inverse temperature."),
    }

    @property
    def n_parameters(self) -> int:
        """Intercept, coefficients, and the effect of each class that was predicted."""
        return super().n_parameters + self.n_held

    @property
    def n_held(self) -> int:
        """The effects: a prior holds them, so they need no samples of their own."""
        return int(np.count_nonzero(self.effects))

    def _linear(self, scores: FloatArray) -> FloatArray:
        column = scores[:, -1].astype(np.int64)
        if len(column) and not 0 <= column.min() <= column.max() < len(self.effects):
            raise InputError(f"the class must lie in 0 .. {len(self.effects) - 1}")
        return np.asarray(super()._linear(scores[:, :-1]) + np.array(self.effects)[column])

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the temperature; in a program the class is not a number but a column each."""
        return self._temperature(scores, np.concatenate([self.coefficients, self.effects]))


@recipe("regressed", tailed=True)
def fit_regressed(split: Split, *, prior_scale: float = 0.05, prior: str = "spread") -> MapFit:
    """Fit intercept and coefficients at once, from the pooled temperature.

    Minimises the summed objective plus the priors' terms, divided by the number of samples. With
    ``prior="spread"`` the coefficients cost ``(mean of (coefficients x scores)² + 0.01 Σ
    coefficient²) / (2 prior_scale²)``: what counts is how far apart they put the samples'
    log-temperatures, so that it matters little how many statistics there are and which of them
    agree. With ``prior="independent"`` they cost ``Σ coefficient² / (2 prior_scale²)``. The
    intercept has the prior of the pooled temperature.
    """
    theta = _fit(split, split.scores, _pull(split, split.scores, prior_scale, prior))
    low, high = split.discipline.bounds
    return _flagged(split, RegressedMap(float(theta[0]), tuple(theta[1:].tolist()), low, high))


@recipe("class_regressed", tailed=True)
def fit_class_regressed(
    split: Split, *, prior_scale: float = 0.05, prior: str = "spread", class_scale: float = 0.1
) -> MapFit:
    """Fit the same with an effect of each predicted class, under a normal prior of its own.

    The last column of the scores is the predicted class. A class that is never predicted has no
    effect; the prior's scale is ``class_scale``. What a gate judges is the fit without effects:
    there are many of them, and each finds something by chance.
    """
    if not class_scale > 0:
        raise InputError(f"class_scale must be positive; got {class_scale}")
    scores, column = split.scores[:, :-1], split.scores[:, -1].astype(np.int64)
    pull = _pull(split, scores, prior_scale, prior)
    held = np.full(split.preds.n_classes, 1 / (class_scale**2 * split.gaps.total))
    plain = np.append(_fit(split, scores, pull), np.zeros_like(held))
    theta = _fit(split, scores, pull, start=plain, column=column, held=held)
    n, (low, high) = len(pull), split.discipline.bounds
    made = [
        ClassRegressedMap(one[0], tuple(one[1:n]), low, high, tuple(one[n:]))
        for one in (theta.tolist(), plain.tolist())
    ]
    return replace(_flagged(split, made[0]), plain=made[1])


def _flagged(split: Split, fitted: RegressedMap) -> MapFit:
    at_bound = np.isin(fitted(split.scores), (fitted.low, fitted.high)).any()
    return MapFit(fitted, (split.gaps.n,), {"at_bound": []} if at_bound else {})


def _pull(split: Split, scores: FloatArray, prior_scale: float, prior: str) -> FloatArray:
    """Return the curvature of the priors of intercept and coefficients, for each sample."""
    if not prior_scale > 0:
        raise InputError(f"prior_scale must be positive; got {prior_scale}")
    if prior not in ("spread", "independent"):
        raise InputError(f"prior must be 'spread' or 'independent'; got {prior!r}")
    identity = penalised = np.eye(scores.shape[1])
    if prior == "spread":
        share = split.gaps.weights / split.gaps.total
        spread = np.einsum("i,ij,ik->jk", share, scores, scores)
        penalised = spread + RIDGE * identity
    pull = np.zeros((scores.shape[1] + 1, scores.shape[1] + 1))
    pull[1:, 1:] = penalised / (prior_scale**2 * split.gaps.total)
    if split.prior is not None:
        pull[0, 0] = 1 / (split.prior.scale**2 * split.gaps.total)
    return pull


def _fit(
    split: Split,
    scores: FloatArray,
    pull: FloatArray,
    *,
    start: FloatArray | None = None,
    column: IntArray | None = None,
    held: FloatArray | None = None,
) -> FloatArray:
    """Return intercept, coefficients and, with ``column``, the effects of the classes in it."""
    design = np.column_stack([np.ones(split.gaps.n), scores])
    n = design.shape[1]
    begin = np.append(-np.log(split.pooled.value), np.zeros(n - 1)) if start is None else start
    centre = np.zeros(n)
    if split.prior is not None:
        centre[0] = -np.log(split.prior.temperature)

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        linear, effects = design @ theta[:n], theta[n:]
        if column is not None:
            linear = linear + effects[column]
        temperature = np.exp(-np.clip(linear, -20, 20))
        value, slope = loss_and_slope(split.goal, split.gaps, temperature)
        slope = -slope * temperature
        drawn = pull @ (theta[:n] - centre)
        value += float(drawn @ (theta[:n] - centre)) / 2
        gradient = slope @ design + drawn
        if column is None or held is None:
            return value, gradient
        value += float(held @ effects**2) / 2
        each = np.bincount(column, slope, minlength=len(held)) + held * effects
        return value, np.concatenate([gradient, each])

    found = minimise(loss, begin, ftol=1e-12, gtol=1e-9)
    return np.asarray(found.x if np.isfinite(found.fun) else begin)

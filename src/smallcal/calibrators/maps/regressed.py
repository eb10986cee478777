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
from smallcal.calibrators.maps.base import MapFit, Split, TemperatureMap, loss_and_slope, recipe
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
        if scores.ndim != 2 or scores.shape[1] != len(self.coefficients):
            raise InputError(
                f"scores must have {len(self.coefficients)} columns; got shape {scores.shape}"
            )
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

    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row, from its scores (m, d) and its class."""
        if scores.ndim != 2 or scores.shape[1] != len(self.coefficients) + 1:
            raise InputError(
                f"scores must have {len(self.coefficients) + 1} columns; got shape {scores.shape}"
            )
        column = scores[:, -1].astype(np.int64)
        if len(column) and not 0 <= column.min() <= column.max() < len(self.effects):
            raise InputError(f"the class must lie in 0 .. {len(self.effects) - 1}")
        linear = self._linear(scores[:, :-1]) + np.array(self.effects)[column]
        with np.errstate(over="ignore"):  # what overflows is clipped
            return np.asarray(np.clip(np.exp(-linear), self.low, self.high))

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
    n_classes = split.preds.n_classes
    pull = _pull(split, scores, prior_scale, prior)
    plain = _fit(split, scores, pull)
    held = np.full(n_classes, 1 / (class_scale**2 * split.gaps.total))
    theta = _fit(split, scores, pull, start=plain, column=column, held=held)
    made = [_with_effects(split, *np.split(one, [pull.shape[0]])) for one in (theta, plain)]
    return replace(_flagged(split, made[0]), plain=made[1])


def _with_effects(split: Split, theta: FloatArray, effects: FloatArray) -> ClassRegressedMap:
    low, high = split.discipline.bounds
    every = effects if len(effects) else np.zeros(split.preds.n_classes)
    return ClassRegressedMap(
        float(theta[0]), tuple(theta[1:].tolist()), low, high, tuple(every.tolist())
    )


def _flagged(split: Split, fitted: RegressedMap) -> MapFit:
    at_bound = np.isin(fitted(split.scores), (fitted.low, fitted.high)).any()
    return MapFit(fitted, (split.gaps.n,), {"at_bound": []} if at_bound else {})


def _pull(split: Split, scores: FloatArray, prior_scale: float, prior: str) -> FloatArray:
    """Return the curvature of the priors of intercept and coefficients, for each sample."""
    if not prior_scale > 0:
        raise InputError(f"prior_scale must be positive; got {prior_scale}")
    pull = np.zeros((scores.shape[1] + 1, scores.shape[1] + 1))
    pull[1:, 1:] = _shape(split, scores, prior) / (prior_scale**2 * split.gaps.total)
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
    from scipy.optimize import minimize

    design = np.column_stack([np.ones(split.gaps.n), scores])
    n, n_effects = design.shape[1], 0 if held is None else len(held)
    begin = np.zeros(n + n_effects)
    if start is None:
        begin[0] = -np.log(split.pooled.value)
    else:
        begin[:n] = start
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
        each = np.bincount(column, slope, minlength=n_effects) + held * effects
        return value, np.concatenate([gradient, each])

    found = minimize(
        loss, begin, jac=True, method="L-BFGS-B", options={"ftol": 1e-12, "gtol": 1e-9}
    )
    return np.asarray(found.x if np.isfinite(found.fun) else begin)


def _shape(split: Split, scores: FloatArray, prior: str) -> FloatArray:
    """Return the matrix whose quadratic form the prior penalises."""
    identity = np.eye(scores.shape[1])
    if prior == "independent":
        return identity
    if prior != "spread":
        raise InputError(f"prior must be 'spread' or 'independent'; got {prior!r}")
    share = split.gaps.weights / split.gaps.total
    spread = np.einsum("i,ij,ik->jk", share, scores, scores)
    return np.asarray(spread + RIDGE * identity)

"""Temperature regressed on signals: the log inverse temperature is linear in them.

No router, no folds, no thresholds. A normal prior holds the log-temperature's spread over samples
near zero, where the map is one temperature for all, and another the intercept near what all logits
together say: every split, however small or one-sided, has one best fit. The search for it is in
:mod:`smallcal.calibrators.maps.regressed_fit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators import by_row, program
from smallcal.calibrators.maps.base import (
    MapFit,
    Split,
    TemperatureMap,
    recipe,
)
from smallcal.calibrators.maps.regressed_fit import Problem
from smallcal.calibrators.once import once
from smallcal.calibrators.parts import Rule, Scores, rule
from smallcal.calibrators.program import Row, Value
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError


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

    @property
    def reads(self) -> tuple[Scores, ...]:
        """A column per coefficient, and the class where that has an effect."""
        return (Scores(len(self.coefficients), classed=self.extra_columns == 1),)

    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row, from its scores (m, d)."""
        width = len(self.coefficients) + self.extra_columns
        if scores.ndim != 2 or scores.shape[1] != width:
            raise InputError(
                f"scores must have {width} columns; got shape {scores.shape}", code="columns-differ"
            )
        temperature = np.exp(np.minimum(-self._linear(scores), program.HIGHEST_EXPONENT))
        return np.asarray(np.minimum(np.maximum(temperature, self.low), self.high))

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the temperature, within bounds."""
        return self._temperature(scores, self.coefficients)

    def _temperature(self, scores: Value, slope: object) -> Value:
        exponent = 0.0 - (scores.dot(slope) + self.intercept)
        highest = program.HIGHEST_EXPONENT
        return program.exp(exponent.at_most(highest)).at_least(self.low).at_most(self.high)

    def _linear(self, scores: FloatArray) -> FloatArray:
        return by_row.weighted(scores, np.array(self.coefficients)) + self.intercept


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
    def n_classes(self) -> int:
        """Classes that have an effect."""
        return len(self.effects)

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
        return np.asarray(super()._linear(scores[:, :-1]) + self._effects[column])

    @once
    def _effects(self) -> FloatArray:
        return np.array(self.effects)

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the temperature; in a program the class is not a number but a column each."""
        return self._temperature(scores, np.concatenate([self.coefficients, self.effects]))


@recipe("regressed")
def fit_regressed(split: Split, *, prior_scale: float = 0.05, prior: str = "spread") -> MapFit:
    """Fit intercept and coefficients at once, from the pooled temperature.

    Minimises the summed objective plus the priors' terms, divided by the number of samples. With
    ``prior="spread"`` the coefficients cost ``(mean of (coefficients x scores)² + 0.01 Σ
    coefficient²) / (2 prior_scale²)``: what counts is how far apart they put the samples'
    log-temperatures, so that it matters little how many statistics there are and which of them
    agree. With ``prior="independent"`` they cost ``Σ coefficient² / (2 prior_scale²)``. The
    intercept has the prior of the pooled temperature.
    """
    found = Problem.of(split, split.scores, prior_scale, prior).solved()
    low, high = split.discipline.bounds
    slopes = tuple(found.shared[1:].tolist())
    return _flagged(split, RegressedMap(float(found.shared[0]), slopes, low, high))


@recipe("class_regressed")
def fit_class_regressed(
    split: Split,
    *,
    prior_scale: float = 0.05,
    prior: str = "spread",
    class_scale: float = 0.1,
) -> MapFit:
    """Fit the same with an effect of each predicted class, under a normal prior of its own.

    The last column of the scores is the predicted class. A class that is never predicted has no
    effect; the prior's scale is ``class_scale``.
    """
    if not class_scale > 0:
        raise InputError(f"class_scale must be positive; got {class_scale}")
    scores, column = split.scores[:, :-1], split.scores[:, -1].astype(np.int64)
    problem = Problem.of(split, scores, prior_scale, prior)
    found = problem.with_classes(column, class_scale).solved(problem.solved().shared)
    intercept, *slopes = found.shared.tolist()
    low, high = split.discipline.bounds
    effects = tuple(found.effects.tolist())
    return _flagged(split, ClassRegressedMap(intercept, tuple(slopes), low, high, effects))


def _flagged(split: Split, fitted: RegressedMap) -> MapFit:
    at_bound = np.isin(fitted(split.scores), (fitted.low, fitted.high)).any()
    flags: dict[str, list[int]] = {"at_bound": []} if at_bound else {}
    return MapFit(fitted, (split.gaps.n,), flags)

"""A calibrator as a short program of row-wise arithmetic, which every exporter translates.

A value stands for some numbers of each row: one, or one per class, or one per feature. Twenty
operations are enough for every signal and every map; each part writes itself down once (its
``program``), and a runtime that knows the twenty can apply any calibrator. All arithmetic is
meant in float64. No operation divides by zero, overflows or gives NaN on finite
input, so that it also holds where those raise an error.

=========== =========================================================================
logits      what the model said, as it came in (probabilities or one score, where the calibrator
            takes those)
features    what else is known of the row
effect      of the row's group
limits      the thresholds of the row's group, one for each decision by group
constant    numbers of the calibrator
add, subtract, multiply, divide, minimum, maximum
            of two values; one of width 1 goes with any other
reached     1 where the first is at least the second, else 0
choose      the second where the first is not 0, else the third
exp, log, sqrt, erf
            of each number
sum, largest
            over a row's numbers
at_top      1 at the first of the largest numbers, 0 elsewhere
dot         one number per row of a matrix: the sum of its products with the value
rank        how many of some ascending numbers are at most the value
join        two values side by side
=========== =========================================================================

Five more stand for what runtimes have a fast form of; each is some of the twenty, as
:mod:`smallcal.calibrators.program_plain` writes out for runtimes that know those alone. ``top`` is
what ``at_top`` gives.

=========== =========================================================================
softmax     of a row's numbers, the largest of which is 0
inner       the sum of the products of two values
second      of top and values: the largest of the values that are not at the top
dot_top     the dot of a value with top beside it
held        of top and probabilities: every rival a little below the top
=========== =========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Union

import numpy as np

from smallcal.calibrators.once import once
from smallcal.data.checks import PROBABILITY_FLOOR, FloatArray
from smallcal.data.masks import FEWEST, MASKED, MAX_MAGNITUDE
from smallcal.data.score import NEAREST, ScoreScale

#: Below every logit, yet finite.
LOWEST = -1e30
#: A rival's probability is at most the predicted class's times this: apart in float32 too.
BELOW = 1 - 2.0**-22
#: exp of this is just finite.
HIGHEST_EXPONENT = 700.0

Number = Union["Value", float]

INPUTS = ("logits", "features", "effect", "limits")
PAIRS = ("add", "subtract", "multiply", "divide", "minimum", "maximum", "reached")
SINGLES = ("exp", "log", "sqrt", "erf")
OTHERS = ("constant", "choose", "sum", "largest", "at_top", "dot", "rank", "join")
OPERATIONS = (*INPUTS, *PAIRS, *SINGLES, *OTHERS)
#: Each made of some of the twenty.
COMPOUNDS = ("softmax", "inner", "second", "dot_top", "held")


def _operator(operation: str) -> tuple[Callable[[Value, Number], Value], ...]:
    """Return what makes a pair of a value and what stands on its right, and on its left."""
    return (
        lambda self, other: _pair(operation, self, other),
        lambda self, other: _pair(operation, other, self),
    )


@dataclass(frozen=True, eq=False)
class Value:
    """Some numbers of each row, and how they are made.

    Attributes
    ----------
    operation : str
        One of ``OPERATIONS`` or ``COMPOUNDS``.
    width : int
        Numbers per row.
    of : tuple of Value
        What it is made of.
    numbers : ndarray
        Of a constant, shape (width,); the matrix of a dot, shape (width, width of its value), or
        of a dot_top; the ascending numbers of a rank; else empty.

    Examples
    --------
    >>> z = given("logits", 3)
    >>> confidence = 1 / exp(z - z.largest()).sum()
    >>> confidence.operation, confidence.width
    ('divide', 1)
    """

    operation: str
    width: int
    of: tuple[Value, ...] = ()
    numbers: FloatArray = field(default_factory=lambda: np.empty(0))

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("subtract")
    __mul__, __rmul__ = _operator("multiply")
    __truediv__, __rtruediv__ = _operator("divide")

    def reached(self, other: Number) -> Value:
        """Return 1 where this is at least the other."""
        return _pair("reached", self, other)

    def at_least(self, other: Number) -> Value:
        """Return the larger of the two."""
        return _pair("maximum", self, other)

    def at_most(self, other: Number) -> Value:
        """Return the smaller of the two."""
        return _pair("minimum", self, other)

    def sum(self) -> Value:
        """Return the sum of a row's numbers."""
        return Value("sum", 1, (self,))

    def inner(self, other: Value) -> Value:
        """Return the sum of the products with another value's numbers."""
        return Value("inner", 1, (self, other))

    def largest(self) -> Value:
        """Return the largest of a row's numbers."""
        return Value("largest", 1, (self,))

    def at_top(self) -> Value:
        """Return 1 at the first of the largest numbers."""
        return Value("at_top", self.width, (self,))

    def dot(self, matrix: object) -> Value:
        """Return the products with the rows of a matrix (k, width), or with one row (width,)."""
        rows = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
        if self.operation == "join" and self.of[1].operation == "at_top":
            return Value("dot_top", len(rows), self.of, rows)
        return Value("dot", len(rows), (self,), rows)

    def rank(self, ascending: object) -> Value:
        """Return how many of some ascending numbers are at most this."""
        return Value("rank", 1, (self,), np.asarray(ascending, dtype=np.float64))

    def join(self, other: Value) -> Value:
        """Return both side by side."""
        return Value("join", self.width + other.width, (self, other))


def given(name: str, width: int) -> Value:
    """Return an input: logits, features, or the effect or the thresholds of the row's group."""
    return Value(name, width)


def constant(numbers: object) -> Value:
    """Return numbers that are the same for every row."""
    array = np.atleast_1d(np.asarray(numbers, dtype=np.float64))
    return Value("constant", len(array), (), array)


def choose(where: Value, then: Number, otherwise: Number) -> Value:
    """Return ``then`` where ``where`` is not 0, ``otherwise`` elsewhere."""
    parts = where, _value(then), _value(otherwise)
    return Value("choose", max(part.width for part in parts), parts)


def exp(value: Value) -> Value:
    """Return the exponential of each number."""
    return Value("exp", value.width, (value,))


def log(value: Value) -> Value:
    """Return the natural logarithm of each number."""
    return Value("log", value.width, (value,))


def sqrt(value: Value) -> Value:
    """Return the square root of each number."""
    return Value("sqrt", value.width, (value,))


def erf(value: Value) -> Value:
    """Return the error function of each number."""
    return Value("erf", value.width, (value,))


def _value(number: Number) -> Value:
    return number if isinstance(number, Value) else constant(number)


def _pair(operation: str, first: Number, second: Number) -> Value:
    parts = _value(first), _value(second)
    return Value(operation, max(part.width for part in parts), parts)


def sigmoid(x: Value) -> Value:
    """Return 1 / (1 + exp(-x)) of each number."""
    return 1 / (1 + exp(0.0 - x.at_least(-HIGHEST_EXPONENT)))


def softplus(x: Value) -> Value:
    """Return log(1 + exp(x)) of each number."""
    size = x.at_least(0.0 - x)
    return x.at_least(0.0) + log(1 + exp(0.0 - size))


def softmax(gaps: Value) -> Value:
    """Return the softmax of a row's numbers, the largest of which is 0."""
    return Value("softmax", gaps.width, (gaps,))


def steps(score: Value, thresholds: Sequence[float], values: Sequence[float]) -> Value:
    """Return the value of the step that a score is on; a tie goes up."""
    result = constant(values[0])
    for threshold, value in zip(thresholds, values[1:], strict=True):
        result = choose(score.reached(threshold), value, result)
    return result


def _log_odds(score: Value, scale: ScoreScale) -> Value:
    """Return what :meth:`smallcal.data.score.ScoreScale.log_odds` does."""
    if scale.kind == "number":
        return (score.at_least(scale.low).at_most(scale.high) - scale.mean) / scale.scale
    held = score.at_least(NEAREST).at_most(1 - NEAREST)
    return log(held) - log(1 - held)


class Row:
    """The logits of a row, and what several parts ask of them; each is written down once.

    Parameters
    ----------
    n_classes, n_features : int
    takes : {"logits", "probabilities"}
        What comes in; the logarithm of probabilities serves as logits.
    score : ScoreScale, optional
        Where one number comes in instead; (0, x) serve as logits.

    Attributes
    ----------
    present : Value or None
        1 at the options that a row has; None where each row has all: a row has two or more.
    """

    def __init__(
        self,
        n_classes: int,
        *,
        n_features: int = 0,
        takes: str = "logits",
        score: ScoreScale | None = None,
    ) -> None:
        self.logits = given("logits", n_classes if score is None else 1)
        self.present = None
        if takes == "logits" and n_classes > FEWEST:
            self.present = self.logits.reached(-MAX_MAGNITUDE)
            self.logits = self.logits.at_least(MASKED)
        if score is not None:
            self.logits = constant(0.0).join(_log_odds(self.logits, score))
        elif takes == "probabilities":
            self.logits = log(self.logits.at_least(PROBABILITY_FLOOR))
        self.features = given("features", n_features)

    @once
    def filled(self) -> Value:
        """The logits; an option that a row does not have looks like its least likely one."""
        if self.present is None:
            return self.logits
        lowest = 0.0 - choose(self.present, 0.0 - self.logits, LOWEST).largest()
        return choose(self.present, self.logits, lowest)

    def without_masked(self, probabilities: Value) -> Value:
        """Return probabilities that are 0 where the row does not have an option."""
        if self.present is None:
            return probabilities
        kept = choose(self.present, probabilities, 0.0)
        kept = choose(kept.sum(), kept, self.present)
        return kept / kept.sum()

    @once
    def top(self) -> Value:
        """1 at the predicted class, 0 elsewhere."""
        return self.logits.at_top()

    @once
    def best(self) -> Value:
        """The largest logit."""
        return self.logits.largest()

    @once
    def gaps(self) -> Value:
        """Logits minus the largest."""
        return self.logits - self.best

    @once
    def second_gap(self) -> Value:
        """The gap of the class that comes second."""
        return Value("second", 1, (self.top, self.gaps))

    @once
    def statistics(self) -> Mapping[str, Value]:
        """The six statistics by name."""
        weight = exp(self.gaps)
        total = weight.sum()
        confidence = 1 / total
        return {
            "confidence": confidence,
            "logit_margin": 0.0 - self.second_gap,
            "prob_margin": (1 - exp(self.second_gap)) * confidence,
            "entropy": log(total) - weight.inner(self.gaps) * confidence,
            "logit_norm": sqrt(self._squares()),
            "top_logit": self.best,
        }

    def _squares(self) -> Value:
        if self.present is None:
            return self.logits.inner(self.logits)
        return choose(self.present, self.logits * self.logits, 0.0).sum()

    def joined(self, names: Sequence[str]) -> Value:
        """Return several statistics side by side."""
        return reduce(Value.join, (self.statistics[name] for name in names))


@dataclass(frozen=True, eq=False)
class Program:
    """What a calibrator computes for a row.

    Attributes
    ----------
    probabilities : Value
    temperature : Value or None
        What the row's logits are divided by, where that is what the map does.
    n_classes, n_features : int
        Widths of the inputs; no features where 0.
    takes : {"logits", "probabilities", "score"}
        What the first input holds.
    score : ScoreScale or None
        What one number per row is taken for, where that is what comes in.
    grouped : bool
        Whether it reads the effect of the row's group.
    confidence : Value or None
        Calibrated probability of the model's own prediction, where predictions are kept although
        another class may be more probable.
    decisions : tuple of (str, Value)
        The column of each decision, and 1 where it accepts the row, else 0.
    n_columns : int
        Width of the first input: one column per class, or one score.
    """

    probabilities: Value
    temperature: Value | None
    n_classes: int
    n_features: int
    takes: str
    score: ScoreScale | None = None
    grouped: bool = False
    confidence: Value | None = None
    decisions: tuple[tuple[str, Value], ...] = ()

    @property
    def n_columns(self) -> int:
        """Width of the first input."""
        return self.n_classes if self.score is None else 1

    @property
    def allowed(self) -> tuple[float, float]:
        """The least and the largest number that may come in, as the checks on arrays have it."""
        if self.score is not None:
            return self.score.allowed
        return (-1e-6, 1.001) if self.takes == "probabilities" else (-math.inf, MAX_MAGNITUDE)

    def alone(self, value: Value) -> Program:
        """Return the program of one value, in the place of the probabilities."""
        return replace(self, probabilities=value, temperature=None, confidence=None, decisions=())

    def rewritten(self, change: Callable[[Value], Value]) -> Program:
        """Return the program with every value changed, those that it is made of first."""
        made: dict[int, Value] = {}
        for value in self.values():
            parts = tuple(made[id(part)] for part in value.of)
            kept = all(new is old for new, old in zip(parts, value.of, strict=True))
            made[id(value)] = change(value if kept else replace(value, of=parts))
        temperature, confidence = self.temperature, self.confidence
        return replace(
            self,
            probabilities=made[id(self.probabilities)],
            temperature=None if temperature is None else made[id(temperature)],
            confidence=None if confidence is None else made[id(confidence)],
            decisions=tuple((name, made[id(value)]) for name, value in self.decisions),
        )

    def values(self) -> Iterator[Value]:
        """Yield every value that is needed, each after those it is made of."""
        seen: set[int] = set()
        stack = [(value, False) for _, value in reversed(self.decisions)]  # last of all
        if self.confidence is not None:
            stack.append((self.confidence, False))
        stack.append((self.probabilities, False))
        if self.temperature is not None:
            stack.append((self.temperature, False))
        while stack:  # not a recursion: a program may be deeper than Python's stack
            value, ready = stack.pop()
            if id(value) in seen:
                continue
            if ready:
                seen.add(id(value))
                yield value
            else:
                stack.append((value, True))
                stack.extend((part, False) for part in reversed(value.of))

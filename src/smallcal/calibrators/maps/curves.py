"""Temperature as a smooth function of a score: a line, three anchors, a natural spline.

All of them are one thing: T = link(coefficients x basis(score)). They differ in the basis, and
they are fitted by one descent through the chain rule, started at the pooled temperature.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.maps.base import (
    TemperatureMap,
)
from smallcal.calibrators.maps.temperature import LEAST_TEMPERATURE
from smallcal.calibrators.objectives import sigmoid, softplus
from smallcal.calibrators.parts import ONE_SCORE, Rule, Scores, rule
from smallcal.calibrators.program import Row, Value
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError

#: Softplus may underflow; a temperature must stay positive.
FLOOR = 1e-4


#: Anchors and knots are at least this far apart, in scores and in shares of their whole range: what
#: is divided by a gap stays finite. Those of a fit are further apart.
LEAST_GAP = 1e-100
LEAST_SHARE = 1e-10

#: A spline takes scores further out, in widths of its knots, as this: their cubes stay finite.
FARTHEST = 1e60

AnyScore = TypeVar("AnyScore", FloatArray, Value)


class Link(NamedTuple):
    """How a linear combination becomes a temperature, with derivative and inverse."""

    value: Callable[[FloatArray], FloatArray]
    slope: Callable[[FloatArray], FloatArray]
    inverse: Callable[[float], float]


LINKS: Mapping[str, Link] = MappingProxyType(
    {
        "softplus": Link(
            lambda x: np.maximum(softplus(x), FLOOR),
            lambda x: np.where(softplus(x) > FLOOR, sigmoid(x), 0.0),
            lambda t: float(t + np.log(-np.expm1(-t))),
        ),
        # Scores that no split had may lead a line below zero.
        "identity": Link(lambda x: np.maximum(x, LEAST_TEMPERATURE), np.ones_like, lambda t: t),
    }
)


_CURVE: Mapping[str, Rule] = {
    "coefficients": rule("numbers"),
    "link": {"type": "string", "enum": list(LINKS)},
}


class Curve(TemperatureMap):
    """T = link(coefficients x basis(score))."""

    coefficients: tuple[float, ...]
    link: str

    @abstractmethod
    def basis(self, scores: FloatArray, /) -> FloatArray:
        """Return the basis functions at each score, shape (p, m)."""

    @property
    def n_parameters(self) -> int:
        """The coefficients; anchors and knots are quantiles of the data, not fitted."""
        return len(self.coefficients)

    @property
    def reads(self) -> tuple[Scores, ...]:
        """One score."""
        return (ONE_SCORE,)

    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row."""
        # einsum, not a matrix product: a row's bits must not depend on its batch.
        combined = np.einsum("p,pm->m", np.array(self.coefficients), self.basis(scores))
        return LINKS[self.link].value(combined)

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the link of the combined basis functions."""
        combined = self._combined(scores)
        if self.link == "identity":
            return combined.at_least(LEAST_TEMPERATURE)
        return program.softplus(combined).at_least(FLOOR)

    @abstractmethod
    def _combined(self, score: Value) -> Value:
        """Write down coefficients x basis(score)."""

    def _require(self, size: int) -> None:
        if self.link not in LINKS:
            raise InputError(f"link must be one of {', '.join(LINKS)}; got {self.link!r}")
        if len(self.coefficients) != size:
            raise InputError(f"{self.kind} needs {size} coefficients; got {self.coefficients}")


@dataclass(frozen=True)
class LinearMap(Curve):
    """T = link(a + b x score)."""

    coefficients: tuple[float, ...]
    link: str = "softplus"
    kind: ClassVar[str] = "linear"
    words: ClassVar[str] = "divided by a temperature that follows {signal} along a line"
    schema: ClassVar[Mapping[str, Rule]] = _CURVE

    def __post_init__(self) -> None:
        self._require(2)
        if self.link == "identity" and (self.coefficients[0] <= 0 or self.coefficients[1] < 0):
            raise InputError(
                f"without a link the coefficients must be positive; got {self.coefficients}"
            )

    def basis(self, scores: FloatArray, /) -> FloatArray:
        """Return 1 and the score."""
        return np.stack([np.ones_like(scores), scores])

    def _combined(self, score: Value) -> Value:
        level, slope = self.coefficients
        return level + slope * score


@dataclass(frozen=True)
class AnchorMap(Curve):
    """Straight between the temperatures at some scores, level beyond the first and last."""

    anchors: tuple[float, ...]
    coefficients: tuple[float, ...]
    link: str = "identity"
    kind: ClassVar[str] = "anchors"
    words: ClassVar[str] = (
        "divided by a temperature that follows {signal}, straight between anchors"
    )
    schema: ClassVar[Mapping[str, Rule]] = {
        "anchors": rule("numbers"),
        **_CURVE,
        "coefficients": rule("numbers", "The temperature at each anchor."),
    }

    def __post_init__(self) -> None:
        self._require(len(self.anchors))
        if not _apart(self.anchors):
            raise InputError(f"anchors must be ascending; got {self.anchors}")
        if min(self.coefficients) <= 0:
            raise InputError(f"temperatures must be positive; got {self.coefficients}")

    def basis(self, scores: FloatArray, /) -> FloatArray:
        """Return one tent per anchor."""
        tents = np.eye(len(self.anchors))
        return np.stack([np.interp(scores, self.anchors, tent) for tent in tents])

    def _combined(self, score: Value) -> Value:
        anchors, values = np.array(self.anchors), np.array(self.coefficients)
        slopes = np.diff(values) / np.diff(anchors)
        inside = score.at_least(float(anchors[0])).at_most(float(anchors[-1]))
        result = program.constant(values[0])
        for anchor, value, slope in zip(anchors, values, slopes, strict=False):
            line = float(value) + float(slope) * (inside - float(anchor))
            result = program.choose(inside.reached(float(anchor)), line, result)
        return result


@dataclass(frozen=True)
class SplineMap(Curve):
    """Softplus of a natural cubic spline: cubic between three knots, straight beyond them."""

    knots: tuple[float, ...]
    coefficients: tuple[float, ...]
    link: str = "softplus"
    kind: ClassVar[str] = "spline"
    words: ClassVar[str] = "divided by a temperature that follows {signal} along a smooth curve"
    schema: ClassVar[Mapping[str, Rule]] = {"knots": rule("numbers"), **_CURVE}

    def __post_init__(self) -> None:
        self._require(3)
        if len(self.knots) != 3 or not _apart(self.knots):
            raise InputError(f"knots must be three ascending numbers; got {self.knots}")

    def basis(self, scores: FloatArray, /) -> FloatArray:
        """Return 1, the rescaled score, and the one truncated cubic that is straight outside."""
        x, bend = self._parts(
            scores,
            lambda part: np.maximum(part, 0) ** 3,
            lambda part: np.clip(part, -FARTHEST, FARTHEST),
        )
        return np.stack([np.ones_like(x), x, bend])

    def _combined(self, score: Value) -> Value:
        def cubed(value: Value) -> Value:
            part = value.at_least(0.0)
            return part * part * part

        level, slope, bend = self.coefficients
        x, curve = self._parts(
            score, cubed, lambda value: value.at_least(-FARTHEST).at_most(FARTHEST)
        )
        return level + slope * x + bend * curve

    def _parts(
        self,
        scores: AnyScore,
        cubed: Callable[[AnyScore], AnyScore],
        limited: Callable[[AnyScore], AnyScore],
    ) -> tuple[AnyScore, AnyScore]:
        """Return the scores in units in which the middle knot is 0, and the cubic of them.

        ``cubed`` gives the third power of what is positive, and 0 elsewhere; ``limited`` what is
        not so far out that its cube would overflow.
        """
        first, middle, last = self.knots
        width = last - first
        x, low, high = (scores - middle) / width, (first - middle) / width, (last - middle) / width
        x = limited(x)
        beyond = cubed(x - high)
        from_first = (cubed(x - low) - beyond) / (high - low)
        from_middle = (cubed(x) - beyond) / high
        return x, from_first - from_middle


def _apart(points: tuple[float, ...]) -> bool:
    """Whether points ascend, with gaps that can be divided by."""
    least = max(LEAST_SHARE * (points[-1] - points[0]), LEAST_GAP)
    return bool(np.all(np.diff(points) >= least))

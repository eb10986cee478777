"""Venn-Abers prediction of one number: two probabilities, one of which is the calibrated one.

For a new score, isotonic regression is fitted twice, with the score added as a row without the
outcome (which gives p0) and with it (p1). Among rows that are exchangeable one of the two is
perfectly calibrated, whatever the scores; how far they lie apart says how much the labels tell
there. Both are step functions of the score, found at once for all scores by the algorithm of Vovk,
Petej and Fedorova, "Large-scale probabilistic predictors with and without guarantees of validity"
(NeurIPS 2015); the one probability they come to, p1 / (1 - p0 + p1), is theirs too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.maps.base import MapFit, ProbabilityMap, Split, recipe
from smallcal.calibrators.maps.score import sample_of, score_flags
from smallcal.calibrators.maps.score_fit import Sample
from smallcal.calibrators.parts import Rule, list_of, rule
from smallcal.calibrators.program import Row, Value
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError

#: Steps in a file: each is a statement to every exporter.
MOST_STEPS = 10_000

Point = tuple[float, float]


@dataclass(frozen=True)
class VennAbersMap(ProbabilityMap):
    """The probability of the second of two classes between two step functions of x = z1 - z0.

    Attributes
    ----------
    low_edges, high_edges : tuple of float
        Where steps of p0 and of p1 begin, from the second on: ascending.
    low, high : tuple of float
        p0 and p1 on each step; one more than edges.
    falling : bool
        Whether the steps are of -x.

    Examples
    --------
    >>> two = VennAbersMap((0.0,), (0.0, 0.5), (1.0,), (0.5, 1.0))
    >>> two.interval(np.array([-1.0, 0.5, 2.0])).tolist()
    [[0.0, 0.5], [0.5, 0.5], [0.5, 1.0]]
    >>> two.probability(np.array([-1.0, 0.5, 2.0])).round(3).tolist()
    [0.333, 0.5, 0.667]
    """

    low_edges: tuple[float, ...]
    low: tuple[float, ...]
    high_edges: tuple[float, ...]
    high: tuple[float, ...]
    falling: bool = False
    kind: ClassVar[str] = "venn_abers"
    n_classes: ClassVar[int] = 2
    words: ClassVar[str] = (
        "taken for one number, whose Venn-Abers interval gives the second class's probability"
    )
    schema: ClassVar[Mapping[str, Rule]] = {
        "low_edges": list_of(rule("number"), "Where steps of p0 begin, from the second on."),
        "low": list_of(rule("probability"), "p0 on each step.", least=1, most=MOST_STEPS),
        "high_edges": list_of(rule("number"), "Where steps of p1 begin, from the second on."),
        "high": list_of(rule("probability"), "p1 on each step.", least=1, most=MOST_STEPS),
        "falling": {
            "type": "boolean",
            "description": "Whether the steps are of the first logit less the second.",
        },
    }

    def __post_init__(self) -> None:
        for name in ("low_edges", "low", "high_edges", "high"):
            object.__setattr__(self, name, tuple(map(float, getattr(self, name))))
        for edges, values in ((self.low_edges, self.low), (self.high_edges, self.high)):
            if len(values) != len(edges) + 1:
                raise InputError(
                    f"{len(values)} steps need {len(values) - 1} edges, not {len(edges)}"
                )
            if not np.isfinite(edges).all() or not (np.diff(edges) > 0).all():
                raise InputError("edges must be finite and ascending")
            inside = all(0 <= value <= 1 for value in values)
            if not inside or not (np.diff(values) >= 0).all():
                raise InputError("steps must lie between 0 and 1, and never fall")

    @property
    def n_parameters(self) -> int:
        """The levels of both step functions that are not 0 and 1 by definition."""
        return len(self.low) + len(self.high) - 2

    @property
    def n_held(self) -> int:
        """All but one: that the interval is valid does not depend on how many levels there are."""
        return max(self.n_parameters - 1, 0)

    @property
    def preserves_argmax(self) -> bool:
        """No: the probability may cross one half elsewhere than the scores do."""
        return False

    def interval(self, x: FloatArray, /) -> FloatArray:
        """Return p0 and p1 at scores x = z1 - z0, shape (m, 2)."""
        x = np.asarray(x, dtype=np.float64)
        x = -x if self.falling else x
        sides = ((self.low_edges, self.low), (self.high_edges, self.high))
        found = [np.array(v).take(np.searchsorted(e, x, side="right")) for e, v in sides]
        return np.stack(found, axis=1)

    def probability(self, x: FloatArray, /) -> FloatArray:
        """Return the probability of the second class at scores x = z1 - z0, shape (m,)."""
        low, high = self.interval(x).T
        return np.asarray(high / (1 - low + high))

    def probabilities(self, logits: FloatArray, scores: FloatArray, /) -> FloatArray:
        """Return probabilities (m, 2), float64; ``scores`` are not looked at."""
        low, high = self.interval(logits[:, 1] - logits[:, 0]).T
        return np.asarray(np.stack([1 - low, high], axis=1) / (1 - low + high)[:, None])

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the probabilities."""
        x = row.logits.dot([1.0, -1.0] if self.falling else [-1.0, 1.0])
        miss = 1 - program.steps(x, self.low_edges, self.low)
        high = program.steps(x, self.high_edges, self.high)
        return miss.join(high) / (miss + high)


@recipe("venn_abers", keeps_argmax=False, binary=True)
def fit_venn_abers(split: Split) -> MapFit:
    """Find both step functions of x = z1 - z0; see the module.

    A new row counts as much as a row of weight 1. Where the relation falls, scores are taken the
    other way round, with the flag ``falling``.

    Examples
    --------
    >>> from smallcal.calibrators.maps.temperature import split_of
    >>> x = np.arange(6.0)
    >>> fit = fit_venn_abers(split_of(np.stack([0 * x, x], axis=1), [0, 0, 1, 0, 1, 1]))
    >>> fit.map.interval(np.array([0.0, 2.5, 9.0])).round(3).tolist()
    [[0.0, 0.333], [0.333, 0.667], [0.667, 1.0]]
    """
    sample = sample_of(split)
    flags = score_flags(sample)
    made = steps_of(sample.flipped() if "falling" in flags else sample, falling="falling" in flags)
    return MapFit(made, (split.gaps.n,), flags)


def steps_of(sample: Sample, *, falling: bool = False) -> VennAbersMap:
    """Return both step functions of a sample whose outcomes become more frequent with x."""
    at, place = np.unique(sample.x, return_inverse=True)
    weight = np.bincount(place, sample.weight).astype(np.float64)
    came = np.bincount(place, sample.weight * sample.outcome).astype(np.float64)
    # A row with the outcome is pooled with those at or above it, one without with those below.
    high = np.append(_with_outcome(weight, came), 1.0)
    low = np.append(0.0, 1 - _with_outcome(weight[::-1], (weight - came)[::-1])[::-1])
    # p0 steps up at a score itself, p1 just above it. A score that is met again is on the same
    # side, also where it comes in single precision or another machine took its logarithm.
    hair = _hair(at)
    low_edges, low = _changes(at - hair, low)
    high_edges, high = _changes(at + hair, high)
    return VennAbersMap(tuple(low_edges), tuple(low), tuple(high_edges), tuple(high), falling)


def _hair(at: FloatArray) -> FloatArray:
    """Return how far from a score counts as the score: a millionth, never half way to others."""
    apart = np.append(np.diff(at), np.inf)
    nearest = np.minimum(apart, np.roll(apart, 1))
    return np.asarray(np.minimum(1e-6 * np.maximum(np.abs(at), 1), nearest / 3))


def _changes(edges: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Leave out edges at which nothing changes; rounding is no change."""
    values = np.maximum.accumulate(np.clip(values, 0, 1))
    real = np.diff(values) > 1e-14
    return edges[real], np.append(values[:1], values[1:][real])


def _with_outcome(weight: FloatArray, came: FloatArray) -> FloatArray:
    """Return what isotonic regression gives each score if a row with the outcome is added there.

    In the diagram of cumulated weights and outcomes, isotonic regression is the slope of the
    greatest convex minorant. The added row is a step (1, 1) that begins before all others and
    changes places with one after the other; the corners of the minorant on its right are known
    from the start, and each is dropped once.
    """
    points: list[Point] = [(-1.0, -1.0), (0.0, 0.0)]
    totals = zip(np.cumsum(weight).tolist(), np.cumsum(came).tolist(), strict=True)
    points += totals
    corners: list[Point] = []
    for point in points:
        _push(corners, point)
    corners.reverse()  # the leftmost is now on top
    result = np.empty(len(weight))
    before = points[0]
    for i in range(len(weight)):
        first, second = corners[-1], corners[-2]
        result[i] = _slope(first, second)
        (x, y), (x1, y1) = points[i + 1], points[i + 2]
        before = (before[0] + x1 - x, before[1] + y1 - y)
        if _turn(first, before, second) <= 0:  # at or above the minorant
            continue
        corners.pop()
        while len(corners) > 1 and _turn(before, corners[-1], corners[-2]) <= 0:
            corners.pop()
        corners.append(before)
    return result


def _push(corners: list[Point], point: Point) -> None:
    """Add a point on the right to the corners of a convex minorant."""
    while len(corners) > 1 and _turn(corners[-2], corners[-1], point) <= 0:
        corners.pop()
    corners.append(point)


def _turn(a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> float:
    """Return more than 0 where the way from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])


def _slope(a: Point, b: Point) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])

"""Semantic-aware grouping: groups of samples that look alike, learned from features.

Yang, Zhan and Gan, "Beyond Probability Partitions: Calibrating Neural Networks with Semantic
Aware Grouping" (NeurIPS 2023). A partition cuts feature space into K cones, one per row of a
matrix W: a sample belongs to the largest entry of W u, where u are its standardised features.
On half of the split W is learned together with a temperature per group, groups being soft; on
the other half each group, now hard, gets its temperature. Several partitions, from different
halves and starting points, are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.maps.base import ProbabilityMap
from smallcal.calibrators.maps.temperature import (
    require_temperatures,
)
from smallcal.calibrators.parts import Rule, Scores, list_of, require_scale, rule
from smallcal.calibrators.program import Row, Value
from smallcal.calibrators.softmax import keep_argmax
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError

#: Partitions in a file: each gives a row's probabilities anew.
MOST_PARTITIONS = 1000


@dataclass(frozen=True, eq=False)
class SemanticMap(ProbabilityMap):
    """Averages softmax(z / T) over partitions; each has its own groups and temperatures.

    Attributes
    ----------
    mean, scale : ndarray of shape (d,)
        Of the features on the calibration split: they are standardised before they are used,
        so that features in the thousands behave like features near 1.
    partitions : ndarray of shape (M, K, d)
        Each partition's W.
    temperatures : ndarray of shape (M, K)

    Examples
    --------
    >>> by_sign = SemanticMap([0.0], [1.0], [[[-1.0], [1.0]]], [[1.0, 2.0]])
    >>> logits = np.log([[0.2, 0.8], [0.2, 0.8]])
    >>> by_sign.probabilities(logits, np.array([[-3.0], [3.0]])).round(3).tolist()
    [[0.2, 0.8], [0.333, 0.667]]
    """

    mean: FloatArray
    scale: FloatArray
    partitions: FloatArray
    temperatures: FloatArray
    kind: ClassVar[str] = "semantic"
    words: ClassVar[str] = "divided by the temperatures of groups found in {signal}, and averaged"
    schema: ClassVar[Mapping[str, Rule]] = {
        "mean": rule("numbers"),
        "scale": rule("numbers"),
        "partitions": list_of(
            rule("matrix"),
            "Partition, group, feature: a sample joins the group whose row has the largest "
            "product with its standardised features.",
            least=1,
            most=MOST_PARTITIONS,
        ),
        "temperatures": rule("matrix", "Partition, group."),
    }

    def __post_init__(self) -> None:
        for name, ndim in (("mean", 1), ("scale", 1), ("partitions", 3), ("temperatures", 2)):
            object.__setattr__(self, name, _constant(getattr(self, name), name=name, ndim=ndim))
        d = len(self.mean)
        if self.scale.shape != (d,) or self.partitions.shape != (*self.temperatures.shape, d):
            raise InputError(
                f"mean, scale, partitions and temperatures do not fit together: their shapes are "
                f"{self.mean.shape}, {self.scale.shape}, {self.partitions.shape} and "
                f"{self.temperatures.shape}"
            )
        require_scale(float(self.scale.min()))
        require_temperatures(tuple(self.temperatures.ravel().tolist()))

    @property
    def n_parameters(self) -> int:
        """Every W and every temperature; the moments are data, not fitted parameters."""
        return self.partitions.size + self.temperatures.size

    @property
    def reads(self) -> tuple[Scores, ...]:
        """A score per feature."""
        return (Scores(len(self.mean)),)

    def probabilities(self, logits: FloatArray, scores: FloatArray, /) -> FloatArray:
        """Return probabilities; the scores are the features, shape (m, d)."""
        features = self._standardised(scores)
        # One memory layout for all: the order of a sum, and so its bits, would depend on it.
        gaps = np.array(logits, dtype=np.float64, order="C")
        top = np.asarray(gaps.argmax(axis=1), dtype=np.int64)
        gaps -= gaps[np.arange(len(gaps)), top][:, None]
        result, weight = np.zeros_like(gaps), np.empty_like(gaps)
        for partition, temperatures in zip(self.partitions, self.temperatures, strict=True):
            temperature = temperatures[members(features, partition)]
            np.divide(gaps, temperature[:, None], out=weight)
            np.exp(weight, out=weight)
            weight *= (1 / np.einsum("ij->i", weight))[:, None]
            result += weight
        result /= len(self.partitions)
        keep_argmax(result, top)
        return result

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the mean of the partitions' probabilities."""
        features = (scores - program.constant(self.mean)) / program.constant(self.scale)
        first, *others = (
            program.softmax(row.gaps / features.dot(partition).at_top().dot(temperatures))
            for partition, temperatures in zip(self.partitions, self.temperatures, strict=True)
        )
        for other in others:
            first = first + other
        return first / float(len(self.partitions))

    def _standardised(self, scores: FloatArray) -> FloatArray:
        if scores.ndim != 2 or scores.shape[1] != len(self.mean):
            raise InputError(
                f"features must have shape (n, {len(self.mean)}), as on the calibration split; "
                f"got {scores.shape}"
            )
        return np.ascontiguousarray((scores - self.mean) / self.scale)


def members(features: FloatArray, partition: FloatArray) -> IntArray:
    """Return the group of each sample, given its standardised features."""
    # einsum row by row, not a matrix product: a row's bits must not depend on its batch.
    parts = [np.einsum("ij,j->i", features, direction) for direction in partition]
    return np.asarray(np.argmax(parts, axis=0), dtype=np.int64)


def _constant(values: Any, *, name: str, ndim: int) -> FloatArray:
    """Return an array that nobody can change, from an array or from nested lists."""
    try:
        array = np.array(values, dtype=np.float64)
    except (ValueError, TypeError):
        raise InputError(f"{name} must be numbers in {ndim} dimensions") from None
    if array.ndim != ndim or array.size == 0 or not np.isfinite(array).all():
        raise InputError(
            f"{name} must be finite numbers in {ndim} dimensions; got shape {array.shape}"
        )
    array.flags.writeable = False
    return array

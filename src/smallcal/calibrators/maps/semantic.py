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
from smallcal.calibrators.maps.base import MapFit, ProbabilityMap, Split, minimise, recipe
from smallcal.calibrators.maps.binning import stratified_halves
from smallcal.calibrators.maps.groups import fit_group
from smallcal.calibrators.maps.temperature import (
    one_sided,
    require_temperatures,
    scalar_fallback,
    temperature_flags,
    weighted_rows,
)
from smallcal.calibrators.objectives import OBJECTIVES, Gaps, moments
from smallcal.calibrators.parts import Rule, Scores, list_of, require_scale, rule
from smallcal.calibrators.program import Row, Value
from smallcal.calibrators.softmax import keep_argmax
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError

#: Partitions in a file: each gives a row's probabilities anew.
MOST_PARTITIONS = 1000

_START_TEMPERATURE = 1.5
_MAX_ITERATIONS = 100


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
            temperature = temperatures[_members(features, partition)]
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


@recipe("semantic", care="temperatures from the other half")
def fit_semantic(
    split: Split, *, n_partitions: int = 20, n_groups: int = 2, penalty: float = 0.1
) -> MapFit:
    """Learn partitions of feature space, and a temperature for each of their groups.

    Parameters
    ----------
    split : Split
        Its scores are the features, shape (n, d).
    n_partitions, n_groups : int
        How many partitions are averaged, and the groups in each.
    penalty : float
        Times the mean squared entry of W, added to the loss that W is learned by.

    Returns
    -------
    MapFit
        A :class:`SemanticMap`. Its counts are, partition after partition, the samples that
        each temperature was fitted on. A group with fewer than ``discipline.min_group_size``
        of them takes the pooled temperature, flag ``fallback``; where all do, or fewer than
        two predictions are right or wrong, the result is one temperature for all, flag
        ``scalar_fallback``. Flags name no groups: there are too many to be told apart.

    Notes
    -----
    W is always learned by log-likelihood, temperatures of the hard groups by ``split.goal``.
    Samples of weight zero are left out.

    Examples
    --------
    >>> from smallcal.calibrators.maps.temperature import split_of
    >>> rng = np.random.default_rng(0)
    >>> z, side = rng.normal(size=(1000, 5)) * 3, rng.choice([-1.0, 1.0], size=1000)
    >>> true = z / np.where(side < 0, 1.0, 3.0)[:, None]
    >>> y = (true + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> fit = fit_semantic(split_of(z, y, scores=side[:, None]), n_partitions=1)
    >>> sorted(fit.map.temperatures[0].round().tolist())
    [1.0, 3.0]
    """
    _require_options(n_partitions, n_groups, penalty)
    rows = weighted_rows(split)
    if one_sided(split) or (len(rows) + 1) // 2 < split.discipline.min_group_size:
        return scalar_fallback(split)
    mean, scale = split.scores.mean(axis=0), split.scores.std(axis=0)
    varies = scale > 1e-9 * np.abs(split.scores).max(axis=0)  # beyond rounding noise
    scale[~varies] = 1
    features = np.ascontiguousarray((split.scores - mean) / scale)
    rng = np.random.default_rng([split.discipline.seed, 6])
    partitions: list[FloatArray] = []
    groups: list[IntArray] = []
    for _ in range(n_partitions):
        first, second = stratified_halves(split.gaps.correct, rows, rng)
        start = rng.uniform(-1, 1, size=(n_groups, len(mean))) / np.sqrt(len(mean))
        soft = SoftGroups.of(split.gaps.take(first), features[first], penalty)
        # A feature that never varies here could say anything of a new sample: it gets no weight.
        partition = _learned(soft, start, split.discipline.bounds) * varies
        member = _members(features[second], partition)
        partitions.append(partition)
        groups += [second[member == group] for group in range(n_groups)]
    found = [fit_group(split, group) for group in groups]
    if not any(found):
        return scalar_fallback(split)
    fitted = [each or split.pooled for each in found]
    flags = {name for each in fitted for name in temperature_flags(each)}
    if not all(found):
        flags.add("fallback")
    temperatures = np.reshape([each.value for each in fitted], (-1, n_groups))
    averaged = SemanticMap(mean, scale, np.array(partitions), temperatures)
    return MapFit(averaged, tuple(map(len, groups)), {name: [] for name in sorted(flags)})


@dataclass(frozen=True, eq=False)
class SoftGroups:
    """The loss that a partition is learned by, with its gradient.

    A sample's share in group k is softmax(W u)_k, and its probabilities are the shares' mixture
    of softmax(z / T_k). The loss is the mean negative log-likelihood plus
    ``penalty`` x mean(W²). Its argument is the vector of log T_1 ... log T_K and then W row by
    row: temperatures in logarithms cannot become negative.

    Attributes
    ----------
    gaps : Gaps
    features : ndarray of shape (n, d)
        Standardised.
    weight : ndarray of shape (n,)
        Sums to 1.
    penalty : float
    """

    gaps: Gaps
    features: FloatArray
    weight: FloatArray
    penalty: float

    @classmethod
    def of(cls, gaps: Gaps, features: FloatArray, penalty: float) -> SoftGroups:
        """Build the loss of some samples."""
        weight = gaps.weights
        return cls(gaps, features, weight / weight.sum(), penalty)

    def __call__(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Return loss and gradient."""
        d = self.features.shape[1]
        n_groups = len(parameters) // (d + 1)
        beta, partition = np.exp(-parameters[:n_groups]), parameters[n_groups:].reshape(-1, d)
        # Each group's own loss is that of a shared temperature: the kernel's, per sample.
        own = [OBJECTIVES["nll"].terms(self.gaps, moments(self.gaps, float(b))) for b in beta]
        share = partition @ self.features.T
        share -= np.logaddexp.reduce(share, axis=0)
        joint = share - np.array([terms.loss for terms in own])
        log_likelihood = np.logaddexp.reduce(joint, axis=0)
        # How much of a sample's likelihood each group accounts for.
        credit = np.exp(joint - log_likelihood) * self.weight
        slope = -beta * (credit * np.array([terms.slope for terms in own])).sum(axis=1)
        pull = (np.exp(share) * self.weight - credit) @ self.features
        pull += 2 * self.penalty / partition.size * partition
        loss = self.penalty * np.mean(partition**2) - self.weight @ log_likelihood
        return float(loss), np.concatenate([slope, pull.ravel()])


def _learned(soft: SoftGroups, start: FloatArray, bounds: tuple[float, float]) -> FloatArray:
    """Return the W that a descent from ``start`` ends at; its soft temperatures are not kept."""
    n_groups = len(start)
    low, high = np.log(bounds)
    warm = np.full(n_groups, np.clip(np.log(_START_TEMPERATURE), low, high))
    limits = [(low, high)] * n_groups + [(None, None)] * start.size
    begin = np.concatenate([warm, start.ravel()])
    found = minimise(soft, begin, limits, maxiter=_MAX_ITERATIONS)
    return np.asarray(found.x[n_groups:]).reshape(start.shape)


def _members(features: FloatArray, partition: FloatArray) -> IntArray:
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


def _require_options(n_partitions: int, n_groups: int, penalty: float) -> None:
    if n_partitions < 1:
        raise InputError(f"n_partitions must be at least 1; got {n_partitions}")
    if n_groups < 2:
        raise InputError(f"n_groups must be at least 2; got {n_groups}")
    if not 0 <= penalty < float("inf"):
        raise InputError(f"penalty must be finite and not negative; got {penalty}")

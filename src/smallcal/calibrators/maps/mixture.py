"""Ensemble temperature scaling: a blend of scaled, raw and uniform probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.maps.base import MapFit, ProbabilityMap, Split, recipe
from smallcal.calibrators.maps.temperature import require_temperatures, temperature_flags
from smallcal.calibrators.parts import Rule, list_of, rule
from smallcal.calibrators.program import Row, Value
from smallcal.calibrators.softmax import keep_argmax
from smallcal.data.predictions import FloatArray
from smallcal.data.special import softmax
from smallcal.errors import InputError

#: Weights are optimal to this much of the mean NLL.
_GAP = 1e-12
_MAX_STEPS = 100


@dataclass(frozen=True)
class MixtureMap(ProbabilityMap):
    """w1 softmax(z / T) + w2 softmax(z) + w3 / C.

    Attributes
    ----------
    temperature : float
    weights : tuple of three floats
        Not negative, with sum 1.

    Examples
    --------
    >>> half_uniform = MixtureMap(temperature=2.0, weights=(0.0, 0.5, 0.5))
    >>> half_uniform.probabilities(np.array([[np.log(3), 0.0]]), np.zeros(1)).tolist()
    [[0.625, 0.375]]
    """

    temperature: float
    weights: tuple[float, float, float]
    kind: ClassVar[str] = "mixture"
    words: ClassVar[str] = (
        "scaled, and the result mixed with the model's own and with uniform probabilities"
    )
    schema: ClassVar[Mapping[str, Rule]] = {
        "temperature": rule("temperature"),
        "weights": list_of(
            rule("probability"), "Of scaled, raw and uniform probabilities.", least=3, most=3
        ),
    }

    def __post_init__(self) -> None:
        require_temperatures((self.temperature,))
        weights = tuple(float(weight) for weight in self.weights)
        # Written so that NaN fails too.
        if len(weights) != 3 or not (min(weights) >= 0 and abs(sum(weights) - 1) <= 1e-9):
            raise InputError(f"weights must be three, not negative, with sum 1; got {weights}")
        object.__setattr__(self, "weights", weights)

    @property
    def n_parameters(self) -> int:
        """The temperature and two weights; the third follows from them."""
        return 3

    def probabilities(self, logits: FloatArray, scores: FloatArray, /) -> FloatArray:
        """Return probabilities (m, C), float64; ``scores`` are not looked at."""
        z: FloatArray = np.ascontiguousarray(logits, dtype=np.float64)
        scaled, raw, uniform = self.weights
        gaps = z - z.max(axis=1, keepdims=True)
        # Each operation keeps order, so that rounding can make ties but no reversal.
        blend = scaled * softmax(gaps * (1 / self.temperature)) + raw * softmax(gaps)
        blend += uniform / z.shape[1]
        keep_argmax(blend, np.argmax(z, axis=1))
        return blend

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the probabilities."""
        scaled, raw, uniform = self.weights
        blend = scaled * program.softmax(row.gaps / self.temperature)
        return blend + raw * program.softmax(row.gaps) + uniform / row.gaps.width


@recipe("mixture")
def fit_mixture(split: Split) -> MapFit:
    """Blend the pooled temperature's probabilities with raw and uniform ones, by NLL.

    The temperature is kept and the three weights are fitted: a convex problem, in which the
    scaled probabilities alone are one corner. So the NLL is never above theirs.
    """
    labels, logits = split.preds.labels, split.preds.logits.astype(np.float64)
    temperature = split.pooled.value
    every = np.arange(split.preds.n)
    scaled, raw = (softmax(logits * beta)[every, labels] for beta in (1 / temperature, 1.0))
    uniform = np.full(split.preds.n, 1 / split.preds.n_classes)
    weights = mixture_weights(np.column_stack([scaled, raw, uniform]), split.preds.weight)
    flags = {name: [0] for name in temperature_flags(split.pooled)}
    return MapFit(MixtureMap(temperature, weights), (split.preds.n,), flags)


def mixture_weights(
    likelihood: FloatArray, weight: FloatArray | None = None
) -> tuple[float, float, float]:
    """Return the blend of three models with the greatest likelihood.

    Parameters
    ----------
    likelihood : ndarray of shape (n, 3)
        Probability that each model gives each sample's label; the last column is positive.
    weight : ndarray of shape (n,), optional

    Examples
    --------
    >>> round(mixture_weights(np.array([[0.9, 0.5, 0.5], [0.1, 0.5, 0.5]]))[0], 6)
    0.0
    """
    share = np.ones(len(likelihood)) if weight is None else weight
    likelihood, share = likelihood[share > 0], share[share > 0] / share.sum()
    blend = np.full(3, 1 / 3)
    for _ in range(_MAX_STEPS):
        ratio = likelihood / (likelihood @ blend)[:, None]
        # The mean ratio of a model in the blend is 1 at the optimum, of others at most 1; its
        # excess bounds from above what the blend can still gain.
        pull = share @ ratio
        if pull.max() - 1 <= _GAP:
            break
        candidate = _newton_target(ratio, share, pull, blend)
        blend = _part_way(likelihood, share, blend, candidate)
    first, second, third = (blend / blend.sum()).tolist()
    return first, second, third


def _newton_target(
    ratio: FloatArray, share: FloatArray, pull: FloatArray, blend: FloatArray
) -> FloatArray:
    """Minimise the quadratic model of -mean log(likelihood @ w) + sum(w) over w >= 0.

    The sum takes the place of the constraint: at the minimum it is 1 by itself.
    """
    from scipy.optimize import nnls

    curvature = ratio.T @ (share[:, None] * ratio)
    # Models that agree leave their shares open; this holds them where they are.
    ridge = 1e-12 * np.trace(curvature)
    factor = np.linalg.cholesky(curvature + ridge * np.eye(3)).T
    target = np.linalg.solve(factor.T, 2 * pull - 1 + ridge * blend)
    return np.asarray(nnls(factor, target)[0])


def _part_way(
    likelihood: FloatArray, share: FloatArray, blend: FloatArray, candidate: FloatArray
) -> FloatArray:
    """Return the first of candidate, half way to it, ... that does not lose likelihood."""
    before = share @ np.log(likelihood @ blend)
    # The last steps gain less than rounding shows, and still make the weights more exact.
    least = before - 1e-14 * (1 + abs(before))
    for halvings in range(40):
        nearer = blend + 0.5**halvings * (candidate - blend)
        nearer /= max(nearer.sum(), 1e-300)
        mixed = likelihood @ nearer
        if mixed.min() > 0 and share @ np.log(mixed) >= least:
            return nearer
    return blend

"""Fit semantic-aware groups: groups of samples that look alike, learned from features."""

from __future__ import annotations

from functools import partial

import numpy as np

from smallcal.calibrators.maps.base import MapFit, Split, minimise, recipe
from smallcal.calibrators.maps.groups import fit_group
from smallcal.calibrators.maps.semantic import SemanticMap, members
from smallcal.calibrators.maps.temperature import (
    one_sided,
    scalar_fallback,
    temperature_flags,
    weighted_rows,
)
from smallcal.calibrators.objectives import OBJECTIVES, Gaps, moments
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError
from smallcal_lab.methods.binning import stratified_halves

_START_TEMPERATURE = 1.5
_MAX_ITERATIONS = 100


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
        A ``SemanticMap``. Its counts are, partition after partition, the samples that
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
    if n_partitions < 1:
        raise InputError(f"n_partitions must be at least 1; got {n_partitions}")
    if n_groups < 2:
        raise InputError(f"n_groups must be at least 2; got {n_groups}")
    if not 0 <= penalty < float("inf"):
        raise InputError(f"penalty must be finite and not negative; got {penalty}")
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
        # A feature that never varies here could say anything of a new sample: it gets no weight.
        learned = _learned(split, first, features[first], start, penalty)
        partition = learned * varies
        member = members(features[second], partition)
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


def soft_loss(
    parameters: FloatArray, gaps: Gaps, features: FloatArray, penalty: float
) -> tuple[float, FloatArray]:
    """Return the loss that a partition is learned by, and its gradient.

    A sample's share in group k is softmax(W u)_k, and its probabilities are the shares' mixture
    of softmax(z / T_k). The loss is the mean negative log-likelihood plus
    ``penalty`` x mean(W²). The parameters are log T_1 ... log T_K and then W row by row:
    temperatures in logarithms cannot become negative.
    """
    n_groups = len(parameters) // (features.shape[1] + 1)
    beta = np.exp(-parameters[:n_groups])
    partition = parameters[n_groups:].reshape(n_groups, -1)
    weight = gaps.weights / gaps.total
    # Each group's own loss is that of a shared temperature: the kernel's, per sample.
    own = [OBJECTIVES["nll"].terms(gaps, moments(gaps, float(b))) for b in beta]
    share = partition @ features.T
    share -= np.logaddexp.reduce(share, axis=0)
    joint = share - np.array([terms.loss for terms in own])
    log_likelihood = np.logaddexp.reduce(joint, axis=0)
    # How much of a sample's likelihood each group accounts for.
    credit = np.exp(joint - log_likelihood) * weight
    slope = -beta * (credit * np.array([terms.slope for terms in own])).sum(axis=1)
    pull = (np.exp(share) * weight - credit) @ features
    pull += 2 * penalty / partition.size * partition
    loss = penalty * np.mean(partition**2) - weight @ log_likelihood
    return float(loss), np.concatenate([slope, pull.ravel()])


def _learned(
    split: Split, rows: IntArray, features: FloatArray, start: FloatArray, penalty: float
) -> FloatArray:
    """Return the W that a descent from ``start`` ends at; its soft temperatures are not kept."""
    n_groups = len(start)
    low, high = np.log(split.discipline.bounds)
    warm = np.full(n_groups, np.clip(np.log(_START_TEMPERATURE), low, high))
    limits = [(low, high)] * n_groups + [(None, None)] * start.size
    begin = np.concatenate([warm, start.ravel()])
    gaps = split.gaps.take(rows)
    loss = partial(soft_loss, gaps=gaps, features=features, penalty=penalty)
    found = minimise(loss, begin, limits, maxiter=_MAX_ITERATIONS)
    return np.asarray(found.x[n_groups:]).reshape(start.shape)

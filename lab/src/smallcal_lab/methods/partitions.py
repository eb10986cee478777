"""Fit maps that learn parts on some samples and temperatures on others.

Scaling-binning (Kumar, Liang and Ma 2019), Meta-Cal (Ma and Blaschko 2021) and semantic-aware
groups (Yang, Zhan and Gan 2023). Each part of the fit sees samples that the other did not. Where
fewer than two predictions are right or wrong, or there is too little to learn parts from, the
result is one temperature for all, flag ``scalar_fallback``. Weights count in temperatures only;
samples of weight zero are left out.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from smallcal.calibrators.maps.base import MapFit, Split, minimise, recipe
from smallcal.calibrators.maps.binning import BinnedMap, scaled
from smallcal.calibrators.maps.groups import UNIFORM, GroupMap, fit_group
from smallcal.calibrators.maps.semantic import SemanticMap, members
from smallcal.calibrators.maps.temperature import (
    fit_temperature,
    one_sided,
    scalar_fallback,
    temperature_flags,
    weighted_rows,
)
from smallcal.calibrators.objectives import OBJECTIVES, Gaps, moments
from smallcal.data.predictions import MIN_FIT_SAMPLES, BoolArray, FloatArray, IntArray
from smallcal.errors import InputError

#: Fewer samples than this make no bin.
MIN_BIN_SIZE = 10
#: What Meta-Cal's threshold may promise.
CONSTRAINTS = ("miscoverage", "accuracy")
#: The least and most samples that choose it, of a tenth. With fewer than 1 / 0.05 the default
#: threshold would be the largest entropy seen.
_HELD_OUT = (20, 500)
_ACCURACY_BINS = 20
#: Where the descent of semantic-aware groups begins, and its most steps.
_START_TEMPERATURE, _MAX_ITERATIONS = 1.5, 100


def stratified_halves(
    correct: BoolArray, rows: IntArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Deal rows into two random halves, each with its share of right and wrong predictions."""
    halves: tuple[list[IntArray], list[IntArray]] = ([], [])
    for outcome in (True, False):
        own = rng.permutation(rows[correct[rows] == outcome])
        middle = (len(own) + outcome) // 2  # odd ones out go to different halves
        halves[0].append(own[:middle])
        halves[1].append(own[middle:])
    first, second = (np.sort(np.concatenate(half)) for half in halves)
    return first, second


@recipe("binned", care="bins from the other half")
def fit_binning(split: Split, *, n_bins: int = 10) -> MapFit:
    """Fit a temperature on half of the split, and bins of equal mass on the other half.

    With fewer than ten samples for each bin there are fewer bins, and the flag ``fewer_bins``; so
    too where confidences coincide.
    """
    if n_bins < 2:
        raise InputError(f"n_bins must be at least 2; got {n_bins}")
    rows = weighted_rows(split)
    if one_sided(split):
        return scalar_fallback(split)
    rng = np.random.default_rng([split.discipline.seed, 5])
    first, second = stratified_halves(split.gaps.correct, rows, rng)
    fitted = fit_temperature(split.goal, split.gaps.take(first), bounds=split.discipline.bounds)
    confidence = scaled(split.preds.logits[second], fitted.value)[-1]
    edges = _edges(confidence, min(n_bins, len(second) // MIN_BIN_SIZE))
    if len(edges) == 0:
        return scalar_fallback(split)
    flags = {name: [0] for name in temperature_flags(fitted)}
    if len(edges) < n_bins - 1:
        flags["fewer_bins"] = []
    member = np.searchsorted(edges, confidence, side="right")
    means = np.bincount(member, weights=confidence) / np.bincount(member)
    # Not quite 1, so that a class is never ruled out because its rivals' doubts rounded to 0.
    values = np.minimum(means, np.nextafter(1.0, 0.0))
    binned = BinnedMap(fitted.value, tuple(edges.tolist()), tuple(values.tolist()))
    return MapFit(binned, (split.gaps.n,), flags)


def _edges(confidence: FloatArray, n_bins: int) -> FloatArray:
    """Return the inner edges of bins of equal mass; equal confidences are never parted.

    An edge lies midway between two neighbours, where rounding cannot move a sample across.
    """
    ordered = np.sort(confidence)
    starts = ordered[len(ordered) * np.arange(1, n_bins) // max(n_bins, 1)]
    starts = np.unique(starts[starts > ordered[0]])
    before = ordered[np.searchsorted(ordered, starts) - 1]
    middle = before + (starts - before) / 2
    return np.where(middle > before, middle, starts)


@recipe("rejecting", care="threshold from a held-out tenth")
def fit_rejecting(
    split: Split, *, constraint: str = "miscoverage", level: float | None = None
) -> MapFit:
    """Fit one temperature below an entropy; samples at or above it are rejected: made uniform.

    ``split.scores`` are the entropies of softmax(z). A tenth of the samples, drawn at random,
    chooses the threshold, the others the temperature. Rejected samples get 1/C, up to about a
    millionth per unit of logit: just enough to keep the argmax.

    The threshold promises of new data: with the constraint "miscoverage" that of the samples
    predicted rightly no more than a share ``level`` is rejected, by default 0.05; with "accuracy"
    that of those accepted a share ``level`` is right, by default one that halves the error rate.
    """
    if constraint not in CONSTRAINTS:
        raise InputError(f"constraint must be one of {', '.join(CONSTRAINTS)}; got {constraint!r}")
    if level is None:
        halved = (1 + float(split.gaps.correct.mean())) / 2
        level = 0.05 if constraint == "miscoverage" else halved
    elif not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1; got {level}")
    rows = weighted_rows(split)
    if one_sided(split):
        return scalar_fallback(split)
    order = np.random.default_rng([split.discipline.seed, 4]).permutation(rows)
    size = int(np.clip(round(0.1 * len(rows)), *_HELD_OUT))
    held_out, rest = order[:size], np.sort(order[size:])
    entropy, correct, threshold = split.scores[held_out], split.gaps.correct[held_out], None
    if constraint == "accuracy":
        threshold = _accuracy_threshold(entropy, correct, level)
    elif correct.any():  # what a share of the right predictions reaches
        threshold = float(np.quantile(entropy[correct], 1 - level, method="higher"))
    if threshold is None:
        return scalar_fallback(split)
    rows = rest[split.scores[rest] < threshold]
    above = int((split.scores >= threshold).sum())
    counts = (split.gaps.n - above, above)
    if min(counts) == 0 or len(rows) < MIN_FIT_SAMPLES:
        return scalar_fallback(split)
    fitted = fit_temperature(split.goal, split.gaps.take(rows), bounds=split.discipline.bounds)
    flags = {name: [0] for name in temperature_flags(fitted)}
    return MapFit(GroupMap((threshold,), (fitted.value, UNIFORM)), counts, flags)


def _accuracy_threshold(entropy: FloatArray, correct: BoolArray, target: float) -> float | None:
    """Return the largest entropy up to which accuracy reaches the target; None if all do, or none.

    The accuracy of all samples up to an entropy falls as that entropy rises, but for noise; an
    isotonic fit removes the noise, and between its points it is read off linearly.
    """
    # Imported here: calibrators are applied where scikit-learn is not installed.
    from sklearn.isotonic import IsotonicRegression

    cuts = np.unique(np.quantile(entropy, np.arange(1, _ACCURACY_BINS + 1) / _ACCURACY_BINS))
    accepted = entropy <= cuts[:, None]
    count = accepted.sum(axis=1)
    accuracy = (accepted & correct).sum(axis=1) / count
    smooth = IsotonicRegression(increasing=False).fit(cuts, accuracy, sample_weight=count)
    fitted = smooth.predict(cuts)
    enough = np.flatnonzero(fitted >= target - 1e-12)  # rounding must not reject the target
    if len(enough) in (0, len(cuts)):
        return None
    around = slice(enough[-1], enough[-1] + 2)
    return float(np.interp(-target, -fitted[around], cuts[around]))


@recipe("semantic", care="temperatures from the other half")
def fit_semantic(
    split: Split, *, n_partitions: int = 20, n_groups: int = 2, penalty: float = 0.1
) -> MapFit:
    """Learn partitions of feature space, and a temperature for each of their groups.

    ``split.scores`` are the features. Partitions W are learned by log-likelihood plus ``penalty``
    times the mean squared entry of W, temperatures of their groups by ``split.goal``. The counts
    are, partition after partition, the samples that each temperature was fitted on. A group with
    too few takes the pooled temperature, flag ``fallback``; flags name no groups.
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
        partitions.append(_learned(split, first, features[first], start, penalty) * varies)
        member = members(features[second], partitions[-1])
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
    ``penalty`` x mean(W²). The parameters are log T_1 ... log T_K and then W row by row.
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
    loss = partial(soft_loss, gaps=split.gaps.take(rows), features=features, penalty=penalty)
    begin = np.concatenate([warm, start.ravel()])
    found = minimise(loss, begin, limits, maxiter=_MAX_ITERATIONS)
    return np.asarray(found.x[n_groups:]).reshape(start.shape)

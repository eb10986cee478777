"""Fit scaling-binning: a temperature on half of the samples, bins on the other half."""

from __future__ import annotations

import numpy as np

from smallcal.calibrators.maps.base import MapFit, Split, recipe
from smallcal.calibrators.maps.binning import BinnedMap, scaled
from smallcal.calibrators.maps.temperature import (
    fit_temperature,
    one_sided,
    scalar_fallback,
    temperature_flags,
    weighted_rows,
)
from smallcal.data.predictions import BoolArray, FloatArray, IntArray
from smallcal.errors import InputError

#: Fewer samples than this make no bin.
MIN_BIN_SIZE = 10


@recipe("binned", care="bins from the other half")
def fit_binning(split: Split, *, n_bins: int = 10) -> MapFit:
    """Fit a temperature on half of the split, and the bins on the other half.

    Parameters
    ----------
    split : Split
        Its scores are not used.
    n_bins : int
        Bins of equal mass. With fewer than ten samples for each there are fewer bins, and the
        flag ``fewer_bins``; so too where confidences coincide.

    Returns
    -------
    MapFit
        A :class:`BinnedMap`; or one temperature for all, with the flag ``scalar_fallback``,
        where not even two bins can be made or fewer than two predictions are right or wrong.

    Notes
    -----
    As in the original, the two steps see separate samples, here two random halves with equal
    shares of wrong predictions: the bins then show what the temperature does to new data.
    Weights count in the temperature only; samples of weight zero are left out.

    Examples
    --------
    >>> from smallcal.calibrators.maps.temperature import split_of
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(400, 5)) * 3
    >>> y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)  # true temperature: 2
    >>> fit = fit_binning(split_of(z, y), n_bins=4)
    >>> [round(value, 2) for value in fit.map.values]
    [0.36, 0.47, 0.6, 0.78]
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


def stratified_halves(
    correct: BoolArray, rows: IntArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Deal rows into two random halves, each with its share of right and wrong predictions."""
    halves: tuple[list[IntArray], list[IntArray]] = ([], [])
    for outcome in (True, False):
        members = rng.permutation(rows[correct[rows] == outcome])
        middle = (len(members) + outcome) // 2  # odd ones out go to different halves
        halves[0].append(members[:middle])
        halves[1].append(members[middle:])
    first, second = (np.sort(np.concatenate(half)) for half in halves)
    return first, second

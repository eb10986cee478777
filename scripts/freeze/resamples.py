"""Bootstraps by plain resampling: intervals are percentiles of the plain metric, as the paper's.

The paper gives the number of resamples and the seed of their stream; which numbers of the stream
pick what is smallcal's (the docstring of smallcal_lab/statistics/nested.py has it), so that
intervals agree to the last digit and not only to what chance allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from freeze.formulas import bins15, confidence, wrongs
from freeze.logits import Array, Split

N_BOOT, N_BOOT_POOLED, STREAM = 20_000, 2_000, 20260721

#: What methods predict for the same images: scaled logits and labels.
Predicted = Mapping[str, Split]


def ends(drawn: Array) -> Array:
    """Return the interval that holds the middle 95 % of resamples."""
    return np.quantile(drawn, [0.025, 0.975])


def levels(table: Array) -> Array:
    """Resample a table level by level: rows, then the entries of each row drawn, and so on.

    The paper's hierarchical bootstraps: seed -> draw, backbone -> seed -> draw, and
    seed -> corruption -> severity. With one axis it is the resampling of single entries.
    """
    picks: list[Array] = []
    shape: tuple[int, ...] = (N_BOOT,)
    streams = np.random.default_rng(STREAM).spawn(table.ndim)
    for size, stream in zip(table.shape, streams, strict=True):
        shape = (*shape, size)
        picks.append((stream.random(shape) * size).astype(int))
    widened = [
        pick.reshape(pick.shape + (1,) * (table.ndim - number))
        for number, pick in enumerate(picks, 1)
    ]
    return table[tuple(widened)].reshape(N_BOOT, -1).mean(axis=1)


def entries(table: Array) -> Array:
    """Resample single entries."""
    return levels(table.ravel())


def corruptions(table: Array) -> Array:
    """Resample corruptions of a table of seeds, corruptions and severities, with all they hold."""
    return levels(table.mean(axis=(0, 2)))


def seeds_then_images(seeds: Sequence[Predicted]) -> dict[str, Array]:
    """Resample seeds, then the images of each seed drawn: the mean ECE of each resample.

    The paper's clean inference (its appendix on the best method by criterion).
    """
    rng = np.random.default_rng(STREAM)
    slots = rng.integers(len(seeds), size=(N_BOOT, len(seeds)))
    drawn = {name: np.empty(slots.shape) for name in seeds[0]}
    for seed, predicted in enumerate(seeds):
        for name, values in images(predicted, int((slots == seed).sum()), rng).items():
            drawn[name][slots == seed] = values
    return {name: values.mean(axis=1) for name, values in drawn.items()}


def images_pooled(seeds: Sequence[Predicted]) -> dict[str, Array]:
    """Resample the images of each seed by itself, and put all into one heap.

    "For each of the three seeds separately and then pooled the delta distributions" (same place).
    """
    rng = np.random.default_rng(STREAM)
    drawn = [images(predicted, N_BOOT_POOLED, rng) for predicted in seeds]
    return {name: np.concatenate([each[name] for each in drawn]) for name in seeds[0]}


def images(
    predicted: Predicted, n_boot: int = N_BOOT, rng: np.random.Generator | None = None
) -> dict[str, Array]:
    """Resample images, the same for all that is predicted for them: the plain ECE of each."""
    rng = np.random.default_rng(STREAM) if rng is None else rng
    n = len(next(iter(predicted.values())).labels)
    drawn = (rng.integers(n, size=n, dtype=np.uint32) for _ in range(n_boot))
    counts = np.array([np.bincount(rows, minlength=n) for rows in drawn], dtype=float)
    return {name: _ece(split, counts) for name, split in predicted.items()}


def _ece(split: Split, counts: Array) -> Array:
    sure = confidence(split.logits)
    residual = sure - (1 - wrongs(split.logits, split.labels))
    by_bin = np.eye(15)[bins15(sure)] * residual[:, None]
    return np.abs(counts @ by_bin).sum(axis=1) / len(sure)

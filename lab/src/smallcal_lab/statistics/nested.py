"""Bootstrap intervals for the mean of a table of differences that has levels.

A study gives one difference (method minus baseline) for each seed and draw, or for each
backbone, seed and draw, or for each seed, corruption and severity. Entries of one seed share a
model, so they are not independent, and what is resampled decides how wide the interval is.

Each level has its own random stream, ``default_rng(random_state).spawn(n_levels)``. The stream
of level k yields uniform numbers of shape (n_boot, w_1, ..., w_k), where w_j is the largest
number of units any parent has at level j. A parent with c children uses the first c numbers of
its row: u picks child floor(u c). So a plain loop can repeat every resample.

Values are an array with one axis for each level, highest first, or nested lists, which may be
ragged; ``levels`` are a singular noun for each level, for the texts of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from smallcal.data.checks import FloatArray, IntArray, as_numpy, whole_number
from smallcal.data.masks import MAX_MAGNITUDE
from smallcal.errors import InputError
from smallcal.statistics.interval import Interval, interval_of, require_level

__all__ = ["Interval", "cells", "clustered", "crossed", "nested", "student", "tiers"]

N_BOOT = 20_000
SEED = 20260721

#: Entries drawn at a time: a block that stays in the cache is faster than a large one.
_BLOCK = 1 << 17
#: Weights that are kept for the next table of the same form: 128 MB.
_KEPT = 1 << 24
#: Most entries in one resample, padding of ragged lists included; bounds the memory.
_MAX_ENTRIES = 2_000_000

#: Units of each parent, level by level.
Form = tuple[tuple[int, ...], ...]


def nested(
    values: object,
    *,
    levels: Sequence[str] | None = None,
    n_boot: int = N_BOOT,
    level: float = 0.95,
    random_state: int = SEED,
) -> Interval:
    """Resample every level: top units, then the next level anew inside each drawn unit.

    The estimate is the mean over top units of the mean over the units inside each, and so on
    down: units of one parent weigh the same, however many entries they hold.

    Units of a lower level are taken to be different ones in each parent, as draws are. Where
    they are the same in all, as corruptions are for all seeds, the spread between them counts
    for too little: look at :func:`clustered` on that axis as well. With few top units every
    interval here is too narrow (benchmarks/small_counts.py).

    Examples
    --------
    >>> differences = [[-0.6, -0.4, -0.5], [-0.9, -0.7], [-0.2, -0.3, -0.1]]
    >>> result = nested(differences, levels=("seed", "draw"))
    >>> round(result.point, 3), result.excludes_zero, result.unit
    (-0.5, True, 'seed -> draw')
    """
    return _interval(tree_of(values, levels), n_boot, level, random_state)


def clustered(
    values: object,
    *,
    axis: int = 0,
    levels: Sequence[str] | None = None,
    n_boot: int = N_BOOT,
    level: float = 0.95,
    random_state: int = SEED,
) -> Interval:
    """Resample the units of one axis only, and keep everything that belongs to each.

    With seeds as units this is the spread between seeds alone; with corruption types as units
    every severity and every seed of a drawn type comes along. The estimate is that of
    :func:`nested`. Ragged lists need ``axis=0``.
    """
    return _interval(_units(values, axis, levels), n_boot, level, random_state)


def cells(
    values: object, *, n_boot: int = N_BOOT, level: float = 0.95, random_state: int = SEED
) -> Interval:
    """Resample single entries, as if no two of them had anything in common.

    Too narrow whenever entries share a model or a corruption; the optimistic end of the range.
    Every entry weighs the same, so of ragged lists the estimate is the mean of all entries,
    which is not that of :func:`nested`.
    """
    return _interval(_flat(tree_of(values).leaves, "entry"), n_boot, level, random_state)


def tiers(
    values: object, *, n_boot: int = N_BOOT, level: float = 0.95, random_state: int = SEED
) -> dict[str, Interval]:
    """Give the three readings of a study of shifted data: values (seeds, corruptions, severities).

    Entries by themselves; corruption types, each with all its severities and seeds; every level.
    """
    names = ("seed", "corruption", "severity")
    if len(tree_of(values).shape) != len(names):
        raise InputError("values must be a full table of shape (seeds, corruptions, severities)")
    options: dict[str, Any] = {"n_boot": n_boot, "level": level, "random_state": random_state}
    return {
        "cell": cells(values, **options),
        "corruption": clustered(values, axis=1, levels=names, **options),
        " x ".join(names): nested(values, levels=names, **options),
    }


def crossed(
    values: object,
    *,
    levels: Sequence[str] | None = None,
    n_boot: int = N_BOOT,
    level: float = 0.95,
    random_state: int = SEED,
) -> Interval:
    """Resample the units of every axis once, and take every combination of those drawn.

    For a full table whose axes cross: the same corruptions for all seeds. :func:`nested` would
    draw them anew for each seed, which makes the spread between corruptions count for too little.
    """
    tree = tree_of(values, levels)
    if not tree.shape:
        raise InputError("values must be a full table; for ragged lists use nested")
    n_boot = whole_number(n_boot, "n_boot", least=1)
    rng = np.random.default_rng(whole_number(random_state, "random_state"))
    table = tree.leaves.reshape(tree.shape)
    drawn = np.broadcast_to(table, (n_boot, *tree.shape))
    for size in tree.shape:  # the first axis left is averaged with each resample's shares
        share = rng.multinomial(size, np.full(size, 1 / size), size=n_boot) / size
        drawn = np.einsum("bi,bi...->b...", share, drawn)
    return interval_of(float(table.mean()), drawn, unit=" x ".join(tree.names), level=level)


def student(
    values: object,
    *,
    axis: int = 0,
    levels: Sequence[str] | None = None,
    level: float = 0.95,
) -> Interval:
    """Give Student's t interval of the means of one axis' units, for instance of seeds.

    No resampling, and the conservative choice with few units: from three or five seeds a
    bootstrap cannot see how far the next seed may lie, and its intervals are too narrow.
    """
    require_level(level)
    units = _units(values, axis, levels)
    means, (name,) = units.leaves, units.names
    n = len(means)
    if n < 2:
        raise InputError(f"Student's interval needs at least two {name}s; got {n}")
    point, spread = float(means.mean()), float(means.std(ddof=1)) / math.sqrt(n)
    reach = float(scipy.special.stdtrit(n - 1, (1 + level) / 2)) * spread
    below = float(scipy.special.stdtr(n - 1, -point / spread)) if spread else float(point < 0)
    bare = interval_of(
        point, np.empty(0), unit=name, level=level, note="Student's t, no resampling"
    )
    return replace(bare, low=point - reach, high=point + reach, p_below=below, p_above=1 - below)


@dataclass(frozen=True)
class Tree:
    """Entries in order, for each level the number of children of each parent, and its noun."""

    leaves: FloatArray
    counts: tuple[IntArray, ...]
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a full table; empty for ragged lists."""
        widths = tuple(int(counts.max()) for counts in self.counts)
        return widths if math.prod(widths) == len(self.leaves) else ()

    def means(self, level: int) -> FloatArray:
        """Average upwards until one number is left for each parent of a level."""
        leaves = self.leaves
        for own in reversed(self.counts[level:]):
            leaves = np.add.reduceat(leaves, np.cumsum(own) - own) / own
        return leaves

    @property
    def note(self) -> str:
        """Where a level has a single unit, so that its spread cannot be seen."""
        notes = []
        for k, (name, counts) in enumerate(zip(self.names, self.counts, strict=True)):
            alone, parents = int((counts == 1).sum()), len(counts)
            where = f" in {alone} of {parents} {self.names[k - 1]}s" if parents > 1 else ""
            if alone:
                notes.append(f"one {name}{where}: its uncertainty is not measured")
        return "; ".join(notes)


def _flat(leaves: FloatArray, name: str) -> Tree:
    return Tree(leaves, (np.array([len(leaves)]),), (name,))


def tree_of(values: object, levels: Sequence[str] | None = None) -> Tree:
    """Open lists or axes level by level; refuse what has no mean."""
    units: list[Any] = [values if _is_list(values) else as_numpy(values, name="values")]
    counts: list[IntArray] = []
    while any(map(_is_list, units)):
        if not all(map(_is_list, units)):
            raise InputError(f"values mixes lists and single entries at level {len(counts)}")
        counts.append(np.array([len(unit) for unit in units]))
        if not counts[-1].all():
            raise InputError(f"values is empty, or a part of it is, at level {len(counts)}")
        units = [child for unit in units for child in unit]
    depth = len(counts)
    if not depth:
        raise InputError("values must be a table or lists; got a single entry")
    leaves = as_numpy(units, name="values")
    # Text such as "1.5" would convert without complaint, and True is not a difference.
    if leaves.dtype.kind not in "iuf" or leaves.ndim != 1:
        raise InputError(f"values must hold real numbers; got {type(units[0]).__name__} entries")
    usable = np.abs(leaves) <= MAX_MAGNITUDE
    if not usable.all():
        bad = leaves[~usable][0]
        raise InputError(f"values holds {bad}; entries must be finite, up to 1e15 in size")
    if levels is None:
        levels = [f"level-{k + 1} unit" for k in range(depth)]
    if isinstance(levels, str) or len(levels) != depth:
        raise InputError(f"levels must name {depth} level(s), highest first; got {levels!r}")
    return Tree(leaves.astype(np.float64), tuple(counts), tuple(levels))


def _is_list(unit: object) -> bool:
    if isinstance(unit, np.ma.MaskedArray):
        return False  # as_numpy refuses masked entries
    return isinstance(unit, list | tuple) or (isinstance(unit, np.ndarray) and unit.ndim > 0)


def _units(values: object, axis: int, levels: Sequence[str] | None) -> Tree:
    """Return one number for each unit of an axis, the mean of all that belongs to it."""
    tree = tree_of(values, levels)
    depth = len(tree.counts)
    if not -depth <= axis < depth:
        raise InputError(f"axis {axis} is out of range: values has {depth} level(s)")
    axis %= depth
    if axis == 0:
        return _flat(tree.means(1), tree.names[0])
    if not tree.shape:
        raise InputError(f"axis {axis} of ragged lists has no units in common; use axis=0")
    others = tuple(k for k in range(depth) if k != axis)
    return _flat(tree.leaves.reshape(tree.shape).mean(axis=others), tree.names[axis])


def _interval(tree: Tree, n_boot: int, level: float, random_state: int) -> Interval:
    """Resample every level of the tree and summarise."""
    require_level(level)
    n_boot = whole_number(n_boot, "n_boot", least=1)
    drawn = _resample(tree, n_boot, whole_number(random_state, "random_state"))
    unit = " -> ".join(tree.names)
    return interval_of(float(tree.means(0)[0]), drawn, unit=unit, level=level, note=tree.note)


def _resample(tree: Tree, n_boot: int, seed: int) -> FloatArray:
    """Return the estimate of each resample: what its draws weigh each entry with, summed."""
    entries = math.prod(int(counts.max()) for counts in tree.counts)
    if entries > _MAX_ENTRIES:
        raise InputError(
            f"a resample has {entries} entries, over {_MAX_ENTRIES}; average over a level first"
        )
    form = tuple(tuple(counts.tolist()) for counts in tree.counts)
    keep = n_boot * len(tree.leaves) <= _KEPT
    blocks = _kept_weights(form, n_boot, seed) if keep else _weights(form, n_boot, seed)
    # einsum, not a matrix product: bits must not depend on the number of threads.
    drawn = np.concatenate([np.einsum("ij,j->i", block, tree.leaves) for block in blocks])
    return np.asarray(drawn / _whole_weight(form))


def _whole_weight(form: Form) -> float:
    """Return what all weights of a resample add up to, such that each is a whole number.

    Differences that cancel then add up to 0, not to a rounding error of either sign. Where the
    numbers would be too large for that, it is 1.
    """
    total = math.prod(math.lcm(*level) for level in form)
    return float(total) if total < 2**40 else 1.0


@lru_cache(maxsize=3)  # the three tiers of a table under shift
def _kept_weights(form: Form, n_boot: int, seed: int) -> tuple[FloatArray, ...]:
    """Return all weights; a study asks hundreds of times for tables of one form."""
    return tuple(_weights(form, n_boot, seed))


def _weights(form: Form, n_boot: int, seed: int) -> Iterator[FloatArray]:
    """Yield the weight of each entry in each resample, shape (resamples, entries), in blocks.

    The weight of each resample is shared downwards, equally by what a parent draws.
    """
    levels = [np.array(level) for level in form]
    widths = [int(level.max()) for level in levels]
    streams = np.random.default_rng(seed).spawn(len(levels))
    at_once = max(1, _BLOCK // math.prod(widths))
    for start in range(0, n_boot, at_once):
        size = min(at_once, n_boot - start)
        weight = np.full(size, _whole_weight(form))
        units = np.zeros(size, dtype=np.int64)
        for level, width, stream in zip(levels, widths, streams, strict=True):
            children = level[units]
            picks = stream.random((*units.shape, width))
            picks *= children[..., None]
            drawn = picks.astype(np.int64)
            drawn += (np.cumsum(level) - level)[units][..., None]
            # A parent with fewer children than the largest uses the first numbers of its row.
            used = np.arange(width) < children[..., None]
            weight = np.where(used, (weight / children)[..., None], 0.0)
            units = np.where(used, drawn, 0)
        entries = int(levels[-1].sum())
        where = units.reshape(size, -1) + entries * np.arange(size)[:, None]
        sums = np.bincount(where.ravel(), weight.ravel(), minlength=size * entries)
        yield np.asarray(sums.reshape(size, entries), dtype=np.float64)

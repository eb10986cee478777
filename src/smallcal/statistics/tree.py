"""Tables with nested levels as a tree: seeds with their draws, ragged or not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from smallcal.data.checks import MAX_MAGNITUDE, FloatArray, IntArray, as_numpy
from smallcal.errors import InputError


@dataclass(frozen=True)
class Tree:
    """Entries in order, and for each level the number of children of each parent above it."""

    leaves: FloatArray
    counts: tuple[IntArray, ...]

    @classmethod
    def flat(cls, leaves: FloatArray) -> Tree:
        """Return the tree of one level."""
        return cls(leaves, (np.array([len(leaves)]),))

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.counts)

    @cached_property
    def starts(self) -> tuple[IntArray, ...]:
        """Where the children of each parent begin among the units of their level."""
        return tuple(np.cumsum(counts) - counts for counts in self.counts)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The most children any parent has, level by level."""
        return tuple(int(counts.max()) for counts in self.counts)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of a rectangular table; None for ragged lists."""
        return self.widths if math.prod(self.widths) == len(self.leaves) else None

    def means(self, level: int) -> FloatArray:
        """Average upwards until one number is left for each parent of ``level``."""
        values = self.leaves
        for k in range(self.depth - 1, level - 1, -1):
            values = np.add.reduceat(values, self.starts[k]) / self.counts[k]
        return values

    def path(self, leaf: int) -> list[int]:
        """Find the index of an entry, one number for each level."""
        index: list[int] = []
        for starts in reversed(self.starts):
            parent = int(np.searchsorted(starts, leaf, side="right")) - 1
            index.insert(0, leaf - int(starts[parent]))
            leaf = parent
        return index


def tree_of(values: object) -> Tree:
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
    if not counts:
        raise InputError("values must be a table or lists; got a single entry")
    tree = Tree(_numbers(units), tuple(counts))
    bad = np.flatnonzero(~(np.abs(tree.leaves) <= MAX_MAGNITUDE))  # NaN is caught as well
    if len(bad):
        where, what = tree.path(int(bad[0])), tree.leaves[bad[0]]
        raise InputError(f"values{where} is {what}; entries must be finite, up to 1e15 in size")
    return tree


def _is_list(unit: object) -> bool:
    if isinstance(unit, np.ma.MaskedArray):
        return False  # as_numpy refuses masked entries
    return isinstance(unit, list | tuple) or (isinstance(unit, np.ndarray) and unit.ndim > 0)


def _numbers(units: list[Any]) -> FloatArray:
    array = as_numpy(units, name="values")
    # Text such as "1.5" would convert without complaint, and True is not a difference.
    if array.dtype.kind not in "iuf" or array.ndim != 1:
        raise InputError(f"values must hold real numbers; got {type(units[0]).__name__} entries")
    return array.astype(np.float64)


def cluster_means(
    values: object, axis: int, levels: Sequence[str] | None
) -> tuple[FloatArray, str]:
    """Return one number for each unit of an axis, and what such a unit is called."""
    tree = tree_of(values)
    names = level_names(levels, tree.depth)
    if not -tree.depth <= axis < tree.depth:
        raise InputError(f"axis {axis} is out of range: values has {tree.depth} level(s)")
    return axis_means(tree, axis % tree.depth), names[axis]


def axis_means(tree: Tree, axis: int) -> FloatArray:
    """Return one number for each unit of an axis, 0 the highest."""
    if axis == 0:
        return tree.means(1)
    if tree.shape is None:
        raise InputError(f"axis {axis} of ragged lists has no units in common; use axis=0")
    others = tuple(k for k in range(tree.depth) if k != axis)
    means: FloatArray = tree.leaves.reshape(tree.shape).mean(axis=others)
    return means


def level_names(levels: Sequence[str] | None, depth: int) -> tuple[str, ...]:
    """Return a noun for each level, checked."""
    if levels is None:
        return tuple(f"level-{k + 1} unit" for k in range(depth))
    if isinstance(levels, str) or len(levels) != depth:
        raise InputError(f"levels must name {depth} level(s), highest first; got {levels!r}")
    return tuple(levels)


def single_unit_note(counts: IntArray, names: Sequence[str], k: int) -> str:
    """Say where level ``k`` has a single unit, so that its spread cannot be seen."""
    alone, parents = int((counts == 1).sum()), len(counts)
    if not alone:
        return ""
    if parents == 1:
        return f"one {names[k]}: its uncertainty is not seen"
    if alone == parents:
        return f"one {names[k]} per {names[k - 1]}: their uncertainties are seen only together"
    return f"one {names[k]} in {alone} of {parents} {names[k - 1]}s: its uncertainty is not seen"

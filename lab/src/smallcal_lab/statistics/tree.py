"""Tables with nested levels as a tree: seeds with their draws, ragged or not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.data.checks import FloatArray, IntArray, as_numpy
from smallcal.data.masks import MAX_MAGNITUDE
from smallcal.errors import InputError


@dataclass(frozen=True)
class Tree:
    """Entries in order, and for each level the number of children of each parent above it.

    Attributes
    ----------
    leaves : ndarray
    counts : tuple of ndarray
    names : tuple of str
        A noun for a unit of each level.
    mean : float
        Over top units, of the mean over the units inside each, and so on down.
    note : str
        Says where a level has a single unit, so that its spread cannot be seen.
    """

    leaves: FloatArray
    counts: tuple[IntArray, ...]
    names: tuple[str, ...]
    mean: float
    note: str

    @classmethod
    def of(cls, leaves: FloatArray, counts: Sequence[IntArray], names: tuple[str, ...]) -> Tree:
        """Return a tree with its mean."""
        notes = [single_unit_note(own, names, level) for level, own in enumerate(counts)]
        mean = float(_means(leaves, counts, 0)[0])
        return cls(leaves, tuple(counts), names, mean, "; ".join(filter(None, notes)))

    @classmethod
    def flat(cls, leaves: FloatArray, name: str) -> Tree:
        """Return the tree of one level."""
        return cls.of(leaves, [np.array([len(leaves)])], (name,))

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of a rectangular table; None for ragged lists."""
        widths = tuple(int(counts.max()) for counts in self.counts)
        return widths if math.prod(widths) == len(self.leaves) else None


def _means(leaves: FloatArray, counts: Sequence[IntArray], level: int) -> FloatArray:
    """Average upwards until one number is left for each parent of ``level``."""
    for own in reversed(counts[level:]):
        leaves = np.add.reduceat(leaves, np.cumsum(own) - own) / own
    return leaves


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
    if not counts:
        raise InputError("values must be a table or lists; got a single entry")
    return Tree.of(_numbers(units, counts), counts, _level_names(levels, len(counts)))


def _is_list(unit: object) -> bool:
    if isinstance(unit, np.ma.MaskedArray):
        return False  # as_numpy refuses masked entries
    return isinstance(unit, list | tuple) or (isinstance(unit, np.ndarray) and unit.ndim > 0)


def _numbers(units: list[Any], counts: Sequence[IntArray]) -> FloatArray:
    array = as_numpy(units, name="values")
    # Text such as "1.5" would convert without complaint, and True is not a difference.
    if array.dtype.kind not in "iuf" or array.ndim != 1:
        raise InputError(f"values must hold real numbers; got {type(units[0]).__name__} entries")
    leaves: FloatArray = array.astype(np.float64)
    bad = np.flatnonzero(~(np.abs(leaves) <= MAX_MAGNITUDE))  # NaN is caught as well
    if len(bad):
        where, what = _path(int(bad[0]), counts), leaves[bad[0]]
        raise InputError(f"values{where} is {what}; entries must be finite, up to 1e15 in size")
    return leaves


def _path(leaf: int, counts: Sequence[IntArray]) -> list[int]:
    """Find the index of an entry, one number for each level."""
    index: list[int] = []
    for own in reversed(counts):
        starts = np.cumsum(own) - own
        parent = int(np.searchsorted(starts, leaf, side="right")) - 1
        index.insert(0, leaf - int(starts[parent]))
        leaf = parent
    return index


def units_of(values: object, axis: int, levels: Sequence[str] | None) -> Tree:
    """Return one number for each unit of an axis, the mean of all that belongs to it."""
    tree = tree_of(values, levels)
    depth = len(tree.counts)
    if not -depth <= axis < depth:
        raise InputError(f"axis {axis} is out of range: values has {depth} level(s)")
    return axis_means(tree, axis % depth)


def axis_means(tree: Tree, axis: int) -> Tree:
    """Return one number for each unit of an axis, 0 the highest."""
    if axis == 0:
        return Tree.flat(_means(tree.leaves, tree.counts, 1), tree.names[0])
    if tree.shape is None:
        raise InputError(f"axis {axis} of ragged lists has no units in common; use axis=0")
    others = tuple(k for k in range(len(tree.counts)) if k != axis)
    return Tree.flat(tree.leaves.reshape(tree.shape).mean(axis=others), tree.names[axis])


def _level_names(levels: Sequence[str] | None, depth: int) -> tuple[str, ...]:
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
        return f"one {names[k]}: its uncertainty is not measured"
    if alone == parents:
        return f"one {names[k]} per {names[k - 1]}: their uncertainties cannot be separated"
    return (
        f"one {names[k]} in {alone} of {parents} {names[k - 1]}s: its uncertainty is not measured"
    )

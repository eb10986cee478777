"""What a model holds for or against its classes, whatever the input: a bias, and a confusion.

A prompt that likes option A, a prior that differs from training, classes taken for one another:
no temperature repairs those. Before anything else the logits may therefore be moved,

    z' = z + b + W R z,

by a bias b per class and by a matrix W R of low rank: R reads the few directions in which logits
vary most, W says how the classes follow. Both are held towards 0 by priors whose scales the split
decides (:mod:`smallcal.calibrators.maps.correction_fit`): a split that shows no bias leaves the
logits nearly alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from smallcal.calibrators import by_row, program
from smallcal.calibrators.once import once
from smallcal.calibrators.parts import Part, Rule, list_of, rule
from smallcal.calibrators.program import Row, Value
from smallcal.data.masks import filled
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError

#: A number of a correction is at most this large: what it makes of logits stays finite.
LARGEST = 1e6


@dataclass(frozen=True)
class Correction(Part):
    """Numbers that move logits: a bias, and what is written where the directions are read.

    Examples
    --------
    >>> swap = Correction((0.5, 0.0, 0.0), ((0.0, 1.0, -1.0),), ((0.0, -1.0, 1.0),))
    >>> swap(np.array([[0.0, 2.0, 1.0]])).tolist()
    [[0.5, 1.0, 2.0]]
    """

    bias: tuple[float, ...]
    reads: tuple[tuple[float, ...], ...] = ()
    writes: tuple[tuple[float, ...], ...] = ()
    kinds: ClassVar[dict[str, type[Correction]]] = {}
    kind: ClassVar[str] = "classes"
    words: ClassVar[str] = "first corrected by class biases and shared directions"
    schema: ClassVar[Mapping[str, Rule]] = {
        "bias": rule("numbers", "Added to the logit of each class."),
        "reads": list_of(rule("numbers"), "Directions: their products with the logits ..."),
        "writes": list_of(rule("numbers"), "... times these are added as well."),
    }

    def __post_init__(self) -> None:
        widths = {len(row) for row in (self.bias, *self.reads, *self.writes)}
        if len(self.reads) != len(self.writes) or widths != {len(self.bias)}:
            raise InputError("a correction needs as many reads as writes, each a number per class")
        numbers = np.concatenate([self.bias, *self.reads, *self.writes])
        if not np.abs(numbers).max() <= LARGEST:  # so that NaN is caught too
            raise InputError(f"no number of a correction may be larger than {LARGEST:g}")
        if self.reads:
            reads, writes = (np.abs(side) for side in (self.reads, self.writes))
            if not (reads.sum(axis=1) @ writes).max() <= LARGEST:
                raise InputError(f"a correction may make no logit larger than {LARGEST:g} times")

    @property
    def n_classes(self) -> int:
        """Columns of the logits it is for."""
        return len(self.bias)

    @property
    def n_parameters(self) -> int:
        """Biases that are not 0, and the entries of the matrix between directions."""
        return int(np.count_nonzero(self.bias)) + len(self.reads) ** 2

    def __call__(self, logits: FloatArray, /, *, out: FloatArray | None = None) -> FloatArray:
        """Return the moved logits of some rows (m, C), in the type that they are computed in.

        ``out`` is where to write them, of that type.
        """
        work = np.dtype(np.float64 if logits.dtype.itemsize == 8 else np.float32)
        z = by_row.laid_out(logits, work)
        moved = by_row.empty(len(z), self.n_classes, work) if out is None else out
        reads, writes = self._matrices[work]
        if not self.reads:
            return np.asarray(np.add(z, writes[0], out=moved))
        by_row.low_rank(filled(z), reads, writes, out=moved)
        moved += z
        return moved

    @once
    def _matrices(self) -> dict[np.dtype[Any], tuple[FloatArray, FloatArray]]:
        """The directions, and what is written for them and, last, always."""
        sides = np.array(self.reads), np.array((*self.writes, self.bias))
        kinds = (np.dtype(np.float32), np.dtype(np.float64))
        return {kind: (sides[0].astype(kind), sides[1].astype(kind)) for kind in kinds}

    def program(self, row: Row, /) -> Value:
        """Write the moved logits down, for exporters."""
        moved = row.logits + program.constant(self.bias)
        if self.reads:
            moved = moved + row.filled.dot(self.reads).dot(np.transpose(self.writes))
        return moved

    def weakened(self, weight: float) -> Correction:
        """Return the same correction at a share of its strength."""
        bias = tuple(weight * each for each in self.bias)
        writes = tuple(tuple(weight * each for each in row) for row in self.writes)
        return replace(self, bias=bias, writes=writes)

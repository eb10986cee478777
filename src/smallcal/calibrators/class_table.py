"""Which classes a split's samples have, are predicted as, and how surely: sums of probabilities.

A monitor asks it whether frequencies of classes alone explain what it sees. Calibrated
probabilities stand for the labels here: they are smoother where classes have few samples, and a
split without labels will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError

#: Sums are kept in whole hundredths of a sample.
UNIT = 100

#: Classes of the largest table: some dozen bytes for each of them.
MAX_CLASSES = 1000

#: Pairs of classes that are kept one by one; the rest is known by its sums alone.
MAX_PAIRS = 500

#: Up to so many sums are added up as a product of matrices.
_FEW = 128

#: No sum of a split is larger; as in the counts of an artefact.
_MOST = 10**12

#: No row is longer, in letters: neither of classes nor of pairs.
_LONGEST = 2 * max(MAX_CLASSES, 3 * MAX_PAIRS) * len(f"{_MOST} ")

Row = tuple[int, ...]


@dataclass(frozen=True)
class ClassTable:
    """Sums over a split, in hundredths of a sample.

    Attributes
    ----------
    predicted, certainty, squares : tuple of int
        For each predicted class: samples, their confidences, and the squares of these.
    confused : tuple of (int, int, int)
        Predicted class, another class, and the sum of that one's probabilities: the largest.
    confidence, score : tuple of tuple of int
        For each bin of what is watched, the sum of each class's probabilities; no score, no rows.
    """

    predicted: Row
    certainty: Row
    squares: Row
    confused: tuple[tuple[int, int, int], ...]
    confidence: tuple[Row, ...]
    score: tuple[Row, ...] = ()

    def __post_init__(self) -> None:
        n_classes = len(self.predicted)
        rows = (self.certainty, self.squares, *self.confidence, *self.score)
        if not 2 <= n_classes <= MAX_CLASSES or any(len(row) != n_classes for row in rows):
            raise InputError(f"the table of classes must have {n_classes} numbers in each row")
        if not all(min(row) >= 0 and max(row) <= _MOST for row in (self.predicted, *rows)):
            raise InputError("the table of classes has sums that are no counts of samples")
        for k, other, amount in self.confused:
            if not (0 <= k < n_classes and 0 <= other < n_classes and 0 <= amount <= _MOST):
                raise InputError(f"the table of classes has no pair {k}, {other}")
        if not sum(self.predicted) or not any(map(sum, self.confidence)):
            raise InputError("the table of classes is empty")

    @classmethod
    def of(cls, proba: FloatArray, bins: Sequence[tuple[IntArray, int] | None]) -> ClassTable:
        """Sum up calibrated probabilities.

        Parameters
        ----------
        proba : array of shape (n, C)
        bins : sequence of (array of shape (n,), int), or None
            Bin of each row and the number of bins: of the confidence, and of the score.

        Examples
        --------
        >>> p = np.array([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]])
        >>> table = ClassTable.of(p, [(np.array([1, 0, 1]), 2), None])
        >>> table.predicted, table.certainty, table.confused
        ((200, 100), (125, 75), ((0, 1, 75), (1, 0, 25)))
        >>> table.confidence, table.score
        (((50, 50), (100, 100)), ())
        """
        n_classes, top = proba.shape[1], proba.argmax(axis=1)
        sure = np.take_along_axis(proba, top[:, None], axis=1)[:, 0].astype(np.float64)
        powers = [np.bincount(top, sure**power, minlength=n_classes) for power in range(3)]
        predicted, certainty, squares = map(_row, np.array(powers))
        pairs = _largest(_sums_by(top, n_classes, proba))
        confidence, score = (
            () if each is None else tuple(map(_row, _sums_by(*each, proba))) for each in bins
        )
        return cls(predicted, certainty, squares, pairs, confidence, score)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: a row of numbers is one text, so that files stay short."""
        flat = {name: _text(getattr(self, name)) for name in ("predicted", "certainty", "squares")}
        confused = _text([number for pair in self.confused for number in pair])
        rows = {name: list(map(_text, getattr(self, name))) for name in ("confidence", "score")}
        return {**flat, "confused": confused, **rows}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ClassTable:
        """Rebuild the table from a document that the schema allows."""
        flat = (_numbers(document[name]) for name in ("predicted", "certainty", "squares"))
        predicted, certainty, squares = flat
        pairs = _numbers(document["confused"])
        if len(pairs) % 3 or len(pairs) > 3 * MAX_PAIRS:
            raise InputError("the table of classes has half a pair, or too many")
        confused = tuple(zip(pairs[::3], pairs[1::3], pairs[2::3], strict=True))
        rows = (tuple(map(_numbers, document[name])) for name in ("confidence", "score"))
        confidence, score = rows
        return cls(predicted, certainty, squares, confused, confidence, score)

    @property
    def joint(self) -> FloatArray:
        """Share of samples that are predicted as one class (row) and of another (column)."""
        found = np.diag(np.array(self.certainty, dtype=np.float64))
        for k, other, amount in self.confused:
            found[k, other] = amount
        # What is not kept by pairs: as if rows and columns had nothing to do with each other.
        left = np.maximum(np.array(self.predicted) - found.sum(axis=1), 0)
        right = np.maximum(self.sums("confidence").sum(axis=0) - found.sum(axis=0), 0)
        rest = np.outer(left, right)
        np.fill_diagonal(rest, 0)
        if rest.any():
            found += rest * (left.sum() / rest.sum())
        if not found.any():  # confidences that were too small to be kept
            found = np.diag(np.array(self.predicted, dtype=np.float64))
        return np.asarray(found / found.sum())

    def sums(self, name: str) -> FloatArray:
        """Return the sums of what is watched, a row for each bin."""
        return np.array(getattr(self, name), dtype=np.float64)


class LaterTable:
    """A table that is made when it is asked for, once: a fit should not wait for it.

    Compared, copied and pickled as the table.

    Examples
    --------
    >>> p = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> later = LaterTable(lambda: ClassTable.of(p, [(np.array([0, 1]), 2), None]))
    >>> later().predicted, later() is later()
    ((100, 100), True)
    """

    def __init__(self, make: Callable[[], ClassTable]) -> None:
        self._make: Callable[[], ClassTable] | None = make
        self._made: ClassTable | None = None

    def __call__(self) -> ClassTable:
        """Return the table."""
        make = self._make
        if make is not None:
            self._made = make()
            self._make = None  # last, for other threads; it lets go of the rows
        assert self._made is not None
        return self._made

    def __eq__(self, other: object) -> bool:
        return self() == (other() if isinstance(other, LaterTable) else other)

    def __hash__(self) -> int:
        return hash(self())

    def __repr__(self) -> str:
        return repr(self())

    def __reduce__(self) -> tuple[Any, ...]:
        return ClassTable.from_dict, (self().to_dict(),)


def _sums_by(codes: IntArray, n_codes: int, proba: FloatArray) -> FloatArray:
    """Return a row of sums for each code, the faster way."""
    if n_codes <= _FEW:
        chosen = np.arange(n_codes)[:, None] == codes
        return np.asarray(chosen.astype(proba.dtype) @ proba, dtype=np.float64)
    order = np.argsort(codes, kind="stable")
    here, starts = np.unique(codes[order], return_index=True)
    found = np.zeros((n_codes, proba.shape[1]))
    found[here] = np.add.reduceat(proba[order], starts, axis=0)
    return found


def _largest(pairs: FloatArray) -> tuple[tuple[int, int, int], ...]:
    """Return the pairs that hold most, in order, without a class and itself."""
    units = np.rint(pairs * UNIT).astype(np.int64)
    np.fill_diagonal(units, 0)
    kept = np.flatnonzero(units)
    if len(kept) > MAX_PAIRS:
        # Ties go to the first; sorting all of them would take longer than all the rest.
        amounts = units.ravel()[kept]
        last = np.partition(amounts, -MAX_PAIRS)[-MAX_PAIRS]
        ties = kept[amounts == last][: MAX_PAIRS - int((amounts > last).sum())]
        kept = np.sort(np.concatenate((kept[amounts > last], ties)))
    ways = (*np.unravel_index(kept, units.shape), units.ravel()[kept])
    return tuple(zip(*(way.tolist() for way in ways), strict=True))


def _row(sums: FloatArray) -> Row:
    return tuple(np.rint(sums * UNIT).astype(np.int64).tolist())


def _text(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def _numbers(text: str) -> Row:
    """Read a row of whole numbers."""
    if len(text) > _LONGEST:
        raise InputError(f"the table of classes has a row of {len(text):,} letters")
    found: Row = ()
    with suppress(ValueError):
        found = tuple(map(int, text.split()))
    if _text(found) != text:
        raise InputError("the table of classes must have whole numbers with a space between them")
    return found

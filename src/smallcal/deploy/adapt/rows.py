"""Rows where the model runs, gone through once: what is known of them without labels.

Kept are counts, a random sample, and the calibrated probabilities of all rows, on the disk where
they are many: memory does not grow with rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.class_table import ClassTable
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.given import Given
from smallcal.calibrators.reference import Reference, Watched
from smallcal.data.checks import FloatArray, IntArray
from smallcal.deploy.monitor.class_shift import Seen
from smallcal.errors import file_errors
from smallcal.io.progress import Advance
from smallcal.statistics.class_frequencies import Rows

#: Bytes of probabilities in memory; more are kept in a temporary file.
_IN_MEMORY = 2**24

#: Bytes that are read of it at a time.
_AT_ONCE = 2**21

#: Rows of the sample and numbers in it, at most, and rows for each class, at least.
_SAMPLE_ROWS, _SAMPLE_NUMBERS, _EACH = 20_000, 2**20, 4


class Spool:
    """Rows of numbers, written once and read any number of times."""

    def __init__(self, n_columns: int) -> None:
        self._n_columns = n_columns
        self._dtype: np.dtype[Any] = np.dtype(np.float32)
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        self.n = 0

    def add(self, block: NDArray[np.floating]) -> None:
        """Write rows at the end; the first ones decide between single and double precision."""
        if not self.n:
            self._dtype = np.dtype(np.float64 if block.dtype.itemsize > 4 else np.float32)
        with file_errors(f"cannot keep probabilities in {tempfile.gettempdir()}"):
            self._file.write(np.ascontiguousarray(block, dtype=self._dtype).data)
        self.n += len(block)

    def __iter__(self) -> Iterator[NDArray[np.floating]]:
        width = self._n_columns * self._dtype.itemsize
        rows = max(1, _AT_ONCE // width)
        for start in range(0, self.n, rows):
            with file_errors(f"cannot read probabilities in {tempfile.gettempdir()}"):
                self._file.seek(start * width)
                read = self._file.read(min(rows, self.n - start) * width)
            yield np.frombuffer(read, dtype=self._dtype).reshape(-1, self._n_columns)

    def close(self) -> None:
        """Let go of the rows."""
        self._file.close()


class Deployed(NamedTuple):
    """What is known of rows.

    Attributes
    ----------
    rows : Rows
        Their calibrated probabilities.
    seen : Seen or None
        Counts of classes and of what a monitor watches, where the calibrator has a reference.
    sampled : Watched
        What a monitor watches of the rows in the sample.
    """

    rows: Rows
    seen: Seen | None
    sampled: Watched

    def changed(self, factors: FloatArray) -> int:
        """Return how many rows are predicted otherwise when classes count by these factors."""
        return sum(
            int(np.count_nonzero((block * factors).argmax(axis=1) != block.argmax(axis=1)))
            for block in self.rows.blocks
        )

    def reference(self, factors: FloatArray, n_groups: int) -> Reference:
        """Return what later rows are to be compared with, when classes count by these factors."""
        counted = self.sampled.counted(n_groups)
        weighed = self.rows.sample * factors
        weighed /= weighed.sum(axis=1, keepdims=True)
        return replace(counted, table=ClassTable.of(weighed, counted.codes(self.sampled)))


def deployed(
    fitted: FittedCalibrator,
    blocks: Iterable[Given],
    spool: Spool,
    *,
    random_state: int,
    advance: Advance = lambda rows: None,
) -> Deployed:
    """Go through rows, which are checked already, and keep what is needed of them."""
    plain = replace(fitted, input="logits")  # the logarithm is taken already
    kept, counts = _Sample(fitted.n_classes, random_state), _Counts(fitted)
    for given in blocks:
        proba = plain.calibrate(given)
        watched = plain.watch(given.logits, features=given.features)
        counts.add(proba, watched)
        kept.add(proba, watched)
        spool.add(proba)
        advance(len(proba))
    sample, sampled = kept.rows()
    return Deployed(Rows(spool, spool.n, sample), counts.seen(), sampled)


class _Counts:
    """Rows of each predicted class, and in each bin of what is watched."""

    def __init__(self, fitted: FittedCalibrator) -> None:
        self._reference = fitted.reference
        self._predicted = np.zeros(fitted.n_classes, dtype=np.int64)
        self._bins: dict[str, IntArray] = {}

    def add(self, proba: FloatArray, watched: Watched) -> None:
        self._predicted += np.bincount(proba.argmax(axis=1), minlength=len(self._predicted))
        if self._reference is None:
            return
        for name in ("confidence", "score"):
            bins, values = getattr(self._reference, name), getattr(watched, name)
            if bins is not None and values is not None:
                self._bins[name] = self._bins.get(name, 0) + bins.count(values)

    def seen(self) -> Seen | None:
        table = None if self._reference is None else self._reference.classes
        if table is None:
            return None
        bins = tuple((name, tuple(counts.tolist())) for name, counts in self._bins.items())
        return Seen(table, tuple(self._predicted.tolist()), bins)


class _Sample:
    """Rows drawn at random, each with the same chance: those whose random numbers are lowest."""

    def __init__(self, n_classes: int, random_state: int) -> None:
        self._size = min(_SAMPLE_ROWS, max(_SAMPLE_NUMBERS // n_classes, _EACH * n_classes))
        self._rng = np.random.default_rng([random_state, 1])
        self._keys = np.empty(0)
        self._columns: list[NDArray[np.generic] | None] = []

    def add(self, proba: FloatArray, watched: Watched) -> None:
        keys = self._rng.random(len(proba))
        if len(self._keys) == self._size:  # most rows of a long stream stop here
            low = keys < self._keys.max()
        else:
            low = np.ones(len(keys), dtype=bool)
        new = [None if each is None else each[low] for each in (proba, *watched)]
        if self._columns:
            pairs = zip(self._columns, new, strict=True)
            new = [None if a is None or b is None else np.concatenate((a, b)) for a, b in pairs]
        keys = np.concatenate((self._keys, keys[low]))
        if len(keys) > self._size:
            lowest = np.sort(np.argpartition(keys, self._size - 1)[: self._size])
            keys = keys[lowest]
            new = [None if each is None else each[lowest] for each in new]
        self._keys, self._columns = keys, new

    def rows(self) -> tuple[NDArray[np.float64], Watched]:
        proba, confidence, score, groups = self._columns
        watched = Watched(confidence, score, groups)  # type: ignore[arg-type]
        return np.asarray(proba, dtype=np.float64), watched

"""The paper's six statistics of a row of logits.

The six statistics come from the raw logits in one pass over cache-sized blocks of rows, so a
million rows cost no more memory than a thousand. They are not shift-invariant (the norm and
the top logit move with a constant added to a row): logits are never centred.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smallcal.calibrators import by_row
from smallcal.calibrators.once import once
from smallcal.data.checks import FloatArray, IntArray, as_scores
from smallcal.data.masks import MAX_MAGNITUDE, checked_logits, filled, is_masked
from smallcal.errors import InputError, missing_input

STATISTICS = ("confidence", "logit_margin", "prob_margin", "entropy", "logit_norm", "top_logit")

#: Bytes, and rows, per block: few enough for a processor's cache, and for what is kept of each row
#: in float64; enough for calls to cost little beside the arithmetic.
_BLOCK_BYTES = 1024 * 1024
_BLOCK_ROWS = 4096

#: Stands for the gap of the prediction itself: its exponential is 0 at every temperature.
NO_GAP = -1e30


class RowBlock:
    """Some consecutive rows of logits, with what statistics and softmax both need.

    Attributes
    ----------
    rows : slice
        Where the block stands in the whole array.
    logits : ndarray of shape (m, C)
        Of the type that they are computed in. How they lie in memory depends on the number of
        classes.
    gaps : ndarray of shape (m, C)
        Logit minus the row's largest logit; that of the prediction itself is :data:`NO_GAP`. The
        memory is used again by the next block.
    scratch : ndarray of shape (m, C)
        Room to work in, of the same type and layout.
    top_index, top, second_gap : ndarrays of shape (m,)
    """

    def __init__(
        self, rows: slice, logits: FloatArray, room: tuple[FloatArray, FloatArray]
    ) -> None:
        self.rows, self.logits = rows, logits
        self.gaps, self.scratch = (buffer[: len(logits)] for buffer in room)
        self.top_index, self.top = by_row.first_largest(logits)
        np.subtract(logits, self.top[:, None], out=self.gaps)
        by_row.put(room[0], self.top_index, NO_GAP)
        self.second_gap = by_row.largest(self.gaps)

    @once
    def squared_norm(self) -> FloatArray:
        """The squared norm of each row, without options that it does not have."""
        norm = by_row.sums(self.logits, self.logits)
        if np.maximum.reduce(norm) <= MAX_MAGNITUDE**2:
            return norm
        present = np.where(is_masked(self.logits), 0, self.logits)
        return by_row.sums(by_row.laid_out(present, self.logits.dtype), present)


def row_blocks(logits: FloatArray) -> Iterator[RowBlock]:
    """Cut logits into blocks, checking each."""
    n, n_classes = logits.shape
    # By size: a file's byte order need not be this machine's.
    work = np.dtype(np.float64 if logits.dtype.itemsize == 8 else np.float32)
    size = min(max(1, _BLOCK_BYTES // (n_classes * work.itemsize)), _BLOCK_ROWS)
    # Fresh memory costs more than the arithmetic done in it, so every block uses the same.
    first, second = (by_row.empty(min(size, n), n_classes, work) for _ in range(2))
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        yield RowBlock(rows, _checked(by_row.laid_out(logits[rows], work), start), (first, second))


def _checked(block: FloatArray, first_row: int) -> FloatArray:
    """Return logits that are finite; minus infinity becomes a number."""
    # One quick sum: where it is small every entry is, and else the rows are looked at.
    flat = block.reshape(-1, order="A")
    with np.errstate(over="ignore"):
        small = np.dot(flat, flat) <= MAX_MAGNITUDE**2
    if small:
        return block
    found, _ = checked_logits(block, name="logits", first_row=first_row)
    return by_row.laid_out(found, block.dtype)


def block_statistics(block: RowBlock) -> FloatArray:
    """Return the six statistics of a block, shape (6, m), float64, in ``STATISTICS`` order."""
    weight = np.exp(block.gaps, out=block.scratch)
    rest, weighted_gap = by_row.sums(weight), by_row.sums(weight, block.gaps)
    return six_statistics(1 + rest, weighted_gap, block.second_gap, block.top, block.squared_norm)


def six_statistics(
    total: FloatArray,
    weighted_gap: FloatArray,
    second_gap: FloatArray,
    top: FloatArray,
    squared_norm: FloatArray,
) -> FloatArray:
    """Return the statistics from sums over classes: exp(gap), and gap x exp(gap)."""
    result = np.empty((len(STATISTICS), len(total)))
    top_probability = 1 / total
    result[0] = top_probability
    np.negative(second_gap, out=result[1])
    np.expm1(second_gap, out=result[2], dtype=np.float64)  # quicker than in float32
    result[2] *= -top_probability
    # H = -sum p log p with log p = gap - log(total); exact, so no floor under p is needed.
    np.subtract(np.log(total), weighted_gap * top_probability, out=result[3])
    np.sqrt(squared_norm, out=result[4])
    result[5] = top
    return result


def statistics(logits: object) -> FloatArray:
    """Return the paper's six statistics of raw logits, in bounded extra memory.

    Parameters
    ----------
    logits : array-like of shape (n, C)

    Returns
    -------
    ndarray of shape (n, 6), float64
        Columns in the order of ``STATISTICS``: max probability, logit margin, probability
        margin, entropy (nats), Euclidean norm of the logits, top logit.

    Examples
    --------
    >>> statistics([[3.0, 0.0, 4.0]]).round(3).tolist()
    [[0.721, 1.0, 0.456, 0.645, 5.0, 4.0]]
    """
    return collect_statistics(as_scores(logits, input="logits")).T


def collect_statistics(array: FloatArray) -> FloatArray:
    """Return the statistics of a whole array, shape (6, n)."""
    result = np.empty((len(STATISTICS), array.shape[0]))
    for block in row_blocks(array):
        result[:, block.rows] = block_statistics(block)
    return result


def require_statistics(names: tuple[str, ...]) -> None:
    """Raise unless the names are different ones among ``STATISTICS``."""
    unknown = [name for name in names if name not in STATISTICS]
    if unknown or not names or len(set(names)) != len(names):
        raise InputError(
            f"statistics must be different names among {', '.join(STATISTICS)}; got {names}",
            code="unknown-choice",
        )


class Rows:
    """What a signal may look at: some rows of logits, and what came with them.

    Parameters
    ----------
    logits : ndarray of shape (m, C)
    statistics : ndarray of shape (6, m), optional
        If they are known already.
    predicted : ndarray of shape (m,), optional
        The predicted class of each row, if it is known.
    block : RowBlock, optional
        The same rows, prepared for their statistics.
    features : ndarray of shape (m, d), optional
    labels : ndarray of shape (m,), optional
    """

    def __init__(
        self,
        logits: FloatArray,
        *,
        statistics: FloatArray | None = None,
        predicted: IntArray | None = None,
        block: RowBlock | None = None,
        features: FloatArray | None = None,
        labels: IntArray | None = None,
    ) -> None:
        self._given = logits
        self._block = block
        self._features = features
        self._labels = labels
        # What is known need not be made when it is first asked for.
        if statistics is not None:
            self.statistics = statistics
        if block is not None:
            predicted = block.top_index
        if predicted is not None:
            self.predicted = predicted

    def __len__(self) -> int:
        return len(self._given)

    @once
    def statistics(self) -> FloatArray:
        """The six statistics, shape (6, m); made when first asked for."""
        if self._block is not None:
            return block_statistics(self._block)
        return collect_statistics(self._given)

    @once
    def logits(self) -> FloatArray:
        """The logits; an option that a row does not have looks like its least likely one."""
        return filled(np.ascontiguousarray(self._given))

    @once
    def predicted(self) -> IntArray:
        """The predicted class of each row."""
        return np.asarray(np.argmax(self.logits, axis=1), dtype=np.int64)

    def columns(self, statistics: tuple[str, ...]) -> FloatArray:
        """Return some of the six statistics, a row each."""
        require_statistics(statistics)
        return self.statistics[[STATISTICS.index(name) for name in statistics]]

    @property
    def features(self) -> FloatArray:
        """The features, which must have been given."""
        return np.asarray(_given(self._features, "features"))

    @property
    def labels(self) -> IntArray:
        """The labels, which must have been given."""
        return np.asarray(_given(self._labels, "labels"))


def _given(array: object, name: str) -> object:
    if array is None:
        raise missing_input("this calibrator", name)
    return array

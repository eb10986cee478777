"""Write probabilities: softmax at a temperature per row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smallcal.calibrators import by_row
from smallcal.data.predictions import FloatArray, IntArray

if TYPE_CHECKING:
    from smallcal.calibrators.signals.logit_statistics import RowBlock

#: The types that probabilities may be written in; scaled gaps below these may round to ties.
WRITABLE = {np.dtype(kind): 8 * float(np.finfo(kind).eps) for kind in (np.float32, np.float64)}


def scaled_softmax(block: RowBlock, temperature: FloatArray, *, out: FloatArray) -> None:
    """Write softmax(z / T) of a block into ``out``, using up the block's gaps."""
    weight = block.gaps
    with np.errstate(over="ignore"):  # a gap that becomes infinite has the exponential 0 too
        weight *= (1 / temperature).astype(weight.dtype)[:, None]
    np.exp(weight, out=weight)
    top = 1 / (1 + by_row.sums(weight))
    _write(weight, top, block.top_index, top, out=out)
    # Logits a hair apart may get equal probabilities.
    tie = WRITABLE[out.dtype]
    if -block.second_gap.max() < tie * temperature.max():
        near = np.flatnonzero(-block.second_gap < tie * temperature)
        keep_argmax(out, block.top_index, rows=near)


def _write(
    weight: FloatArray, scale: FloatArray, top_index: IntArray, top: FloatArray, *, out: FloatArray
) -> None:
    """Write the scaled weights into ``out``, and the probabilities of the predictions."""
    if weight.flags.c_contiguous:
        np.multiply(weight, scale[:, None], out=out, casting="same_kind")
    else:  # turning a matrix costs least where nothing else is done
        weight *= scale[:, None]
        out[...] = weight
    by_row.put(out, top_index, top)


def put_first(probabilities: FloatArray, predicted: IntArray) -> None:
    """Make a given class of each row its most probable one, in place.

    Where another class is more probable, the two exchange their probabilities.

    Examples
    --------
    >>> p = np.array([[0.1, 0.5, 0.2, 0.2]])
    >>> put_first(p, np.array([0]))
    >>> p.tolist()
    [[0.5, 0.1, 0.2, 0.2]]
    """
    best = probabilities.argmax(axis=1)
    rows = np.flatnonzero(best != predicted)
    if not len(rows):
        return
    first, second = (rows, predicted[rows]), (rows, best[rows])
    probabilities[first], probabilities[second] = probabilities[second], probabilities[first]
    keep_argmax(probabilities, predicted, rows=rows)


def keep_argmax(probabilities: FloatArray, top: IntArray, *, rows: IntArray | None = None) -> None:
    """Undo, in place, ties that rounding made between the predicted class and its rivals.

    A rival in an earlier column that got the same probability would win the argmax; it is moved
    down by one unit in the last place. ``rows`` are those to look at, if they are known.
    """
    if rows is None:
        rows = np.flatnonzero(probabilities.argmax(axis=1) != top)
    if not len(rows):
        return
    some, column = probabilities[rows], top[rows, None]
    value = np.take_along_axis(some, column, axis=1)
    below = np.nextafter(value, value.dtype.type(0))
    earlier = np.arange(some.shape[1]) < column
    probabilities[rows] = np.minimum(some, np.where(earlier, below, value))

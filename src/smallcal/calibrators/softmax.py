"""Write probabilities: softmax at a temperature per row, and at one more for the tail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smallcal.calibrators import by_row
from smallcal.data.predictions import FloatArray, IntArray

if TYPE_CHECKING:
    from smallcal.calibrators.signals.logit_statistics import RowBlock

#: The types that probabilities may be written in; scaled gaps below these may round to ties.
WRITABLE = {
    np.dtype(kind): 8 * float(np.finfo(kind).eps) for kind in (np.float16, np.float32, np.float64)
}

#: Exponents below this are not taken as they are: float32 has little left of them.
_SMALL = -60.0


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


def tailed_softmax(
    block: RowBlock, temperature: FloatArray, tail: float | FloatArray, *, out: FloatArray
) -> None:
    """Write a block's probabilities with one temperature for the top and one for the rest.

    The predicted class gets the confidence c of softmax(z / T). The others share 1 - c as the
    softmax of their own logits at the tail's temperature does, as far as the argmax allows: the
    largest mix of that with their shares at T which keeps every one of them below c. ``tail`` may
    be a column, with a temperature for each row. The block's gaps are used up.
    """
    gaps, own, kind = block.gaps, block.scratch, block.gaps.dtype
    inverse = np.asarray(1 / tail, dtype=kind)
    best = block.second_gap * inverse.reshape(-1)
    # Relative to the second where the others' exponentials would be too small for their type.
    lift = np.where(best < _SMALL, best, kind.type(0))
    with np.errstate(over="ignore"):  # a gap that becomes infinite has the exponential 0 too
        np.multiply(gaps, inverse, out=own)
        gaps *= (1 / temperature).astype(kind)[:, None]
    if lift.any():
        own -= lift[:, None]
    own_sum, own_best = by_row.sums(np.exp(own, out=own)), np.exp(best - lift)
    rest = by_row.sums(np.exp(gaps, out=gaps))  # (1 - c) / c
    top = 1 / (1 + rest)
    scale = rest * top / own_sum
    _write(own, scale, block.top_index, top, out=out)
    # Where the largest of the others would overtake, or nearly, they are mixed.
    tie = max(WRITABLE[out.dtype], WRITABLE[kind])
    least = np.maximum(top, np.finfo(out.dtype).tiny)
    (near,) = (top - own_best * scale <= tie * least).nonzero()
    if len(near):
        tails = np.broadcast_to(tail, (len(top), 1))[near]
        z, top_index = block.logits[near], block.top_index[near]
        mixed = _mixed(z, top_index, temperature[near, None], tails).astype(out.dtype)
        keep_argmax(mixed, top_index)
        out[near] = mixed


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


def _mixed(
    z: FloatArray, top_index: IntArray, temperature: FloatArray, tail: FloatArray
) -> FloatArray:
    """Return what :func:`tailed_softmax` promises, in float64; temperatures are columns."""
    at_top = np.arange(len(z)), top_index
    gaps = np.array(z, dtype=np.float64, order="C")
    top = gaps[at_top]
    gaps[at_top] = -np.inf  # the prediction is not in the tail
    second = gaps.max(axis=1)
    gaps -= second[:, None]
    routed, own = np.exp(gaps / temperature), np.exp(gaps / tail)
    routed_sum, own_sum = np.einsum("ij->i", routed), np.einsum("ij->i", own)
    rest = routed_sum * np.exp((second - top) / temperature[:, 0])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = (1 / rest - 1 / routed_sum) / (1 / own_sum - 1 / routed_sum)
    # Where the tail's own largest share is the smaller one, nothing can overtake.
    share = np.where(own_sum >= routed_sum, 1.0, np.clip(share, 0, 1))
    doubt = rest / (1 + rest)
    own *= (doubt * share / own_sum)[:, None]
    routed *= (doubt * (1 - share) / routed_sum)[:, None]
    own += routed
    own[at_top] = 1 / (1 + rest)
    return own


#: Rounds in which the level is found that a prediction shares with what overtook it. Each leaves
#: out classes below the level; more than three are hardly ever left out at different times.
SHARING_ROUNDS = 4


def keep_predictions(
    probabilities: FloatArray, top: IntArray, *, preferred: IntArray | None = None
) -> None:
    """Make the predicted class of each row its most probable one again, in place.

    Where other classes have overtaken it, it shares its mass and theirs equally with them; the
    rest keep what they have. Among all probabilities whose largest is the prediction's, these are
    the nearest by Kullback-Leibler divergence. ``preferred`` is the most probable class of each
    row, if it is known.

    Examples
    --------
    >>> p = np.array([[0.1, 0.5, 0.2, 0.2]])
    >>> keep_predictions(p, np.array([0]))
    >>> p.round(4).tolist()
    [[0.3, 0.3, 0.2, 0.2]]
    """
    found = probabilities.argmax(axis=1) if preferred is None else preferred
    (rows,) = (found != top).nonzero()
    if not len(rows):
        return
    p, at_top = probabilities[rows].astype(np.float64), (np.arange(len(rows)), top[rows])
    level, known = p[at_top], None
    for _ in range(SHARING_ROUNDS):
        sharing = p >= level[:, None]
        sharing[at_top] = True
        if known is not None and np.array_equal(sharing, known):
            break
        level, known = np.einsum("ij,ij->i", p, sharing) / sharing.sum(axis=1), sharing
    p = np.minimum(p, level[:, None])
    p[at_top] = level
    probabilities[rows] = p / p.sum(axis=1, keepdims=True)
    keep_argmax(probabilities, top, rows=rows)


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

"""Write probabilities: softmax at a temperature per row, and at one more for the tail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smallcal.data.predictions import FloatArray, IntArray

if TYPE_CHECKING:
    from smallcal.calibrators.signals.logit_statistics import RowBlock

#: The types that probabilities may be written in; scaled gaps below these may round to ties.
WRITABLE = {
    np.dtype(kind): 8 * float(np.finfo(kind).eps) for kind in (np.float16, np.float32, np.float64)
}


def scaled_softmax(block: RowBlock, temperature: FloatArray, *, out: FloatArray) -> None:
    """Write softmax(z / T) of a block into ``out``, using up the block's gaps."""
    gaps = block.gaps
    gaps *= (1 / temperature).astype(gaps.dtype)[:, None]
    same_type = out.dtype == gaps.dtype
    weight = np.exp(gaps, out=out if same_type else gaps)
    weight *= (1 / np.einsum("ij->i", weight))[:, None]
    if not same_type:
        out[...] = weight
    # Logits a hair apart may get equal probabilities.
    tie = WRITABLE[out.dtype]
    if -block.second_gap.max() < tie * temperature.max():
        near = np.flatnonzero(-block.second_gap < tie * temperature)
        keep_argmax(out, block.top_index, rows=near)


def tailed_softmax(
    block: RowBlock, temperature: FloatArray, tail: float, *, out: FloatArray
) -> None:
    """Write a block's probabilities with one temperature for the top and one for the rest.

    The predicted class gets the confidence c of softmax(z / T). The others share 1 - c as the
    softmax of their own logits at the tail's temperature does, as far as the argmax allows: the
    largest mix of that with their shares at T which keeps every one of them below c.
    """
    at_top = np.arange(len(block.top)), block.top_index
    gaps = block.gaps.astype(np.float64)
    gaps -= block.second_gap.astype(np.float64)[:, None]
    gaps[at_top] = -np.inf  # the prediction is not in the tail
    routed, own = np.exp(gaps / temperature[:, None]), np.exp(gaps / tail)
    routed_sum, own_sum = np.einsum("ij->i", routed), np.einsum("ij->i", own)
    rest = routed_sum * np.exp(block.second_gap / temperature)  # (1 - c) / c
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = (1 / rest - 1 / routed_sum) / (1 / own_sum - 1 / routed_sum)
    # Where the tail's own largest share is the smaller one, nothing can overtake.
    share = np.where(own_sum >= routed_sum, 1.0, np.clip(share, 0, 1))
    doubt = rest / (1 + rest)
    own *= (doubt * share / own_sum)[:, None]
    routed *= (doubt * (1 - share) / routed_sum)[:, None]
    own += routed
    own[at_top] = 1 / (1 + rest)
    out[...] = own
    keep_argmax(out, block.top_index)


#: Rounds in which the level is found that a prediction shares with what overtook it. Each leaves
#: out classes below the level; more than three are hardly ever left out at different times.
SHARING_ROUNDS = 4


def keep_predictions(probabilities: FloatArray, top: IntArray) -> None:
    """Make the predicted class of each row its most probable one again, in place.

    Where other classes have overtaken it, it shares its mass and theirs equally with them; the
    rest keep what they have. Among all probabilities whose largest is the prediction's, these are
    the nearest by Kullback-Leibler divergence.

    Examples
    --------
    >>> p = np.array([[0.1, 0.5, 0.2, 0.2]])
    >>> keep_predictions(p, np.array([0]))
    >>> p.round(4).tolist()
    [[0.3, 0.3, 0.2, 0.2]]
    """
    rows = np.flatnonzero(probabilities.argmax(axis=1) != top)
    if not len(rows):
        return
    p, at_top = probabilities[rows].astype(np.float64), (np.arange(len(rows)), top[rows])
    level = p[at_top]
    for _ in range(SHARING_ROUNDS):
        sharing = p >= level[:, None]
        sharing[at_top] = True
        level = np.einsum("ij,ij->i", p, sharing) / sharing.sum(axis=1)
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
    for row in rows:
        column = top[row]
        value = probabilities[row, column]
        earlier, later = probabilities[row, :column], probabilities[row, column + 1 :]
        earlier[earlier >= value] = np.nextafter(value, value.dtype.type(0))
        later[later > value] = value

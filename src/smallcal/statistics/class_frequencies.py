"""How frequent the classes are among rows without labels, from calibrated probabilities.

Under label shift p(x | y) is what it was and class y is w_y times as frequent. A row whose
probabilities were p(y | x) is then as many times as likely as before as the sum of p(y | x) w_y
over y says. The mean logarithm of that sum, with w held to frequencies that add up to 1, tells how
well w explains the rows. It is concave; its maximum is what the EM algorithm of Saerens, Latinne
and Decaestecker (2002) climbs to. Here Newton's steps do, with EM's where one of them would fall.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

FloatArray = NDArray[np.float64]

#: Steps at most. Newton's are a handful; EM's own would be hundreds where classes are confused.
_STEPS = 200

#: Twice the log-likelihood that is left to gain when the climb ends, of all rows together.
_LEFT = 1e-10

#: The same of one row, below which rounding hides everything.
_ROUNDING = 1e-14

#: Rounds of a resample: its maximum is near that of the sample.
_ROUNDS = 4

#: What a step of a resample leaves of a frequency, at least.
_LEAST = 0.2

#: Where what is left to gain falls by less than this factor, the curvature is taken anew.
_SLOW = 0.1

#: How near a step may come to a frequency of 0, as a share of where it is.
_NEAREST = 0.99


class Rows(NamedTuple):
    """Calibrated probabilities of rows.

    Attributes
    ----------
    blocks : iterable of array of shape (b, C)
        All rows; gone through several times.
    n : int
        How many.
    sample : array of shape (m, C)
        Some of them, drawn at random: all where they are few.
    """

    blocks: Iterable[NDArray[np.floating]]
    n: int
    sample: FloatArray

    @classmethod
    def of(cls, proba: NDArray[np.floating]) -> Rows:
        """Return rows that are all at hand."""
        return cls((proba,), len(proba), np.asarray(proba, dtype=np.float64))

    @property
    def mean(self) -> FloatArray:
        """The mean probability of each class."""
        sums = (np.einsum("ij->j", block, dtype=np.float64) for block in self.blocks)
        return np.asarray(sum(sums)) / self.n


def factors(rows: Rows, before: FloatArray, *, strength: float) -> FloatArray:
    """Return by what factor each class has become more frequent, the likeliest.

    Parameters
    ----------
    rows : Rows
    before : array of shape (C,)
        How frequent classes were; positive, sum 1.
    strength : float
        How many rows' worth of the old frequencies are believed beforehand; above 0.

    Returns
    -------
    array of shape (C,)
        Times ``before`` they sum to 1.

    Examples
    --------
    >>> p = np.repeat([[0.8, 0.2], [0.2, 0.8]], [68, 32], axis=0)       # was half and half
    >>> (factors(Rows.of(p), np.array([0.5, 0.5]), strength=1e-9) / 2).round(3).tolist()
    [0.8, 0.2]
    """
    held, m = strength / rows.n, len(rows.sample)
    enough = max(_LEFT / rows.n, _ROUNDING)
    found = np.ones_like(before)
    if m < rows.n:  # the maximum of the sample is near, and a pass over it is cheap
        found = factors(Rows.of(rows.sample), before, strength=held * m)
    likely, slope = _climbed(rows, found, before, held)
    curved, gain = None, np.inf
    for _ in range(_STEPS):
        uphill = slope + held * before / found - (1 + held) * before
        if curved is None:
            curved = curvature(rows.blocks, found) / rows.n
        step = _solved(curved + np.diag(held * before / found**2), uphill)
        last, gain = gain, float(uphill @ step)
        if gain < enough:
            break
        better = _within(found, step)
        tried = _climbed(rows, better, before, held)
        if tried[0] < likely:
            better = (found * slope + held * before) / ((1 + held) * before)
            tried = _climbed(rows, better, before, held)
            last = 0.0
        if m == rows.n or gain > _SLOW * last:
            curved = None  # that of all rows is dear, and kept while it serves
        found, (likely, slope) = better, tried
    return np.asarray(found / (before @ found))


def log_likelihood(rows: Rows, found: FloatArray) -> float:
    """Return the mean log of how much likelier rows are with these factors than before.

    Examples
    --------
    >>> log_likelihood(Rows.of(np.array([[0.25, 0.75]])), np.array([1.0, 1.0]))
    0.0
    """
    return sum(float(np.log(block @ found).sum()) for block in rows.blocks) / rows.n


def resampled_factors(
    sample: FloatArray,
    counts: NDArray[np.int64],
    befores: FloatArray,
    start: FloatArray,
    *,
    strength: float,
) -> FloatArray:
    """Return the factors of many resamples at once, which are all near those of the sample.

    Each round is a step of Newton with the curvature of the sample, and one of EM, which sees to
    frequencies near 0.

    Parameters
    ----------
    sample : array of shape (m, C)
    counts : array of shape (r, m)
        How often each row is in each resample.
    befores : array of shape (r, C)
        How frequent classes were, for each resample.
    start : array of shape (C,)
        The factors of the sample itself.
    strength : float
        As in :func:`factors`, for as many rows as a resample has.
    """
    n = counts.sum(axis=1, keepdims=True)
    held = strength / n
    prior = float(held[0, 0]) * befores.mean(axis=0) / start**2
    curved = cho_factor(_conditioned(curvature((sample,), start) / len(sample) + np.diag(prior)))
    found = np.tile(start, (len(counts), 1)) / (befores @ start)[:, None]
    for _ in range(_ROUNDS):
        slopes = _slopes(sample, counts, found) / n
        uphill = slopes + held * befores / found - (1 + held) * befores
        found = np.maximum(found + cho_solve(curved, uphill.T).T, _LEAST * found)
        slopes = _slopes(sample, counts, found) / n
        found = (found * slopes + held * befores) / ((1 + held) * befores)
    return found


def _slopes(sample: FloatArray, counts: NDArray[np.int64], found: FloatArray) -> FloatArray:
    return np.asarray((counts / (found @ sample.T)) @ sample)


def _climbed(
    rows: Rows, found: FloatArray, before: FloatArray, held: float
) -> tuple[float, FloatArray]:
    """Return the height, and the slope of what the rows say of it; one pass."""
    likely, slope = 0.0, np.zeros_like(before)
    for block in rows.blocks:
        wide = np.asarray(block, dtype=np.float64)
        mixed = wide @ found
        likely += float(np.log(mixed).sum())
        slope += (1 / mixed) @ wide
    prior = held * float(before @ np.log(found)) - (1 + held) * float(before @ found)
    return likely / rows.n + prior, slope / rows.n


def curvature(blocks: Iterable[NDArray[np.floating]], found: FloatArray) -> FloatArray:
    """Return minus the second derivative of the summed log-likelihood."""
    total = np.zeros((len(found), len(found)))
    for block in blocks:
        scaled = block / (block @ found)[:, None]
        total += scaled.T @ scaled
    return total


def _solved(curvature: FloatArray, uphill: FloatArray) -> FloatArray:
    return np.asarray(cho_solve(cho_factor(_conditioned(curvature)), uphill))


def _conditioned(curvature: FloatArray) -> FloatArray:
    """Return the matrix with a trifle on its diagonal: classes may be told apart by no row."""
    least = 1e-12 * float(np.trace(curvature))
    return curvature + least * np.eye(len(curvature))


def _within(found: FloatArray, step: FloatArray) -> FloatArray:
    """Take a step, or as much of it as keeps all frequencies above 0."""
    fall = (-step / found).max(axis=-1, keepdims=True)
    share = np.minimum(1.0, _NEAREST / np.maximum(fall, 1e-300))
    return np.asarray(found + share * step)

"""Sums over the rows at or above each of many thresholds, in the samples and in resamples.

Which rows stand above a threshold is the same in every resample, so a resample's sums are those of
rows between thresholds, added up from the top: one sparse product for all resamples of a block.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.statistics.bootstrap import counts_of_draws


class Above:
    """Columns of numbers, summed over the rows whose place is at least each threshold.

    Parameters
    ----------
    places : ndarray of shape (n,)
    thresholds : ndarray of shape (m,)
        Rising.
    columns : ndarray of shape (n, q)

    Examples
    --------
    >>> above = Above(np.array([0.2, 0.9]), np.array([0.1, 0.5, 1.0]), np.array([[1.0], [10.0]]))
    >>> above(np.ones((1, 2))).tolist()
    [[[11.0, 10.0, 0.0]]]
    """

    def __init__(self, places: FloatArray, thresholds: FloatArray, columns: FloatArray) -> None:
        from scipy.sparse import csr_array

        n, q = columns.shape
        self._shape = (q, len(thresholds) + 1)
        # How many thresholds a row has reached is the stretch that it adds to.
        stretch = np.searchsorted(thresholds, places, side="right")
        cells = stretch[:, None] + self._shape[1] * np.arange(q)
        starts = np.arange(0, columns.size + 1, q)
        shape = (n, q * self._shape[1])
        self._sums = csr_array((columns.ravel(), cells.ravel(), starts), shape=shape).T.tocsr()

    def __call__(self, counts: FloatArray) -> FloatArray:
        """Return the sums of resamples, shape (k, q, m), from how often rows were drawn, (k, n)."""
        between = (self._sums @ counts.T).T.reshape(len(counts), *self._shape)
        return np.asarray(between[:, :, :0:-1].cumsum(axis=2)[:, :, ::-1])


def curve_draws(
    above: Above,
    finish: Callable[[FloatArray, FloatArray], FloatArray],
    *,
    n: int,
    n_boot: int,
    random_state: int,
) -> tuple[FloatArray, FloatArray]:
    """Return a curve over thresholds, shape (m,), and the same in each resample, (n_boot, m).

    ``finish`` makes the curve of k resamples, (k, m), from sums above thresholds, (k, q, m), and
    counts of draws, (k, n).
    """
    whole = np.ones((1, n))
    rng = np.random.default_rng(random_state)
    drawn = [finish(above(counts), counts) for counts in counts_of_draws(n, n_boot, rng)]
    return finish(above(whole), whole)[0], np.concatenate(drawn)


def band_of(drawn: FloatArray, *, level: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the percentile interval at each threshold."""
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return low, high

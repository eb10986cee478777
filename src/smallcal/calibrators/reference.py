"""What a calibration split looked like, in a few counts: what new rows are compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smallcal.data.checks import FloatArray, IntArray
from smallcal.errors import InputError

#: Bins of a split of a hundred samples or more.
N_BINS = 10

#: Fewer samples get fewer bins, so that each holds about this many.
_LEAST_EACH = 10


@dataclass(frozen=True)
class Bins:
    """Bins between ranks of a split, and how many of its values each holds.

    Attributes
    ----------
    edges : tuple of float
        Ascending; a value goes to the bin after the last edge below it.
    counts : tuple of int
        One more than edges.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.edges) + 1 or not self.edges:
            raise InputError(f"{len(self.edges)} edges need one count more; got {len(self.counts)}")
        if not bool(np.all(np.diff(self.edges) > 0)):
            raise InputError("edges must ascend")
        if not all(self.counts[:-1]):
            raise InputError("each bin but the last must hold its own upper edge")

    @classmethod
    def of(cls, values: FloatArray) -> Bins:
        """Cut a split's values at its own ranks, so that bins hold about the same number.

        Examples
        --------
        >>> Bins.of(np.arange(109.0)).counts
        (11, 11, 11, 11, 11, 11, 11, 11, 11, 10)
        """
        ranked, n = np.sort(values), len(values)
        bins = max(2, min(N_BINS, n // _LEAST_EACH))
        ranks = np.rint(np.arange(1, bins) * (n + 1) / bins).astype(int)
        edges = np.unique(ranked[np.clip(ranks, 1, n) - 1])
        return cls(tuple(edges.tolist()), tuple(_binned(values, edges).tolist()))

    def count(self, values: FloatArray) -> IntArray:
        """Return how many values fall into each bin.

        Examples
        --------
        >>> Bins((0.0, 1.0), (1, 1, 0)).count(np.array([-1.0, 0.0, 0.5, 1.0, 2.0])).tolist()
        [2, 2, 1]
        """
        return _binned(values, np.array(self.edges))

    @property
    def spacings(self) -> FloatArray:
        """How many of the n + 1 gaps between ranked values each bin holds."""
        gaps = np.array(self.counts, dtype=np.float64)
        gaps[-1] += 1
        return gaps


@dataclass(frozen=True)
class Reference:
    """A calibration split as a monitor sees it.

    Attributes
    ----------
    confidence : Bins
        Of the log-odds of the model's own confidence.
    score : Bins or None
        Of the routing score, where there is one.
    groups : tuple of int, or None
        Samples that deployment would put in each group, where there are several.
    """

    confidence: Bins
    score: Bins | None = None
    groups: tuple[int, ...] | None = None


def _binned(values: FloatArray, edges: FloatArray) -> IntArray:
    return np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)

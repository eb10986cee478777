"""Metrics of several methods in resamples of the samples they share, block by block."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError
from smallcal.metrics import Metric, Scored
from smallcal.metrics.replicas import Falling, Linear, Ordered, Replicator, replicators
from smallcal.statistics.draws import side_of

#: Resamples in a strip.
_STRIP = 24

#: A method and a metric.
Key = tuple[str, str]


class Block(NamedTuple):
    """Each metric in k resamples, (k,), and the sums behind errors in bins, (k, bins)."""

    size: int
    values: dict[Key, FloatArray]
    sums: dict[Key, FloatArray]


class Replication:
    """Several methods' metrics on the same samples, ready to be computed for any resample.

    Every linear metric of every method is one stretch of one matrix, so that a single product
    serves them all; a method's samples are put in order once for all metrics that need it.
    """

    def __init__(
        self, n: int, parts: Mapping[Key, Replicator], clusters: IntArray | None = None
    ) -> None:
        self.n, self.parts, self.clusters = n, parts, clusters
        columns = [how.columns for how in self.parts.values() if isinstance(how, Linear)]
        self.columns = np.hstack(columns) if columns else np.empty((self.n, 0))

    @classmethod
    def of_metrics(
        cls, scored: Mapping[str, Scored], metrics: Sequence[Metric], *, plain: bool = False
    ) -> Replication:
        """Prepare metrics of predictions."""
        parts = {
            (name, metric): how
            for name, view in scored.items()
            for metric, how in replicators(metrics, view, plain=plain).items()
        }
        return cls(shared_length(scored), parts, next(iter(scored.values())).clusters)

    def of(self, metrics: Container[str]) -> Replication:
        """Return the same for some of the metrics."""
        parts = {key: how for key, how in self.parts.items() if key[1] in metrics}
        return self if len(parts) == len(self.parts) else Replication(self.n, parts, self.clusters)

    def __call__(self, counts: FloatArray) -> Block:
        """Return each metric in each resample."""
        found = Block(len(counts), {}, {})
        ordered = self._ordered(counts)
        if not all(isinstance(how, Linear | Ordered) for how in self.parts.values()):
            counts = np.asfortranarray(counts)
        sums, start = counts @ self.columns, 0
        for key, how in self.parts.items():
            if isinstance(how, Linear):
                own = sums[:, start : start + how.columns.shape[1]]
                start += how.columns.shape[1]
                found.values[key] = how.finish(own)
                if how.bent:
                    found.sums[key] = own
            elif isinstance(how, Ordered):
                found.values[key] = ordered[key]
            else:
                found.values[key] = how(counts)
        return found

    def _ordered(self, counts: FloatArray) -> dict[Key, FloatArray]:
        """Return the metrics that depend on the order of the samples, strip by strip.

        Each takes many passes over a matrix of the size of its counts: a strip stays in the cache.
        """
        parts = {key: how for key, how in self.parts.items() if isinstance(how, Ordered)}
        found: dict[Key, list[FloatArray]] = {key: [] for key in parts}
        for start in range(0, len(counts) if parts else 0, _STRIP):
            strip = np.asfortranarray(counts[start : start + _STRIP])
            falling: dict[int, Falling] = {}
            for key, how in parts.items():
                if id(how.order) not in falling:
                    falling[id(how.order)] = how.order.fall(strip)
                found[key].append(how.finish(falling[id(how.order)]))
        return {key: np.concatenate(values) for key, values in found.items()}

    def again(self, key: Key, sums: FloatArray) -> FloatArray | None:
        """Return the first resamples of an error in bins, each resampled by the next ones.

        Sums are linear in the resample, so a resample's resample is its sums plus the deviations
        of another one. After them come resamples of some of those. See :class:`Draws`.
        """
        how = self.parts[key]
        if not isinstance(how, Linear):
            return None
        k, total = len(sums) // 2, how.columns.sum(axis=0)
        side = side_of(k)
        pairs = sums[:side, None] + sums[side : 2 * side] - total
        centres = np.vstack([sums[:k], pairs.reshape(-1, sums.shape[1])])
        return how.finish(centres[:, None] + (sums[k : 2 * k] - total))


def shared_length(scored: Mapping[str, Scored]) -> int:
    """Return how many samples all methods have; raise where they differ."""
    lengths = {name: view.n for name, view in scored.items()}
    if len(set(lengths.values())) != 1:
        shown = ", ".join(f"{name} {n:,}" for name, n in lengths.items())
        raise InputError(
            f"methods must be compared on the same samples; they have {shown}", code="rows-differ"
        )
    return next(iter(lengths.values()))

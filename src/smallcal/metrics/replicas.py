"""Metrics of resampled data, without resampling the data.

A resample is how often each sample was drawn: a row of counts. A metric that is made of sums over
samples needs one product of counts with what each sample adds; a metric that depends on the order
of the samples needs running sums in an order that never changes. Both are hundreds of times
quicker than gathering the rows, and exact. The few metrics that are neither are computed from
gathered rows.

Errors in bins of the confidence are replicated without noise (:mod:`smallcal.metrics.debiased`):
plain ones count the noise of the samples and that of the resample. They are there too, for who
wants what a plain loop over resamples gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from smallcal.data.predictions import FloatArray, IntArray
from smallcal.metrics.binned import DEFAULT_BINS, equal_width
from smallcal.metrics.debiased import CUTS, summed_gaps, without_noise
from smallcal.metrics.kept import each
from smallcal.metrics.scored import Scored
from smallcal.metrics.selective import DEFAULT_COVERAGE, confidence_blocks
from smallcal.metrics.table import METRICS, Metric
from smallcal.metrics.threshold import DEFAULT_THRESHOLD, HCFP_PERCENTS

#: From counts, shape (k, n), to the metric in each of k resamples, shape (k,).
Replicator = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Linear:
    """A metric made of sums: what each sample adds, and what becomes of the sums.

    Attributes
    ----------
    columns : ndarray of shape (n, q)
    finish : callable
        From the sums of k resamples, shape (k, q), to their metric, shape (k,).
    bent : bool
        Whether ``finish`` bends where a sum is 0, so that the spread of resamples depends on which
        side of 0 they are centred, and noise decides that. See :mod:`smallcal.statistics.draws`.
    """

    columns: FloatArray
    finish: Callable[[FloatArray], FloatArray]
    bent: bool = False

    def __call__(self, counts: FloatArray) -> FloatArray:
        """Return the metric in each resample."""
        return self.finish(counts @ self.columns)


def replicators(
    metrics: Sequence[Metric], scored: Scored, *, plain: bool = False
) -> dict[str, Replicator]:
    """Return how metrics of these predictions are computed from resample counts.

    ``plain`` leaves the noise in errors in bins, and cuts bins of equal count anew.

    Examples
    --------
    >>> scored = Scored.of([0, 1], [[0.75, 0.25], [0.5, 0.5]])
    >>> accuracy = replicators([METRICS["accuracy"]], scored)["accuracy"]
    >>> accuracy(np.array([[2.0, 0.0], [1.0, 1.0]])).tolist()
    [1.0, 0.5]
    """
    order = Order.of(scored) if any(metric.name in ORDERED for metric in metrics) else None
    return {metric.name: _replicator(metric, scored, order, plain=plain) for metric in metrics}


def _replicator(metric: Metric, scored: Scored, order: Order | None, *, plain: bool) -> Replicator:
    if metric.values is not None:
        return Linear(each(metric, scored)[:, None], lambda sums: sums[:, 0] / scored.n)
    if plain and metric.name in _PLAIN:
        return _PLAIN[metric.name](scored)
    if order is not None and metric.name in ORDERED:
        return Ordered(order, ORDERED[metric.name](scored.n))
    if metric.name in _SPECIAL:
        return _SPECIAL[metric.name](scored)
    return partial(_gathered, metric, scored)


def _ratio(sums: FloatArray) -> FloatArray:
    """Return the first sum over the second, NaN where that is 0: undefined there."""
    part, whole = sums.T
    return np.asarray(np.divide(part, whole, out=np.full(len(sums), np.nan), where=whole > 0))


def _gathered(metric: Metric, scored: Scored, counts: FloatArray) -> FloatArray:
    every = np.arange(scored.n)
    rows = (np.repeat(every, row) for row in counts.astype(np.int64))
    return np.array([metric.of(scored.take(row)) for row in rows])


def _binned(name: str, scored: Scored) -> Linear:
    """Return a binned error without noise; bins stay where these samples put them."""
    index = CUTS[name](scored.confidence, DEFAULT_BINS)
    _, noise = summed_gaps(scored, index)

    def finish(sums: FloatArray) -> FloatArray:
        return np.asarray(without_noise(sums / scored.n, noise).sum(axis=-1))

    return Linear(_by_bin(scored, index), finish, bent=True)


def _by_bin(scored: Scored, index: IntArray) -> FloatArray:
    """Return the gap of each sample in the column of its bin."""
    columns = np.zeros((scored.n, DEFAULT_BINS))
    columns[np.arange(scored.n), index] = scored.residual
    return columns


def _plain_ece(scored: Scored) -> Linear:
    """Return the error in bins of equal width as a resample shows it."""
    columns = _by_bin(scored, equal_width(scored.confidence, DEFAULT_BINS))
    return Linear(columns, lambda sums: np.abs(sums).sum(axis=-1) / scored.n)


def _plain_adaece(scored: Scored) -> Replicator:
    """Return the error in bins of equal count, which are those of the resample."""
    n = scored.n
    order = np.argsort(scored.confidence, kind="stable")
    residual = scored.residual[order]
    ends = np.cumsum(n // DEFAULT_BINS + (np.arange(DEFAULT_BINS) < n % DEFAULT_BINS))

    def replicate(counts: FloatArray) -> FloatArray:
        drawn = counts[:, order]
        reached, summed = np.cumsum(drawn, axis=1), np.cumsum(drawn * residual, axis=1)
        # The sample in which a bin ends, and how many copies of it are in the next one.
        last = np.array([np.searchsorted(row, ends) for row in reached])
        beyond = np.take_along_axis(reached, last, axis=1) - ends
        sums = np.take_along_axis(summed, last, axis=1) - beyond * residual[last]
        return np.asarray(np.abs(np.diff(sums, axis=1, prepend=0.0)).sum(axis=1) / n)

    return replicate


def _classwise_ece(scored: Scored) -> Replicator:
    from scipy.sparse import csr_array

    n, n_classes = scored.proba.shape
    cell = equal_width(scored.proba, DEFAULT_BINS) + DEFAULT_BINS * np.arange(n_classes)
    residual = scored.proba.copy()
    residual[np.arange(n), scored.labels] -= 1
    starts = np.arange(0, residual.size + 1, n_classes)
    table = csr_array(
        (residual.ravel(), cell.ravel(), starts), shape=(n, n_classes * DEFAULT_BINS)
    ).T.tocsr()

    def replicate(counts: FloatArray) -> FloatArray:
        return np.asarray(np.abs(table @ counts.T).sum(axis=0) / (n * n_classes))

    return replicate


def _sure_errors(scored: Scored, *, threshold: float, of_errors: bool) -> Linear:
    """Return the share of errors that are sure, or of what is sure that is an error."""
    wrong, sure = ~scored.correct, scored.confidence >= threshold
    columns = [wrong & sure, wrong if of_errors else sure]
    return Linear(np.column_stack(columns).astype(np.float64), _ratio)


@dataclass(frozen=True, eq=False)
class Falling:
    """Some resamples' samples, the most confident first, in blocks of equal confidence.

    Attributes
    ----------
    size, wrong : ndarray of shape (k, blocks)
        Samples and errors of each block.
    kept, errors : ndarray of shape (k, blocks)
        Samples and errors up to and with each block.
    """

    size: FloatArray
    wrong: FloatArray
    kept: FloatArray
    errors: FloatArray


@dataclass(frozen=True, eq=False)
class Order:
    """The samples in the order of falling confidence, which no resample changes."""

    order: IntArray
    starts: IntArray
    wrong: FloatArray

    @classmethod
    def of(cls, scored: Scored) -> Order:
        """Sort once."""
        block = confidence_blocks(scored)
        order = np.argsort(block, kind="stable")
        starts = np.flatnonzero(np.diff(block[order], prepend=-1))
        return cls(order, starts, (~scored.correct[order]).astype(np.float64))

    def fall(self, counts: FloatArray) -> Falling:
        """Return the blocks of some resamples."""
        size = counts[:, self.order]
        wrong = size * self.wrong
        if len(self.starts) < len(self.order):
            size = np.add.reduceat(size, self.starts, axis=1)
            wrong = np.add.reduceat(wrong, self.starts, axis=1)
        return Falling(size, wrong, np.cumsum(size, axis=1), np.cumsum(wrong, axis=1))


@dataclass(frozen=True, eq=False)
class Ordered:
    """A metric that depends on the order of the samples."""

    order: Order
    finish: Callable[[Falling], FloatArray]

    def __call__(self, counts: FloatArray) -> FloatArray:
        """Return the metric in each resample."""
        return self.finish(self.order.fall(counts))


def _auroc(blocks: Falling) -> FloatArray:
    right = blocks.size - blocks.wrong
    all_wrong, all_right = blocks.errors[:, -1], right.sum(axis=1)
    beaten = all_wrong[:, None] - blocks.errors + blocks.wrong / 2
    pairs = np.einsum("ij,ij->i", right, beaten)
    return _ratio(np.column_stack([pairs, all_right * all_wrong]))


def _harmonic(n: int) -> FloatArray:
    """Return 1 + 1/2 + ... + 1/k for k = 0 .. n."""
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n + 1))])


def _aurc(harmonic: FloatArray, blocks: Falling) -> FloatArray:
    """Average the error rate among the k most confident over k.

    Within a block errors rise evenly, E_k = a + rate x k, so that the sum of E_k / k over the
    block is a x (difference of harmonic numbers) + rate x size.
    """
    n = len(harmonic) - 1
    rate = blocks.wrong / np.maximum(blocks.size, 1)
    before = blocks.errors - blocks.kept * rate
    reached = harmonic[blocks.kept.astype(np.int64)]
    span = np.diff(reached, axis=1, prepend=0)
    return np.asarray((np.einsum("ij,ij->i", before, span) + blocks.errors[:, -1]) / n)


def _eaurc(harmonic: FloatArray, blocks: Falling) -> FloatArray:
    n = len(harmonic) - 1
    right = n - blocks.errors[:, -1]
    best = (n - right - right * (harmonic[n] - harmonic[right.astype(np.int64)])) / n
    return np.asarray(np.maximum(_aurc(harmonic, blocks) - best, 0))


def resampled_risk(kept: int, blocks: Falling) -> FloatArray:
    """Return the error rate among the ``kept`` most confident samples of each resample."""
    if not kept:
        return np.full(len(blocks.size), np.nan)
    every = np.arange(len(blocks.size))
    at: IntArray = (blocks.kept < kept).sum(axis=1)  # the block where coverage is reached
    short = blocks.kept[every, at] - kept
    rate = blocks.wrong[every, at] / blocks.size[every, at]
    return np.asarray((blocks.errors[every, at] - short * rate) / kept)


#: How a metric of n samples that depends on their order is computed from the blocks.
ORDERED: Mapping[str, Callable[[int], Callable[[Falling], FloatArray]]] = MappingProxyType(
    {
        "auroc": lambda n: _auroc,
        "aurc": lambda n: partial(_aurc, _harmonic(n)),
        "eaurc": lambda n: partial(_eaurc, _harmonic(n)),
        "selective_risk80": lambda n: partial(resampled_risk, round(DEFAULT_COVERAGE * n)),
    }
)

_SPECIAL: Mapping[str, Callable[[Scored], Replicator]] = MappingProxyType(
    {
        **{name: partial(_binned, name) for name in CUTS},
        "cwece15": _classwise_ece,
        **{
            f"hcfp{percent}": partial(_sure_errors, threshold=percent / 100, of_errors=True)
            for percent in HCFP_PERCENTS
        },
        "risk_at90": partial(_sure_errors, threshold=DEFAULT_THRESHOLD, of_errors=False),
    }
)

#: Errors in bins with the noise of the samples and of the resample in them.
_PLAIN: Mapping[str, Callable[[Scored], Replicator]] = MappingProxyType(
    {"ece15": _plain_ece, "adaece15": _plain_adaece}
)

#: Metrics whose resamples are gathered row by row, and so take milliseconds each.
SLOW = tuple(
    name
    for name, row in METRICS.items()
    if row.values is None and name not in _SPECIAL and name not in ORDERED
)

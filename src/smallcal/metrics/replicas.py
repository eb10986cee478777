"""Metrics of resampled data, without resampling the data.

A resample is how often each sample was drawn: a row of counts. A metric that is made of sums over
samples needs one product of counts with what each sample adds; a metric that depends on the order
of the samples needs running sums in an order that never changes; smooth errors need masses on a
grid that never changes (:mod:`smallcal.metrics.smooth_many`). All are hundreds of times quicker
than gathering the rows, and exact, ``smece_exact`` to about 1e-6. A metric that has no way here is
computed from gathered rows.

Counts are (k, n), sample by sample in memory (Fortran's order) where speed matters: sparse products
read them so.

Errors in bins of the confidence are replicated without noise (:mod:`smallcal.metrics.debiased`):
plain ones count the noise of the samples and that of the resample. They are there too, for who
wants what a plain loop over resamples gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from smallcal.data.predictions import FloatArray, IntArray
from smallcal.metrics.binned import DEFAULT_BINS, bin_sums, equal_width
from smallcal.metrics.debiased import CUTS, summed_gaps, without_noise
from smallcal.metrics.kept import each
from smallcal.metrics.scored import Scored
from smallcal.metrics.selective import DEFAULT_COVERAGE, confidence_blocks
from smallcal.metrics.smooth import smece_exact
from smallcal.metrics.smooth_many import ManyExact, ManyReleased
from smallcal.metrics.table import Metric
from smallcal.metrics.threshold import DEFAULT_THRESHOLD, HCFP_PERCENTS

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
    >>> from smallcal.metrics import METRICS
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
    """Return the classwise error: a dense product for the lowest bins, a sparse one for the rest.

    With many classes nearly all probabilities are in the lowest bin of their class.
    """
    from scipy.sparse import csr_array

    n, n_classes = scored.proba.shape
    bins = equal_width(scored.proba, DEFAULT_BINS)
    residual = scored.proba.copy()
    residual[np.arange(n), scored.labels] -= 1
    row, column = np.nonzero(bins)
    cell = (DEFAULT_BINS - 1) * column + bins[row, column] - 1
    shape = ((DEFAULT_BINS - 1) * n_classes, n)
    above = csr_array((residual[row, column], (cell, row)), shape=shape)
    residual[row, column] = 0.0

    def replicate(counts: FloatArray) -> FloatArray:
        lowest, others = np.abs(counts @ residual), np.abs(above @ counts.T)
        return np.asarray((lowest.sum(axis=1) + others.sum(axis=0)) / (n * n_classes))

    return replicate


def _smece(scored: Scored) -> Replicator:
    many = ManyReleased(scored.confidence)
    return lambda counts: many(counts * scored.residual, counts)


def _smece_exact(scored: Scored) -> Replicator:
    many = ManyExact(scored.confidence, guess=smece_exact.of(scored))
    residual = scored.residual / scored.n
    return lambda counts: many(counts * residual)


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
    n : int
        Samples of a resample.
    """

    size: IntArray
    wrong: IntArray
    kept: IntArray
    errors: IntArray
    n: int

    @cached_property
    def aurc(self) -> FloatArray:
        """The error rate among the k most confident, averaged over k.

        Within a block errors rise evenly, E_k = a + rate x k, so that the sum of E_k / k over the
        block is a x (difference of harmonic numbers) + rate x size.
        """
        rate = self.wrong / np.maximum(self.size, 1)
        before = self.errors - self.kept * rate
        span = self.harmonic[self.kept]
        span[:, 1:] -= span[:, :-1].copy()
        return np.asarray((np.einsum("ij,ij->i", before, span) + self.errors[:, -1]) / self.n)

    @property
    def harmonic(self) -> FloatArray:
        """1 + 1/2 + ... + 1/k for k = 0 .. n."""
        return _harmonic(self.n)


@dataclass(frozen=True, eq=False)
class Order:
    """The samples in the order of falling confidence, which no resample changes.

    Neighbouring blocks whose samples are all right, or all wrong, are one: in what order such
    samples stand changes nothing.

    Attributes
    ----------
    blocks : sparse matrix of shape (blocks, n)
        Ones for the samples of each block.
    rate : ndarray of shape (blocks,)
        Error rate of each block, 0 or 1; of those in ``mixed`` it depends on the resample.
    mixed : ndarray
        Blocks of equal confidence with right and wrong samples.
    wrong : sparse matrix of shape (mixed, n)
        Ones for the wrong samples of these.
    """

    blocks: csr_array
    rate: IntArray
    mixed: IntArray
    wrong: csr_array

    @classmethod
    def of(cls, scored: Scored) -> Order:
        """Sort once."""
        block, errors = confidence_blocks(scored), (~scored.correct).astype(np.float64)
        rate = bin_sums(block, errors, 0) / bin_sums(block, np.ones(scored.n), 0)
        pure = (rate == 0) | (rate == 1)
        same = pure[1:] & (rate[1:] == rate[:-1])  # as the block before it
        run = np.cumsum(np.concatenate([[0], ~same]))
        rate = rate[np.flatnonzero(np.diff(run, prepend=-1))]
        mixed = np.flatnonzero((rate > 0) & (rate < 1))
        blocks = _members(run[block], np.ones(scored.n), len(rate))
        wrong = _members(run[block], errors, len(rate))[mixed]
        return cls(blocks, rate.astype(np.int64), mixed, wrong)

    def fall(self, counts: FloatArray) -> Falling:
        """Return the blocks of some resamples."""
        size = _whole(self.blocks @ counts.T)
        wrong = size * self.rate
        if len(self.mixed):
            wrong[:, self.mixed] = _whole(self.wrong @ counts.T)
        kept, errors = np.cumsum(size, axis=1), np.cumsum(wrong, axis=1)
        return Falling(size, wrong, kept, errors, counts.shape[1])


def _members(block: IntArray, weight: FloatArray, blocks: int) -> csr_array:
    """Return the matrix that adds up weighted samples by block."""
    from scipy.sparse import csr_array

    return csr_array((weight, (block, np.arange(len(block)))), shape=(blocks, len(block)))


def _whole(sums: FloatArray) -> IntArray:
    """Turn sums of counts, (blocks, k), into whole numbers, (k, blocks): quicker to add up."""
    return np.ascontiguousarray(sums.T.astype(np.int64))


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
    # Twice the pairs that are won, where a tie is half of one: whole numbers.
    beaten = 2 * (all_wrong[:, None] - blocks.errors) + blocks.wrong
    pairs = np.einsum("ij,ij->i", right, beaten) / 2
    return _ratio(np.column_stack([pairs, all_right * all_wrong]))


@lru_cache(maxsize=4)
def _harmonic(n: int) -> FloatArray:
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n + 1))])


def _eaurc(blocks: Falling) -> FloatArray:
    n, harmonic = blocks.n, blocks.harmonic
    right = n - blocks.errors[:, -1]
    best = (n - right - right * (harmonic[n] - harmonic[right])) / n
    return np.asarray(np.maximum(blocks.aurc - best, 0))


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
        "aurc": lambda n: attrgetter("aurc"),
        "eaurc": lambda n: _eaurc,
        "selective_risk80": lambda n: partial(resampled_risk, round(DEFAULT_COVERAGE * n)),
    }
)

_SPECIAL: Mapping[str, Callable[[Scored], Replicator]] = MappingProxyType(
    {
        **{name: partial(_binned, name) for name in CUTS},
        "cwece15": _classwise_ece,
        "smece": _smece,
        "smece_exact": _smece_exact,
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

#: Metrics whose resamples take ten times as long as those of others.
SLOW = ("smece", "smece_exact")

"""Resample test samples, or seeds and their samples, and see how metrics and differences move.

Methods are resampled together, so that differences are paired: what one lucky sample gives to
both of two methods cancels. The sums behind the metrics are products of resample counts with what
each sample adds, see :mod:`smallcal.metrics.replicas`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.io.progress import Advance
from smallcal.metrics import METRICS, Metric, Scored
from smallcal.metrics.replicas import SLOW, Falling, Linear, Ordered, Replicator, replicators
from smallcal.metrics.table import chosen_metrics
from smallcal.statistics.interval import Interval, interval_of, require_options

#: Resampled values, (n_boot,), by method and metric.
Values = dict[tuple[str, str], FloatArray]

#: Counts at a time: 16 MB of them.
_BLOCK_SIZE = 2_000_000

#: Counts at a time for metrics that pass over them often: 1 MB.
_CACHED = 131_072

#: Metrics that must gather the rows of each resample are given at most so many.
SLOW_BOOT = 200

DEFAULT_BOOT = 2_000


def interval(
    y_true: object,
    y_proba: object,
    metric: str,
    *,
    n_boot: int = DEFAULT_BOOT,
    level: float = 0.95,
    random_state: int = 0,
) -> Interval:
    """Return a metric with its bootstrap interval, resampling test samples.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    y_proba : array-like of shape (n, C)
    metric : str
        A name in :data:`smallcal.metrics.METRICS`.
    n_boot : int
        Resamples, at least 1; at most 200 are used for ``smece`` and ``smece_exact``.
    level : float
    random_state : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], size=500)
    >>> y = (p.cumsum(axis=1) > rng.random((500, 1))).argmax(axis=1)
    >>> found = interval(y, p, "accuracy")
    >>> found.low < found.point < found.high
    True
    """
    require_options(n_boot, level, least=1, why="evaluate gives the value alone")
    (row,) = chosen_metrics([metric])
    view = Scored.of(y_true, y_proba)
    values = resample({"it": view}, [row], n_boot=n_boot, random_state=random_state)
    return interval_of(
        row.of(view), values["it", metric], unit="test samples", level=level, biased=row.biased
    )


@dataclass(frozen=True)
class Run:
    """One seed's test labels, and each method's probabilities for them."""

    y_true: object
    y_probas: Mapping[str, object]


def seed_samples(
    runs: Sequence[Run],
    *,
    baseline: str,
    metrics: Sequence[str] = ("ece15", "nll", "brier", "top_label_bce"),
    n_boot: int = 20_000,
    level: float = 0.95,
    random_state: int = 20260721,
    advance: Advance = lambda rows: None,
) -> dict[str, dict[str, Interval]]:
    """Return paired intervals over seeds and their test samples: the seed x sample bootstrap.

    Seeds are drawn with replacement; inside each seed drawn, its test samples are redrawn
    independently, the same for all methods. The statistic is the mean over seeds of the
    difference from the baseline.

    Parameters
    ----------
    runs : sequence of Run
        One per seed.
    baseline : str
    metrics, n_boot, level, random_state
        As in :func:`interval`.
    advance : callable, optional
        Told how many resamples of samples were done.

    Returns
    -------
    dict of method to dict of metric to Interval

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> runs = []
    >>> for _ in range(3):
    ...     p = rng.dirichlet([1, 1], size=200)
    ...     y = (rng.random(200) < p[:, 1]).astype(int)
    ...     runs.append(Run(y, {"honest": p, "flat": np.full((200, 2), 0.5)}))
    >>> found = seed_samples(runs, baseline="flat", metrics=["nll"], n_boot=200)
    >>> found["honest"]["nll"].verdict()
    'better'
    """
    require_options(n_boot, level, least=1)
    if not runs:
        raise InputError("seed_samples needs at least one run")
    chosen = chosen_metrics(metrics)
    views = [_views(run, baseline) for run in runs]
    if any(set(view) != set(views[0]) for view in views):
        raise InputError("every run must have the same methods")
    rng = np.random.default_rng(random_state)
    slots = rng.integers(len(runs), size=(n_boot, len(runs)))
    drawn: dict[tuple[str, str], FloatArray] = {}
    for seed, view in enumerate(views):
        here = slots == seed
        n = int(here.sum())
        found = resample(view, chosen, n_boot=n, random_state=rng, advance=advance, capped=False)
        for key, values in found.items():
            drawn.setdefault(key, np.empty(slots.shape))[here] = values
    note = "one seed: how seeds differ is not seen" if len(runs) == 1 else ""
    result: dict[str, dict[str, Interval]] = {}
    for name in views[0]:
        for metric in chosen if name != baseline else ():
            gap = drawn[name, metric.name] - drawn[baseline, metric.name]
            point = np.mean([metric.of(view[name]) - metric.of(view[baseline]) for view in views])
            result.setdefault(name, {})[metric.name] = interval_of(
                float(point), gap.mean(axis=1), unit="seeds, then samples", level=level, note=note
            )
    return result


def _views(run: Run, baseline: str) -> dict[str, Scored]:
    if baseline not in run.y_probas:
        raise InputError(f"baseline {baseline!r} is not among {', '.join(run.y_probas)}")
    views = {name: Scored.of(run.y_true, proba) for name, proba in run.y_probas.items()}
    _shared_length(views)
    return views


def intervals_by_method(
    points: Mapping[str, Mapping[str, float]],
    drawn: Values,
    *,
    unit: str,
    level: float,
    baseline: str | None = None,
    tell_bias: bool = False,
) -> dict[str, dict[str, Interval]]:
    """Return the interval of each method's metrics; with a baseline, of the differences from it.

    ``tell_bias`` notes by how much resampling raises a calibration error.
    """

    def found(name: str, metric: str) -> Interval:
        point, values = points[name][metric], drawn[name, metric]
        if baseline is not None:
            point = point - points[baseline][metric]
            values = values - drawn[baseline, metric]
        biased = tell_bias and METRICS[metric].biased
        return interval_of(point, values, unit=unit, level=level, biased=biased)

    return {
        name: {metric: found(name, metric) for metric in row}
        for name, row in points.items()
        if name != baseline
    }


def resample(
    scored: Mapping[str, Scored],
    metrics: Sequence[Metric],
    *,
    n_boot: int,
    random_state: int | np.random.Generator = 0,
    advance: Advance = lambda rows: None,
    capped: bool = True,
) -> Values:
    """Return every metric of every method in each resample of the samples they share.

    Slow metrics are given at most ``SLOW_BOOT`` of them, if capped. A generator draws on.
    """
    rng = np.random.default_rng(random_state)
    replicate = Replication(scored, metrics)
    parts: dict[tuple[str, str], list[FloatArray]] = {}
    done = 0
    for counts in counts_of_draws(_shared_length(scored), n_boot, rng):
        few = max(0, SLOW_BOOT - done) if capped else None
        for key, values in replicate(counts, slow=few).items():
            parts.setdefault(key, []).append(values)
        done += len(counts)
        advance(len(counts))
    return {key: np.concatenate(blocks) for key, blocks in parts.items()}


class Replication:
    """Several methods' metrics on the same samples, ready to be computed for any resample.

    Every linear metric of every method is one stretch of one matrix, so that a single product
    serves them all; a method's samples are put in order once for all metrics that need it.
    """

    def __init__(self, scored: Mapping[str, Scored], metrics: Sequence[Metric]) -> None:
        self.parts: dict[tuple[str, str], Replicator] = {
            (name, metric): how
            for name, view in scored.items()
            for metric, how in replicators(metrics, view).items()
        }
        columns = [how.columns for how in self.parts.values() if isinstance(how, Linear)]
        self.columns = np.hstack(columns) if columns else np.empty((_shared_length(scored), 0))

    def __call__(self, counts: FloatArray, *, slow: int | None = None) -> Values:
        """Return each metric in each resample; slow ones for the first ``slow`` only."""
        found: Values = {}
        sums, start = counts @ self.columns, 0
        for key, how in self.parts.items():
            if isinstance(how, Linear):
                stop = start + how.columns.shape[1]
                found[key] = how.finish(sums[:, start:stop])
                start = stop
        few = max(1, _CACHED // counts.shape[1])
        pieces = [self._others(counts[i : i + few]) for i in range(0, len(counts), few)]
        for key in pieces[0]:
            found[key] = np.concatenate([piece[key] for piece in pieces])
        for key, how in self.parts.items():
            if key[1] in SLOW:
                found[key] = np.asarray(how(counts if slow is None else counts[:slow]))
        return found

    def _others(self, counts: FloatArray) -> Values:
        """Return what is neither linear nor slow, for a few resamples that fit in cache."""
        found: Values = {}
        falling: dict[int, Falling] = {}
        for key, how in self.parts.items():
            if isinstance(how, Ordered):
                if id(how.order) not in falling:
                    falling[id(how.order)] = how.order.fall(counts)
                found[key] = how.finish(falling[id(how.order)])
            elif not isinstance(how, Linear) and key[1] not in SLOW:
                found[key] = how(counts)
        return found


def _shared_length(scored: Mapping[str, Scored]) -> int:
    lengths = {name: view.n for name, view in scored.items()}
    if len(set(lengths.values())) != 1:
        shown = ", ".join(f"{name} {n:,}" for name, n in lengths.items())
        raise InputError(f"methods must be compared on the same samples; they have {shown}")
    return next(iter(lengths.values()))


def counts_of_draws(n: int, n_boot: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """Yield, block by block, how often each of n samples is drawn in each resample.

    A resample is n draws with replacement. The next block is drawn while this one is used; the
    draws are the same whatever is done with them.
    """
    size = max(1, _BLOCK_SIZE // n)

    def block(start: int) -> FloatArray:
        counts = np.empty((min(size, n_boot - start), n))
        for row in counts:
            row[:] = np.bincount(rng.integers(n, size=n, dtype=np.uint32), minlength=n)
        return counts

    with ThreadPoolExecutor(1) as worker:
        following = worker.submit(block, 0)
        for start in range(size, n_boot + size, size):
            counts = following.result()
            if start < n_boot:
                following = worker.submit(block, start)
            yield counts

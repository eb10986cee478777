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

from smallcal.data.predictions import BoolArray, FloatArray, IntArray
from smallcal.errors import InputError
from smallcal.io.progress import Advance
from smallcal.io.threads import in_order
from smallcal.metrics import METRICS, Metric, Scored
from smallcal.metrics.kept import value
from smallcal.metrics.table import chosen_metrics
from smallcal.statistics.draws import REPEATS, Draws
from smallcal.statistics.enough import MOST, Enough, stages
from smallcal.statistics.interval import Interval, require_options
from smallcal.statistics.replication import Replication, shared_length

#: Resamples by method and metric.
Resamples = dict[tuple[str, str], Draws]

_Values = dict[tuple[str, str], FloatArray]

#: Counts at a time: 16 MB of them.
_BLOCK_SIZE = 2_000_000

#: Resamples at a time that one core works on.
_CHUNK = 125

#: Resamples where their number is fixed: at most so many are drawn where it is not.
DEFAULT_BOOT = MOST


def interval(
    y_true: object,
    y_proba: object,
    metric: str,
    *,
    n_boot: int | None = None,
    level: float = 0.95,
    random_state: int = 0,
) -> Interval:
    """Return a metric with its bootstrap interval, resampling test samples.

    That of a calibration error is about the error without noise, see
    :mod:`smallcal.statistics.draws`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    y_proba : array-like of shape (n, C), or (n,) for the probability of outcome 1
    metric : str
        A name in :data:`smallcal.metrics.METRICS`.
    n_boot : int, optional
        Resamples, at least 1. By default as many as make the ends of the interval steady, 500 to
        2,000: see :mod:`smallcal.statistics.enough`.
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
    require_options(n_boot, level, least=1, why="for the value without an interval, use evaluate")
    (row,) = chosen_metrics([metric])
    view = Scored.of(y_true, y_proba)
    enough = Enough(level)
    drawn = resample({"it": view}, [row], n_boot=n_boot, enough=enough, random_state=random_state)
    return intervals_by_method(drawn, unit="test samples", level=level)["it"][metric]


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
        raise InputError("seed_samples needs at least one run", code="empty")
    chosen = chosen_metrics(metrics)
    views = [_views(run, baseline) for run in runs]
    if any(set(view) != set(views[0]) for view in views):
        raise InputError("every run must have the same methods", code="rows-differ")
    others = [name for name in views[0] if name != baseline]
    keys = [(name, metric.name) for name in others for metric in chosen]
    drawn = {key: np.empty((n_boot, len(runs))) for key in keys}
    gaps: dict[tuple[str, str], list[Draws]] = {key: [] for key in keys}
    each_seed = resampled_seeds(
        views, chosen, n_boot=n_boot, random_state=random_state, advance=advance
    )
    for here, found in each_seed:
        for name, metric in keys:
            gap = found[name, metric] - found[baseline, metric]
            gaps[name, metric].append(gap)
            drawn[name, metric][here] = gap.around_point()
    note = "one seed: the variation between seeds is not measured" if len(runs) == 1 else ""
    result: dict[str, dict[str, Interval]] = {}
    for name, metric in keys:
        mean = Draws(
            plain=float(np.mean([gap.plain for gap in gaps[name, metric]])),
            point=float(np.mean([gap.point for gap in gaps[name, metric]])),
            shown=float(np.mean([gap.shown for gap in gaps[name, metric]])),
            values=drawn[name, metric].mean(axis=1),
            wide=gaps[name, metric][0].wide,
        )
        found_here = mean.interval(unit="seeds, then samples", level=level, note=note)
        result.setdefault(name, {})[metric] = found_here
    return result


def resampled_seeds(
    views: Sequence[Mapping[str, Scored]],
    metrics: Sequence[Metric],
    *,
    n_boot: int,
    random_state: int,
    plain: bool = False,
    advance: Advance = lambda rows: None,
) -> Iterator[tuple[BoolArray, Resamples]]:
    """Draw seeds with replacement, and yield where each was drawn, with its resamples.

    Where: of shape (n_boot, seeds), a slot for each seed that a resample has. There are as many
    resamples of a seed's samples as there are slots that it was drawn for.
    """
    rng = np.random.default_rng(random_state)
    slots = rng.integers(len(views), size=(n_boot, len(views)))
    for seed, view in enumerate(views):
        here: BoolArray = slots == seed
        n = int(here.sum())
        yield (
            here,
            resample(
                view,
                metrics,
                n_boot=n,
                random_state=rng,
                advance=advance,
                plain=plain,
            ),
        )


def _views(run: Run, baseline: str) -> dict[str, Scored]:
    if baseline not in run.y_probas:
        raise InputError(
            f"baseline {baseline!r} is not among {', '.join(run.y_probas)}", code="unknown-choice"
        )
    views = {name: Scored.of(run.y_true, proba) for name, proba in run.y_probas.items()}
    shared_length(views)
    return views


def intervals_by_method(
    drawn: Resamples, *, unit: str, level: float, baseline: str | None = None
) -> dict[str, dict[str, Interval]]:
    """Return the interval of each method's metrics; with a baseline, of the differences from it."""
    result: dict[str, dict[str, Interval]] = {}
    for (name, metric), draws in drawn.items():
        if baseline is None:
            least = 0.0 if METRICS[metric].biased else None
            found = draws.interval(unit=unit, level=level, least=least)
        elif name != baseline:
            found = (draws - drawn[baseline, metric]).interval(unit=unit, level=level)
        else:
            continue
        result.setdefault(name, {})[metric] = found
    return result


def resample(
    scored: Mapping[str, Scored],
    metrics: Sequence[Metric],
    *,
    n_boot: int | None,
    enough: Enough | None = None,
    points: Mapping[str, Mapping[str, float]] | None = None,
    random_state: int | np.random.Generator = 0,
    advance: Advance = lambda rows: None,
    plain: bool = False,
) -> Resamples:
    """Return every metric of every method in each resample of the samples they share.

    With no number given, resamples are drawn until they are ``enough`` for each metric; they are
    the first ones of those that a number would give. A generator draws on. ``points`` has the
    metrics themselves, if they are known. ``plain`` leaves the noise in calibration errors: then
    intervals are percentiles of what a loop over resamples would give.
    """
    replicate = Replication.of_metrics(scored, metrics, plain=plain)
    values, sums = _replicated(
        replicate,
        n_boot,
        Enough() if enough is None else enough,
        np.random.default_rng(random_state),
        advance,
    )
    known = {metric.name: metric for metric in metrics}
    found = {}
    for (name, metric), own in values.items():
        if plain:
            point = value(known[metric], scored[name])
            found[name, metric] = Draws(point, point, point, own)
            continue
        kept = sums.get((name, metric))
        found[name, metric] = Draws.of(
            known[metric],
            scored[name],
            own,
            plain=None if points is None else points[name][metric],
            again=None if kept is None else replicate.again((name, metric), kept),
            exact=scored[name].clusters is None,
        )
    return found


def _replicated(
    replicate: Replication,
    n_boot: int | None,
    enough: Enough,
    rng: np.random.Generator,
    advance: Advance,
) -> tuple[_Values, _Values]:
    """Return metrics in resamples, and the sums of the first of them, to be resampled again."""
    values: _Values = {key: np.empty(0) for key in replicate.parts}
    sums: _Values = {}
    done = 0
    for stage in stages(n_boot):
        blocks = []
        drawn = counts_of_draws(replicate.n, stage, rng, most=_CHUNK, clusters=replicate.clusters)
        for _, block in in_order(replicate, drawn):
            blocks.append(block.values)
            advance(block.size)
            for key, own in block.sums.items():
                kept = sums.get(key, own[:0])
                sums[key] = np.vstack([kept, own[: 2 * REPEATS - len(kept)]])
        for key in replicate.parts:
            values[key] = np.concatenate([values[key], *(block[key] for block in blocks)])
        done += stage
        if n_boot is None:
            replicate = replicate.of(enough.unsteady({key: values[key] for key in replicate.parts}))
            if not replicate.parts:
                advance(MOST - done)  # what is not needed is done
                break
    return values, sums


def counts_of_draws(
    n: int,
    n_boot: int,
    rng: np.random.Generator,
    *,
    most: int | None = None,
    clusters: IntArray | None = None,
) -> Iterator[FloatArray]:
    """Yield, block by block, how often each of n samples is drawn in each resample.

    A resample is n draws with replacement. The next block is drawn while this one is used; the
    draws are the same whatever is done with them. ``most`` resamples are in a block at most.
    Clusters are drawn whole, until there are n samples: of the last one those that are left.
    """
    size = max(1, min(_BLOCK_SIZE // n, n_boot if most is None else most))

    if clusters is not None:
        order, sizes = np.argsort(clusters, kind="stable"), np.bincount(clusters)

    def block(start: int) -> FloatArray:
        counts = np.empty((min(size, n_boot - start), n))
        for row in counts:
            if clusters is None:
                row[:] = np.bincount(rng.integers(n, size=n, dtype=np.uint32), minlength=n)
            else:
                row[:] = _clusters_drawn(clusters, order, sizes, rng)
        return counts

    with ThreadPoolExecutor(1) as worker:
        following = worker.submit(block, 0)
        for start in range(size, n_boot + size, size):
            counts = following.result()
            if start < n_boot:
                following = worker.submit(block, start)
            yield counts


def _clusters_drawn(
    clusters: IntArray, order: IntArray, sizes: IntArray, rng: np.random.Generator
) -> IntArray:
    """Return how often each sample is drawn; ``order`` sorts samples by cluster."""
    n, m = len(clusters), len(sizes)
    drawn = rng.integers(m, size=m)
    while sizes[drawn].sum() < n:
        drawn = np.append(drawn, rng.integers(m, size=m))
    reached = sizes[drawn].cumsum()
    last = int(np.searchsorted(reached, n))
    counts = np.bincount(drawn[:last], minlength=m)[clusters]
    end = int(sizes[: drawn[last] + 1].sum())
    start = end - int(sizes[drawn[last]])
    counts[order[start : end - int(reached[last]) + n]] += 1
    return counts

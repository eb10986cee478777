"""Tables of resampled test samples, from the predictions that a run has kept.

Intervals are the paper's: of plain metrics, percentiles of the resamples. Those of other tables are
of models, seeds and draws, and know nothing of the test samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from threadpoolctl import threadpool_limits

from smallcal.calibrators.catalogue import true_name
from smallcal.data.checks import whole_number
from smallcal.errors import InputError
from smallcal.metrics.kept import require_kept
from smallcal.metrics.replicas import SLOW
from smallcal.metrics.table import chosen_metrics
from smallcal_lab.statistics import samples as resampling
from smallcal_lab.studies.frame import CLEAN, Frame
from smallcal_lab.studies.predictions import Shelf
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import (
    ENOUGH_MODELS,
    LEVEL,
    below_zero,
    one_seed,
    shown,
    table_of,
)
from smallcal_lab.studies.tables.shift import shifted_rows
from smallcal_lab.studies.tables.table import (
    Number,
    Row,
    Table,
    changes,
    heading_of,
    title_of,
    unit_of,
)

#: Metrics whose resamples are matrix products, where a study names no others.
_QUICK = ("ece15", "nll", "brier", "top_label_bce", "hcfp90")


def seed_samples(study: Study, frame: Frame, shelf: Shelf) -> Table:
    """Show differences with intervals over seeds and their test samples, and over samples alone."""
    metrics, n_boot = _metrics(study, "resampled"), _at_most(study, "pooled_boot")
    found: list[Row] = []
    clean = frame.where(set=CLEAN)
    for budget, model, part in clean.models():
        if units := shelf.units(part, CLEAN, 0):
            with threadpool_limits(1):  # sums split over threads round differently
                drawn = [resampling.pooled_samples(units, metrics, n_boot=n_boot)]
                if len(units) > 1:
                    both = resampling.seeds_then_samples(units, metrics, n_boot=study.n_boot)
                    drawn.insert(0, both)
            for pair in pairs(study, list(units[0])):
                found += [(budget, model, *_against(own, *pair, metrics)) for own in drawn]
    heads, said = _heads(metrics), _seeds_told(clean)
    return table_of("seed-samples", study, found, *heads, said=said, n_pooled=n_boot)


def samples(study: Study, frame: Frame, shelf: Shelf) -> Table:
    """Show every method's metrics with intervals over test samples."""
    metrics, n_boot = _metrics(study, "sampled"), _at_most(study, "sampled_boot")
    found: list[Row] = []
    for budget, model, part in frame.where(set=CLEAN).models():
        if units := shelf.units(part, CLEAN, 0):
            with threadpool_limits(1):
                drawn = resampling.pooled_samples(units, metrics, n_boot=n_boot)
            for method in drawn.methods:
                numbers = (shown(drawn.interval(method, m, level=LEVEL), m) for m in metrics)
                plain = (replace(number, signed=False, below=None) for number in numbers)
                found.append((budget, model, method, *plain))
    return table_of("samples", study, found, *map(heading_of, metrics), n_pooled=n_boot)


def image_samples(study: Study, frame: Frame, shelf: Shelf) -> Table:
    """Show differences on each shifted set with intervals over its samples."""
    metrics = _metrics(study, "resampled")
    found: list[Row] = []
    alone: dict[str, None] = {}
    for budget, model, part in shifted_rows(frame).models():
        for (kind, severity), rows in part.groups("set", "severity"):
            seeds = shelf.units(rows, kind, severity)
            if not seeds:
                continue
            units = resampling.together(seeds)
            if len(units) > 1:
                alone[model] = None
            with threadpool_limits(1):
                drawn = resampling.mean_over_units(units, metrics, n_boot=study.n_boot)
            name = f"{kind} {severity}" if severity else kind
            for pair in pairs(study, list(units[0])):
                found.append((budget, model, name, *_against(drawn, *pair, metrics)))
    said = (
        f"Seeds that were tested on other samples are resampled on their own: {', '.join(alone)}."
    )
    return table_of("image-samples", study, found, *_heads(metrics), said=[said] if alone else [])


def require_metrics(study: Study) -> None:
    """Raise unless the metrics that a study resamples can be, from what is kept and in minutes."""
    for setting in ("pooled_boot", "sampled_boot"):
        _at_most(study, setting)
    for setting in ("resampled", "sampled"):
        names = _metrics(study, setting)
        chosen_metrics(names)
        require_kept(names)
        if not names:
            raise InputError(f"{setting} must name at least one metric")
        for name in names:
            if name in SLOW:
                raise InputError(f"{name} cannot be resampled: it takes milliseconds, 20,000 times")


def pairs(study: Study, labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield which labels are compared: ours with every other, then the baseline with the rest.

    Examples
    --------
    >>> from smallcal_lab.studies.catalogue import study_named
    >>> labels = ["tva-ts", "ts-nll", "srts-bce"]
    >>> list(pairs(study_named("clean"), labels))
    [('srts-bce', 'tva-ts'), ('srts-bce', 'ts-nll'), ('tva-ts', 'ts-nll')]
    """
    first = [*map(true_name, study.settings.get("ours", ())), study.baseline]
    done: list[str] = []
    for ours in dict.fromkeys(label for label in first if label in labels):
        yield from ((ours, label) for label in labels if label not in (ours, *done))
        done.append(ours)


def _metrics(study: Study, setting: str) -> tuple[str, ...]:
    """Return the metrics that a setting names: several, or one by itself."""
    named = study.settings.get(setting, _QUICK)
    return (named,) if isinstance(named, str) else tuple(named)


def _at_most(study: Study, setting: str) -> int:
    """Return how many resamples of samples alone there are: not more than of everything."""
    given = study.settings.get(setting, resampling.POOLED_BOOT)
    return min(study.n_boot, whole_number(given, setting, least=2))


def _heads(metrics: Sequence[str]) -> tuple[str, ...]:
    first = title_of(metrics[0])
    return (*changes(metrics), f"{first}, mean of resamples", f"P({first} < 0)")


def _against(drawn: resampling.Replicates, ours: str, theirs: str, metrics: Sequence[str]) -> Row:
    """Return a row: two methods, what was resampled, differences, and more of the first."""
    found = [drawn.interval(ours, metric, minus=theirs, level=LEVEL) for metric in metrics]
    values = found[0].values
    mean = Number.in_units(values.mean() if len(values) else math.nan, unit_of(metrics[0]))
    numbers = [shown(own, metric) for own, metric in zip(found, metrics, strict=True)]
    return ours, theirs, drawn.unit, *numbers, mean, below_zero(numbers[0])


def _seeds_told(frame: Frame) -> list[str]:
    """Say which models have a single seed, which cannot be resampled, and what few are worth."""
    told = [
        sentence.replace("intervals do not", "intervals are of its test samples alone and do not")
        for sentence in one_seed(frame)
    ]
    counts = [len(part.unique("cell")) for _, part in frame.groups("dataset", "backbone")]
    if few := [n for n in counts if 1 < n < ENOUGH_MODELS]:
        told.append(
            f"{min(few)} seeds are few: such intervals are too narrow "
            "(docs/explanation/statistics.md)."
        )
    return told

"""Tables of clean samples, and what every table is made of.

Means with spreads, wins, paired differences with intervals; below them rows, pairs, and numbers in
the units of their metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from smallcal.calibrators.catalogue import true_name
from smallcal.data.predictions import FloatArray
from smallcal.metrics.units import SHARE
from smallcal.statistics.interval import Interval
from smallcal_lab.statistics import nested as resampling
from smallcal_lab.studies.frame import CLEAN, Frame, Key, Values
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.table import (
    Number,
    Row,
    Table,
    better_of,
    changes,
    heading_of,
    title_of,
    unit_of,
)
from smallcal_lab.toml import loads

#: Of the intervals in tables and figures.
LEVEL = 0.95
#: From so many models, or seeds, on, a bootstrap holds the truth about as often as it says.
ENOUGH_MODELS = 10
#: What numbers of models are, where nothing else is said.
SPREAD = "mean ± standard deviation (ddof = 0) over seeds, or models and seeds"
#: A metric and a label.
Measured = tuple[str, str]
_LEVELS = ("model", "seed", "draw")
#: Titles, headings and notes of tables by name.
_TEXTS = loads((Path(__file__).parent / "texts.toml").read_text(encoding="utf-8"))


def table_of(
    name: str,
    study: Study,
    rows: Iterable[Row],
    *heads: str,
    said: Sequence[str] = (),
    **words: object,
) -> Table:
    """Make a table: its texts are those of its name, with words filled in, and more headings."""
    metric = study.metrics[0] if study.metrics else ""
    words = {
        **{"study": study, "s": study.settings, "level": f"{100 * LEVEL:g} %", "spread": SPREAD},
        **{"metric": heading_of(metric), "first": title_of(metric)},
        **{"intervals": intervals_text(study), **words},
    }
    texts = {key: text.strip().replace("\n", " ") for key, text in _TEXTS[name].items()}
    header = [head.format(**words) for head in texts["header"].split(" | ")]
    title, note = (texts[key].format(**words) for key in ("title", "note"))
    return Table(name, title, (*header, *heads), tuple(rows), note, tuple(said))


def _measured(study: Study, frame: Frame) -> tuple[Frame, list[str]]:
    clean = frame.where(set=CLEAN)
    return clean, clean.measured(study.metrics)


def means(study: Study, frame: Frame) -> Table:
    """Show every metric of every entry: mean and standard deviation over seeds, or models."""
    clean, metrics = _measured(study, frame)
    return table_of("means", study, metric_rows(clean, metrics), *map(heading_of, metrics))


def differences(study: Study, frame: Frame) -> Table:
    """Show what each entry gains over the baseline, with intervals and a verdict."""
    clean, metrics = _measured(study, frame)
    rows: list[Row] = []
    for _, part in clean.groups("budget"):
        for label in part.unique("label"):
            if label != study.baseline:
                found = {m: difference(part, study, m, label) for m in metrics}
                numbers = (shown(own, metric) for metric, own in found.items())
                rows.append((part.samples, label, verdict_on(found), *numbers))
    n = len(list(clean.groups("dataset", "backbone")))
    few = f"{n} models are few: such intervals are too narrow (docs/explanation/statistics.md)."
    one = "One model: intervals cover its seeds and draws, not other models."
    said = ([one] if n == 1 else [few]) if 0 < n < ENOUGH_MODELS else []
    return table_of("differences", study, rows, *changes(metrics), said=said)


def wins(study: Study, frame: Frame) -> Table:
    """Show how often each entry beats the baseline, of all cells and draws."""
    clean, metrics = _measured(study, frame)
    rows = [
        (budget, models, label, *(win_rate(part, study, m, label) for m in metrics))
        for budget, models, part in clean.blocks()
        for label in part.unique("label")
        if label != study.baseline
    ]
    return table_of("wins", study, rows, *(SHARE.heading(title_of(m)) for m in metrics))


def win_rate(frame: Frame, study: Study, metric: str, label: str) -> Number:
    """Return in how many percent of cells and draws a label is strictly better."""
    found = paired(frame, metric, label, study.baseline)
    gaps = np.array([gap for draws in found.values() for gap in draws if math.isfinite(gap)])
    if not len(gaps):
        return Number()
    ahead = gaps > 0 if better_of(metric) == "higher" else gaps < 0
    return Number.in_units(float(ahead.mean()), SHARE)


def seeds(study: Study, frame: Frame) -> Table:
    """Show differences model by model, and of all: seeds and draws resampled, and seeds alone."""
    clean, metrics = _measured(study, frame)
    first = metrics[0] if metrics else ""
    resampled = partial(resampling.clustered, n_boot=study.n_boot, level=LEVEL, levels=_LEVELS[1:])
    found: list[Row] = []
    for budget, models, part in clean.blocks():
        for pair in compared_labels(study, part):
            gaps = {m: models_of(part, paired(part, m, *pair)) for m in metrics}
            if not gaps[first]:
                continue
            single = len(gaps[first]) == 1
            numbers: list[Number] = []
            for metric, own in gaps.items():
                lower = [np.mean(draws) < 0 for model in own for draws in model]
                count = Number(int(sum(lower)), of=len(lower)) if lower else Number()
                numbers += [shown(over_models(own, study, single=single), metric), count]
            alone = resampled(gaps[first][0]) if single else None
            last = below_zero(numbers[0]), shown(alone, first)
            found.append((budget, models, *pair, *numbers, *last))
    heads = [head for m in metrics for head in (*changes([m]), f"{title_of(m)} lower in")]
    heads += [f"P({title_of(first)} < 0)", f"{title_of(first)}, seeds alone"]
    words = {"intervals": intervals_text(study, "seeds", "draws")}
    return table_of("seeds", study, found, *heads, said=one_seed(clean), **words)


def draws(study: Study, frame: Frame) -> Table:
    """Show spreads over draws, differences with intervals over draws, and wins."""
    clean, metrics = _measured(study, frame)
    found: list[Row] = []
    for budget, models, part in clean.blocks():
        for metric, label in product(metrics, part.unique("label")):
            own = mean_number(single_draws(part.values(metric, label)), metric)
            gap, share = Number(), Number()
            if label != study.baseline:
                gaps = single_draws(paired(part, metric, label, study.baseline))
                gap = shown(resampled_cells(gaps, study), metric)
                share = win_rate(part, study, metric, label)
            words = (budget, models, title_of(metric), label)
            found.append((*words, own, gap, below_zero(gap), share))
    return table_of("draws", study, found, units=", ".join(map(heading_of, metrics)))


def single_draws(values: Values) -> list[float]:
    """Return all draws of all cells; those of a cell that are all the same are one.

    A budget that is the whole split can be drawn in one way only.
    """
    finite = ([value for value in own if math.isfinite(value)] for own in values.values())
    return [value for own in finite for value in (own[:1] if len(set(own)) == 1 else own)]


def clusters(study: Study, frame: Frame) -> Table:
    """Show differences over all cells together, whole cells resampled."""
    clean, metrics = _measured(study, frame)
    rows: list[Row] = []
    for _, part in clean.groups("budget"):
        for pair in compared_labels(study, part):
            found: dict[str, Interval | None] = {}
            for metric in metrics:
                gaps = paired(part, metric, *pair).values()
                means = [float(np.mean(own)) for own in gaps if np.isfinite(own).all()]
                found[metric] = resampled_cells(means, study)
            if found[metrics[0]] is not None:
                count = Number(len(paired(part, metrics[0], *pair)), digits=0)
                numbers = [shown(own, metric) for metric, own in found.items()]
                words = (part.samples, *pair, verdict_on(found))
                rows.append((*words, count, *numbers, below_zero(numbers[0])))
    below = (f"P({title_of(m)} < 0)" for m in metrics[:1])
    return table_of("clusters", study, rows, *changes(metrics), *below)


# Pairs and their intervals ----------------------------------------------------------------------


def compared_labels(study: Study, frame: Frame) -> Iterator[tuple[str, str]]:
    """Yield which labels are compared: ours with every other, or all with the baseline."""
    labels = frame.unique("label")
    named = map(true_name, study.settings.get("ours", ()))
    ours = [label for label in named if label in labels]
    pairs = product(ours, labels) if ours else product(labels, [study.baseline])
    yield from (pair for pair in pairs if pair[0] != pair[1])


def gaps_of(frame: Frame, ours: Measured, theirs: Measured) -> dict[str, dict[Key, float]]:
    """Return by cell the differences for each draw and set that both were measured on."""
    mine, other = (frame.numbers.get(one, {}) for one in (ours, theirs))
    rivals = {cell: dict(other.get(cell, ())) for cell in mine}
    return {
        cell: {key: value - rivals[cell][key] for key, value in own if key in rivals[cell]}
        for cell, own in mine.items()
    }


def paired(frame: Frame, metric: str, ours: str, theirs: str) -> Values:
    """Return differences between two labels, draw by draw and set by set, where both are there."""
    gaps = gaps_of(frame, (metric, ours), (metric, theirs))
    return {cell: list(own.values()) for cell, own in gaps.items() if own}


def models_of(frame: Frame, values: Values) -> list[list[list[float]]]:
    """Return values as (data set and backbone) -> seed -> draw, which is what resampling needs."""
    models: dict[tuple[str, str], list[list[float]]] = {}
    for cell, own in values.items():
        if kept := [value for value in own if math.isfinite(value)]:
            models.setdefault(frame.model[cell], []).append(kept)
    return list(models.values())


def difference(frame: Frame, study: Study, metric: str, label: str) -> Interval | None:
    """Return the paired difference from the baseline, models -> seeds -> draws, if there is any."""
    return over_models(models_of(frame, paired(frame, metric, label, study.baseline)), study)


def over_models(
    table: list[list[list[float]]], study: Study, *, single: bool = False
) -> Interval | None:
    """Resample models -> seeds -> draws, or of a ``single`` model seeds -> draws."""
    if not table:
        return None
    values, levels = (table[0], _LEVELS[1:]) if single else (table, _LEVELS)
    return resampling.nested(values, levels=levels, n_boot=study.n_boot, level=LEVEL)


def resampled_cells(values: Sequence[float], study: Study) -> Interval | None:
    """Resample single numbers; None if there are none."""
    return resampling.cells(values, n_boot=study.n_boot, level=LEVEL) if values else None


def shown(found: Interval | None, metric: str) -> Number:
    """Return a difference with its interval, in the units of its metric."""
    if found is None:
        return Number()
    unit = unit_of(metric)
    point, low, high = (unit.scale * value for value in (found.point, found.low, found.high))
    if is_bare(found):
        return Number(point, digits=unit.digits)
    return Number(point, None, low, high, unit.digits, below=found.p_below)


def below_zero(gap: Number) -> Number:
    """Return the share of resamples in which a difference is below zero, if that says anything."""
    return Number() if gap.below is None else Number(gap.below)


def is_bare(found: Interval) -> bool:
    """Whether there was but one difference, so that an interval would be a pretence."""
    return found.low == found.high != 0


def verdict_on(found: Mapping[str, Interval | None]) -> str:
    """Say which metrics are better, worse or tied."""
    said: dict[str, list[str]] = {"better": [], "worse": [], "tie": [], "no interval": []}
    for metric, interval in found.items():
        better = better_of(metric)
        if interval is not None and better != "zero":
            word = "no interval" if is_bare(interval) else interval.verdict(better)
            said[word].append(title_of(metric))
    parts = [f"{word}: {', '.join(names)}" for word, names in said.items() if names]
    return "; ".join(parts) or "nothing to compare"


def intervals_text(study: Study, *units: str) -> str:
    """Say what the intervals of differences are, in tables and under figures.

    Examples
    --------
    >>> from smallcal_lab.studies.catalogue import study_named
    >>> intervals_text(study_named("budget"))
    '95 % intervals from 20,000 resamples of models, of seeds in each, of draws in each'
    """
    first, *inside = units or ("models", "seeds", "draws")
    what = ", ".join([f"of {first}", *(f"of {unit} in each" for unit in inside)])
    return f"{100 * LEVEL:g} % intervals from {study.n_boot:,} resamples {what}"


def one_seed(frame: Frame) -> tuple[str, ...]:
    """Say which models have one seed only: intervals see nothing of training them anew."""
    alone = ", ".join(
        f"{dataset} {backbone}"
        for (dataset, backbone), part in frame.groups("dataset", "backbone")
        if len(part.unique("cell")) == 1
    )
    said = f"One seed, so intervals do not include the variation between seeds: {alone}."
    return (said,) if alone else ()


# Numbers and rows -------------------------------------------------------------------------------


def mean_number(values: Sequence[float] | FloatArray, metric: str) -> Number:
    """Return mean and standard deviation of values, in the units of their metric."""
    if not len(values):
        return Number()
    unit = unit_of(metric)
    spread = float(unit.scale * np.std(values)) if len(values) > 1 else None
    return Number(float(unit.scale * np.mean(values)), spread, digits=unit.digits)


def number_of(values: Values, metric: str) -> Number:
    """Return mean and standard deviation over cells of the cells' means over draws."""
    finite = ([v for v in own if math.isfinite(v)] for own in values.values())
    return mean_number([float(np.mean(own)) for own in finite if own], metric)


def with_best(column: Sequence[Number], metric: str) -> list[Number]:
    """Mark the numbers that no other is better than, as printed."""
    better = better_of(metric)
    printed = [round(number.value, number.digits) for number in column]
    known = [value for value in printed if not math.isnan(value)]
    if better == "zero" or len(known) < 2:
        return list(column)
    best = max(known) if better == "higher" else min(known)
    return [replace(n, best=value == best) for n, value in zip(column, printed, strict=True)]


def block_rows(labels: Sequence[str], columns: Sequence[tuple[Frame, str]]) -> Iterator[Row]:
    """Yield the rows of a block, a label and its numbers, the best of each column marked."""
    made = [
        with_best([number_of(own.values(m, label), m) for label in labels], m) for own, m in columns
    ]
    yield from zip(labels, *made, strict=True)


def metric_rows(
    frame: Frame,
    metrics: Sequence[str],
    parts: Callable[[Frame], Sequence[Frame]] = lambda block: [block],
) -> tuple[Row, ...]:
    """Return table rows: every entry, block by block, the best of each column marked.

    Columns are the metrics, each measured in the parts of a block.
    """
    return tuple(
        (budget, models, *row)
        for budget, models, block in frame.blocks()
        for row in block_rows(block.unique("label"), list(product(parts(block), metrics)))
    )


def label_rows(
    frame: Frame, cells: Callable[[Frame, str], Iterable[Sequence[str | Number]]]
) -> tuple[Row, ...]:
    """Return table rows: for every entry, block by block, all that ``cells`` gives of it."""
    return tuple(
        (budget, models, label, *row)
        for budget, models, part in frame.blocks()
        for label in part.unique("label")
        for row in cells(part.where(label=label), label)
    )

"""Tables of clean samples, and what every table is made of.

Means with spreads, wins, paired differences with intervals; below them rows, pairs, and numbers in
the units of their metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from smallcal.calibrators.catalogue import true_name
from smallcal.metrics import METRICS
from smallcal.metrics.units import SHARE
from smallcal.statistics.interval import Better, Interval
from smallcal_lab.statistics.nested import clustered, nested
from smallcal_lab.studies.frame import CLEAN, Frame, Values
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.table import Number, Row, Table, heading_of, title_of, unit_of

#: Of the intervals in tables and figures.
LEVEL = 0.95
#: From so many models on, a bootstrap of them holds the truth about as often as it says.
ENOUGH_MODELS = 10
#: What numbers of models are, where nothing else is said.
SPREAD = "mean ± standard deviation (ddof = 0) over seeds, or models and seeds"


def means(study: Study, frame: Frame) -> Table:
    """Show every metric of every entry: mean and standard deviation over seeds, or models."""
    clean = frame.where(set=CLEAN)
    metrics = clean.measured(study.metrics)
    return Table(
        "means",
        "Means",
        ("samples", "models", "method", *map(heading_of, metrics)),
        metric_rows(clean, lambda part: [(part, metric) for metric in metrics]),
        "Mean ± standard deviation (ddof = 0) over seeds; in rows of all models, over models and "
        "seeds. Draws are averaged first. Bold: best of its block, as printed.",
    )


def differences(study: Study, frame: Frame) -> Table:
    """Show what each entry gains over the baseline, with intervals and a verdict."""
    clean = frame.where(set=CLEAN)
    metrics = clean.measured(study.metrics)

    def cells(part: Frame, label: str) -> Row:
        found = {m: difference(part, study, m, label) for m in metrics}
        return verdict_on(found), *(shown(found[m], m) for m in metrics)

    return Table(
        "differences",
        f"Differences from {study.baseline}",
        ("samples", "method", "verdict", *(heading_of(m, difference=True) for m in metrics)),
        _against_baseline(study, clean, cells),
        f"Paired by draw; {intervals_text(study)}. A difference whose interval includes zero is a "
        "tie.",
        few_models(clean),
    )


def wins(study: Study, frame: Frame) -> Table:
    """Show how often each entry beats the baseline, of all cells and draws."""
    clean = frame.where(set=CLEAN)
    metrics = clean.measured(study.metrics)
    return Table(
        "wins",
        f"Wins against {study.baseline}",
        ("samples", "models", "method", *(SHARE.heading(title_of(m)) for m in metrics)),
        tuple(
            (budget, models, label, *(win_rate(part, study, m, label) for m in metrics))
            for budget, models, part in clean.blocks()
            for label in part.unique("label")
            if label != study.baseline
        ),
        "Share of cells and draws in which the method is strictly better.",
    )


def _against_baseline(
    study: Study, frame: Frame, cells: Callable[[Frame, str], Iterable[str | Number]]
) -> tuple[Row, ...]:
    """Return a row for every entry but the baseline, budget by budget."""
    return tuple(
        (part.samples, label, *cells(part, label))
        for _, part in frame.groups("budget")
        for label in part.unique("label")
        if label != study.baseline
    )


def win_rate(frame: Frame, study: Study, metric: str, label: str) -> Number:
    """Return in how many percent of cells and draws a label is strictly better."""
    found = paired(frame, metric, label, study.baseline)
    gaps = np.array([gap for draws in found.values() for gap in draws])
    gaps = gaps[np.isfinite(gaps)]
    if not len(gaps):
        return Number(math.nan)
    higher = metric in METRICS and METRICS[metric].better == "higher"
    share = float((gaps > 0 if higher else gaps < 0).mean())
    return Number(SHARE.scale * share, digits=SHARE.digits)


def seeds(study: Study, frame: Frame) -> Table:
    """Show differences model by model, and of all: seeds and draws resampled, and seeds alone."""
    rows = frame.where(set=CLEAN)
    metrics = rows.measured(study.metrics)
    found: list[Row] = []
    for budget, models, part in rows.blocks():
        for pair in compared_labels(study, part):
            gaps = {m: models_of(part, paired(part, m, *pair)) for m in metrics}
            if gaps[metrics[0]]:
                found.append((budget, models, *pair, *_of_seeds(study, gaps)))
    return Table(
        "seeds",
        "Differences model by model",
        (
            *("samples", "models", "method", "minus"),
            *(
                name
                for m in metrics
                for name in (heading_of(m, difference=True), f"{title_of(m)} lower in")
            ),
            *(f"P({title_of(m)} < 0)" for m in metrics[:1]),
            *(f"{title_of(m)}, seeds alone" for m in metrics[:1]),
        ),
        tuple(found),
        f"Paired by draw; {intervals_text(study, 'seeds', 'draws')}, in rows of all models "
        "of models first. P: share of resamples below zero. Seeds alone: intervals from resamples "
        "of seeds only. Lower in: the seeds whose mean of that metric is lower.",
        one_seed(rows),
    )


def _of_seeds(study: Study, gaps: Mapping[str, list[list[list[float]]]]) -> Iterator[Number]:
    """Yield the numbers of a row: of one model, or of several."""
    first, *_ = gaps
    several = len(gaps[first]) > 1
    intervals = {m: over_models(own, study, single=not several) for m, own in gaps.items()}
    for metric, own in gaps.items():
        yield shown(intervals[metric], metric)
        yield _lower_in(own)
    yield below_zero(intervals[first])
    if several:
        yield Number(math.nan)
    else:
        levels = ("seed", "draw")
        alone = clustered(gaps[first][0], levels=levels, n_boot=study.n_boot, level=LEVEL)
        yield shown(alone, first)


def _lower_in(models: Sequence[Sequence[Sequence[float]]]) -> Number:
    """Return in how many seeds the mean difference is below zero."""
    means = [float(np.mean(draws)) for seeds in models for draws in seeds]
    if not means:
        return Number(math.nan)
    return Number(sum(mean < 0 for mean in means), of=len(means))


def compared(study: Study, frame: Frame) -> Iterator[tuple[tuple[str, str, str, str], Frame]]:
    """Yield which labels are compared, model by model: (budget, model, ours, theirs), rows.

    Ours with every other, or all with the baseline.
    """
    for budget, model, part in frame.models():
        yield from (((budget, model, *pair), part) for pair in compared_labels(study, part))


def compared_labels(study: Study, frame: Frame) -> Iterator[tuple[str, str]]:
    """Yield which labels are compared: ours with every other, or all with the baseline."""
    labels = frame.unique("label")
    named = map(true_name, study.settings.get("ours", ()))
    ours = [label for label in named if label in labels]
    pairs = product(ours, labels) if ours else product(labels, [study.baseline])
    yield from (pair for pair in pairs if pair[0] != pair[1])


def paired(frame: Frame, metric: str, ours: str, theirs: str) -> Values:
    """Return differences between two labels, draw by draw and set by set, where both are there."""
    mine, other = (frame.numbers.get((metric, label), {}) for label in (ours, theirs))
    found: Values = {}
    for cell in mine:
        a, b = dict(mine[cell]), dict(other.get(cell, ()))
        if gaps := [a[key] - b[key] for key in a if key in b]:
            found[cell] = gaps
    return found


def models_of(frame: Frame, values: Values) -> list[list[list[float]]]:
    """Return values as (data set and backbone) -> seed -> draw, which is what resampling needs."""
    models: dict[tuple[str, str], list[list[float]]] = {}
    for cell, draws in values.items():
        if kept := [value for value in draws if math.isfinite(value)]:
            models.setdefault(frame.model[cell], []).append(kept)
    return list(models.values())


def difference(frame: Frame, study: Study, metric: str, label: str) -> Interval | None:
    """Return the paired difference from the baseline, models -> seeds -> draws, if there is any."""
    found = paired(frame, metric, label, study.baseline)
    return over_models(models_of(frame, found), study)


def over_models(
    table: list[list[list[float]]], study: Study, *, single: bool = False
) -> Interval | None:
    """Resample models -> seeds -> draws, or of a ``single`` model seeds -> draws."""
    if not table:
        return None
    values, levels = (table[0], ("seed", "draw")) if single else (table, ("model", "seed", "draw"))
    return nested(values, levels=levels, n_boot=study.n_boot, level=LEVEL)


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


def few_models(frame: Frame) -> tuple[str, ...]:
    """Say what intervals over one model, or a few, are worth."""
    n = len(list(frame.groups("dataset", "backbone")))
    if n == 1:
        return ("One model: intervals cover its seeds and draws, not other models.",)
    if n < ENOUGH_MODELS:
        return (
            f"{n} models are few: such intervals are too narrow (docs/explanation/statistics.md).",
        )
    return ()


def number_of(values: Values, metric: str) -> Number:
    """Return mean and standard deviation over cells of the cells' means over draws."""
    means = [np.nanmean(draws) for draws in values.values() if np.isfinite(draws).any()]
    if not means:
        return Number(math.nan)
    unit = unit_of(metric)
    spread = float(unit.scale * np.std(means)) if len(means) > 1 else None
    return Number(float(unit.scale * np.mean(means)), spread, digits=unit.digits)


def with_best(column: Sequence[Number], metric: str) -> list[Number]:
    """Mark the numbers that no other is better than, as printed."""
    better = better_of(metric)
    shown = [round(number.value, number.digits) for number in column]
    known = [value for value in shown if not math.isnan(value)]
    if not known or better == "zero" or len(known) < 2:
        return list(column)
    best = max(known) if better == "higher" else min(known)
    return [replace(n, best=value == best) for n, value in zip(column, shown, strict=True)]


def metric_rows(
    frame: Frame, columns: Callable[[Frame], Sequence[tuple[Frame, str]]]
) -> tuple[Row, ...]:
    """Return table rows: every entry, block by block, the best of each column marked.

    ``columns`` gives the rows and the metric of each column of a block.
    """
    return tuple(
        (budget, models, *row)
        for budget, models, part in frame.blocks()
        for row in block_rows(part.unique("label"), columns(part))
    )


def block_rows(labels: Sequence[str], columns: Sequence[tuple[Frame, str]]) -> Iterator[Row]:
    """Yield the rows of a block, a label and its numbers, the best of each column marked."""
    made = [
        with_best([number_of(own.values(m, label), m) for label in labels], m) for own, m in columns
    ]
    yield from zip(labels, *made, strict=True)


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


def better_of(metric: str) -> Better:
    """Return which values of a metric are good; "zero" where neither low nor high ones are.

    Examples
    --------
    >>> better_of("accuracy"), better_of("risk_at80"), better_of("gap_at80")
    ('higher', 'lower', 'zero')
    """
    if metric in METRICS:
        return METRICS[metric].better
    return "zero" if metric.startswith(("gap", "coverage", "parameters", "share")) else "lower"


def shown(found: Interval | None, metric: str) -> Number:
    """Return a difference with its interval, in the units of its metric."""
    if found is None:
        return Number(math.nan)
    unit = unit_of(metric)
    point, low, high = (unit.scale * value for value in (found.point, found.low, found.high))
    if is_bare(found):
        return Number(point, digits=unit.digits)
    return Number(point, None, low, high, unit.digits, below=found.p_below)


def below_zero(found: Interval | None) -> Number:
    """Return the share of resamples in which a difference is below zero, where that says anything.

    Examples
    --------
    >>> from smallcal.statistics.interval import interval_of
    >>> below_zero(interval_of(-0.1, np.array([-0.3, -0.2, 0.1, -0.1]), unit="seeds")).text()
    '0.75'
    """
    return Number(math.nan if found is None or is_bare(found) else found.p_below)


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


def one_seed(frame: Frame) -> tuple[str, ...]:
    """Say which models have one seed only: intervals see nothing of training them anew."""
    alone = [
        f"{dataset} {backbone}"
        for (dataset, backbone), part in frame.groups("dataset", "backbone")
        if len(part.unique("cell")) == 1
    ]
    if not alone:
        return ()
    return (
        f"One seed, so intervals do not include the variation between seeds: {', '.join(alone)}.",
    )

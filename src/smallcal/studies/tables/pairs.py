"""What tables are made of: values by cell and draw, paired differences, blocks of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from smallcal.metrics import METRICS
from smallcal.statistics.interval import Better, Interval
from smallcal.statistics.nested import nested
from smallcal.studies.frame import Frame
from smallcal.studies.study import Study
from smallcal.studies.tables.table import Number, unit_of

#: Cell name to the values of its draws, in order.
Values = dict[str, list[float]]
#: Draw, set and severity of a value.
Key = tuple[int, str, int]


def values_of(frame: Frame, metric: str, label: str) -> Values:
    """Return a label's values of a metric: for each cell, its draws."""
    found: Values = {}
    chosen = frame.where(metric=metric, label=label)
    for cell, value in zip(chosen["cell"].tolist(), chosen["value"].tolist(), strict=True):
        found.setdefault(cell, []).append(value)
    return found


def keyed(frame: Frame, metric: str, label: str) -> dict[str, dict[Key, float]]:
    """Return a label's values of a metric: for each cell, by draw and set."""
    found: dict[str, dict[Key, float]] = {}
    chosen = frame.where(metric=metric, label=label)
    columns = ("cell", "draw", "set", "severity", "value")
    for cell, *key, value in zip(*(chosen[name].tolist() for name in columns), strict=True):
        found.setdefault(cell, {})[key[0], key[1], key[2]] = value
    return found


def paired(frame: Frame, metric: str, ours: str, theirs: str) -> Values:
    """Return differences between two labels, draw by draw and set by set, where both are there."""
    a, b = keyed(frame, metric, ours), keyed(frame, metric, theirs)
    both = {cell: [key for key in a[cell] if key in b.get(cell, {})] for cell in a}
    return {cell: [a[cell][k] - b[cell][k] for k in keys] for cell, keys in both.items() if keys}


def models_of(frame: Frame, values: Values) -> list[list[list[float]]]:
    """Return values as (data set and backbone) -> seed -> draw, which is what resampling needs."""
    rows = zip(
        frame["cell"].tolist(),
        frame["dataset"].tolist(),
        frame["backbone"].tolist(),
        strict=True,
    )
    model = {cell: (dataset, backbone) for cell, dataset, backbone in rows}
    nested_values: dict[tuple[str, str], list[list[float]]] = {}
    for cell, draws in values.items():
        kept = [value for value in draws if math.isfinite(value)]
        if kept:
            nested_values.setdefault(model[cell], []).append(kept)
    return list(nested_values.values())


def difference(frame: Frame, study: Study, metric: str, label: str) -> Interval | None:
    """Return the paired difference from the baseline, models -> seeds -> draws, if there is any."""
    found = paired(frame, metric, label, study.baseline)
    table = models_of(frame, found)
    if not table:
        return None
    return nested(table, levels=("model", "seed", "draw"), n_boot=study.n_boot)


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
    return [
        Number(n.value, n.spread, n.low, n.high, n.digits, best=value == best)
        for n, value in zip(column, shown, strict=True)
    ]


def blocks(frame: Frame) -> Iterator[tuple[str, str, Frame]]:
    """Yield (budget, models, rows): each budget, for each model and for all."""
    for (budget,), rows in frame.groups("budget"):
        models = list(rows.groups("dataset", "backbone"))
        for (dataset, backbone), part in models:
            yield f"{budget:,}", f"{dataset} {backbone}", part
        if len(models) > 1:
            yield f"{budget:,}", "all", rows


def metric_rows(frame: Frame, metrics: Sequence[str]) -> tuple[tuple[str | Number, ...], ...]:
    """Return table rows: every metric of every entry, block by block, the best marked."""
    rows: list[tuple[str | Number, ...]] = []
    for budget, models, part in blocks(frame):
        labels = part.unique("label")
        columns = [
            with_best([number_of(values_of(part, m, label), m) for label in labels], m)
            for m in metrics
        ]
        for i, label in enumerate(labels):
            rows.append((budget, models, label, *(column[i] for column in columns)))
    return tuple(rows)


def metrics_in(frame: Frame, study: Study) -> list[str]:
    """Return the metrics that were measured: the study's own first."""
    there = set(frame.unique("metric"))
    known = [metric for metric in study.metrics if metric in there]
    return known or [m for m in frame.unique("metric") if m != "error"]


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
    return Number(point, None, low, high, unit.digits)


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
            said[word].append(metric)
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
    return (f"One seed, so that intervals do not see what another would give: {', '.join(alone)}.",)

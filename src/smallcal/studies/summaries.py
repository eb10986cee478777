"""From tidy rows to tables: means with spreads, paired differences with intervals, wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from smallcal.hierarchy import nested
from smallcal.intervals import Interval
from smallcal.metrics import METRICS
from smallcal.studies.description import Study
from smallcal.studies.tables import Number, Table, scale_of, unit_of
from smallcal.studies.units import CLEAN, Frame

#: Cell name to the values of its draws, in order.
Values = dict[str, list[float]]


def values_of(frame: Frame, metric: str, label: str) -> Values:
    """Return a label's values of a metric: for each cell, its draws."""
    found: Values = {}
    chosen = frame.where(metric=metric, label=label)
    for cell, value in zip(chosen["cell"].tolist(), chosen["value"].tolist(), strict=True):
        found.setdefault(cell, []).append(value)
    return found


def paired(ours: Values, theirs: Values) -> Values:
    """Return differences, draw by draw, in the cells that both have in full."""
    return {
        cell: [a - b for a, b in zip(ours[cell], theirs[cell], strict=True)]
        for cell in ours
        if len(theirs.get(cell, ())) == len(ours[cell])
    }


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
    found = paired(values_of(frame, metric, label), values_of(frame, metric, study.baseline))
    table = models_of(frame, found)
    if not table:
        return None
    return nested(table, levels=("model", "seed", "draw"), n_boot=study.n_boot)


def number_of(values: Values, metric: str) -> Number:
    """Return mean and standard deviation over cells of the cells' means over draws."""
    means = [np.nanmean(draws) for draws in values.values() if np.isfinite(draws).any()]
    if not means:
        return Number(math.nan)
    scale = scale_of(metric)
    digits = 2 if scale == 100 else 4
    spread = float(scale * np.std(means)) if len(means) > 1 else None
    return Number(float(scale * np.mean(means)), spread, digits=digits)


def with_best(column: Sequence[Number], metric: str) -> list[Number]:
    """Mark the numbers that no other is better than, as printed."""
    better = METRICS[metric].better if metric in METRICS else "lower"
    shown = [round(number.value, number.digits) for number in column]
    known = [value for value in shown if not math.isnan(value)]
    if not known or better == "zero" or len(known) < 2:
        return list(column)
    best = max(known) if better == "higher" else min(known)
    return [
        Number(n.value, n.spread, n.low, n.high, n.digits, best=value == best)
        for n, value in zip(column, shown, strict=True)
    ]


def _blocks(frame: Frame) -> Iterator[tuple[str, str, Frame]]:
    """Yield (budget, models, rows): each budget, for each model and for all."""
    for (budget,), rows in frame.groups("budget"):
        models = list(rows.groups("dataset", "backbone"))
        for (dataset, backbone), part in models:
            yield f"{budget:,}", f"{dataset} {backbone}", part
        if len(models) > 1:
            yield f"{budget:,}", "all", rows


def metrics_in(frame: Frame, study: Study) -> list[str]:
    """Return the metrics that were measured: the study's own first."""
    there = set(frame.unique("metric"))
    known = [metric for metric in study.metrics if metric in there]
    return known or [m for m in frame.unique("metric") if m != "error"]


def means(study: Study, frame: Frame) -> Table:
    """Show every metric of every entry: mean and standard deviation over seeds, or models."""
    clean = frame.where(set=CLEAN)
    metrics = metrics_in(clean, study)
    rows: list[tuple[str | Number, ...]] = []
    for budget, models, part in _blocks(clean):
        labels = part.unique("label")
        columns = [
            with_best([number_of(values_of(part, m, label), m) for label in labels], m)
            for m in metrics
        ]
        for i, label in enumerate(labels):
            rows.append((budget, models, label, *(column[i] for column in columns)))
    return Table(
        "means",
        "Means",
        ("samples", "models", "method", *map(unit_of, metrics)),
        tuple(rows),
        "Mean ± standard deviation (ddof = 0) over seeds; in rows of all models, over models and "
        "seeds. Draws are averaged first. Bold: best of its block, as printed.",
    )


def differences(study: Study, frame: Frame) -> Table:
    """Show what each entry gains over the baseline, with intervals and a verdict."""
    clean = frame.where(set=CLEAN)
    metrics = metrics_in(clean, study)
    rows: list[tuple[str | Number, ...]] = []
    for (budget,), part in clean.groups("budget"):
        for label in part.unique("label"):
            if label == study.baseline:
                continue
            found = {m: difference(part, study, m, label) for m in metrics}
            numbers = tuple(_shown(found[m], m) for m in metrics)
            rows.append((f"{budget:,}", label, _verdict(found), *numbers))
    return Table(
        "differences",
        f"Differences from {study.baseline}",
        ("samples", "method", "verdict", *map(unit_of, metrics)),
        tuple(rows),
        f"Paired by draw; 95 % intervals from {study.n_boot:,} resamples of models, of seeds in "
        "each, of draws in each. A difference whose interval holds zero is a tie.",
    )


def _shown(found: Interval | None, metric: str) -> Number:
    if found is None:
        return Number(math.nan)
    scale = scale_of(metric)
    digits = 2 if scale == 100 else 4
    return Number(scale * found.point, None, scale * found.low, scale * found.high, digits)


def _verdict(found: Mapping[str, Interval | None]) -> str:
    """Say which metrics are better, worse or tied."""
    said: dict[str, list[str]] = {"better": [], "worse": [], "tie": []}
    for metric, interval in found.items():
        if interval is not None:
            better = METRICS[metric].better if metric in METRICS else "lower"
            said[interval.verdict(better)].append(metric)
    parts = [f"{word}: {', '.join(names)}" for word, names in said.items() if names]
    return "; ".join(parts) or "nothing to compare"


def wins(study: Study, frame: Frame) -> Table:
    """Show how often each entry beats the baseline, of all cells and draws."""
    clean = frame.where(set=CLEAN)
    metrics = metrics_in(clean, study)
    rows: list[tuple[str | Number, ...]] = []
    for (budget,), part in clean.groups("budget"):
        for label in part.unique("label"):
            if label != study.baseline:
                rates = tuple(_rate(part, study, metric, label) for metric in metrics)
                rows.append((f"{budget:,}", label, *rates))
    return Table(
        "wins",
        f"Wins against {study.baseline}",
        ("samples", "method", *(f"{metric} %" for metric in metrics)),
        tuple(rows),
        "Share of cells and draws in which the method is strictly better.",
    )


def _rate(frame: Frame, study: Study, metric: str, label: str) -> Number:
    found = paired(values_of(frame, metric, label), values_of(frame, metric, study.baseline))
    gaps = np.array([gap for draws in found.values() for gap in draws])
    gaps = gaps[np.isfinite(gaps)]
    if not len(gaps):
        return Number(math.nan)
    higher = metric in METRICS and METRICS[metric].better == "higher"
    return Number(100 * float((gaps > 0 if higher else gaps < 0).mean()), digits=1)


Maker = Callable[[Study, Frame], Table]
TABLES: Mapping[str, Maker] = MappingProxyType(
    {"means": means, "differences": differences, "wins": wins}
)

"""Metrics in a notebook: of one set of probabilities, by group, or of several methods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from smallcal.metrics import METRICS
from smallcal.metrics.debiased import CUTS
from smallcal.metrics.units import PERCENT
from smallcal.plots.reliability_plot import ReliabilityBins, reliability
from smallcal.plots.series import UNNAMED, accuracies
from smallcal.reports.notebook import pictures
from smallcal.reports.notebook.markup import (
    Safe,
    beside,
    folded,
    named,
    said,
    small,
    table,
    tag,
    title,
)
from smallcal.reports.notebook.pictures import Axis, Bar
from smallcal.statistics.compare import Comparison
from smallcal.statistics.evaluation import Evaluation
from smallcal.statistics.groups import GroupRow
from smallcal.statistics.interval import Interval

#: Which differences are drawn: the first of these that was compared, else the first metric.
_DRAWN = ("top_label_bce", "nll", "ece15")
#: Of the intervals in a reliability diagram.
_LEVEL = 0.95
#: Metrics that stand beside one another.
_ABREAST = 6


def evaluation_view(found: Evaluation[Any]) -> Iterator[Safe]:
    """Show metrics with what each means, and a reliability diagram; or a row for each group."""
    first = next(iter(found.values()), None)
    if isinstance(first, Mapping):
        yield from _by_group(found)
        return
    yield title("Evaluation", f"of {found.n:,} samples" if found.n else "")
    yield beside(_metrics(found), _reliability(found))
    if isinstance(first, Interval):
        yield said(*_notes(found, first), kind="note")


def _notes(found: Evaluation[Any], row: Interval) -> Iterator[str]:
    yield f"{100 * row.level:g} % intervals from {row.n_boot:,} resamples of {row.unit}."
    for name in CUTS:
        if name in found:
            metric = METRICS[name]
            less = metric.unit.value(found[name].point)
            yield f"Debiased {metric.called(found.kind)}, which its interval is about: {less}."
    if any(getattr(each, "floor", None) is not None for each in found.values()):
        yield "Noise floor: what a perfectly calibrated model would show on average."


def _metrics(found: Evaluation[Any]) -> Safe:
    with_ends = any(isinstance(row, Interval) for row in found.values())
    rows = []
    for name, row in found.items():
        if name not in METRICS:  # whoever has a dictionary may put something in
            rows.append([named(name), named(row), *([""] * (3 if with_ends else 1))])
            continue
        metric = METRICS[name]
        value = row.plain if isinstance(row, Interval) else row
        meaning = f"{name}: {metric.told(found.kind)}"
        cells = [tag("span", metric.called(found.kind), title=meaning), metric.unit.value(value)]
        if isinstance(row, Interval):
            floor = "" if row.floor is None else metric.unit.value(row.floor)
            cells += [row.ends(metric.unit), floor]
        rows.append([*cells, _good(metric.better)])
    more = ["interval", "noise floor"] if with_ends else []
    heads = ["metric", "value", *more, "better"]
    return table(heads, rows, words=(0, len(heads) - 1))


def _good(better: str) -> str:
    return {"zero": "near 0"}.get(better, better)


def _reliability(found: Evaluation[Any]) -> Safe:
    if found.bins is None:
        return Safe("")
    bins = found.bins
    filled = accuracies(bins, bins.count > 0, level=_LEVEL)
    gaps = abs(filled["confidence"] - filled["accuracy"])
    error = float(filled["count"] @ gaps / found.n)
    row = ReliabilityBins(**filled, ece=error, spread=bins.count, kind=found.kind)
    words = f"Reliability diagram of {found.n:,} samples: calibration error {PERCENT.value(error)}"
    return pictures.reliability(partial(reliability.redraw, {UNNAMED: row}), words=words)


def _by_group(found: Evaluation[Any]) -> Iterator[Safe]:
    groups: Mapping[str, Mapping[str, GroupRow]] = found
    first = next(iter(groups.values()))
    level = next(iter(first.values())).interval.level
    yield title("Evaluation", f"of {len(groups):,} groups")
    rows = ([named(name), f"{_n(row):,}", *_cells(row)] for name, row in groups.items())
    heads = ["group", "samples", *(METRICS[name].unit.heading(name) for name in first)]
    yield table(heads, rows, total=len(groups), more="groups")
    yield said(
        f"Under each value its {100 * level:g} % interval; “differs”: from all other samples "
        "beyond chance, corrected for the number of groups.",
        kind="note",
    )


def _n(row: Mapping[str, GroupRow]) -> int:
    return next(iter(row.values())).n


def _cells(row: Mapping[str, GroupRow]) -> Iterator[Safe]:
    for name, cell in row.items():
        unit = METRICS[name].unit
        ends = small(cell.interval.ends(unit))
        differs = small("differs", kind="care") if cell.differs else ""
        yield Safe(f"{unit.number(cell.interval.point)}{ends}{differs}")


def comparison_view(found: Comparison) -> Iterator[Safe]:
    """Show metrics of each method, how they differ from the baseline, and a forest of that."""
    yield title(
        "Comparison",
        f"of {len(found.values):,} methods on {found.n:,} samples, against",
        named(found.baseline),
    )
    metrics = list(next(iter(found.values.values())))
    yield _values(found, metrics)
    yield _forest(found, metrics)
    if found.intervals:
        yield said(
            f"Under each value its difference from the baseline; coloured where the "
            f"{100 * found.level:g} % interval, from {found.n_boot:,} resamples paired by sample, "
            "lies on one side of zero.",
            kind="note",
        )
        yield folded("In words", *(said(found.verdict(method)) for method in found.intervals))


def _values(found: Comparison, metrics: list[str]) -> Safe:
    """Return all values: a row for each method, or, of many metrics, a row for each of those."""
    methods = [_method(found, method) for method in found.values]
    heads = [METRICS[name].unit.heading(name) for name in metrics]
    cells = [[_value(found, method, name) for name in metrics] for method in found.values]
    if len(metrics) > max(_ABREAST, len(methods)):
        turned = zip(heads, zip(*cells, strict=True), strict=True)
        return table(["metric", *methods], [[head, *row] for head, row in turned], more="metrics")
    rows = [[method, *row] for method, row in zip(methods, cells, strict=True)]
    return table(["method", *heads], rows, more="methods")


def _method(found: Comparison, method: str) -> Safe:
    own = named(method)
    return Safe(f"{own}{small('baseline')}") if method == found.baseline else own


def _value(found: Comparison, method: str, name: str) -> Safe:
    """Return a value, and under it the difference in the colour of its verdict."""
    metric = METRICS[name]
    value = tag("span", metric.unit.number(found.values[method][name]))
    if method == found.baseline:
        return value
    change = metric.unit.number(found.differences[method][name], signed=True)
    row = found.intervals.get(method, {}).get(name)
    if row is None:
        return Safe(value + small(change))
    verdict = row.verdict(metric.better)
    arrow = {"better": " better", "worse": " worse"}.get(verdict, "")
    return Safe(value + small(f"{change}{arrow}", kind=verdict))


def _forest(found: Comparison, metrics: list[str]) -> Safe:
    if not found.intervals:
        return Safe("")
    name = next((each for each in _DRAWN if each in metrics), metrics[0])
    metric, rows = METRICS[name], []
    for method, intervals in found.intervals.items():
        row = intervals[name]
        verdict = row.verdict(metric.better)
        rows.append(Bar.of(method, row, metric.unit, about=method, verdict=verdict))
    label = f"{name}, difference from {pictures.short(found.baseline)} ({metric.unit.change})"
    finite = [row for row in rows if not math.isnan(row.low)]
    words = f"{label}: " + "; ".join(row.tip for row in finite)
    return pictures.bars(finite, Axis(label, 0.0), words=words)

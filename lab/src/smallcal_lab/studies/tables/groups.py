"""Tables of single fits: groups and temperatures, the risk score, what is inspected, costs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from smallcal.advice.refits import Spread
from smallcal.metrics.units import SHARE
from smallcal_lab.studies.frame import CLEAN, Frame
from smallcal_lab.studies.probes import TERTILES
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import (
    block_rows,
    label_rows,
    models_of,
    number_of,
    one_seed,
    over_models,
    shown,
    table_of,
)
from smallcal_lab.studies.tables.shift import at_severity, sets_of, shifted_rows
from smallcal_lab.studies.tables.table import Number, Row, Table, heading_of


def numbered(frame: Frame, pattern: str) -> list[int]:
    """Return the numbers in the names of metrics, such as those of groups, in order."""
    found = (re.fullmatch(pattern, name) for name in frame.unique("metric"))
    return sorted({int(one.group(1)) for one in found if one})


def _numbers(own: Frame, label: str, digits: Mapping[str, int | None]) -> Iterator[Number]:
    """Yield mean and spread of each metric, with so many digits, or as many as the metric has."""
    for metric, n in digits.items():
        number = number_of(own.values(metric, label), metric)
        spread = None if n == 0 else number.spread  # a count has none
        yield replace(number, digits=number.digits if n is None else n, spread=spread)


def _each(frame: Frame, digits: Mapping[str, int | None]) -> tuple[Row, ...]:
    """Return table rows: these metrics of every entry, block by block."""
    return label_rows(frame, lambda own, label: [tuple(_numbers(own, label, digits))])


# Groups -----------------------------------------------------------------------------------------


def temperatures(study: Study, frame: Frame) -> Table:
    """Show how far the temperatures of an entry's groups lie apart."""
    digits = dict.fromkeys(("temperature_low", "temperature_high", "temperature_ratio"), 3)
    more = [m for m in ("hcfp90_of_all",) if m in frame.unique("metric")]
    columns = {**digits, **dict.fromkeys(more)}
    rows = _each(frame.where(set=CLEAN, metric=list(columns)), columns)
    note = " High-confidence errors, of all: as a share of all samples, not of the errors."
    words = {"more": note if more else ""}
    return table_of("temperatures", study, rows, *map(heading_of, more), **words)


def group_gaps(study: Study, frame: Frame) -> Table:
    """Show what one temperature leaves in each group, and what the group's own does."""
    rows = frame.where(set=CLEAN)
    groups = numbered(rows, r"accuracy_group(\d+)")
    names = ("share_of_group", "temperature", "accuracy_group", "gap_one_group", "gap_group")

    def cells(own: Frame, label: str) -> Iterator[Row]:
        for group in groups:
            if f"share_of_group{group}" in own.unique("metric"):
                metrics = dict.fromkeys(f"{name}{group}" for name in names)
                yield str(group), *_numbers(own, label, metrics)

    return table_of("group-gaps", study, label_rows(rows, cells))


def flow(study: Study, frame: Frame) -> Table:
    """Show from which group of the clean samples those of each group under shift came."""
    there = [m for m in frame.unique("metric") if re.match(r"flow_(\d+)_to_(\d+)", m)]
    rows = shifted_rows(frame.where(metric=there))
    groups = numbered(rows, r"flow_(\d+)_to_\d+")

    def cells(own: Frame, label: str) -> Iterator[Row]:
        for severity in sorted(own.unique("severity")):
            some = at_severity(own, severity)
            for start in numbered(own, r"flow_(\d+)_to_\d+"):
                parts = [some.values(f"flow_{start}_to_{end}", label) for end in groups]
                known = [part for part in parts if part]
                whole = {
                    cell: [sum(v) for v in zip(*(part[cell] for part in known), strict=True)]
                    for cell in known[0]
                }
                shares = (number_of(part, "flow") for part in (whole, *parts))
                yield str(severity), str(start), *shares

    heads = (f"to group {group} %" for group in groups)
    return table_of("flow", study, label_rows(rows, cells), *heads)


# The score that routes samples ------------------------------------------------------------------


def in_margin(frame: Frame, metrics: list[str], tertile: str) -> Frame:
    """Return the rows of one third, under the names that metrics have on all samples."""
    if tertile not in TERTILES:
        return frame.where(metric=metrics)
    suffix = f"_margin_{tertile}"
    found = frame.where(metric=[metric + suffix for metric in metrics])
    names = np.array([str(name).removesuffix(suffix) for name in found["metric"]], dtype=object)
    return Frame({**found.columns, "metric": names})


def within_margin(study: Study, frame: Frame) -> Table:
    """Show every metric within thirds of the logit margin, on clean samples and under shift."""
    metrics = frame.measured(study.metrics)
    found: list[Row] = []
    for name, rows in sets_of(frame):
        for budget, models, part in rows.blocks():
            labels = part.unique("label")
            for tertile in ("all", *TERTILES):
                own, share = in_margin(part, metrics, tertile), Number(100.0)
                if tertile in TERTILES:
                    metric = f"share_margin_{tertile}"
                    share = number_of(part.values(metric, labels[0]), metric)
                for label, *numbers in block_rows(labels, [(own, m) for m in metrics]):
                    found.append((budget, models, name, tertile, label, share, *numbers))
    return table_of("within-margin", study, found, *map(heading_of, metrics))


def ranking(study: Study, frame: Frame) -> Table:
    """Show how well errors are told apart by risk, by confidence and by margin."""
    rows = frame.where(set=CLEAN)
    scores = ("auroc_risk", "auroc_confidence", "auroc_margin")
    medians = ("median_risk_right", "median_risk_wrong", "rank_correlation")

    def cells(own: Frame, label: str) -> Iterator[Row]:
        for split, suffix in (("calibration", ""), ("test", "_test")):
            risk, confidence = (own.values(name + suffix, label) for name in scores[:2])
            gaps = {
                cell: [a - b for a, b in zip(risk[cell], confidence[cell], strict=True)]
                for cell in risk
            }
            edge = shown(over_models(models_of(own, gaps), study), "auroc_risk")
            before, after = (
                _numbers(own, label, dict.fromkeys(name + suffix for name in names))
                for names in (scores, medians)
            )
            yield split, *before, edge, *after

    return table_of("ranking", study, label_rows(rows, cells), said=one_seed(rows))


def score_scale(study: Study, frame: Frame) -> Table:
    """Show whether scores out of fold, which maps are fitted on, have the scale of the others."""
    names = "mean_out_of_fold mean_refit shift spread_out_of_fold spread_refit spread_ratio"
    metrics = [f"score_{name}" for name in names.split()]

    def cells(own: Frame, label: str) -> Iterator[Row]:
        shifts = own.where(metric="score_shift")["value"].tolist()
        largest = Number(max(map(abs, shifts), default=math.nan), digits=4)
        yield *_numbers(own, label, dict.fromkeys(metrics)), largest

    rows = label_rows(frame.where(set=CLEAN, metric=metrics), cells)
    return table_of("score-scale", study, rows)


# What is inspected, and what it costs -----------------------------------------------------------


def audit(study: Study, frame: Frame) -> Table:
    """Show what can be inspected in the fits: numbers, and how many of them hold up."""
    rows = frame.where(set=CLEAN)
    temperatures = [m for m in rows.unique("metric") if m.startswith("temperature")]
    thresholds = [m for m in rows.unique("metric") if m.startswith("threshold")]
    shares = {
        "share_of_fits_at_bounds": "at a bound %",
        "share_of_fits_pooled_groups": "fallback %",
        "share_of_fits_risk_in_order": "risk in order %",
        "share_of_fits_temperatures_in_order": "temperatures in order %",
    }

    def number(own: Frame, metric: str) -> Number:
        values = [v for v in own.where(metric=metric)["value"].tolist() if math.isfinite(v)]
        if not values:
            return Number()
        if metric in shares:
            return Number.in_units(float(np.mean(values)), SHARE)
        if metric in thresholds:
            return Number(float(np.mean(values)), float(np.std(values)), digits=3)
        found = Spread.of(math.nan, values)
        return Number(found.median, None, found.low, found.high, signed=False)

    def cells(own: Frame, label: str) -> Iterator[Row]:
        bounds = own.where(metric="share_of_fits_at_bounds")
        fits = len(list(bounds.groups("cell", "draw")))
        yield f"{fits:,}", *(number(own, m) for m in (*temperatures, *thresholds, *shares))

    heads = [f"T of group {m.removeprefix('temperature')}" for m in temperatures]
    heads += [f"group {m.removeprefix('threshold')} from" for m in thresholds]
    return table_of("audit", study, label_rows(rows, cells), *heads, *shares.values())


def costs(study: Study, frame: Frame) -> Table:
    """Show what each method costs: numbers held, time to fit, time to apply."""
    counts = dict.fromkeys(("threads", "repeats"), 0)
    digits = {"parameters": 0, "fit_seconds": 3, "apply_microseconds": 2, **counts}
    limits = {"threads": 1, "seconds": 0, **study.settings}
    words = {name: limits[name] for name in ("threads", "seconds")}
    return table_of("costs", study, _each(frame.where(set=CLEAN), digits), **words)

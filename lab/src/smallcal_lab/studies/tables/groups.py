"""Tables of single fits: groups and temperatures, the risk score, what is inspected, costs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from smallcal.advice.refits import Spread
from smallcal.metrics.units import PERCENT, SHARE
from smallcal_lab.studies.frame import CLEAN, Frame
from smallcal_lab.studies.probes import TERTILES
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import (
    SPREAD,
    block_rows,
    intervals_text,
    label_rows,
    models_of,
    number_of,
    one_seed,
    over_models,
    shown,
)
from smallcal_lab.studies.tables.shift import at_severity, sets_of, shifted_rows
from smallcal_lab.studies.tables.table import Number, Row, Table, heading_of


def numbered(frame: Frame, pattern: str) -> list[int]:
    r"""Return the numbers in the names of metrics, such as those of groups, in order.

    Examples
    --------
    >>> rows = [{"metric": name} for name in ("temperature1", "temperature0", "temperature_low")]
    >>> numbered(Frame.of(rows), r"temperature(\d+)")
    [0, 1]
    """
    found = (re.fullmatch(pattern, name) for name in frame.unique("metric"))
    return sorted({int(one.group(1)) for one in found if one})


def _numbers(own: Frame, label: str, digits: Mapping[str, int | None]) -> Iterator[Number]:
    """Yield mean and spread of each metric, with so many digits, or as many as the metric has."""
    for metric, n in digits.items():
        number = number_of(own.values(metric, label), metric)
        yield number if n is None else replace(number, digits=n)


# Groups -----------------------------------------------------------------------------------------


def temperatures(study: Study, frame: Frame) -> Table:
    """Show how far the temperatures of an entry's groups lie apart."""
    digits = dict.fromkeys(("temperature_low", "temperature_high", "temperature_ratio"), 3)
    more = [m for m in ("hcfp90_of_all",) if m in frame.unique("metric")]
    columns = {**digits, **dict.fromkeys(more)}
    note = f"Lowest and highest temperature of a fit's groups, and their ratio; {SPREAD}."
    if more:
        note += " High-confidence errors, of all: as a share of all samples, not of the errors."
    return Table(
        "temperatures",
        "Temperatures of groups",
        ("samples", "models", "method", "lowest T", "highest T", "ratio", *map(heading_of, more)),
        label_rows(
            frame.where(set=CLEAN, metric=list(columns)),
            lambda own, label: [tuple(_numbers(own, label, columns))],
        ),
        note,
    )


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

    return Table(
        "group-gaps",
        "Remaining gaps of groups",
        (
            *("samples", "models", "method", "group", "samples %", "T"),
            *("accuracy %", "gap at one T %", "gap %"),
        ),
        label_rows(rows, cells),
        "On the test split; groups are counted from 0, lowest risk first. Gap: confidence minus "
        "accuracy, at one temperature for all (tva-ts) and at the temperature of the group; "
        f"{SPREAD}.",
    )


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

    return Table(
        "flow",
        "From the clean group to the shifted one",
        (
            *("samples", "models", "method", "severity", "clean group", "all %"),
            *(f"to group {group} %" for group in groups),
        ),
        label_rows(rows, cells),
        "Share of all samples, of paired sets: by the group of the clean version and that of "
        "the shifted sample. Groups are counted from 0, lowest scores first. Mean over the sets "
        f"of a severity, then {SPREAD}. Pairs are not needed, and not used, to apply a calibrator.",
    )


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
    return Table(
        "within-margin",
        "Within thirds of the margin",
        ("samples", "models", "set", "margin", "method", "share %", *map(heading_of, metrics)),
        tuple(found),
        "Thirds of the calibration split by the raw logit margin, cut there and kept on every "
        "set. Each metric is measured within a third of a set, then the mean over sets, then "
        f"{SPREAD}. A set in which it is not defined, or that has no such sample, is not in its "
        "mean. Bold: best of its block, as printed.",
    )


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

    return Table(
        "ranking",
        "Errors by risk and by confidence",
        (
            *("samples", "models", "method", "split"),
            *(PERCENT.heading(f"by {name}") for name in ("risk", "confidence", "margin")),
            PERCENT.heading("difference", difference=True),
            *("risk, right", "risk, wrong", "rank"),
        ),
        label_rows(rows, cells),
        "AUROC of ranking errors above right predictions: by the risk (out of fold on the "
        "calibration split, deployed on the test split), by the raw confidence, by the raw logit "
        f"margin; {SPREAD}. Difference: by risk minus by confidence, {intervals_text(study)}. "
        "Median risk of right and of wrong predictions. Rank: correlation of the ranks by risk and "
        "by one minus the confidence.",
        one_seed(rows),
    )


def score_scale(study: Study, frame: Frame) -> Table:
    """Show whether scores out of fold, which maps are fitted on, have the scale of the others."""
    metrics = (
        *("score_mean_out_of_fold", "score_mean_refit", "score_shift"),
        *("score_spread_out_of_fold", "score_spread_refit", "score_spread_ratio"),
    )

    def cells(own: Frame, label: str) -> Iterator[Row]:
        shifts = own.where(metric="score_shift")["value"].tolist()
        largest = Number(max(map(abs, shifts), default=math.nan), digits=4)
        yield *_numbers(own, label, dict.fromkeys(metrics)), largest

    return Table(
        "score-scale",
        "Scale of the risk score",
        (
            *("samples", "models", "method"),
            *("mean, out of fold", "mean, refit", "shift"),
            *("spread, out of fold", "spread, refit", "ratio", "largest shift"),
        ),
        label_rows(frame.where(set=CLEAN, metric=metrics), cells),
        "Risk of the calibration samples, by models that did not see them and by the one that is "
        "deployed. Shift: refit minus out of fold. Ratio: standard deviation (ddof = 0) of refit "
        f"over out of fold. {SPREAD[0].upper()}{SPREAD[1:]}; largest shift of a fit, either way.",
    )


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

    return Table(
        "audit",
        "Fitted parameters",
        (
            *("samples", "models", "method", "fits"),
            *(f"T of group {m.removeprefix('temperature')}" for m in temperatures),
            *(f"group {m.removeprefix('threshold')} from" for m in thresholds),
            *shares.values(),
        ),
        label_rows(rows, cells),
        "Over seeds and draws. Groups are counted from 0, lowest scores first. Temperatures: "
        "median [quartiles]. From: the score at which a group begins, mean ± standard deviation "
        "(ddof = 0). Shares of fits with a "
        "temperature at a bound; with a group too small for a separate one; whose groups' error "
        "rates on the calibration draw are in order; whose temperatures strictly rise with risk.",
    )


def costs(study: Study, frame: Frame) -> Table:
    """Show what each method costs: numbers held, time to fit, time to apply."""
    digits = {
        **{"parameters": 0, "fit_seconds": 3, "apply_microseconds": 2},
        **{"threads": 0, "repeats": 0},
    }

    def cells(own: Frame, label: str) -> Iterator[Row]:
        numbers = ((number_of(own.values(m, label), ""), n) for m, n in digits.items())
        yield tuple(
            replace(number, digits=n, spread=number.spread if n else None) for number, n in numbers
        )

    return Table(
        "costs",
        "What it costs",
        (
            *("samples", "models", "method"),
            *("parameters", "fit s", "apply µs a sample", "threads", "repeats"),
        ),
        label_rows(frame.where(set=CLEAN), cells),
        f"Medians of repeats, then {SPREAD}. Libraries are limited to that many "
        "threads (threadpoolctl, "
        f"at most {study.settings.get('threads', 1)} and no more than there are); networks from "
        "logits (sats, utemphead) train on one, whatever the limit; one cell is one of the grid's, "
        "128 units wide. Repeats end after "
        f"{study.settings.get('seconds', 0)} seconds of fits. Run it alone on the machine, in one "
        "process.",
    )

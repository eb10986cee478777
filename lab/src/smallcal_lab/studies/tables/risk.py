"""Tables of the score that routes samples, and of what is left within a margin."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from smallcal.metrics.units import PERCENT
from smallcal_lab.statistics.nested import nested
from smallcal_lab.studies.frame import CLEAN, Frame, Values
from smallcal_lab.studies.probes import TERTILES
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import (
    LEVEL,
    SPREAD,
    block_rows,
    intervals_text,
    label_rows,
    models_of,
    number_of,
    one_seed,
    shown,
)
from smallcal_lab.studies.tables.shift import shifted_rows
from smallcal_lab.studies.tables.table import Number, Row, Table, heading_of

#: All samples, then the thirds by margin.
PARTS = ("all", *TERTILES)


def in_margin(frame: Frame, metrics: list[str], tertile: str) -> Frame:
    """Return the rows of one third, under the names that metrics have on all samples."""
    if tertile == PARTS[0]:
        return frame.where(metric=metrics)
    suffix = f"_margin_{tertile}"
    found = frame.where(metric=[metric + suffix for metric in metrics])
    names = np.array([str(name).removesuffix(suffix) for name in found["metric"]], dtype=object)
    return Frame({**found.columns, "metric": names})


def within_margin(study: Study, frame: Frame) -> Table:
    """Show every metric within thirds of the logit margin, on clean samples and under shift."""
    metrics = frame.measured(study.metrics)
    sets = {CLEAN: frame.where(set=CLEAN), "shifted": shifted_rows(frame)}
    found: list[Row] = []
    for name, rows in sets.items():
        for budget, models, part in rows.blocks():
            labels = part.unique("label")
            for tertile in PARTS:
                own = in_margin(part, metrics, tertile)
                share = Number(100.0)
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
    names = ("auroc_risk", "auroc_confidence", "auroc_margin")
    medians = ("median_risk_right", "median_risk_wrong", "rank_correlation")

    def cells(own: Frame, label: str) -> Iterator[Row]:
        for split, suffix in (("calibration", ""), ("test", "_test")):
            numbers = [number_of(own.values(m + suffix, label), m) for m in (*names, *medians)]
            yield split, *numbers[:3], _edge(study, own, label, suffix), *numbers[3:]

    return Table(
        "ranking",
        "Errors by risk and by confidence",
        (
            *("samples", "models", "method", "split"),
            *(PERCENT.heading(f"by {name}") for name in ("risk", "confidence", "margin")),
            *(PERCENT.heading("difference", difference=True),),
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


def _edge(study: Study, frame: Frame, label: str, suffix: str) -> Number:
    """Return the AUROC of the risk minus that of the confidence, with an interval."""
    risk, confidence = (
        frame.values(f"auroc_{name}{suffix}", label) for name in ("risk", "confidence")
    )
    gaps: Values = {
        cell: [a - b for a, b in zip(risk[cell], confidence[cell], strict=True)] for cell in risk
    }
    table = models_of(frame, gaps)
    if not table:
        return Number(math.nan)
    levels = ("model", "seed", "draw")
    found = nested(table, levels=levels, n_boot=study.n_boot, level=LEVEL)
    return shown(found, "auroc_risk")


def score_scale(study: Study, frame: Frame) -> Table:
    """Show whether scores out of fold, which maps are fitted on, have the scale of the others."""
    metrics = (
        *("score_mean_out_of_fold", "score_mean_refit", "score_shift"),
        *("score_spread_out_of_fold", "score_spread_refit", "score_spread_ratio"),
    )
    rows = frame.where(set=CLEAN, metric=metrics)

    def cells(own: Frame, label: str) -> Iterator[Row]:
        numbers = [number_of(own.values(metric, label), metric) for metric in metrics]
        largest = max(map(abs, own.where(metric="score_shift")["value"].tolist()), default=math.nan)
        yield *numbers, Number(largest, digits=4)

    return Table(
        "score-scale",
        "Scale of the risk score",
        (
            *("samples", "models", "method"),
            *("mean, out of fold", "mean, refit", "shift"),
            *("spread, out of fold", "spread, refit", "ratio", "largest shift"),
        ),
        label_rows(rows, cells),
        "Risk of the calibration samples, by models that did not see them and by the one that is "
        "deployed. Shift: refit minus out of fold. Ratio: standard deviation (ddof = 0) of refit "
        f"over out of fold. {SPREAD[0].upper()}{SPREAD[1:]}; largest shift of a fit, either way.",
    )

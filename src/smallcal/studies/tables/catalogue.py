"""From tidy rows to tables: means with spreads, paired differences with intervals, wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from smallcal.metrics import METRICS
from smallcal.metrics.units import SHARE
from smallcal.studies.frame import CLEAN, Frame
from smallcal.studies.study import Study
from smallcal.studies.tables.diagnostics import (
    audit,
    nested_k,
    oracle_k,
    seeds,
    selector,
    signal_to_noise,
)
from smallcal.studies.tables.pairs import (
    difference,
    metric_rows,
    metrics_in,
    paired,
    shown,
    verdict_on,
)
from smallcal.studies.tables.shift import (
    by_severity,
    controls,
    heterogeneity,
    occupancy,
    shift_means,
    three_tiers,
)
from smallcal.studies.tables.table import Number, Table, heading_of


def means(study: Study, frame: Frame) -> Table:
    """Show every metric of every entry: mean and standard deviation over seeds, or models."""
    clean = frame.where(set=CLEAN)
    metrics = metrics_in(clean, study)
    return Table(
        "means",
        "Means",
        ("samples", "models", "method", *map(heading_of, metrics)),
        metric_rows(clean, metrics),
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
            numbers = tuple(shown(found[m], m) for m in metrics)
            rows.append((f"{budget:,}", label, verdict_on(found), *numbers))
    return Table(
        "differences",
        f"Differences from {study.baseline}",
        ("samples", "method", "verdict", *(heading_of(m, difference=True) for m in metrics)),
        tuple(rows),
        f"Paired by draw; 95 % intervals from {study.n_boot:,} resamples of models, of seeds in "
        "each, of draws in each. A difference whose interval holds zero is a tie.",
    )


def wins(study: Study, frame: Frame) -> Table:
    """Show how often each entry beats the baseline, of all cells and draws."""
    clean = frame.where(set=CLEAN)
    metrics = metrics_in(clean, study)
    rows: list[tuple[str | Number, ...]] = []
    for (budget,), part in clean.groups("budget"):
        for label in part.unique("label"):
            if label != study.baseline:
                rates = tuple(win_rate(part, study, metric, label) for metric in metrics)
                rows.append((f"{budget:,}", label, *rates))
    return Table(
        "wins",
        f"Wins against {study.baseline}",
        ("samples", "method", *map(SHARE.heading, metrics)),
        tuple(rows),
        "Share of cells and draws in which the method is strictly better.",
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


Maker = Callable[[Study, Frame], Table]
TABLES: Mapping[str, Maker] = MappingProxyType(
    {
        "means": means,
        "differences": differences,
        "wins": wins,
        "seeds": seeds,
        "shift-means": shift_means,
        "severity": by_severity,
        "tiers": three_tiers,
        "occupancy": occupancy,
        "controls": controls,
        "heterogeneity": heterogeneity,
        "selector": selector,
        "nested-k": nested_k,
        "oracle-k": oracle_k,
        "audit": audit,
        "signal-to-noise": signal_to_noise,
    }
)

"""Tables of single draws and of single cells: what is resampled is one of them at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from smallcal.metrics.units import SHARE
from smallcal.statistics.interval import Interval
from smallcal_lab.statistics.nested import cells
from smallcal_lab.studies.frame import CLEAN, Frame, Values
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import (
    LEVEL,
    below_zero,
    compared_labels,
    paired,
    shown,
    verdict_on,
    win_rate,
)
from smallcal_lab.studies.tables.table import Number, Row, Table, heading_of, title_of, unit_of


def draws(study: Study, frame: Frame) -> Table:
    """Show spreads over draws, differences with intervals over draws, and wins."""
    clean = frame.where(set=CLEAN)
    metrics = clean.measured(study.metrics)
    rows = (
        (budget, models, title_of(metric), label, *_of_draws(study, part, metric, label))
        for budget, models, part in clean.blocks()
        for metric in metrics
        for label in part.unique("label")
    )
    return Table(
        "draws",
        "Single draws",
        ("samples", "models", "metric", "method", "mean", *_AGAINST, SHARE.heading("wins")),
        tuple(rows),
        f"In the units of {', '.join(map(heading_of, metrics))}. Mean ± standard deviation (ddof = "
        f"0) over all seeds and draws; the difference from {study.baseline} is paired by draw, "
        f"with {100 * LEVEL:g} % intervals from {study.n_boot:,} resamples of single draws, as if "
        "draws of one seed were independent: descriptive only. Draws of a "
        "seed that are all the same count as one. Wins: the share of draws in which the method is "
        "strictly better.",
    )


_AGAINST = ("difference", "P(difference < 0)")


def _of_draws(study: Study, frame: Frame, metric: str, label: str) -> Iterator[Number]:
    """Yield a label's numbers at one budget."""
    unit = unit_of(metric)
    values = unit.scale * _heap(frame.values(metric, label))
    if len(values):
        yield Number(float(values.mean()), _spread(values), digits=unit.digits)
    else:
        yield Number(math.nan)
    if label == study.baseline:
        yield from (Number(math.nan) for _ in range(3))
        return
    found = draw_interval(study, frame, metric, label, study.baseline)
    yield shown(found, metric)
    yield below_zero(found)
    yield win_rate(frame, study, metric, label)


def draw_interval(
    study: Study, frame: Frame, metric: str, ours: str, theirs: str
) -> Interval | None:
    """Return a paired difference, single draws resampled; None if there is nothing to compare."""
    gaps = _heap(paired(frame, metric, ours, theirs))
    return cells(gaps, n_boot=study.n_boot, level=LEVEL) if len(gaps) else None


def _heap(values: Values) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return all draws of all cells; those of a cell that are all the same are one.

    A budget that is the whole split can be drawn in one way only.
    """
    found: list[float] = []
    for own in values.values():
        known = [value for value in own if math.isfinite(value)]
        found += known[:1] if len(set(known)) == 1 else known
    return np.array(found)


def _spread(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float | None:
    return float(values.std()) if len(values) > 1 else None


def clusters(study: Study, frame: Frame) -> Table:
    """Show differences over all cells together, whole cells resampled."""
    clean = frame.where(set=CLEAN)
    metrics = clean.measured(study.metrics)
    rows: list[Row] = []
    for _, part in clean.groups("budget"):
        for ours, theirs in compared_labels(study, part):
            found = {m: cell_interval(study, part, m, ours, theirs) for m in metrics}
            first = found[metrics[0]]
            if first is None:
                continue
            n = len(paired(part, metrics[0], ours, theirs))
            numbers = (shown(own, metric) for metric, own in found.items())
            rows.append(
                (
                    *(part.samples, ours, theirs, verdict_on(found)),
                    Number(n, digits=0),
                    *numbers,
                    below_zero(first),
                )
            )
    return Table(
        "clusters",
        "Differences over cells",
        (
            *("samples", "method", "minus", "verdict", "cells"),
            *(heading_of(m, difference=True) for m in metrics),
            *(f"P({title_of(m)} < 0)" for m in metrics[:1]),
        ),
        tuple(rows),
        "The method minus the other, mean over cells (a model with a seed; draws are averaged "
        f"first); {100 * LEVEL:g} % intervals from {study.n_boot:,} resamples of whole cells.",
    )


def cell_interval(
    study: Study, frame: Frame, metric: str, ours: str, theirs: str
) -> Interval | None:
    """Return a paired difference, whole cells resampled; None if there is nothing to compare."""
    gaps = paired(frame, metric, ours, theirs)
    means = [np.mean(own) for own in gaps.values() if np.isfinite(own).all()]
    return cells(means, n_boot=study.n_boot, level=LEVEL) if means else None

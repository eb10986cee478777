"""Tables of studies under shift.

A number for each test set first, then means over a model's sets, then over its seeds: sets are
never pooled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, product

import numpy as np
import scipy

from smallcal.data.predictions import FloatArray
from smallcal_lab.corruption_names import STANDARD
from smallcal_lab.statistics.nested import tiers
from smallcal_lab.studies.frame import CLEAN, Frame
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import (
    LEVEL,
    SPREAD,
    below_zero,
    compared,
    intervals_text,
    label_rows,
    metric_rows,
    number_of,
    one_seed,
    shown,
    verdict_on,
)
from smallcal_lab.studies.tables.table import Number, Row, Table, heading_of, title_of, unit_of

#: What the shifted sets of a model are called together.
SHIFTED = "shifted"
_SHARE = "share_of_group"
#: Severities that the paper calls severe.
SEVERE = (4, 5)
#: The interval that resamples everything: it decides.
_WHOLE = "seed x corruption x severity"


def shifted_rows(frame: Frame) -> Frame:
    """Return the rows of shifted test sets."""
    return frame.where(set=[name for name in frame.unique("set") if name not in ("", CLEAN)])


def sets_of(frame: Frame) -> Iterator[tuple[str, Frame]]:
    """Yield the rows of the test split, and those of all shifted sets, where there are any."""
    for name, rows in ((CLEAN, frame.where(set=CLEAN)), (SHIFTED, shifted_rows(frame))):
        if len(rows):
            yield name, rows


def shift_means(study: Study, frame: Frame) -> Table:
    """Show every metric under shift: mean over sets, then mean and spread over seeds."""
    rows = shifted_rows(frame)
    metrics = [m for m in rows.measured(study.metrics) if not m.startswith(_SHARE)]
    return Table(
        "shift-means",
        "Under shift",
        ("samples", "models", "method", *map(heading_of, metrics)),
        metric_rows(rows, lambda part: [(part, metric) for metric in metrics]),
        "Fitted on clean samples; each shifted sample is routed by its own logits. Mean over "
        f"shifted sets, then {SPREAD}.",
    )


def by_severity(study: Study, frame: Frame) -> Table:
    """Show the study's first metric at each severity."""
    metric = study.metrics[0]
    severities = sorted(shifted_rows(frame).unique("severity"))

    def columns(part: Frame) -> list[tuple[Frame, str]]:
        sets = [part.where(set=CLEAN), *(at_severity(part, s) for s in severities)]
        return [(rows, metric) for rows in sets]

    return Table(
        "severity",
        f"{title_of(metric)} by severity",
        ("samples", "models", "method", CLEAN, *(f"severity {s}" for s in severities)),
        metric_rows(frame.where(metric=metric), columns) if severities else (),
        f"{heading_of(metric)}. Mean over the sets of a severity, then {SPREAD}.",
    )


def at_severity(frame: Frame, severity: int) -> Frame:
    """Return the rows of shifted sets of one severity."""
    return shifted_rows(frame).where(severity=severity)


def cube(
    frame: Frame, metric: str, ours: str, theirs: str
) -> tuple[FloatArray | None, tuple[str, ...]]:
    """Return differences by seed, corruption and severity, and the corruptions left out.

    Draws are averaged first. A corruption that lacks a severity, or a seed, is left out: the
    intervals need a full table.
    """
    mine, other = (frame.numbers.get((metric, label), {}) for label in (ours, theirs))
    gaps: dict[tuple[str, str, int], list[float]] = {}
    for cell, numbers in mine.items():
        theirs_here = dict(other.get(cell, ()))
        for key, value in numbers:
            if key in theirs_here and key[1] not in ("", CLEAN):
                gaps.setdefault((cell, *key[1:]), []).append(value - theirs_here[key])
    table = {key: float(np.mean(own)) for key, own in gaps.items() if np.isfinite(own).all()}
    cells = list(dict.fromkeys(cell for cell, _, _ in table))
    kinds = list(dict.fromkeys(kind for _, kind, _ in table))
    severities = sorted({severity for _, _, severity in table})
    full = [k for k in kinds if all((c, k, s) in table for c in cells for s in severities)]
    sets = shifted_rows(frame).unique("set")
    left_out = tuple(str(kind) for kind in sets if kind not in full)
    if not full:
        return None, left_out
    values = [[[table[c, k, s] for s in severities] for k in full] for c in cells]
    return np.array(values), left_out


def subsets(frame: Frame) -> Iterator[tuple[str, Frame]]:
    """Yield rows of all shifted sets, and those of the paper's two parts that are parts here.

    Severities 4 and 5; the 15 corruptions that ImageNet-C has.
    """
    yield "all", frame
    severities = frame.unique("severity")
    severe = [severity for severity in severities if severity in SEVERE]
    if 0 < len(severe) < len(severities):
        yield f"severity {'-'.join(map(str, sorted(severe)))}", frame.where(severity=severe)
    kinds = frame.unique("set")
    if set(STANDARD) < set(kinds):
        yield "15 corruptions", frame.where(set=list(STANDARD))


def three_tiers(study: Study, frame: Frame) -> Table:
    """Show differences under shift with three intervals, from the optimistic to the honest."""
    metrics = [m for m in shifted_rows(frame).measured(study.metrics) if not m.startswith(_SHARE)]
    found: list[Row] = []
    absent: set[str] = set()
    # One form of table after the other: what is drawn for one serves all of its form.
    for sets, part in subsets(shifted_rows(frame)):
        for metric, ((budget, model, *pair), own) in product(metrics, list(compared(study, part))):
            values, left_out = cube(own, metric, *pair)
            absent |= set(left_out)
            if values is not None:
                three = tiers(values, n_boot=study.n_boot, level=LEVEL)
                verdict = verdict_on({metric: three[_WHOLE]})
                numbers = (shown(interval, metric) for interval in three.values())
                chance = below_zero(three[_WHOLE])
                found.append((budget, model, sets, metric, *pair, verdict, *numbers, chance))
    note = (
        "The method minus the other in points, mean over seeds, corruptions and severities; "
        f"{100 * LEVEL:g} % intervals from {study.n_boot:,} resamples of single sets, of "
        "corruptions, and of seeds, corruptions and severities. The last one decides the verdict; "
        "P is the share of its resamples that are below zero."
    )
    if absent:
        note += f" Left out, because a severity or a seed is missing: {', '.join(sorted(absent))}."
    return Table(
        "tiers",
        "Differences under shift",
        (
            *("samples", "models", "sets", "metric", "method", "minus", "verdict"),
            *("cell", "corruption", _WHOLE, "P(difference < 0)"),
        ),
        tuple(found),
        note,
        one_seed(shifted_rows(frame)),
    )


def occupancy(study: Study, frame: Frame) -> Table:
    """Show which share of samples falls into each group, clean and at each severity."""
    numbers = [m.removeprefix(_SHARE) for m in frame.unique("metric") if m.startswith(_SHARE)]
    groups = sorted((number for number in numbers if number.isdigit()), key=int)
    metrics = [_SHARE + group for group in groups]
    rows = frame.where(metric=metrics)
    severities = sorted(shifted_rows(rows).unique("severity"))

    def cells(own: Frame, label: str) -> Iterator[Row]:
        sets = {CLEAN: own.where(set=CLEAN), "shifted": shifted_rows(own)}
        sets |= {f"severity {s}": at_severity(own, s) for s in severities}
        for name, some in sets.items():
            if len(some):
                shares = (number_of(some.values(metric, label), metric) for metric in metrics)
                yield name, *(replace(share, digits=1) for share in shares)

    return Table(
        "occupancy",
        "Groups",
        ("samples", "models", "method", "set", *(f"group {group} %" for group in groups)),
        label_rows(rows, cells),
        "Share of test samples in each group, counted from 0, lowest scores first. Mean over sets "
        f"and draws, then {SPREAD}.",
    )


def controls(study: Study, frame: Frame) -> Table:
    """Show what a control that nobody could deploy does, beside the deployed calibrator."""
    suffix = f"_{study.settings['control']}"
    metrics = [m for m in study.metrics if m + suffix in frame.unique("metric")]
    controlled = {m + suffix for m in metrics}

    def cells(own: Frame, label: str) -> Iterator[Row]:
        if controlled.isdisjoint(own.unique("metric")):
            return
        sets = {"all": own}
        sets |= {str(s): at_severity(own, s) for s in sorted(own.unique("severity"))}
        for severity, rows in sets.items():
            numbers = (_control(study, rows, metric, metric + suffix) for metric in metrics)
            yield severity, *chain.from_iterable(numbers)

    name = study.settings["control"].replace("_", " ")
    header = []
    for m in metrics:
        change = unit_of(m).heading(f"{title_of(m)} difference", difference=True)
        header += [heading_of(m), f"{title_of(m)} {name}", change]
        header += [f"{title_of(m)} difference, {what}" for what in ("sets", "corruptions")]
    return Table(
        "controls",
        f"Deployed, and {name}",
        ("samples", "models", "method", "severity", *header),
        label_rows(shifted_rows(frame), cells),
        f"Mean over sets, then {SPREAD}; control minus deployed, with "
        f"{intervals_text(study, 'seeds', 'corruptions', 'severities')}, then of single sets, and "
        "of corruptions. The control cannot be deployed.",
        one_seed(shifted_rows(frame)),
    )


def _control(study: Study, frame: Frame, metric: str, control: str) -> list[Number]:
    (label,) = frame.unique("label")
    twin = _renamed(frame, control, metric)
    values, _ = cube(twin, metric, control, label)
    three = {} if values is None else tiers(values, n_boot=study.n_boot, level=LEVEL)
    both = [number_of(frame.values(name, label), metric) for name in (metric, control)]
    return [*both, *(shown(three.get(tier), metric) for tier in (_WHOLE, "cell", "corruption"))]


def _renamed(frame: Frame, control: str, metric: str) -> Frame:
    """Return rows in which the control's numbers are those of another label."""
    columns = dict(frame.columns)
    is_control = columns["metric"] == control
    columns["label"] = np.where(is_control, control, columns["label"])
    columns["metric"] = np.where(is_control, metric, columns["metric"])
    return Frame(columns)


def rank_text(a: FloatArray, b: FloatArray) -> str:
    """Return Spearman's rank correlation in words, where it exists.

    Examples
    --------
    >>> rank_text(np.array([3.0, 2.0, 1.0, 0.5]), np.array([1.0, 2.0, 3.0, 2.5]))
    '-0.80 [-1.00, +0.82]'
    """
    return rank_words(*rank_interval(a, b))


def rank_words(rho: float, low: float, high: float) -> str:
    """Return a rank correlation and its interval as tables and figures have it."""
    if math.isnan(rho):
        return "not defined with so few corruptions"
    return f"{rho:+.2f}" + ("" if math.isnan(low) else f" [{low:+.2f}, {high:+.2f}]")


def rank_interval(
    a: FloatArray, b: FloatArray, *, level: float = LEVEL
) -> tuple[float, float, float]:
    """Return Spearman's rank correlation with an interval; NaN where there is none.

    The interval is Fisher's, with the variance of Bonett and Wright (2000) for ranks: pairs are
    taken to be drawn independently, which corruptions are only more or less.

    Examples
    --------
    >>> a, b = np.arange(8.0), np.array([2.0, 0.0, 1.0, 5.0, 3.0, 4.0, 7.0, 6.0])
    >>> [round(value, 2) for value in rank_interval(a, b)]
    [0.83, 0.18, 0.98]
    """
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan, math.nan, math.nan
    rho = float(scipy.stats.spearmanr(a, b).statistic)
    if len(a) < 4 or abs(rho) > 1 - 1e-9:
        return rho, math.nan, math.nan
    reach = float(scipy.special.ndtri((1 + level) / 2)) * math.sqrt((1 + rho**2 / 2) / (len(a) - 3))
    return rho, math.tanh(math.atanh(rho) - reach), math.tanh(math.atanh(rho) + reach)

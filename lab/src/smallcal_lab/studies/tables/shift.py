"""Tables of studies under shift.

A number for each test set first, then means over a model's sets, then over its seeds: sets are
never pooled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import scipy

from smallcal.data.predictions import FloatArray
from smallcal_lab.corruption_names import STANDARD
from smallcal_lab.statistics.nested import tiers as three_tiers
from smallcal_lab.studies.frame import CLEAN, Frame
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import (
    LEVEL,
    Measured,
    below_zero,
    compared_labels,
    gaps_of,
    intervals_text,
    label_rows,
    mean_number,
    metric_rows,
    number_of,
    one_seed,
    paired,
    shown,
    table_of,
    verdict_on,
    with_best,
)
from smallcal_lab.studies.tables.table import (
    Number,
    Row,
    Table,
    better_of,
    changes,
    heading_of,
    title_of,
    unit_of,
)

#: What the shifted sets of a model are called together.
SHIFTED = "shifted"
#: Severities that the paper calls severe.
SEVERE = (4, 5)
#: Mean confidence minus accuracy: its sign says over- or under-confident, which an error does not.
SIGNED = "confidence_gap"
_SHARE = "share_of_group"
#: The interval that resamples everything: it decides.
WHOLE = "seed x corruption x severity"


def shifted_rows(frame: Frame) -> Frame:
    """Return the rows of shifted test sets."""
    return frame.where(set=[name for name in frame.unique("set") if name not in ("", CLEAN)])


def at_severity(frame: Frame, severity: int) -> Frame:
    """Return the rows of shifted sets of one severity."""
    return shifted_rows(frame).where(severity=severity)


def sets_of(frame: Frame) -> Iterator[tuple[str, Frame]]:
    """Yield the rows of the test split, and those of all shifted sets, where there are any."""
    for name, rows in ((CLEAN, frame.where(set=CLEAN)), (SHIFTED, shifted_rows(frame))):
        if len(rows):
            yield name, rows


def _metrics(study: Study, rows: Frame) -> list[str]:
    return [m for m in rows.measured(study.metrics) if not m.startswith("share")]


def shift_means(study: Study, frame: Frame) -> Table:
    """Show every metric under shift: mean over sets, then mean and spread over seeds."""
    rows = shifted_rows(frame)
    metrics = _metrics(study, rows)
    return table_of("shift-means", study, metric_rows(rows, metrics), *map(heading_of, metrics))


def severity(study: Study, frame: Frame) -> Table:
    """Show the study's first metric at each severity."""
    severities = sorted(shifted_rows(frame).unique("severity"))

    def parts(block: Frame) -> list[Frame]:
        return [block.where(set=CLEAN), *(at_severity(block, s) for s in severities)]

    rows = metric_rows(frame.where(metric=study.metrics[0]), study.metrics[:1], parts)
    heads = (f"severity {one}" for one in severities)
    return table_of("severity", study, rows if severities else (), *heads)


def cube(
    frame: Frame, ours: Measured, theirs: Measured
) -> tuple[FloatArray | None, tuple[str, ...]]:
    """Return differences by seed, corruption and severity, and the corruptions left out.

    Draws are averaged first. A corruption that lacks a severity, or a seed, is left out: the
    intervals need a full table.
    """
    gaps: dict[tuple[str, str, int], list[float]] = {}
    for cell, own in gaps_of(frame, ours, theirs).items():
        for (_, kind, severity), gap in own.items():
            if kind not in ("", CLEAN):
                gaps.setdefault((cell, kind, severity), []).append(gap)
    table = {key: float(np.mean(own)) for key, own in gaps.items() if np.isfinite(own).all()}
    cells = list(dict.fromkeys(cell for cell, _, _ in table))
    kinds = list(dict.fromkeys(kind for _, kind, _ in table))
    severities = sorted({severity for _, _, severity in table})
    full = [k for k in kinds if all((c, k, s) in table for c in cells for s in severities)]
    left_out = tuple(str(kind) for kind in shifted_rows(frame).unique("set") if kind not in full)
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
    severe = sorted(severity for severity in severities if severity in SEVERE)
    if 0 < len(severe) < len(severities):
        yield f"severity {'-'.join(map(str, severe))}", frame.where(severity=severe)
    if set(STANDARD) < set(frame.unique("set")):
        yield "15 corruptions", frame.where(set=list(STANDARD))


def tiers(study: Study, frame: Frame) -> Table:
    """Show differences under shift with three intervals, from the optimistic to the honest."""
    rows = shifted_rows(frame)
    found: list[Row] = []
    left_out: set[str] = set()
    for sets, part in subsets(rows):
        # One form of table after the other: what is drawn for one serves all of its form.
        for metric, (budget, model, own) in product(_metrics(study, rows), list(part.models())):
            for pair in compared_labels(study, own):
                values, lacking = cube(own, *((metric, label) for label in pair))
                left_out |= set(lacking)
                if values is not None:
                    three = three_tiers(values, n_boot=study.n_boot, level=LEVEL)
                    words = (budget, model, sets, metric, *pair, verdict_on({metric: three[WHOLE]}))
                    numbers = [shown(interval, metric) for interval in three.values()]
                    found.append((*words, *numbers, below_zero(numbers[-1])))
    absent = ", ".join(sorted(left_out))
    if absent:
        absent = f" Left out, because a severity or a seed is missing: {absent}."
    return table_of("tiers", study, found, said=one_seed(rows), absent=absent)


def occupancy(study: Study, frame: Frame) -> Table:
    """Show which share of samples falls into each group, clean and at each severity."""
    numbers = [m.removeprefix(_SHARE) for m in frame.unique("metric") if m.startswith(_SHARE)]
    groups = sorted((number for number in numbers if number.isdigit()), key=int)
    metrics = [_SHARE + group for group in groups]
    rows = frame.where(metric=metrics)
    severities = sorted(shifted_rows(rows).unique("severity"))

    def cells(own: Frame, label: str) -> Iterator[Row]:
        sets = dict(sets_of(own)) | {f"severity {s}": at_severity(own, s) for s in severities}
        for name, some in sets.items():
            if len(some):
                shares = (number_of(some.values(metric, label), metric) for metric in metrics)
                yield name, *(replace(share, digits=1) for share in shares)

    heads = (f"group {group} %" for group in groups)
    return table_of("occupancy", study, label_rows(rows, cells), *heads)


def controls(study: Study, frame: Frame) -> Table:
    """Show what a control that nobody could deploy does, beside the deployed calibrator."""
    suffix = f"_{study.settings['control']}"
    metrics = [m for m in study.metrics if m + suffix in frame.unique("metric")]

    def numbers(rows: Frame, label: str) -> Iterator[Number]:
        for metric in metrics:
            pair = (metric + suffix, label), (metric, label)
            values, _ = cube(rows, *pair)
            three = {} if values is None else three_tiers(values, n_boot=study.n_boot, level=LEVEL)
            yield from (number_of(rows.values(*one), metric) for one in pair[::-1])
            yield from (shown(three.get(tier), metric) for tier in (WHOLE, "cell", "corruption"))

    def cells(own: Frame, label: str) -> Iterator[Row]:
        if {m + suffix for m in metrics}.isdisjoint(own.unique("metric")):
            return
        yield "all", *numbers(own, label)
        for severity in sorted(own.unique("severity")):
            yield str(severity), *numbers(at_severity(own, severity), label)

    name, rows = study.settings["control"].replace("_", " "), shifted_rows(frame)
    heads = []
    for title, unit in ((title_of(m), unit_of(m)) for m in metrics):
        change = f"{title} difference"
        heads += [unit.heading(title), f"{title} {name}", unit.heading(change, difference=True)]
        heads += [f"{change}, sets", f"{change}, corruptions"]
    words = {"intervals": intervals_text(study, "seeds", "corruptions", "severities")}
    own = label_rows(rows, cells)
    return table_of("controls", study, own, *heads, said=one_seed(rows), control=name, **words)


# Single sets: data from elsewhere, each with a meaning of its own --------------------------------


def by_set(frame: Frame) -> Iterator[tuple[tuple[str, str, str], Frame]]:
    """Yield (samples, model, set) with its rows; a set of some severity is named with it."""
    for samples, model, part in shifted_rows(frame).models():
        for (kind,), own in part.groups("set"):
            severities = own.unique("severity")
            for severity in severities:
                name = kind if len(severities) == 1 else f"{kind}-{severity}"
                yield (samples, model, name), own.where(severity=severity)


def sets(study: Study, frame: Frame) -> Table:
    """Show every metric on each shifted set by itself, and over a model's sets."""
    rows = shifted_rows(frame)
    metrics = _metrics(study, rows)
    blocks = [(where, [own], own.unique("label")) for where, own in by_set(frame)]
    for samples, model, part in rows.models():
        parts = [own for _, own in part.groups("set", "severity")]
        if len(parts) > 1:
            blocks.append(((samples, model, "all"), parts, part.unique("label")))
    found: list[Row] = []
    for where, parts, labels in blocks:
        columns = [
            with_best([_over_sets(parts, metric, label) for label in labels], metric)
            for metric in metrics
        ]
        found += [(*where, *row) for row in zip(labels, *columns, strict=True)]
    return table_of("sets", study, found, *map(heading_of, metrics))


def _over_sets(parts: list[Frame], metric: str, label: str) -> Number:
    """Return mean and spread over the fits of one set, or over the means of several."""
    values = [[v for own in part.values(metric, label).values() for v in own] for part in parts]
    numbers = values[0] if len(parts) == 1 else [float(np.mean(own)) for own in values if own]
    return mean_number([number for number in numbers if math.isfinite(number)], metric)


def harm(study: Study, frame: Frame) -> Table:
    """Show on each shifted set whether calibrating on clean samples was worth it at all."""
    raw = study.settings["raw"]
    there = shifted_rows(frame).measured(study.metrics)
    metrics = [metric for metric in there if better_of(metric) != "zero"][:2]
    found: list[Row] = []
    sentences: list[str] = []
    for where, own in by_set(frame):
        labels = own.unique("label")
        if raw not in labels:
            continue
        labels.remove(raw)
        numbers: dict[str, list[Number]] = {label: [] for label in labels}
        for metric in metrics:
            sign = -1 if better_of(metric) == "higher" else 1
            wins: dict[str, bool] = {}
            for label in labels:
                gaps = [v for draws in paired(own, metric, label, raw).values() for v in draws]
                better = Number(sum(sign * gap < 0 for gap in gaps), of=len(gaps))
                known = [gap for gap in gaps if math.isfinite(gap)]
                numbers[label] += [mean_number(known, metric), better if gaps else Number()]
                if gaps:
                    wins[label] = sign * float(np.mean(gaps)) < 0
            winners = [label for label, won in wins.items() if won]
            named = f": {', '.join(winners)}" if 0 < len(winners) < len(wins) else ""
            if wins:
                sentences.append(
                    f"{where[1]}, {where[0]} samples, {where[2]}: {len(winners)} of {len(wins)} "
                    f"methods are better than {raw} in {title_of(metric)}{named}."
                )
        found += [(*where, label, *row) for label, row in numbers.items()]
    heads = (head for m in metrics for head in (*changes([m]), f"{title_of(m)} better in"))
    return table_of("harm", study, found, *heads, said=sentences)


# Corruption by corruption -----------------------------------------------------------------------


def heterogeneity(study: Study, frame: Frame) -> Table:
    """Show the gain of each corruption against the error without calibration, and signed gaps."""
    settings, metric, there = study.settings, study.metrics[0], frame.unique("label")
    unit, signed = unit_of(metric), unit_of(SIGNED)
    ours, raw = settings["gain_of"], settings["raw"]
    rivals = [label for label in settings["rivals"] if label in there]
    measured = frame.where(metric=SIGNED).unique("label")
    sided = [label for label in (raw, study.baseline) if label in measured]
    found: list[Row] = []
    sentences: list[str] = []
    parts = shifted_rows(frame).models()
    for budget, model, part in parts if {ours, raw} <= set(there) else ():
        columns = {label: _by_corruption(part, metric, label) for label in (raw, ours, *rivals)}
        columns |= {gap_heading(label): _by_corruption(part, SIGNED, label) for label in sided}
        data = Frame(columns).data.dropna().sort_values(raw, kind="stable")
        kinds, own = list(data.index), {name: data[name].to_numpy() for name in columns}
        gains = {label: own[label] - own[ours] for label in rivals}
        gaps = {label: own[gap_heading(label)] for label in sided}
        for i, kind in enumerate(kinds):
            errors = (values[i] for values in (own[raw], own[ours], *gains.values()))
            numbers = [Number.in_units(value, unit) for value in errors]
            numbers += [Number.in_units(gap[i], signed) for gap in gaps.values()]
            found.append((budget, model, kind, *numbers))
        where = f"{model}, {budget} samples: the"
        for label, gain in gains.items() if kinds else ():
            ends = (
                f"{unit.number(gain[i], signed=True)} ({kinds[i]})"
                for i in (gain.argmin(), gain.argmax())
            )
            sentences.append(
                f"{where} gain of {ours} over {label} runs from {' to '.join(ends)}; its rank "
                f"correlation with the raw error is {rank_text(gain, own[raw])}."
            )
            ranks = ", ".join(f"of {of} {rank_text(gain, gap)}" for of, gap in gaps.items())
            if ranks:
                sentences.append(
                    f"{where} rank correlation of the gain over {label} with the signed gap is, "
                    f"{ranks}."
                )
        if kinds and len(gains) > 1:
            first, second = list(gains)[:2]
            best = int((np.min(list(gains.values()), axis=0) > 0).sum())
            sentences.append(
                f"{where} rank correlation of the gains over {first} and over {second} is "
                f"{rank_text(gains[first], gains[second])}; {ours} is below all of "
                f"{', '.join(gains)} for {best} of {len(kinds)} corruptions."
            )
    more = " A gap is mean confidence minus accuracy, in points." if sided else ""
    heads = *(f"gain over {label}" for label in rivals), *map(gap_heading, sided)
    return table_of("heterogeneity", study, found, *heads, said=sentences, gaps=more)


def gap_heading(label: str) -> str:
    """Return the heading of a column of signed gaps."""
    return f"gap of {label}"


def _by_corruption(frame: Frame, metric: str, label: str) -> dict[str, float]:
    """Return a label's mean over severities, draws and seeds of each corruption."""
    groups = frame.groups("set")
    return {kind: number_of(rows.values(metric, label), "").value for (kind,), rows in groups}


def rank_text(a: FloatArray, b: FloatArray) -> str:
    """Return Spearman's rank correlation in words, where it exists."""
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

"""Tables of diagnostics: the number of groups, audits, signal and noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from smallcal.advice.refits import Spread
from smallcal.calibrators.catalogue import method
from smallcal.metrics.units import PERCENT, SHARE, X100, written
from smallcal_lab.studies.frame import CLEAN, Frame, Values
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import SPREAD, label_rows, number_of, paired
from smallcal_lab.studies.tables.selection import chosen_number, lines_of, lowest, picks_text
from smallcal_lab.studies.tables.table import Number, Row, Table, heading_of, title_of

#: What grouping promised and gave; all are differences.
_GAINS = ("predicted gain", "gain", "ECE gain")
#: One temperature by the same loss: what groups of it are compared with; and the loss's metric.
_ONE = {"bce": ("tva-ts", "top_label_bce"), "nll": ("ts-nll", "nll")}


def nested_k(study: Study, frame: Frame) -> Table:
    """Show which entry a held-out fifth picks, and what that gives."""
    loss = study.settings["loss"]
    return _by_choice(
        study,
        frame,
        f"held_out_{loss}",
        name="nested-k",
        title=f"Chosen by {loss} on a held-out fifth",
        note=(
            f"Fitted on four fifths, chosen by the lowest {title_of(loss)} on the last, refitted "
            "on all."
        ),
    )


def oracle_k(study: Study, frame: Frame) -> Table:
    """Show the entry that is best on the test split: a bound, not a method."""
    return _by_choice(
        study,
        frame,
        study.metrics[0],
        name="oracle-k",
        title="Chosen on the test split",
        note=f"Each fit takes the entry with the lowest test {title_of(study.metrics[0])}: a "
        "diagnostic that reads the test labels, and cannot be deployed.",
    )


def _by_choice(
    study: Study, frame: Frame, judge: str, *, name: str, title: str, note: str
) -> Table:
    """Show what choosing by the lowest ``judge`` gives, beside the baseline and the fixed entry."""
    fixed = study.settings["fixed"]
    found: list[Row] = []
    above: list[tuple[float, str]] = []
    for budget, models, part in frame.where(set=CLEAN).blocks():
        lines = {metric: lines_of(part, metric) for metric in study.metrics}
        first = lines[study.metrics[0]]
        kept = [label for label in (study.baseline, fixed) if label in part.unique("label")]
        picks = {fit: lowest(line) for fit, line in lines_of(part, judge).items()}
        picks = {
            fit: label
            for fit, label in picks.items()
            if label and {*kept, label} <= set(first.get(fit, ()))
        }
        columns = {"chosen": picks, **{label: dict.fromkeys(picks, label) for label in kept}}
        if models != "all" and fixed in kept and picks:
            ours, theirs = (
                chosen_number(first, columns[k], study.metrics[0]) for k in ("chosen", fixed)
            )
            above.append((ours.value - theirs.value, models))
        for label, chosen in columns.items():
            numbers = [chosen_number(lines[m], chosen, m) for m in study.metrics]
            text = picks_text(chosen) if label == "chosen" else ""
            found.append((budget, models, label, text, *numbers))
    return Table(
        name,
        title,
        ("samples", "models", "entry", "picks", *map(heading_of, study.metrics)),
        tuple(found),
        f"{note} Test metrics, {SPREAD}; draws are averaged first.",
        tuple(_range_text(study.metrics[0], fixed, above)),
    )


def _range_text(metric: str, fixed: str, above: list[tuple[float, str]]) -> Iterator[str]:
    """Yield how far choosing is above always taking one entry, from model to model."""
    if above:
        (low, first), (high, last) = min(above), max(above)
        yield (
            f"Chosen minus {fixed} in {heading_of(metric)}: from {written(low, signed=True)} "
            f"({first}) to {written(high, signed=True)} ({last})."
        )


def _values(frame: Frame, metric: str) -> list[float]:
    """Return the finite values of a metric in all fits."""
    values = frame.where(metric=metric)["value"].tolist()
    return [value for value in values if math.isfinite(value)]


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
    makers = ((_quartiles, temperatures), (_spread, thresholds), (_percent, shares))

    def cells(own: Frame, label: str) -> Iterator[Row]:
        found = [(make, _values(own, metric)) for make, metrics in makers for metric in metrics]
        numbers = (make(values) if values else Number(math.nan) for make, values in found)
        yield f"{len(lines_of(own, 'share_of_fits_at_bounds')):,}", *numbers

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


def _quartiles(values: list[float]) -> Number:
    found = Spread.of(math.nan, values)
    return Number(found.median, None, found.low, found.high, signed=False)


def _spread(values: list[float]) -> Number:
    return Number(float(np.mean(values)), float(np.std(values)), digits=3)


def _percent(values: list[float]) -> Number:
    return Number(SHARE.scale * float(np.mean(values)), digits=SHARE.digits)


def signal_to_noise(study: Study, frame: Frame) -> Table:
    """Show what grouping by a signal promised, and what it gave."""
    found = [
        (budget, models, label, *_promise(study, part, label))
        for budget, models, part in frame.where(set=CLEAN).blocks()
        for label in part.where(metric="signal_to_noise").unique("label")
    ]
    return Table(
        "signal-to-noise",
        "Signal and noise",
        (
            *("samples", "models", "method", "loss", "ECE outcome"),
            *("B/σ² x1000", "floor x1000", "random x1000", "p"),
            *(X100.heading(name, difference=True) for name in _GAINS),
        ),
        tuple(found),
        "Means over fits (p: the median). B/σ²: variance of the loss's slope between groups over "
        "that within; grouping should lower the fitted loss where it is above its floor, "
        "(K - 1) / n. Gains, of the loss and of ECE, are over one temperature by the same loss "
        "(tva-ts, ts-nll) on the test split. Outcome: wins or loses where ECE is lower or higher "
        "in every seed; the ratio does not guarantee it.",
    )


def _promise(study: Study, part: Frame, label: str) -> Iterator[str | Number]:
    one, metric = _ONE[_objective(study, label)]
    ece, loss = (paired(part, m, label, one) for m in ("ece15", metric))
    yield metric
    yield outcome([float(np.mean(draws)) for draws in ece.values()])
    for metric in ("signal_to_noise", "signal_to_noise_floor", "signal_to_noise_random"):
        yield Number(1000 * _mean(part.values(metric, label)))
    p_values = _values(part.where(label=label), "p_value")
    yield Number(float(np.median(p_values)) if p_values else math.nan, digits=3)
    # A gain of three groups is small: one digit more than tables have.
    yield Number(X100.scale * _mean(part.values("predicted_gain", label)), digits=3)
    yield Number(-X100.scale * _mean(loss), digits=3)
    yield Number(-PERCENT.scale * _mean(ece))


def _objective(study: Study, label: str) -> str:
    entry = next(entry for entry in study.entries if entry.label == label)
    return str(entry.options.get("objective", method(entry.name).objective))


def costs(study: Study, frame: Frame) -> Table:
    """Show what each method costs: numbers held, time to fit, time to apply."""
    digits = {
        "parameters": 0,
        "fit_seconds": 3,
        "apply_microseconds": 2,
        "threads": 0,
        "repeats": 0,
    }
    heads = ("parameters", "fit s", "apply µs a sample", "threads", "repeats")

    def cells(own: Frame, label: str) -> Iterator[Row]:
        numbers = ((number_of(own.values(m, label), ""), n) for m, n in digits.items())
        yield tuple(
            replace(number, digits=n, spread=number.spread if n else None) for number, n in numbers
        )

    return Table(
        "costs",
        "What it costs",
        ("samples", "models", "method", *heads),
        label_rows(frame.where(set=CLEAN), cells),
        f"Medians of repeats, then {SPREAD}. Libraries are limited to that many "
        "threads (threadpoolctl, "
        f"at most {study.settings.get('threads', 1)} and no more than there are); networks from "
        "logits (sats, utemphead) train on one, whatever the limit; one cell is one of the grid's, "
        "128 units wide. Repeats end after "
        f"{study.settings.get('seconds', 0)} seconds of fits. Run it alone on the machine, in one "
        "process.",
    )


def _mean(values: Values) -> float:
    means = [np.mean(draws) for draws in values.values()]
    return float(np.mean(means)) if means else math.nan


def outcome(differences: list[float]) -> str:
    """Return in a word whether differences of an error are for the better.

    Examples
    --------
    >>> outcome([-0.1, -0.2]), outcome([0.1]), outcome([-0.1, 0.1]), outcome([])
    ('wins', 'loses', 'mixed', 'unknown')
    """
    if not differences:
        return "unknown"
    if all(gap < 0 for gap in differences):
        return "wins"
    return "loses" if all(gap > 0 for gap in differences) else "mixed"

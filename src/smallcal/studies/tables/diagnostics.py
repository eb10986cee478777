"""Tables of diagnostics: choices of capacity, audits, signal and noise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from smallcal.advice.refits import Spread
from smallcal.advice.select_walk import ROUNDING
from smallcal.data.predictions import FloatArray
from smallcal.metrics.units import PERCENT, SHARE, X100
from smallcal.studies.frame import CLEAN, Frame, Values
from smallcal.studies.study import Study
from smallcal.studies.tables.clean import SPREAD, label_rows, number_of, paired
from smallcal.studies.tables.table import Number, Row, Table, heading_of

#: What grouping promised and gave; all are differences.
_GAINS = ("predicted top_label_bce gain", "top_label_bce gain", "ece15 gain")
#: A cell and a draw of it.
Fit = tuple[str, int]
#: Every label's value in one fit.
Line = Mapping[str, float]


def lines_of(frame: Frame, metric: str) -> dict[Fit, dict[str, float]]:
    """Return a metric by fit and label, fits in order."""
    found: dict[Fit, dict[str, float]] = {}
    rows = frame.where(metric=metric, set=CLEAN)
    columns = ("cell", "draw", "label", "value")
    for cell, draw, label, value in zip(*(rows[name].tolist() for name in columns), strict=True):
        found.setdefault((cell, draw), {})[label] = value
    return found


def lowest(line: Line) -> str:
    """Return the label of the lowest value; one that is lower by rounding alone is not.

    Examples
    --------
    >>> lowest({"K=1": 0.02, "K=3": 0.01, "K=5": 0.01})
    'K=3'
    """
    best = ""
    for label, value in line.items():
        if math.isfinite(value) and (not best or value < line[best] - ROUNDING):
            best = label
    return best


def picks_text(picks: Mapping[Fit, str]) -> str:
    """Return which label was chosen: seed by seed, or how often.

    Examples
    --------
    >>> picks_text({("a", 0): "K=1", ("b", 0): "K=3"})
    'K=1 / K=3'
    >>> picks_text({("a", 0): "K=1", ("a", 1): "K=3", ("a", 2): "K=3"})
    'K=1: 1, K=3: 2'
    """
    if len({cell for cell, _ in picks}) == len(picks) <= 5:
        return " / ".join(picks.values())
    return ", ".join(
        f"{label}: {count}" for label, count in sorted(Counter(picks.values()).items())
    )


def _chosen(lines: Mapping[Fit, Line], picks: Mapping[Fit, str], metric: str) -> Number:
    values: Values = {}
    for (cell, draw), label in picks.items():
        values.setdefault(cell, []).append(lines[cell, draw][label])
    return number_of(values, metric)


def selector(study: Study, frame: Frame) -> Table:
    """Show which entry each rule picks, what that gives, and what the best pick would give."""
    metric, base = study.metrics[0], study.baseline
    rivals = [entry.label for entry in study.entries if entry.label != base]
    found: list[Row] = []
    excesses: dict[tuple[str, str, str], list[list[float]]] = {}
    clean = frame.where(set=CLEAN)
    for budget, models, part in clean.blocks():
        for rich in rivals:
            for rule in study.settings["rules"]:
                picks, numbers = _picked(part, metric, (base, rich), rule)
                if not picks:
                    continue
                best = numbers[3].value
                excess = [number.value - best for number in numbers[:3]]
                row = (budget, models, rich, rule, picks_text(picks), *numbers, Number(excess[2]))
                found.append(row)
                if models != "all":
                    together = clean.where(budget=part.unique("budget")).samples
                    excesses.setdefault((together, rich, rule), []).append(excess)
    return Table(
        "selector",
        "Chosen on the calibration split",
        (
            *("samples", "models", "candidate", "rule", "picks"),
            *(f"always {base}", "always candidate", "selected", "best of 2", "excess"),
        ),
        tuple(found),
        f"Test {heading_of(metric)}, {SPREAD}. A rule takes the candidate in place of {base} when "
        "its cross-validated gain is above one standard error: of the repeats' means, of all "
        "folds, or of the samples. Excess: above the better of the two in each fit, which nobody "
        "knows beforehand.",
        tuple(_excess_text(key, np.mean(values, axis=0), base) for key, values in excesses.items()),
    )


def _picked(
    part: Frame, metric: str, pair: tuple[str, str], rule: str
) -> tuple[dict[Fit, str], list[Number]]:
    """Return a rule's picks, and the metric of either entry, of the picks, and of the best ones."""
    base, rich = pair
    lines, taken = lines_of(part, metric), lines_of(part, f"accepted_{rule}")
    fits = [fit for fit in lines if set(pair) <= set(lines[fit]) and rich in taken.get(fit, ())]
    picks = {fit: rich if taken[fit][rich] else base for fit in fits}
    best = {fit: lowest({label: lines[fit][label] for label in pair}) for fit in fits}
    always = (dict.fromkeys(fits, label) for label in pair)
    return picks, [_chosen(lines, chosen, metric) for chosen in (*always, picks, best)]


def _excess_text(key: tuple[str, str, str], means: FloatArray, base: str) -> str:
    budget, rich, rule = key
    return (
        f"{budget} samples, rule {rule!r}: mean over models of the excess {means[2]:.2f}; always "
        f"{rich} {means[1]:.2f}, always {base} {means[0]:.2f}."
    )


def nested_k(study: Study, frame: Frame) -> Table:
    """Show which entry a held-out fifth picks, and what that gives."""
    loss = study.settings["loss"]
    return _by_choice(
        study,
        frame,
        f"held_out_{loss}",
        name="nested-k",
        title=f"Chosen by {loss} on a held-out fifth",
        note=f"Fitted on four fifths, chosen by the lowest {loss} on the last, refitted on all.",
    )


def oracle_k(study: Study, frame: Frame) -> Table:
    """Show the entry that is best on the test split: a bound, not a method."""
    return _by_choice(
        study,
        frame,
        study.metrics[0],
        name="oracle-k",
        title="Chosen on the test split",
        note=f"Each fit takes the entry with the lowest test {study.metrics[0]}: a diagnostic that "
        "reads the answer, and cannot be deployed.",
    )


def _by_choice(
    study: Study, frame: Frame, judge: str, *, name: str, title: str, note: str
) -> Table:
    """Show what choosing by the lowest ``judge`` gives, beside the baseline and the fixed entry."""
    fixed = study.settings["fixed"]
    found: list[Row] = []
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
        for label, chosen in columns.items():
            numbers = [_chosen(lines[m], chosen, m) for m in study.metrics]
            text = picks_text(chosen) if label == "chosen" else ""
            found.append((budget, models, label, text, *numbers))
    return Table(
        name,
        title,
        ("samples", "models", "entry", "picks", *map(heading_of, study.metrics)),
        tuple(found),
        f"{note} Test metrics, {SPREAD}; draws are averaged first.",
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
        "What the fits hold",
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
        "temperature at a bound; with a group too small for one of its own; whose groups' error "
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
            *("samples", "models", "method", "ece15 outcome"),
            *("B/σ² x1000", "floor x1000", "random x1000", "p"),
            *(X100.heading(name, difference=True) for name in _GAINS),
        ),
        tuple(found),
        f"Means over fits (p: the median). B/σ²: variance of the loss's slope between groups over "
        "that within; grouping should lower the fitted loss, top_label_bce, where it is above its "
        f"floor, (K - 1) / n. Gains are over {study.baseline} on the test split. Outcome: wins or "
        "loses where ece15 is lower or higher in every seed; the ratio does not promise it.",
    )


def _promise(study: Study, part: Frame, label: str) -> Iterator[str | Number]:
    ece, loss = (paired(part, m, label, study.baseline) for m in ("ece15", "top_label_bce"))
    yield outcome([float(np.mean(draws)) for draws in ece.values()])
    for metric in ("signal_to_noise", "signal_to_noise_floor", "signal_to_noise_random"):
        yield Number(1000 * _mean(part.values(metric, label)))
    p_values = _values(part.where(label=label), "p_value")
    yield Number(float(np.median(p_values)) if p_values else math.nan, digits=3)
    # A gain of three groups is small: one digit more than tables have.
    yield Number(X100.scale * _mean(part.values("predicted_gain", label)), digits=3)
    yield Number(-X100.scale * _mean(loss), digits=3)
    yield Number(-PERCENT.scale * _mean(ece))


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

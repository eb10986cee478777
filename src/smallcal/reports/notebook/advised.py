"""Advice in a notebook: what more labels would give, and which method to use."""

from __future__ import annotations

import math
from collections.abc import Iterator

from smallcal.advice.plan_words import Expected, Plan, PlanRow
from smallcal.advice.select import Selection
from smallcal.advice.select_walk import Row
from smallcal.data.claims import CLAIMS
from smallcal.metrics import METRICS
from smallcal.metrics.units import Unit
from smallcal.reports.notebook import pictures
from smallcal.reports.notebook.markup import (
    Safe,
    beside,
    findings,
    label,
    named,
    said,
    table,
    tag,
    title,
)
from smallcal.reports.notebook.pictures import Axis, Bar, Line

_ECE = METRICS["ece15"].unit
_BCE = METRICS["top_label_bce"].unit


def plan_view(plan: Plan) -> Iterator[Safe]:
    """Show what each number of samples is expected to give, and the curve."""
    rows = "scores" if plan.input == "score" else f"samples of {plan.n_classes:,} classes"
    yield title("Plan", f"for {plan.method}, from a pilot of {plan.n:,} {rows}")
    yield beside(_sizes(plan), _curve(plan))
    yield tag("ul", *(tag("li", sentence) for sentence in plan.sentences))
    yield findings(("care", f"{note}.") for note in plan.notes)
    yield said(
        f"± is the standard deviation from one draw of {plan.draws} to another; a band holds the "
        f"mean over draws, {100 * plan.level:g} % sure. ece15 is what a test set of "
        f"{plan.test_size:,} rows would show.",
        kind="note",
    )


def _sizes(plan: Plan) -> Safe:
    loss = CLAIMS[plan.input].loss
    rows = [
        [
            f"{row.size:,}",
            "measured" if row.measured else "extrapolated",
            _spread(_ECE, row.metrics["ece15"]),
            _ECE.interval(row.metrics["ece15"].low, row.metrics["ece15"].high),
            _spread(_BCE, row.metrics["top_label_bce"]),
        ]
        for row in plan.rows
    ]
    band = f"{100 * plan.level:g} % band"
    heads = ["samples", "", _ECE.heading("ece15"), band, _BCE.heading(loss)]
    return table(heads, rows, words=(0, 1), more="sizes")


def _spread(unit: Unit, entry: Expected) -> str:
    return unit.spread(entry.value, entry.spread)


def _curve(plan: Plan) -> Safe:
    curves = {plan.method: _line(plan.rows)}
    if plan.method != plan.simple:
        simple = tuple(row for row in plan.references if row.method == plan.simple)
        curves[f"one temperature ({plan.simple})"] = _line(simple)
    raw = plan.row(0, "none").metrics["ece15"].value
    first, last = plan.rows[0], plan.rows[-1]
    words = (
        f"Expected ECE of {plan.method}: {_ECE.value(first.metrics['ece15'].value)} with "
        f"{first.size:,} samples, {_ECE.value(last.metrics['ece15'].value)} with {last.size:,}; "
        f"{CLAIMS[plan.input].raw} {_ECE.value(raw)}"
    )
    axis = Axis("expected ece15 (%)", line=float(plan.n))
    return pictures.lines(curves, {CLAIMS[plan.input].raw: raw}, axis, words=words)


def _line(rows: tuple[PlanRow, ...]) -> Line:
    found = [row.metrics["ece15"] for row in rows]
    tips = [
        f"{row.method}, {row.size:,} samples: {_spread(_ECE, entry)} {_ECE.sign}"
        for row, entry in zip(rows, found, strict=True)
    ]
    return Line(
        x=[float(row.size) for row in rows],
        y=[entry.value for entry in found],
        low=[entry.low for entry in found],
        high=[entry.high for entry in found],
        tips=tips,
    )


def selection_view(found: Selection) -> Iterator[Safe]:
    """Show the choice and why, and what each candidate gained on samples held out."""
    yield title("Selection", named(found.choice), f"of {len(found.table):,} candidates")
    yield said(f"{found.reason[:1].upper()}{found.reason[1:]}")
    if found.note:
        yield said(found.note)
    yield beside(_candidates(found), _gains(found))
    times = "once" if found.n_repeats == 1 else f"{found.n_repeats} times"
    cut = (
        "a fifth was held out once"
        if found.rule == "holdout"
        else f"{found.n_folds} folds, cut {times}"
    )
    yield said(
        f"Losses on held-out samples, of {found.n:,}: {cut}.",
        f"Intervals are {100 * found.level:g} %.",
        kind="note",
    )
    yield findings(("care", f"{row.candidate}: {row.note}.") for row in found.table if row.note)


def _candidates(found: Selection) -> Safe:
    unit, nll = METRICS[found.loss].unit, METRICS["nll"].unit
    both = found.loss != "nll"
    heads = ["candidate", "numbers", unit.heading(found.loss)]
    heads += [nll.heading("nll")] if both else []
    heads += ["verdict", "over", unit.heading("gain", difference=True), "interval"]
    rows = []
    for row in found.table:
        losses = [_number(unit, row.loss), *([_number(nll, row.nll)] if both else [])]
        cells = [named(row.candidate), f"{row.n_parameters:,}", *losses, _verdict(found, row)]
        ends = "" if row.interval is None else unit.interval(*row.interval, signed=True)
        gain = "" if math.isnan(row.gain) else unit.number(row.gain, signed=True)
        rows.append([*cells, named(row.against) if row.against else "", gain, ends])
    words = len(heads) - 4, len(heads) - 3
    return table(heads, rows, words=(0, *words), more="candidates")


def _verdict(found: Selection, row: Row) -> Safe:
    chosen = row.candidate == found.choice
    return label("better", "chosen") if chosen else tag("span", row.verdict)


def _number(unit: Unit, value: float) -> str:
    return "" if math.isnan(value) else unit.number(value)


def _gains(found: Selection) -> Safe:
    """Draw what each candidate gains over the one that it was compared with."""
    unit, rows = METRICS[found.loss].unit, []
    for row in found.table:
        if row.interval is None:
            continue
        verdict, about = row.interval.verdict("higher"), f"{row.candidate} over {row.against}"
        rows.append(Bar.of(row.candidate, row.interval, unit, about=about, verdict=verdict))
    axis = Axis(f"gain in {found.loss} ({unit.change}), right is better", 0.0)
    return pictures.bars(rows, axis, words=f"{axis.label}: " + "; ".join(row.tip for row in rows))

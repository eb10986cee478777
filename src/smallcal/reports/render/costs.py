"""The section about costs: what the best decisions cost, and what they save."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from smallcal.metrics.units import SHARE, Unit
from smallcal.reports.render.blocks import Block, Cell, Column, Figure, Figures, Points, Text
from smallcal.reports.render.cells import Content, between, level_of, number, table_of, words


def costs(content: Content, shown: Sequence[Figure]) -> Iterator[Block]:
    """Show what decisions cost on the test samples; nothing where no costs were named."""
    entry = content.get("costs")
    if not entry:
        return
    unit = Unit("", scale=1.0, digits=entry["digits"], change="")
    yield Text(entry["headline"])
    handed = entry["reviewed"]
    yield Points(
        [
            f"The costs: {entry['text']}.",
            *(f"{text[0].upper()}{text[1:]}." for text in entry["notes"]),
            f"Threshold from the costs alone: {entry['by_costs']}.",
            f"The probabilities promised a mean cost of {unit.number(entry['promised'])}.",
            *(
                []
                if handed is None
                else [f"Passed on for review: {SHARE.value(handed)} of the rows."]
            ),
        ]
    )
    resampled = content["settings"]["n_boot"]
    yield table_of(
        "costs",
        f"Mean cost per test sample, with {level_of(content)} intervals; saved by the best "
        "decisions, paired by sample."
        if resampled
        else "Mean cost per test sample; saved by the best decisions.",
        [
            words("Decisions", "label"),
            (Column("Mean cost"), lambda row: _cell(row["cost"], unit)),
            (Column("Saved"), lambda row: _cell(row["saved"], unit, signed=True)),
        ],
        entry["rows"],
        chosen=lambda row: row["rule"] == "own",
    )
    if shown:
        yield Figures(shown)


def _cell(row: Content | None, unit: Unit, *, signed: bool = False) -> Cell:
    if row is None:
        return number(None)
    notes = [between(row["low"], row["high"], unit)]
    cell = number(row["value"], unit.digits, notes=notes, signed=signed)
    told = row.get("verdict", "") if notes[0] else ""
    return replace(cell, verdict=told)

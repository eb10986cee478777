"""``smallcal study reproduce``: whether the paper's numbers are found again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from smallcal.cli import options, terminal
from smallcal.cli.options import argument, flag, option
from smallcal.errors import InputError
from smallcal_lab.cli.study import folder_of
from smallcal_lab.studies.collection import load_collection
from smallcal_lab.studies.reproduce.frozen import load_frozen
from smallcal_lab.studies.reproduce.reference import PAPER, Value, load_reference
from smallcal_lab.studies.reproduce.run import Reproduction, Row, agenda_of, carry_out

_SIGNS = {"percent": " %", "x1000": " x1000", "x0.001": " x0.001"}


def study_reproduce(
    folder: Annotated[
        str | None, argument("[DIR]", "Collection with cells named as in the paper.")
    ] = None,
    data: Annotated[str | None, option("DIR", "The same folder, given as an option.")] = None,
    frozen: Annotated[
        bool, flag("--frozen", "Use the small collection that ships with smallcal.")
    ] = False,
    reference: Annotated[str | None, option("FILE", "Other reference values, as JSON.")] = None,
    out: Annotated[
        str | None, option("RUN", "Save progress in this folder, to resume later.")
    ] = None,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Recompute the paper's published values from your logits, and compare."""
    if frozen:
        if (folder, data, reference) != (None, None, None):
            raise InputError("--frozen is a collection with values of its own: leave out the rest")
        collection, values = load_frozen()
    else:
        named = folder_of(folder, data, usage="smallcal study reproduce DIR; or try --frozen")
        collection = load_collection(named)
        values = load_reference(PAPER if reference is None else reference)
    agenda = agenda_of(collection, values)
    with terminal.progress("Reproducing", agenda.n_tasks) as advance:
        found = carry_out(agenda, out=out, jobs=jobs, advance=advance)
    if as_json:
        terminal.show_json({"collection": collection.name, **found.to_dict()})
    else:
        show_reproduction(found)
    if not found.rows:
        there = {f"{cell.dataset} {cell.backbone}" for cell in collection.cells}
        known = {value.model for value in values.values}
        names = ", ".join(sorted(there)[:5])
        if there & known:
            raise InputError(f"none of the values can be checked on {names}: see the reasons above")
        raise InputError(
            f"no value is about a model of {collection.folder} ({names}); names must be as in "
            f"{', '.join(sorted(known)[:4])}, ..."
        )
    if found.n_failed:
        failed = f"{found.n_failed:,} of {len(found.rows):,} values were not reproduced"
        terminal.leave([failed])


def show_reproduction(found: Reproduction) -> None:
    """Print every value beside its reference, then what could not be checked, then the sum."""
    blocks: dict[str, list[Row]] = {}
    for row in found.rows:
        blocks.setdefault(_heading(row), []).append(row)
    for heading, rows in blocks.items():
        terminal.say(heading)
        terminal.show_table(
            ["method", "metric", "reference", "reproduced", "difference", "tolerance", "verdict"],
            [_cells(row) for row in rows],
            text=(0, 1, 6),
        )
        terminal.say(*(f"{row.method}, {row.metric}: {row.error}" for row in rows if row.error))
    if found.unchecked:
        terminal.say("Not checked:")
        reasons = [
            [f"{len(values):,}", reason, _places(values)]
            for reason, values in found.unchecked.items()
        ]
        terminal.show_table(["values", "reason", "printed in"], reasons, text=(1, 2))
    passed = len(found.rows) - found.n_failed
    terminal.say(
        f"{passed:,} PASS, {found.n_failed:,} FAIL, {found.n_unchecked:,} could not be checked."
    )


def _heading(row: Row) -> str:
    size = terminal.count(row.budget, "calibration sample") if row.budget else "samples of each"
    draws = f" x {row.draws} draws" if row.draws > 1 else ""
    seeds = terminal.count(row.seeds, "seed")
    return f"{row.table}: {row.dataset} {row.backbone}, {row.set}, {size}{draws}, {seeds}"


def _cells(row: Row) -> list[str]:
    """Return a row as text: the reference as printed, the rest with two digits more."""
    more = min(row.decimals + 2, 6)
    numbers = ["–" if n is None else f"{n:.{more}f}" for n in (row.reproduced, row.difference)]
    return [
        f"{row.method} - {row.against}" if row.against else row.method,
        row.metric + _SIGNS.get(row.unit, ""),
        f"{row.reference:.{row.decimals}f}",
        *numbers,
        f"{row.tolerance:.3g}",
        row.verdict,
    ]


def _places(values: Sequence[Value]) -> str:
    """Return the first two tables that values are printed in, and how many others."""
    tables = list(dict.fromkeys(value.table for value in values))
    return ", ".join(tables[:2]) + (f" and {len(tables) - 2} more" if len(tables) > 2 else "")

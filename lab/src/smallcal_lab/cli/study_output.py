"""What the verbs of ``study`` share: a collection in words, an outcome as data and as tables."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from smallcal.cli import BAD_INPUT, choices, terminal
from smallcal.data import shown
from smallcal.errors import InputError
from smallcal_lab.studies import Collection, Outcome, Study
from smallcal_lab.studies.check import ERROR, check_collection
from smallcal_lab.studies.study import given_text, offered
from smallcal_lab.studies.tables.table import Number, Table

Row = tuple[str | Number, ...]

#: Rows of a table that are printed; the file has all.
MOST_ROWS = 40
#: Columns of words up to this width stand at the left of every part of a table.
_KEY_WIDTH = 28
_GAP = 2


def size_of(collection: Collection) -> str:
    """Say how many cells and shifted sets a collection has."""
    shifts = sum(len(cell.shifts) for cell in collection.cells)
    cells = terminal.count(len(collection.cells), "cell")
    return f"{cells}, {terminal.count(shifts, 'shifted set')}"


def folder_of(folder: str | None, data: str | None, *, usage: str) -> str:
    """Return the folder that was named, as an argument or as --data; neither is an error."""
    if folder is not None and data is not None and folder != data:
        raise InputError(f"the folder is named twice, {folder} and --data {data}: name it once")
    found = folder if folder is not None else data
    if found is None:
        raise InputError(f"name the folder with collection.toml: {usage}")
    return found


def require_sound(collection: Collection, folder: str, *, force: bool) -> None:
    """Leave with code 2 and a line for each error that ``check`` finds; a note if forced."""
    with terminal.progress("Checking", len(collection.cells)) as advance:
        problems = check_collection(collection, advance=advance)
    errors = [problem for problem in problems if problem.severity == ERROR]
    if not errors:
        return
    total = f"{folder} has {terminal.count(len(errors), 'error')}"
    if force:
        terminal.note(
            f"{total} (smallcal study check {shown.command([folder])} lists them): forced"
        )
        return
    lines = (str(one) for one in errors)
    last = f"{total} that would invalidate a study: fix them, or continue with --force"
    terminal.leave((f"error: {line}" for line in (*lines, last)), code=BAD_INPUT)


def document_of(about: Study, out: str, outcome: Outcome) -> dict[str, Any]:
    """Return what a run gave as plain data."""
    return {
        "study": about.name,
        "out": out,
        **({"set": about.document()["set"]} if about.given else {}),
        "tables": [table.document() for table in outcome.tables],
        "failures": list(outcome.failures),
    }


def show_outcome(about: Study, outcome: Outcome, out: str) -> None:
    """Print the tables of a run, and where the files are."""
    terminal.say(f"{about.title}. {about.question}", *filter(None, [given_text(about.given)]), "")
    for table in outcome.tables:
        show_study_table(table, f"{out}/tables.md")
    terminal.say(f"Tables: {out}/tables.md, tables.tex, tables.json; every number: rows.parquet.")


def show_study_table(table: Table, file: str) -> None:
    """Print a table: title, parts that fit the terminal, note and sentences."""
    terminal.say(f"{table.title}:")
    rows = chosen_rows(table)
    if not rows:
        terminal.say("Nothing was measured.", "")
        return
    shown = [[cell if isinstance(cell, str) else cell.text() for cell in row] for row in rows]
    width = shutil.get_terminal_size().columns
    words = {j for j in range(len(table.header)) if isinstance(rows[0][j], str)}
    for columns in parts(table.header, shown, words, width):
        best = {
            (i, place)
            for i, row in enumerate(rows)
            for place, j in enumerate(columns)
            if getattr(row[j], "best", False)
        }
        terminal.show_table(
            [table.header[j] for j in columns],
            [[row[j] for j in columns] for row in shown],
            text=[place for place, j in enumerate(columns) if j in words],
            bold=best,
        )
    if len(rows) < len(table.rows):
        terminal.say(f"{len(rows):,} of {len(table.rows):,} rows; the others are in {file}.")
    terminal.say(*filter(None, (table.note, *table.sentences)), "")


def chosen_rows(table: Table) -> tuple[Row, ...]:
    """Return the rows to print: of a long table those of all models together, then the first."""
    rows = table.rows
    if len(rows) > MOST_ROWS and "models" in table.header:
        place = table.header.index("models")
        rows = tuple(row for row in rows if row[place] == "all") or rows
    return rows[:MOST_ROWS]


def parts(
    header: Sequence[str], rows: Sequence[Sequence[str]], words: set[int], width: int
) -> list[list[int]]:
    """Cut columns into parts that fit; each begins with the columns of short words.

    Examples
    --------
    >>> parts(["method", "a", "b"], [["none", "1.00", "2.00"]], {0}, 14)
    [[0, 1], [0, 2]]
    """
    sizes = [max(len(name), *(len(row[j]) for row in rows)) for j, name in enumerate(header)]
    keys = [j for j in sorted(words) if sizes[j] <= _KEY_WIDTH]
    others = sorted(set(range(len(header))) - set(keys), key=lambda j: (j in words, j))
    left = width - sum(sizes[j] + _GAP for j in keys)
    found: list[list[int]] = []
    room = 0
    for j in others:
        if not found or sizes[j] > room or j in words:  # long words get a part of their own
            found.append([*keys])
            room = left
        found[-1].append(j)
        room -= sizes[j] + _GAP
    return found or [keys]


def study_settings(study: Study, settings: Sequence[str]) -> dict[str, Any]:
    """Parse ``--set name=value`` pairs against what a study and its methods take.

    Examples
    --------
    >>> from smallcal_lab.studies import study_named
    >>> study_settings(study_named("selector"), ["folds=3", "bounds=0.1,10"])
    {'folds': 3, 'bounds': (0.1, 10)}
    """
    known = offered(study)
    found: dict[str, Any] = {}
    for name, text in choices.pairs(settings):
        if name in ("seed", "random_state"):
            raise InputError(f"--set {name}: a study seeds its folds by the seed of each cell")
        found[name] = choices.typed(name, text, known.get(name))
    return found

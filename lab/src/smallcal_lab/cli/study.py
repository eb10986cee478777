"""``smallcal study``: the paper's experiments on one's own logits; every study is a command."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from smallcal.cli import BAD_INPUT, choices, options, terminal
from smallcal.cli.lazy import LazyGroup, Verb
from smallcal.cli.options import argument, flag, option
from smallcal.data import shown
from smallcal.errors import FileError, InputError
from smallcal_lab.studies import STUDIES, Collection, Outcome, Study, load_collection
from smallcal_lab.studies import run as run_study
from smallcal_lab.studies.check import ERROR, check_collection
from smallcal_lab.studies.engine import recorded
from smallcal_lab.studies.frame import ALL
from smallcal_lab.studies.gate import gate as compare
from smallcal_lab.studies.gate import require_common
from smallcal_lab.studies.importers import import_calarena, import_folder
from smallcal_lab.studies.study import given_text, offered
from smallcal_lab.studies.tables.table import Number, Table

#: Rows of a table that are printed; the file has all.
MOST_ROWS = 40
#: Columns of words up to this width stand at the left of every part of a table.
_KEY_WIDTH = 28
_GAP = 2
#: Lines of what failed that are printed.
_SHOWN_FAILURES = 10

_HERE = "smallcal_lab.cli.study"
_AROUND = {
    "import": "Write the collection.toml of a folder of logits.",
    "check": "Check a collection for problems: files, shapes, labels, samples in two splits.",
    "show": "Print the tables of a finished run; the logits are not needed.",
    "list": "List the studies and their questions.",
    "reproduce": "Recompute the paper's published values from your logits, and compare.",
}
#: What imports more than the others, and so has a module of its own.
_APART = ("show", "reproduce")


class Studies(LazyGroup):
    """What comes before and after a study, and the studies, which share one function."""

    verbs: ClassVar[Mapping[str, Verb]] = {
        name: Verb(
            f"{_HERE}{f'_{name}' if name in _APART else ''}:study_{name}", text, "Before and after"
        )
        for name, text in _AROUND.items()
    } | {name: Verb(f"{_HERE}:study_run", s.question, "Studies") for name, s in STUDIES.items()}

    what: ClassVar[str] = "study"


study = typer.Typer(
    cls=Studies,
    help="Run the paper's experiments on your own logits, and print their tables.",
    epilog="Start with: smallcal study import FOLDER -o DIR",
    subcommand_metavar="NAME DIR --out RUN",
    add_completion=False,
)


@study.callback(invoke_without_command=True)
def _study(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# Before a study ---------------------------------------------------------------------------------


def study_list(as_json: options.Json = False) -> None:
    """List the studies and their questions."""
    if as_json:
        more = ("title", "question", "tables")
        rows = {
            name: {**one.document(), **{key: getattr(one, key) for key in more}}
            for name, one in STUDIES.items()
        }
        terminal.show_json({"studies": rows})
    else:
        asked = [[name, one.question] for name, one in STUDIES.items()]
        terminal.show_table(["study", "what it asks"], asked, text=(0, 1))


def study_import(
    source: Annotated[
        str,
        argument(
            "FOLDER|FILE.h5", "Folder of DATASET__MODEL.npz files, or one of CalArena's files."
        ),
    ],
    output: Annotated[
        str, option("DIR", "Folder for collection.toml.", "-o", "--output", show_default=False)
    ],
    force: Annotated[bool, flag("--force", "Overwrite existing files.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write the collection.toml of a folder of logits."""
    if os.path.isdir(source):
        found = import_folder(source, output, force=force)
    elif Path(source).suffix.lower() in (".h5", ".hdf5"):
        with terminal.progress("Copying") as advance:
            found = import_calarena(source, output, force=force, advance=advance)
    else:
        raise FileError(f"{source} is neither a folder nor an .h5 file")
    terminal.note(*(f"left out: {line}" for line in found.left_out))
    cells = found.collection.cells
    if as_json:
        terminal.show_json(
            {
                "output": output,
                "cells": [cell.name for cell in cells],
                "shifts": sum(len(cell.shifts) for cell in cells),
                "left_out": found.left_out,
            }
        )
    else:
        terminal.say(
            f"Wrote {output}/collection.toml: {size_of(found.collection)}.",
            f"Next: smallcal study check {shown.command([output])}",
        )


def study_check(
    data: Annotated[str, argument("DIR", "A folder with collection.toml.")],
    as_json: options.Json = False,
) -> None:
    """Check a collection for problems: files, shapes, labels, samples in two splits."""
    collection = load_collection(data)
    with terminal.progress("Reading", len(collection.cells)) as advance:
        problems = check_collection(collection, advance=advance)
    errors = sum(problem.severity == ERROR for problem in problems)
    if as_json:
        about = {"collection": collection.name, "cells": len(collection.cells), "errors": errors}
        terminal.show_json({**about, "problems": [vars(problem) for problem in problems]})
    else:
        for cell in dict.fromkeys(problem.cell for problem in problems):
            terminal.say(f"{cell}:")
            for one in (problem for problem in problems if problem.cell == cell):
                file = f"{one.file}: " if one.file else ""
                terminal.say(f"  {one.severity}: {file}{one.what}")
        notes = terminal.count(len(problems) - errors, "note")
        counts = f"{terminal.count(errors, 'error')}, {notes}"
        terminal.say(f"{collection.name}: {size_of(collection)}; {counts}.")
    if errors:
        terminal.leave([f"{data}: {terminal.count(errors, 'error')}"])


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


# A study ----------------------------------------------------------------------------------------


def study_run(
    context: typer.Context,
    folder: Annotated[str | None, argument("DIR", "A folder with collection.toml.")] = None,
    *,
    data: Annotated[
        str | None, option("DIR", "The same folder, given as an option.", show_default=False)
    ] = None,
    out: Annotated[
        str, option("RUN", "Output folder; an interrupted run resumes there.", show_default=False)
    ],
    jobs: options.Jobs = 1,
    dask: Annotated[
        str | None, option("ADDRESS", "Run on the Dask cluster with this scheduler.")
    ] = None,
    cells: Annotated[
        list[str] | None, option("TEXT", "Only cells whose names contain this. May be repeated.")
    ] = None,
    methods: Annotated[
        str | None, option("A,B,...", "Methods, instead of the study's own.")
    ] = None,
    budgets: Annotated[
        str | None, option("N,N,...", "Sample sizes; all means the whole split.")
    ] = None,
    draws: Annotated[int | None, option("N", "Random draws per sample size.", min=1)] = None,
    metrics: Annotated[
        str | None, option("A,B,...", "Metrics, instead of the study's own.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        option(
            "NAME=VALUE",
            "Option of the methods, such as n_groups=5, or setting of the study. May be repeated.",
            "--set",
        ),
    ] = None,
    n_boot: Annotated[int | None, option("N", "Bootstrap resamples for intervals.", min=2)] = None,
    gate: Annotated[
        str | None, option("RUN", "A finished run whose numbers must be reproduced to 1e-6.")
    ] = None,
    force: Annotated[
        bool, flag("--force", "Continue although `study check` finds errors.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Run a study."""
    name = str(context.info_name)
    about = STUDIES[name].with_options(
        budgets=None if budgets is None else _budgets(budgets),
        draws=draws,
        methods=None if methods is None else choices.words(methods, "--methods"),
        metrics=None if metrics is None else choices.words(metrics, "--metrics"),
        n_boot=n_boot,
    )
    about = about.with_options(settings=study_settings(about, setting or ()))
    stored = None if gate is None else recorded(Path(gate))[1]
    wanted = [part for text in cells or () for part in choices.words(text, "--cells")]
    named = folder_of(folder, data, usage=f"smallcal study {name} DIR --out RUN")
    collection = load_collection(named).only(wanted)
    about.require(collection)
    if stored is not None:
        require_common(about, collection, stored)
    _require_sound(collection, named, force=force)
    total = len(about.tasks(collection))
    done: list[int] = []

    def told(tasks: int) -> None:
        if tasks and not done:
            terminal.note(f"{tasks:,} of {total:,} tasks were done before")
        done.append(tasks)
        advance(tasks)

    try:
        with terminal.progress(about.title, total + 1) as advance:  # and the tables
            given: dict[str, Any] = {"jobs": jobs, "dask": dask, "force": True}  # it was checked
            outcome = run_study(about, collection, out, **given, advance=told)
    except (KeyboardInterrupt, SystemExit):
        terminal.note(
            f"{sum(done):,} of {total:,} tasks are done and kept; run the same command to resume: "
            f"{terminal.typed(context)}"
        )
        raise
    compared = None if stored is None else compare(outcome.frame, stored)
    if as_json:
        document = {"data": named, "tasks": total, **document_of(about, out, outcome)}
        terminal.show_json(document | ({"gate": vars(compared)} if compared else {}))
    else:
        show_outcome(about, outcome, out)
        terminal.say(*([compared.text()] if compared else []))
    terminal.note(*outcome.notes)
    failed = [f"failed: {line}" for line in outcome.failures]
    others = [f"not as in {gate}: {line}" for line in compared.failures] if compared else []
    terminal.leave(
        [
            *_first(failed, "more failure", f"see the errors in {out}/rows.parquet"),
            *_first(others, "more number", f"not as in {gate}"),
        ]
    )


def _budgets(text: str) -> tuple[int, ...]:
    found = []
    for word in choices.words(text, "--budgets"):
        if word != "all" and not (word.isdecimal() and int(word)):
            raise InputError(f"--budgets must be numbers of samples, or all; got {word!r}")
        found.append(ALL if word == "all" else int(word))
    return tuple(dict.fromkeys(found))


def study_settings(study: Study, settings: Sequence[str]) -> dict[str, Any]:
    """Parse ``--set name=value`` pairs against what a study and its methods take."""
    known = offered(study)
    found: dict[str, Any] = {}
    for name, text in choices.pairs(settings):
        if name in ("seed", "random_state"):
            raise InputError(f"--set {name}: a study seeds its folds by the seed of each cell")
        found[name] = choices.typed(name, text, known.get(name))
    return found


def _require_sound(collection: Collection, folder: str, *, force: bool) -> None:
    """Leave with code 2 and a line for each error that ``check`` finds; a note if forced."""
    with terminal.progress("Checking", len(collection.cells)) as advance:
        problems = check_collection(collection, advance=advance)
    errors = [str(problem) for problem in problems if problem.severity == ERROR]
    if not errors:
        return
    total = f"{folder} has {terminal.count(len(errors), 'error')}"
    if force:
        lists = f"smallcal study check {shown.command([folder])} lists them"
        terminal.note(f"{total} ({lists}): forced")
        return
    last = f"{total} that would invalidate a study: fix them, or continue with --force"
    terminal.leave((f"error: {line}" for line in (*errors, last)), code=BAD_INPUT)


def _first(lines: Sequence[str], noun: str, where: str) -> Iterator[str]:
    """Yield the first lines, and how many more there are."""
    yield from lines[:_SHOWN_FAILURES]
    if len(lines) > _SHOWN_FAILURES:
        yield f"{terminal.count(len(lines) - _SHOWN_FAILURES, noun)}: {where}"


# What a run gave --------------------------------------------------------------------------------


def document_of(about: Study, out: str, outcome: Outcome) -> dict[str, Any]:
    """Return what a run gave as plain data."""
    return {
        "study": about.name,
        "out": out,
        **({"set": about.document()["set"]} if about.given else {}),
        "tables": [table.document() for table in outcome.tables],
        "failures": outcome.failures,
    }


def show_outcome(about: Study, outcome: Outcome, out: str) -> None:
    """Print the tables of a run, and where the files are."""
    terminal.say(f"{about.title}. {about.question}", *filter(None, [given_text(about.given)]), "")
    for table in outcome.tables:
        _show_table(table, f"{out}/tables.md")
    terminal.say(f"Tables: {out}/tables.md, tables.tex, tables.json; every number: rows.parquet.")


def _show_table(table: Table, file: str) -> None:
    """Print a table: title, parts that fit the terminal, note and sentences."""
    terminal.say(f"{table.title}:")
    rows = chosen_rows(table)
    if not rows:
        terminal.say("Nothing was measured.", "")
        return
    texts = [[cell if isinstance(cell, str) else cell.text() for cell in row] for row in rows]
    words = {j for j in range(len(table.header)) if isinstance(rows[0][j], str)}
    for columns in parts(table.header, texts, words, shutil.get_terminal_size().columns):
        places = list(enumerate(columns))
        terminal.show_table(
            [table.header[j] for j in columns],
            [[row[j] for j in columns] for row in texts],
            text=[place for place, j in places if j in words],
            bold={
                (i, place)
                for i, row in enumerate(rows)
                for place, j in places
                if getattr(row[j], "best", False)
            },
        )
    if len(rows) < len(table.rows):
        terminal.say(f"{len(rows):,} of {len(table.rows):,} rows; the others are in {file}.")
    terminal.say(*filter(None, (table.note, *table.sentences)), "")


def chosen_rows(table: Table) -> tuple[tuple[str | Number, ...], ...]:
    """Return the rows to print: of a long table those of all models together, then the first."""
    rows = table.rows
    if len(rows) > MOST_ROWS and "models" in table.header:
        place = table.header.index("models")
        rows = tuple(row for row in rows if row[place] == "all") or rows
    return rows[:MOST_ROWS]


def parts(
    header: Sequence[str], rows: Sequence[Sequence[str]], words: set[int], width: int
) -> list[list[int]]:
    """Cut columns into parts that fit; each begins with the columns of short words."""
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

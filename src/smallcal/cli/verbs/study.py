"""``smallcal study``: the paper's experiments on one's own logits; every study is a command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from smallcal.cli import options
from smallcal.errors import FileError, InputError

if TYPE_CHECKING:
    from smallcal.studies import Collection, Outcome, Study
    from smallcal.studies.check import Problem

#: The command that every study's name stands for.
_ANY = "NAME"
_SHOWN_FAILURES = 10


class Studies(TyperGroup):
    """Commands of which most are names in ``STUDIES``, looked up when they are needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands of this module, then the studies."""
        from smallcal.studies import STUDIES

        return [*(name for name in self.commands if name != _ANY), *STUDIES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name or a study's."""
        from smallcal.studies import STUDIES

        if cmd_name in self.commands and cmd_name != _ANY:
            return self.commands[cmd_name]
        if cmd_name not in STUDIES:
            names = ", ".join(self.list_commands(ctx))
            raise InputError(f"unknown study {cmd_name!r}; choose from {names}")
        command: Any = copy(self.commands[_ANY])
        command.name, command.hidden = cmd_name, False
        command.help = command.short_help = STUDIES[cmd_name].question
        command.rich_help_panel = "Studies"
        return command


study = typer.Typer(
    cls=Studies,
    help="Run the paper's experiments on your own logits, and print their tables.",
    epilog="Start with: smallcal study import FOLDER -o DIR",
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="NAME --data DIR --out RUN",
    add_completion=False,
    rich_markup_mode=None,
)

_AROUND = "Before and after"

Folder = Annotated[
    str,
    typer.Argument(metavar="DIR", help="A folder with collection.toml.", show_default=False),
]
Data = Annotated[
    str, typer.Option(metavar="DIR", help="A folder with collection.toml.", show_default=False)
]
Out = Annotated[
    str,
    typer.Option(
        metavar="RUN",
        help="The run's folder; a run that was stopped goes on there.",
        show_default=False,
    ),
]


@study.callback(invoke_without_command=True)
def _study(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@study.command("import", rich_help_panel=_AROUND)
def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER|FILE.h5",
            help="DATASET__MODEL.npz files, or one of CalArena's files.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Where collection.toml goes.", show_default=False
        ),
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write the collection.toml of a folder of logits."""
    from pathlib import Path

    from smallcal.cli import terminal
    from smallcal.studies.importers import import_calarena, import_folder

    if Path(source).is_dir():
        found = import_folder(source, output, force=force)
    elif Path(source).suffix.lower() in (".h5", ".hdf5"):
        with terminal.progress("Copying") as advance:
            found = import_calarena(source, output, force=force, advance=advance)
    else:
        raise FileError(f"{source} is neither a folder nor an .h5 file")
    for line in found.left_out:
        terminal.note(f"left out: {line}")
    collection = found.collection
    if as_json:
        terminal.show_json(
            {
                "output": output,
                "cells": [cell.name for cell in collection.cells],
                "shifts": sum(len(cell.shifts) for cell in collection.cells),
                "left_out": list(found.left_out),
            }
        )
        return
    terminal.say(f"Wrote {output}/collection.toml: {_size(collection)}.")
    terminal.say(f"Next: smallcal study check {shlex.quote(output)}")


@study.command(rich_help_panel=_AROUND)
def check(data: Folder, as_json: options.Json = False) -> None:
    """Look for what would spoil a study: files, shapes, labels, rows in two splits."""
    from smallcal.cli import terminal
    from smallcal.studies import load_collection
    from smallcal.studies.check import ERROR, check_collection

    collection = load_collection(data)
    with terminal.progress("Reading", len(collection.cells)) as advance:
        problems = check_collection(collection, advance=advance)
    errors = sum(problem.severity == ERROR for problem in problems)
    if as_json:
        terminal.show_json(
            {
                "collection": collection.name,
                "cells": len(collection.cells),
                "errors": errors,
                "problems": [vars(problem) for problem in problems],
            }
        )
    else:
        _show_problems(collection, problems, errors)
    if errors:
        terminal.complain(f"{data}: {terminal.count(errors, 'error')}")
        raise typer.Exit(1)


def _show_problems(collection: Collection, problems: Sequence[Problem], errors: int) -> None:
    from smallcal.cli import terminal

    cell = ""
    for problem in problems:
        if problem.cell != cell:
            cell = problem.cell
            terminal.say(f"{cell}:")
        file = f"{problem.file}: " if problem.file else ""
        terminal.say(f"  {problem.severity}: {file}{problem.what}")
    counts = f"{terminal.count(errors, 'error')}, {terminal.count(len(problems) - errors, 'note')}"
    terminal.say(f"{collection.name}: {_size(collection)}; {counts}.")


def _size(collection: Collection) -> str:
    from smallcal.cli import terminal

    shifts = sum(len(cell.shifts) for cell in collection.cells)
    cells = terminal.count(len(collection.cells), "cell")
    return f"{cells}, {terminal.count(shifts, 'shifted set')}"


@study.command(rich_help_panel=_AROUND)
def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="The folder of a finished run.", show_default=False)
    ],
    figures: Annotated[
        str | None, typer.Option(metavar="DIR", help="Also write the study's figures there.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="What figures show; else the first metric.")
    ] = None,
    kind: Annotated[str, typer.Option("--format", help="Of figures: svg or png.")] = "svg",
    as_json: options.Json = False,
) -> None:
    """Print the tables of a finished run; the logits need not be there."""
    from pathlib import Path

    from smallcal.cli import terminal
    from smallcal.cli.verbs.study_figures import require_figures, write_figures
    from smallcal.studies.engine import finished

    if figures is not None:
        require_figures(kind)
    elif metric is not None:
        raise InputError("--metric is of figures; name a folder for them with --figures")
    about, outcome = finished(Path(run))
    drawn: dict[str, list[str]] = {}
    if figures is not None:
        drawn["figures"] = write_figures(about, outcome, figures, metric=metric, kind=kind)
    if as_json:
        terminal.show_json({**_document(about, run, outcome), **drawn})
        return
    _show(about, outcome, run)
    for file in drawn.get("figures", ()):
        terminal.say(f"Figure: {file}")


@study.command("list", rich_help_panel=_AROUND)
def list_(as_json: options.Json = False) -> None:
    """List the studies and what they ask."""
    from smallcal.cli import terminal
    from smallcal.studies import STUDIES

    if as_json:
        rows = {
            name: {
                **one.document(),
                "title": one.title,
                "question": one.question,
                "tables": list(one.tables),
            }
            for name, one in STUDIES.items()
        }
        terminal.show_json({"studies": rows})
        return
    asked = [[name, one.question] for name, one in STUDIES.items()]
    terminal.show_table(["study", "what it asks"], asked, text=(0, 1))


@study.command(rich_help_panel=_AROUND)
def reproduce(
    data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="A collection whose cells are named as the paper's."),
    ] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Use the small collection that ships with smallcal.")
    ] = False,
    reference: Annotated[
        str | None, typer.Option(metavar="FILE", help="Other reference values, as JSON.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="RUN", help="Keep what is done, to go on later.")
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes.")] = 1,
    as_json: options.Json = False,
) -> None:
    """Compute the paper's published values again, where the logits allow, and compare."""
    from smallcal.cli.verbs.study_reproduce import reproduce_command

    reproduce_command(data, frozen=frozen, reference=reference, out=out, jobs=jobs, as_json=as_json)


@study.command(_ANY, hidden=True)
def any_study(
    context: typer.Context,
    data: Data,
    out: Out,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes.")] = 1,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on the Dask cluster of this scheduler."),
    ] = None,
    cells: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Only cells whose names hold this; may be repeated."),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="These methods instead of the study's.")
    ] = None,
    budgets: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Calibration samples; all is the whole split."),
    ] = None,
    draws: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Draws at each budget.")
    ] = None,
    n_boot: Annotated[
        int | None, typer.Option("--n-boot", metavar="N", min=2, help="Resamples for intervals.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Run a study."""
    from smallcal.cli import terminal
    from smallcal.studies import load_collection, run, study_named

    about = study_named(str(context.info_name)).with_options(
        budgets=None if budgets is None else _budgets(budgets),
        draws=draws,
        methods=None if methods is None else _words(methods, "--methods"),
        n_boot=n_boot,
    )
    wanted = [part for text in cells or () for part in _words(text, "--cells")]
    collection = load_collection(data).only(wanted)
    total = len(about.tasks(collection))
    done = _Done(total)
    try:
        with terminal.progress(about.title, total) as advance:
            outcome = run(about, collection, out, jobs=jobs, dask=dask, advance=done.then(advance))
    except (KeyboardInterrupt, SystemExit):
        terminal.note(f"{done}; the same command goes on from there: {_typed(context)}")
        raise
    if as_json:
        terminal.show_json({"data": data, "tasks": total, **_document(about, out, outcome)})
    else:
        _show(about, outcome, out)
    _complain(outcome, out)


class _Done:
    """How many tasks are done; says on the way how many were so before."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.tasks: int | None = None

    def then(self, advance: Callable[[int], None]) -> Callable[[int], None]:
        """Return what the engine tells its progress to."""

        def told(tasks: int) -> None:
            from smallcal.cli import terminal

            if self.tasks is None and tasks:
                terminal.note(f"{tasks:,} of {self.total:,} tasks were done before")
            self.tasks = (self.tasks or 0) + tasks
            advance(tasks)

        return told

    def __str__(self) -> str:
        """Say how far it is."""
        return f"{self.tasks or 0:,} of {self.total:,} tasks are done and kept"


def _typed(context: typer.Context) -> str:
    """Return the command as it was typed, the defaults left out."""
    words = context.command_path.split()
    for option in context.command.params:
        value = context.params.get(str(option.name))
        if value is None or value == option.default or value is False:
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [option.opts[0], *([] if one is True else [str(one)])]
    return shlex.join(words)


def _words(text: str, option: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise InputError(f"{option} names none; got {text!r}")
    return found


def _budgets(text: str) -> tuple[int, ...]:
    from smallcal.studies.frame import ALL

    found = []
    for word in _words(text, "--budgets"):
        if word != "all" and not (word.isdecimal() and int(word)):
            raise InputError(f"--budgets must be numbers of samples, or all; got {word!r}")
        found.append(ALL if word == "all" else int(word))
    return tuple(dict.fromkeys(found))


def _document(about: Study, out: str, outcome: Outcome) -> dict[str, Any]:
    return {
        "study": about.name,
        "out": out,
        "tables": [table.document() for table in outcome.tables],
        "failures": list(outcome.failures),
    }


def _show(about: Study, outcome: Outcome, out: str) -> None:
    from smallcal.cli import terminal
    from smallcal.cli.verbs.study_tables import show_study_table

    terminal.say(f"{about.title}. {about.question}\n")
    for table in outcome.tables:
        show_study_table(table, f"{out}/tables.md")
    terminal.say(f"Tables: {out}/tables.md, tables.tex, tables.json; every number: rows.parquet.")


def _complain(outcome: Outcome, out: str) -> None:
    """Print notes, and the first of the fits that failed; leave with a code that says so."""
    from smallcal.cli import terminal

    for line in outcome.notes:
        terminal.note(line)
    for line in outcome.failures[:_SHOWN_FAILURES]:
        terminal.complain(f"failed: {line}")
    more = len(outcome.failures) - _SHOWN_FAILURES
    if more > 0:
        terminal.complain(
            f"{terminal.count(more, 'more failure')}: see the errors in {out}/rows.parquet"
        )
    if outcome.failures:
        raise typer.Exit(1)

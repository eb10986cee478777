"""``smallcal study NAME``: one study on a collection, from the first fit to the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from smallcal.cli import choices, options, terminal
from smallcal.cli.studies import document_of, show_outcome
from smallcal.errors import InputError
from smallcal.studies import Outcome, load_collection, run, study_named
from smallcal.studies.frame import ALL

_SHOWN_FAILURES = 10


def study_run(
    context: typer.Context,
    data: Annotated[
        str, typer.Option(metavar="DIR", help="A folder with collection.toml.", show_default=False)
    ],
    out: Annotated[
        str,
        typer.Option(
            metavar="RUN",
            help="The run's folder; a run that was stopped goes on there.",
            show_default=False,
        ),
    ],
    jobs: options.Jobs = 1,
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
    about = study_named(str(context.info_name)).with_options(
        budgets=None if budgets is None else _budgets(budgets),
        draws=draws,
        methods=None if methods is None else choices.words(methods, "--methods"),
        n_boot=n_boot,
    )
    wanted = [part for text in cells or () for part in choices.words(text, "--cells")]
    collection = load_collection(data).only(wanted)
    total = len(about.tasks(collection))
    done = _Done(total)
    try:
        with terminal.progress(about.title, total) as advance:
            outcome = run(about, collection, out, jobs=jobs, dask=dask, advance=done.then(advance))
    except (KeyboardInterrupt, SystemExit):
        terminal.note(f"{done}; the same command goes on from there: {terminal.typed(context)}")
        raise
    if as_json:
        terminal.show_json({"data": data, "tasks": total, **document_of(about, out, outcome)})
    else:
        show_outcome(about, outcome, out)
    for line in outcome.notes:
        terminal.note(line)
    terminal.leave(_complaints(outcome, out))


class _Done:
    """How many tasks are done; says on the way how many were so before."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.tasks: int | None = None

    def then(self, advance: Callable[[int], None]) -> Callable[[int], None]:
        """Return what the engine tells its progress to."""

        def told(tasks: int) -> None:
            if self.tasks is None and tasks:
                terminal.note(f"{tasks:,} of {self.total:,} tasks were done before")
            self.tasks = (self.tasks or 0) + tasks
            advance(tasks)

        return told

    def __str__(self) -> str:
        """Say how far it is."""
        return f"{self.tasks or 0:,} of {self.total:,} tasks are done and kept"


def _budgets(text: str) -> tuple[int, ...]:
    found = []
    for word in choices.words(text, "--budgets"):
        if word != "all" and not (word.isdecimal() and int(word)):
            raise InputError(f"--budgets must be numbers of samples, or all; got {word!r}")
        found.append(ALL if word == "all" else int(word))
    return tuple(dict.fromkeys(found))


def _complaints(outcome: Outcome, out: str) -> Iterator[str]:
    """Yield the first of the fits that failed, and how many more there are."""
    for line in outcome.failures[:_SHOWN_FAILURES]:
        yield f"failed: {line}"
    more = len(outcome.failures) - _SHOWN_FAILURES
    if more > 0:
        yield f"{terminal.count(more, 'more failure')}: see the errors in {out}/rows.parquet"

"""``smallcal study NAME``: one study on a collection, from the first fit to the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from smallcal.cli import choices, options, terminal
from smallcal.cli.options import argument, flag, option
from smallcal.errors import InputError
from smallcal_lab.cli.study_output import (
    document_of,
    folder_of,
    require_sound,
    show_outcome,
    study_settings,
)
from smallcal_lab.studies import Outcome, load_collection, run, study_named
from smallcal_lab.studies.engine import recorded
from smallcal_lab.studies.frame import ALL
from smallcal_lab.studies.gate import Gate, require_common
from smallcal_lab.studies.gate import gate as compare

_SHOWN_FAILURES = 10


def study_run(
    context: typer.Context,
    folder: Annotated[str | None, argument("DIR", "A folder with collection.toml.")] = None,
    *,
    data: Annotated[
        str | None, option("DIR", "The same folder, given as an option.", show_default=False)
    ] = None,
    out: Annotated[
        str,
        option("RUN", "Output folder; an interrupted run resumes there.", show_default=False),
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
    about = study_named(str(context.info_name)).with_options(
        budgets=None if budgets is None else _budgets(budgets),
        draws=draws,
        methods=None if methods is None else choices.words(methods, "--methods"),
        metrics=None if metrics is None else choices.words(metrics, "--metrics"),
        n_boot=n_boot,
    )
    about = about.with_options(settings=study_settings(about, setting or ()))
    stored = None if gate is None else recorded(Path(gate))[1]
    wanted = [part for text in cells or () for part in choices.words(text, "--cells")]
    named = folder_of(folder, data, usage=f"smallcal study {context.info_name} DIR --out RUN")
    collection = load_collection(named).only(wanted)
    about.require(collection)
    if stored is not None:
        require_common(about, collection, stored)
    require_sound(collection, named, force=force)
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
            outcome = run(about, collection, out, **given, advance=told)
    except (KeyboardInterrupt, SystemExit):
        terminal.note(
            f"{sum(done):,} of {total:,} tasks are done and kept; run the same command to resume: "
            f"{terminal.typed(context)}"
        )
        raise
    compared = None if stored is None else compare(outcome.frame, stored)
    if as_json:
        document = {"data": named, "tasks": total, **document_of(about, out, outcome)}
        terminal.show_json(document | ({"gate": compared.to_dict()} if compared else {}))
    else:
        show_outcome(about, outcome, out)
        terminal.say(*([compared.text()] if compared else []))
    terminal.note(*outcome.notes)
    terminal.leave([*_complaints(outcome, out), *_other_numbers(compared, gate)])


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


def _other_numbers(compared: Gate | None, stored: str | None) -> Iterator[str]:
    """Yield the first numbers that are not those of the stored run, and how many more there are."""
    failures = () if compared is None else compared.failures
    for line in failures[:_SHOWN_FAILURES]:
        yield f"not as in {stored}: {line}"
    more = len(failures) - _SHOWN_FAILURES
    if more > 0:
        yield f"{terminal.count(more, 'more number')} are not as in {stored}"

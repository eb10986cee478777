"""``smallcal study check``: what would spoil a study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from smallcal.cli import options, terminal
from smallcal.cli.options import argument
from smallcal_lab.cli.study_output import size_of
from smallcal_lab.studies import Collection, load_collection
from smallcal_lab.studies.check import ERROR, Problem, check_collection


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
        terminal.leave([f"{data}: {terminal.count(errors, 'error')}"])


def _show_problems(collection: Collection, problems: Sequence[Problem], errors: int) -> None:
    cell = ""
    for problem in problems:
        if problem.cell != cell:
            cell = problem.cell
            terminal.say(f"{cell}:")
        file = f"{problem.file}: " if problem.file else ""
        terminal.say(f"  {problem.severity}: {file}{problem.what}")
    counts = f"{terminal.count(errors, 'error')}, {terminal.count(len(problems) - errors, 'note')}"
    terminal.say(f"{collection.name}: {size_of(collection)}; {counts}.")

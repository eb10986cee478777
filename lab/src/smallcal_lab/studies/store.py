"""A run's folder: what was asked, the rows of finished tasks, and the tables.

::

    RUN/manifest.json       configuration, versions, fingerprints of the inputs
    RUN/parts/KEY.parquet   rows of one finished task, written whole or not at all
    RUN/predictions/KEY.parquet  what is kept of its predictions, if a table needs them
    RUN/rows.parquet        all rows in the order of the tasks, when the run is complete
    RUN/tables.md .tex .json
    RUN/.lock               who is at work on the run

A run that was stopped at any moment goes on from the parts that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smallcal.errors import FileError
from smallcal.io.resumable import Resumable
from smallcal_lab.studies.frame import Rows, read_parquet, write_parquet
from smallcal_lab.studies.predictions import (
    Prediction,
    file_of,
    read_predictions,
    write_predictions,
)
from smallcal_lab.studies.study import Task
from smallcal_lab.studies.tables.table import TABLE_FILES

Run = Resumable[Task]

#: What a task gives: its rows, and what is kept of its predictions.
Done = tuple[Rows, list[Prediction]]


def run_in(folder: Path, *, keeps: bool = False) -> Run:
    """Return the folder of a run, which need not be there yet.

    ``keeps``: whether tasks keep predictions; then one without them is not done.
    """

    def flaw(task: Task, part: Path) -> str:
        try:
            rows = read_parquet(part)
        except FileError:
            return "is damaged"
        if any((row["cell"], row["draw"]) != (task.cell, task.draw) for row in rows):
            return "holds the rows of another task"
        try:
            if keeps:
                read_predictions(file_of(folder, task))
        except FileError:
            return "has no predictions, or damaged ones, beside it"
        return ""

    instead = "name another folder with --out, or delete this one"
    return Resumable(
        folder=folder,
        parts=folder / "parts",
        manifest=folder / "manifest.json",
        part=lambda task: folder / "parts" / f"{task.file_name}.parquet",
        flaw=flaw,
        beside=lambda task: (file_of(folder, task),) if keeps else (),
        others=tuple(folder / name for name in ("rows.parquet", *TABLE_FILES)),
        what="this run",
        instead="another folder with --out",
        other=lambda changes: f"{folder} holds another run ({changes}); {instead}",
        unknown=f"{folder} has parts or tables, but no manifest to say of which run; {instead}",
    )


def write_part(run: Run, task: Task, done: Done) -> None:
    """Write what a task gave: its rows last, because they say that all of it is there."""
    rows, predictions = done
    for file in run.beside(task):
        write_predictions(file, predictions)
    write_parquet(run.part(task), rows)


def finish(run: Run, tasks: Sequence[Task]) -> Rows:
    """Put all rows into one file and return them."""
    # Read back, also those that are still at hand: then a resumed run cannot differ.
    rows = rows_of(run, tasks)
    write_parquet(run.folder / "rows.parquet", rows)
    return rows


def rows_of(run: Run, tasks: Sequence[Task]) -> Rows:
    """Return the rows of these tasks, in their order."""
    return [row for task in tasks for row in read_parquet(run.part(task))]

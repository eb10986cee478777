"""Run a study: every task once, in any order, on one process, several, or a Dask cluster.

A task gives the same rows wherever it runs, and they are written before the next is looked at. So
a run that is stopped, at any moment and in any way, goes on where it was, and its tables are the
same to the byte as those of a run that was not. Its folder::

    RUN/manifest.json       configuration, versions, fingerprints of the inputs
    RUN/parts/KEY.parquet   rows of one finished task, written whole or not at all
    RUN/predictions/KEY.parquet  what is kept of its predictions, if a table needs them
    RUN/rows.parquet        all rows in the order of the tasks, when the run is complete
    RUN/tables.md .tex .json
    RUN/.lock               who is at work on the run
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from smallcal.errors import FileError, InputError
from smallcal.io.pool import run_tasks
from smallcal.io.resumable import Resumable, read_manifest
from smallcal_lab.studies.catalogue import study_named
from smallcal_lab.studies.check import require_sound
from smallcal_lab.studies.collection import Collection
from smallcal_lab.studies.frame import FAILED, Frame, Rows, read_parquet, write_parquet
from smallcal_lab.studies.measure import Done, Order, work
from smallcal_lab.studies.predictions import (
    FOLDER,
    Shelf,
    file_of,
    read_predictions,
    write_predictions,
)
from smallcal_lab.studies.study import Study, Task
from smallcal_lab.studies.tables.catalogue import PREDICTED, kept_sets, tables_of
from smallcal_lab.studies.tables.table import TABLE_FILES, Table, write_tables


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a run.

    Attributes
    ----------
    frame : Frame
        Every row.
    tables : tuple of Table
    failures : tuple of str
        One line for each unit that failed.
    notes : tuple of str
        What the reader should know of how it was made, such as parts that had to be done again.
    """

    frame: Frame
    tables: tuple[Table, ...]
    failures: tuple[str, ...]
    notes: tuple[str, ...] = ()


def _outcome_of(
    study: Study, rows: Rows, *, shelf: Shelf | None = None, notes: Sequence[str] = ()
) -> Outcome:
    """Make the tables of all rows and predictions of a run, and list what failed."""
    failures = tuple(
        f"{row['cell']}, {row['label']}, budget {row['budget']}, draw {row['draw']}: {row['error']}"
        for row in rows
        if row["metric"] == FAILED
    )
    frame = Frame.of(rows)
    return Outcome(frame, tables_of(study, frame, shelf), failures, tuple(notes))


def run_in(folder: Path, *, keeps: bool = False) -> Resumable[Task]:
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


def _write_part(folder: Resumable[Task], task: Task, done: Done) -> None:
    """Write what a task gave: its rows last, because they say that all of it is there."""
    rows, predictions = done
    for file in folder.beside(task):
        write_predictions(file, predictions)
    write_parquet(folder.part(task), rows)


def rows_of(folder: Resumable[Task], tasks: Sequence[Task]) -> Rows:
    """Return the rows of these tasks, in their order."""
    return [row for task in tasks for row in read_parquet(folder.part(task))]


def run(
    study: Study,
    collection: Collection,
    out: str | os.PathLike[str],
    *,
    jobs: int = 1,
    dask: str | None = None,
    force: bool = False,
    advance: Callable[[int], object] = lambda tasks: None,
) -> Outcome:
    """Run a study, or what is missing of it, and make its tables.

    Parameters
    ----------
    study : Study
    collection : Collection
    out : path
        The run's folder; one that holds part of the same run is completed.
    jobs : int
        Processes.
    dask : str, optional
        Address of a Dask scheduler to run on instead; its workers must see the collection's
        folder.
    force : bool
        Whether to run on a collection that :func:`~smallcal_lab.studies.check_collection`
        finds errors in; without it nothing is run on one.
    advance : callable, optional
        Called as tasks finish; first with the number that were finished before.

    Raises
    ------
    InputError
        If the collection has errors, the folder holds another run, or another process is at
        work on it.
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1; got {jobs}")
    kept = kept_sets(study)
    folder = run_in(Path(out), keeps=bool(kept))
    study.require(collection)
    if not force:
        require_sound(collection)
    tasks = study.tasks(collection)
    asked = study.configuration(collection)
    with folder.claimed(parents=True) as certain:
        folder.begin(asked)
        if certain:
            folder.sweep(tasks)
        missing = folder.missing(tasks)
        advance(len(tasks) - len(missing))
        # With paths that hold everywhere.
        cells = {
            cell.name: replace(cell, folder=Path(os.path.abspath(cell.folder)))
            for cell in collection.cells
        }
        inputs = json.dumps([asked["inputs"], str(collection.folder)])
        run_tasks(
            partial(work, Order(study, hashlib.sha256(inputs.encode()).hexdigest(), kept)),
            [(cells[task.cell], task) for task in missing],
            keep=lambda unit, done: _write_part(folder, unit[1], done),
            told=lambda unit: advance(1),
            named=lambda unit: unit[1].key,
            jobs=jobs,
            dask=dask,
        )
        if missing and collection.sha256() != asked["inputs"]:
            raise FileError(
                f"files of {collection.folder} were changed while the study ran; "
                f"delete {folder.folder} and run it again"
            )
        # Read back, also those that are still at hand: then a resumed run cannot differ.
        rows = rows_of(folder, tasks)
        write_parquet(folder.folder / "rows.parquet", rows)
        shelf = Shelf(folder.folder) if kept else None
        outcome = _outcome_of(study, rows, shelf=shelf, notes=folder.notes)
        write_tables(folder.folder, study, outcome.tables)
        return outcome


def finished(folder: Path) -> tuple[Study, Outcome]:
    """Return the study and the tables of a run that is complete; its inputs are not needed.

    Raises
    ------
    FileError
        If the folder holds no run, or one that is not complete.
    """
    study, rows = _recorded(folder)
    if not kept_sets(study) or (folder / FOLDER).is_dir():
        return study, _outcome_of(study, rows, shelf=Shelf(folder))
    lost = ", ".join(name for name in study.tables if name in PREDICTED)
    note = f"{folder / FOLDER} is missing, so tables that need predictions are left out: {lost}"
    return study, _outcome_of(study, rows, notes=[note])


def recorded(folder: Path) -> tuple[Study, Frame]:
    """Return the study and the rows of a run that is complete; tables take longer to make."""
    study, rows = _recorded(folder)
    return study, Frame.of(rows)


def _recorded(folder: Path) -> tuple[Study, Rows]:
    run = run_in(folder)
    manifest = read_manifest(run.manifest)
    if manifest is None:
        raise FileError(f"{folder} holds no run: {run.manifest} is missing")
    described, cells = manifest.get("study"), manifest.get("cells")
    if not isinstance(described, dict) or not isinstance(cells, list):
        raise FileError(f"{folder}/manifest.json does not describe a study")
    study = Study.from_document(described, known=study_named(str(described.get("name"))))
    tasks = study.tasks_of(cells)
    if missing := len(run.missing(tasks)):
        raise FileError(
            f"{folder} is not complete: {missing:,} of {len(tasks):,} tasks are missing; "
            "to finish it, run the same command again"
        )
    return study, rows_of(run, tasks)

"""Run a study: every task once, in any order, on one process, several, or a Dask cluster.

A task gives the same rows wherever it runs, and they are written before the next is looked at. So
a run that is stopped, at any moment and in any way, goes on where it was, and its tables are the
same to the byte as those of a run that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from smallcal.calibrators.catalogue import ALIASES
from smallcal.errors import FileError, InputError
from smallcal.io.pool import run_tasks
from smallcal.studies.catalogue import study_named
from smallcal.studies.collection import Cell, Collection
from smallcal.studies.frame import FAILED, Frame, Task
from smallcal.studies.store import Store, require_pyarrow
from smallcal.studies.study import Study
from smallcal.studies.tables.table import Table, tables_of, write_tables
from smallcal.studies.workers import Order, Rows, work


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run gave.

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


def run(
    study: Study,
    collection: Collection,
    out: str | os.PathLike[str],
    *,
    jobs: int = 1,
    dask: str | None = None,
    advance: Callable[[int], object] = lambda tasks: None,
) -> Outcome:
    """Run what is missing of a study and make its tables.

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
    advance : callable, optional
        Told as tasks are finished; first how many were there already.

    Raises
    ------
    InputError
        If the folder holds another run, or another process is at work on it.
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1; got {jobs}")
    study.require(collection)
    store = Store(Path(out))
    tasks = study.tasks(collection)
    asked = configuration(study, collection)
    with store.claimed():
        store.open(asked)
        missing = store.missing(tasks)
        advance(len(tasks) - len(missing))
        done = run_tasks(
            partial(work, _order(study, collection, asked)),
            _units(collection, missing),
            keep=partial(_keep, store),
            jobs=jobs,
            dask=dask,
            named=_key,
        )
        with closing(done):
            for _ in done:
                advance(1)
        if missing and collection.sha256() != asked["inputs"]:
            raise FileError(
                f"files of {collection.folder} were changed while the study ran; "
                f"delete {store.folder} and run it again"
            )
        return conclude(study, store, tasks)


def configuration(study: Study, collection: Collection) -> dict[str, Any]:
    """Return everything that a run's rows depend on, for its manifest."""
    return {
        "study": study.document(),
        # Names such as `default` may mean another method one day.
        "methods": {entry.label: ALIASES.get(entry.name, entry.name) for entry in study.entries},
        "collection": collection.name,
        "cells": [cell.name for cell in collection.cells if study.suits(cell)],
        "splits": {cell.name: _splits(cell) for cell in collection.cells},
        "inputs": collection.sha256(),
    }


def _splits(cell: Cell) -> dict[str, Any]:
    """Return which part of which file is what; fingerprints of files do not tell."""
    return {
        "calibration": cell.calibration,
        "test": cell.test,
        "shifts": [asdict(shift) for shift in cell.shifts],
    }


def conclude(study: Study, store: Store, tasks: Sequence[Task]) -> Outcome:
    """Make the tables of a run whose tasks are all done."""
    outcome = outcome_of(study, store.finish(tasks), notes=tuple(store.notes))
    write_tables(store.folder, study, outcome.tables)
    return outcome


def outcome_of(study: Study, frame: Frame, *, notes: tuple[str, ...] = ()) -> Outcome:
    """Make the tables of all rows of a run, and list what failed."""
    failed = frame.where(metric=FAILED)
    failures = tuple(
        f"{row['cell']}, {row['label']}, budget {row['budget']}, draw {row['draw']}: {row['error']}"
        for row in failed.rows()
    )
    return Outcome(frame, tables_of(study, frame), failures, notes)


def finished(folder: Path) -> tuple[Study, Outcome]:
    """Return the study and the tables of a run that is complete; its inputs are not needed.

    Raises
    ------
    FileError
        If the folder holds no run, or one that is not complete.
    """
    study, frame = recorded(folder)
    return study, outcome_of(study, frame)


def recorded(folder: Path) -> tuple[Study, Frame]:
    """Return the study and the rows of a run that is complete; tables take longer to make.

    Raises
    ------
    FileError
        If the folder holds no run, or one that is not complete.
    """
    require_pyarrow()
    store = Store(folder)
    manifest = store.manifest()
    described, cells = manifest.get("study"), manifest.get("cells")
    if not isinstance(described, dict) or not isinstance(cells, list):
        raise FileError(f"{folder}/manifest.json does not describe a study")
    study = Study.from_document(described, known=study_named(str(described.get("name"))))
    tasks = study.tasks_of(cells)
    missing = len(store.missing(tasks))
    if missing:
        raise FileError(
            f"{folder} is not complete: {missing:,} of {len(tasks):,} tasks are missing; run the "
            "command that began it again"
        )
    return study, store.rows(tasks)


def _units(collection: Collection, tasks: Sequence[Task]) -> list[tuple[Cell, Task]]:
    """Return tasks with their cells, whose paths hold everywhere.

    Cells are sent as they are: a process that read the collection's description anew could find
    another.
    """
    cells = {
        cell.name: replace(cell, folder=Path(os.path.abspath(cell.folder)))
        for cell in collection.cells
    }
    return [(cells[task.cell], task) for task in tasks]


def _order(study: Study, collection: Collection, asked: dict[str, Any]) -> Order:
    inputs = json.dumps([asked["inputs"], str(collection.folder)])
    return Order(study, hashlib.sha256(inputs.encode()).hexdigest())


def _key(unit: tuple[Cell, Task]) -> str:
    return unit[1].key


def _keep(store: Store, unit: tuple[Cell, Task], rows: Rows) -> None:
    store.put(unit[1], rows)

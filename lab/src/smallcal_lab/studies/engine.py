"""Run a study: every task once, in any order, on one process, several, or a Dask cluster.

A task fits every entry on one draw of one cell, and measures it. It gives the same rows wherever it
is done, and they are written before the next is looked at. So a run that is stopped, at any moment
and in any way, goes on where it was. Its folder::

    RUN/manifest.json       configuration, versions, fingerprints of the inputs
    RUN/parts/KEY.parquet   rows of one finished task, written whole or not at all
    RUN/predictions/KEY.parquet  what is kept of its predictions, if a table needs them
    RUN/rows.parquet        all rows in the order of the tasks, when the run is complete
    RUN/tables.md .tex .json
    RUN/.lock               who is at work on the run
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from smallcal._version import versions
from smallcal.calibrators.catalogue import method
from smallcal.errors import FileError, InputError
from smallcal.io.pool import run_tasks, said, stopped
from smallcal.io.resumable import Resumable, read_manifest
from smallcal_lab.studies.catalogue import study_named
from smallcal_lab.studies.check import require_sound
from smallcal_lab.studies.collection import Cell, Collection
from smallcal_lab.studies.frame import FAILED, Frame, Rows, read_parquet, write_parquet
from smallcal_lab.studies.predictions import (
    FOLDER,
    Prediction,
    Shelf,
    file_of,
    read_predictions,
    write_predictions,
)
from smallcal_lab.studies.probes import PROBES, Site
from smallcal_lab.studies.study import Study, Task, file_name
from smallcal_lab.studies.tables.catalogue import PREDICTED, kept_sets, tables_of
from smallcal_lab.studies.tables.table import TABLE_FILES, Table, write_tables


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a run: all rows, the tables, and a line for each fit that failed.

    ``notes`` say what the reader should know of how it was made, such as parts done again.
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
    force: bool = False,
    advance: Callable[[int], object] = lambda tasks: None,
) -> Outcome:
    """Run a study, or what is missing of it, and make its tables.

    A folder ``out`` that holds part of the same run is completed. Tasks are done in ``jobs``
    processes, or by the Dask scheduler at an address, whose workers must see the collection's
    folder. A collection in which ``check_collection`` finds errors is run only by ``force``.
    ``advance`` is called as tasks finish; first with the number that were finished before.
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1; got {jobs}")
    kept = kept_sets(study)
    folder = run_in(Path(out), keeps=bool(kept))
    study.require(collection)
    if not force:
        require_sound(collection)
    tasks = study.tasks(collection)
    inputs = collection.sha256()
    asked = {
        "study": study.document(),
        "collection": collection.name,
        "cells": list(dict.fromkeys(task.cell for task in tasks)),
        "splits": {cell.name: cell.splits for cell in collection.cells},
        "inputs": inputs,
        "versions": versions("pyarrow"),
    }
    everywhere = Path(os.path.abspath(collection.folder))
    with folder.claimed(parents=True) as certain:
        folder.begin(asked)
        if certain:
            folder.sweep(tasks)
        missing = folder.missing(tasks)
        advance(len(tasks) - len(missing))
        run_tasks(
            partial(work, study, kept),
            [(replace(collection.cell(t.cell), folder=everywhere), t) for t in missing],
            keep=partial(_write_part, folder),
            told=lambda unit: advance(1),
            named=lambda unit: unit[1].key,
            jobs=jobs,
            dask=dask,
        )
        if missing and collection.sha256() != inputs:
            raise FileError(
                f"files were changed while the study ran; delete {out} and run it again"
            )
        # Read back, also those that are still at hand: then a resumed run cannot differ.
        rows = rows_of(folder, tasks)
        write_parquet(folder.folder / "rows.parquet", rows)
        outcome = _outcome_of(study, rows, Shelf(folder.folder) if kept else None, folder.notes)
        write_tables(folder.folder, study, outcome.tables)
        return outcome


def _outcome_of(study: Study, rows: Rows, shelf: Shelf | None, notes: Sequence[str]) -> Outcome:
    """Make the tables of all rows and predictions of a run, and list what failed."""
    failures = tuple(
        f"{row['cell']}, {row['label']}, budget {row['budget']}, draw {row['draw']}: {row['error']}"
        for row in rows
        if row["metric"] == FAILED
    )
    frame = Frame.of(rows)
    return Outcome(frame, tables_of(study, frame, shelf), failures, tuple(notes))


# One task ---------------------------------------------------------------------------------------

#: A task, and its cell: a process that read the description anew could find another.
Unit = tuple[Cell, Task]
#: The rows of a task, and what is kept of its predictions.
Done = tuple[Rows, list[Prediction]]


def work(study: Study, kept: frozenset[str], unit: Unit) -> Done:
    """Do one task; what a process, wherever it is, is told to do.

    What fails because of the data fails again tomorrow, so it becomes rows that say why. What fails
    because of the machine (memory, a disk, a folder that is not there) is raised: it must not be
    taken for a result. Sums split over threads round differently, so there is one thread.
    """
    import sklearn.linear_model  # noqa: F401 - only libraries that are loaded can be limited
    from threadpoolctl import threadpool_limits

    cell, task = unit
    for file in cell.files:
        if not os.path.exists(file):
            raise FileError(f"a worker cannot find {file}; all workers need its folder")
    with threadpool_limits(1):
        try:
            return measure(study, cell, task, kept)
        except (OSError, MemoryError) as error:
            raise stopped(f"{task.key} cannot be done on this machine ({said(error)})") from error


def measure(study: Study, cell: Cell, task: Task, kept: frozenset[str] = frozenset()) -> Done:
    """Fit and measure every entry of a study on one draw; a failure is a row that says why."""
    about = {name: getattr(cell, name) for name in ("dataset", "backbone", "seed")}
    about |= asdict(task)
    found: Rows = []
    site: Site | None = None
    for entry in study.entries:
        try:
            if site is None:
                site = Site(study, cell, cell.draw(task.budget, task.draw), kept)
                about["budget"] = site.cal.n
            if "features" in method(entry.name).needs and site.cal.features is None:
                continue  # nothing to fit it on: the tables leave it out
            rows = site.rows(PROBES[study.probe], entry)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - one unit's failure must not stop the others
            rows = [{"metric": FAILED, "value": float("nan"), "error": said(error)}]
            if site is not None:
                site.found[:] = [one for one in site.found if one.label != entry.label]
        found += [{**about, "label": entry.label, "method": entry.name, **row} for row in rows]
    return found, [] if site is None else site.found


# The folder of a run ----------------------------------------------------------------------------


def run_in(folder: Path, *, keeps: bool = False) -> Resumable[Task]:
    """Return the folder of a run, which need not be there yet.

    ``keeps``: whether tasks keep predictions; then one without them is not done.
    """

    def flaw(task: Task, part: Path) -> str:
        try:
            rows = read_parquet(part)
            if keeps:
                read_predictions(file_of(folder, task))
        except FileError:
            return "is damaged, or its predictions are"
        other = any((row["cell"], row["draw"]) != (task.cell, task.draw) for row in rows)
        return "holds the rows of another task" if other else ""

    instead = "name another folder with --out, or delete this one"
    return Resumable(
        folder=folder,
        parts=folder / "parts",
        manifest=folder / "manifest.json",
        part=lambda task: folder / "parts" / f"{file_name(task.key)}.parquet",
        flaw=flaw,
        beside=lambda task: (file_of(folder, task),) if keeps else (),
        others=tuple(folder / name for name in ("rows.parquet", *TABLE_FILES)),
        what="this run",
        instead="another folder with --out",
        other=lambda changes: f"{folder} holds another run ({changes}); {instead}",
        unknown=f"{folder} has parts or tables, but no manifest to say of which run; {instead}",
    )


def _write_part(folder: Resumable[Task], unit: Unit, done: Done) -> None:
    """Write what a task gave: its rows last, because they say that all of it is there."""
    rows, predictions = done
    for file in folder.beside(unit[1]):
        write_predictions(file, predictions)
    write_parquet(folder.part(unit[1]), rows)


def rows_of(folder: Resumable[Task], tasks: Sequence[Task]) -> Rows:
    """Return the rows of these tasks, in their order."""
    return [row for task in tasks for row in read_parquet(folder.part(task))]


def finished(folder: Path) -> tuple[Study, Outcome]:
    """Return the study and the tables of a run that is complete; its inputs are not needed."""
    study, rows = _read(folder)
    if not kept_sets(study) or (folder / FOLDER).is_dir():
        return study, _outcome_of(study, rows, Shelf(folder), ())
    lost = ", ".join(name for name in study.tables if name in PREDICTED)
    note = f"{folder / FOLDER} is missing, so tables that need predictions are left out: {lost}"
    return study, _outcome_of(study, rows, None, [note])


def recorded(folder: Path) -> tuple[Study, Frame]:
    """Return the study and the rows of a run that is complete; tables take longer to make."""
    study, rows = _read(folder)
    return study, Frame.of(rows)


def _read(folder: Path) -> tuple[Study, Rows]:
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
            f"{folder} is not complete: {missing:,} of {len(tasks):,} tasks are missing"
        )
    return study, rows_of(run, tasks)

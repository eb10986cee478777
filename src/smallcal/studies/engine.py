"""Run a study: every task once, in any order, on one process, several, or a Dask cluster.

A task gives the same rows wherever it runs, and they are written before the next is looked at. So
a run that is stopped, at any moment and in any way, goes on where it was, and its tables are the
same to the byte as those of a run that was not.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from smallcal.errors import FileError, InputError, MissingExtraError
from smallcal.studies.collection import FILE_NAME, Collection, load_collection, stamp_of
from smallcal.studies.description import Study
from smallcal.studies.listing import study_named
from smallcal.studies.probes import measure
from smallcal.studies.store import Store, require_pyarrow
from smallcal.studies.tables import Table, tables_of, write_tables
from smallcal.studies.units import FAILED, Frame, Task

Rows = list[dict[str, Any]]


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
    """

    frame: Frame
    tables: tuple[Table, ...]
    failures: tuple[str, ...]


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
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1; got {jobs}")
    store = Store(Path(out))
    tasks = study.tasks(collection)
    store.open(
        {
            "study": study.document(),
            "collection": collection.name,
            "cells": [cell.name for cell in collection.cells],
            "inputs": collection.sha256(),
        }
    )
    missing = [task for task in tasks if not store.is_done(task)]
    advance(len(tasks) - len(missing))
    source = str(collection.folder)
    for task, rows in _finished(study, source, missing, jobs=jobs, dask=dask):
        store.put(task, rows)
        advance(1)
    return conclude(study, store, tasks)


def conclude(study: Study, store: Store, tasks: Sequence[Task]) -> Outcome:
    """Make the tables of a run whose tasks are all done."""
    outcome = outcome_of(study, store.finish(tasks))
    write_tables(store.folder, study, outcome.tables)
    return outcome


def outcome_of(study: Study, frame: Frame) -> Outcome:
    """Make the tables of all rows of a run, and list what failed."""
    failed = frame.where(metric=FAILED)
    failures = tuple(
        f"{row['cell']}, {row['label']}, budget {row['budget']}, draw {row['draw']}: {row['error']}"
        for row in failed.rows()
    )
    return Outcome(frame, tables_of(study, frame), failures)


def finished(folder: Path) -> tuple[Study, Outcome]:
    """Return the study and the tables of a run that is complete; its inputs are not needed.

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
    known = study_named(str(described.get("name")))
    study = Study.from_document(described, known=known)
    tasks = study.tasks_of(cells)
    missing = sum(not store.is_done(task) for task in tasks)
    if missing:
        raise FileError(
            f"{folder} is not complete: {missing:,} of {len(tasks):,} tasks are missing; run the "
            "command that began it again"
        )
    return study, outcome_of(study, store.rows(tasks))


def work(study: Study, source: str, task: Task) -> Rows:
    """Do one task; what a worker, wherever it is, is told to do."""
    source = os.path.abspath(source)
    collection = _collection(source, stamp_of(os.path.join(source, FILE_NAME)))
    return measure(study, collection.cell(task.cell), task)


@lru_cache(maxsize=4)
def _collection(source: str, stamp: object) -> Collection:
    return load_collection(source)


def _finished(
    study: Study, source: str, tasks: Sequence[Task], *, jobs: int, dask: str | None
) -> Iterator[tuple[Task, Rows]]:
    """Yield tasks with their rows as they finish."""
    if dask is not None:
        yield from _on_dask(study, source, tasks, dask)
    elif jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, work(study, source, task)
    else:
        yield from _in_processes(study, source, tasks, jobs)


def _in_processes(
    study: Study, source: str, tasks: Sequence[Task], jobs: int
) -> Iterator[tuple[Task, Rows]]:
    queue = list(reversed(tasks))
    running: dict[Future[Rows], Task] = {}
    others = set(active_children())
    # Spawned, not forked: a forked child of a process with threads may hang.
    with (
        _one_thread_each(),
        ProcessPoolExecutor(
            jobs, mp_context=get_context("spawn"), initializer=_end_with_parent
        ) as pool,
    ):
        try:
            while queue or running:
                while queue and len(running) < 2 * jobs:
                    task = queue.pop()
                    with _deaf_to_interrupts():
                        running[pool.submit(work, study, source, task)] = task
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(done), done.result()
        except BaseException:
            for process in set(active_children()) - others:
                process.terminate()  # what it is at will be done again
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Let this process end when the one that started it is killed, instead of waiting for ever."""
    parent = parent_process()
    if parent is not None:

        def watch() -> None:
            parent.join()
            os._exit(1)

        Thread(target=watch, daemon=True).start()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let a process that is started not hear Ctrl-C: this one hears it, and stops the others.

    A process inherits which signals are blocked. What comes meanwhile is not lost but waits.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows has none
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let each process that is started use one thread, so that they do not wait for each other."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _on_dask(
    study: Study, source: str, tasks: Sequence[Task], address: str
) -> Iterator[tuple[Task, Rows]]:
    """Run on a cluster; what a lost worker had begun is begun again on another."""
    try:
        distributed: Any = import_module("dask.distributed")
    except ImportError:
        raise MissingExtraError(
            "running on a Dask cluster needs dask: pip install 'smallcal[dask]'"
        ) from None
    try:
        client = distributed.Client(address, timeout="20s")
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        futures = {
            client.submit(work, study, os.path.abspath(source), task, retries=5, pure=False): task
            for task in tasks
        }
        for future in distributed.as_completed(list(futures)):
            yield futures[future], future.result()
            future.release()

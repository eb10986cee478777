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

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smallcal.errors import FileError, MissingExtraError
from smallcal.io.resumable import Resumable
from smallcal_lab.studies.frame import COLUMNS, Rows
from smallcal_lab.studies.parquet import read_signed, write_signed
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
    require_pyarrow()
    instead = "name another folder with --out, or delete this one"
    return Resumable(
        folder=folder,
        parts=folder / "parts",
        manifest=folder / "manifest.json",
        part=lambda task: folder / "parts" / f"{task.file_name}.parquet",
        flaw=lambda task, part: _flaw(task, part) or (_lack(folder, task) if keeps else ""),
        beside=lambda task: (file_of(folder, task),) if keeps else (),
        others=tuple(folder / name for name in ("rows.parquet", *TABLE_FILES)),
        what="this run",
        instead="another folder with --out",
        other=lambda changes: f"{folder} holds another run ({changes}); {instead}",
        unknown=f"{folder} has parts or tables, but no manifest to say of which run; {instead}",
    )


def _flaw(task: Task, part: Path) -> str:
    """Say what is wrong with the rows of a task, or nothing."""
    try:
        rows = read_parquet(part)
    except FileError:
        return "is damaged"
    own = all((row["cell"], row["draw"]) == (task.cell, task.draw) for row in rows)
    return "" if own else "holds the rows of another task"


def _lack(folder: Path, task: Task) -> str:
    """Say what is wrong with the predictions of a task, or nothing."""
    try:
        read_predictions(file_of(folder, task))
    except FileError:
        return "has no predictions, or damaged ones, beside it"
    return ""


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


def require_pyarrow() -> None:
    """Raise one clear line where pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "studies keep their rows as Parquet, which needs pyarrow: "
            "pip install 'smallcal[parquet]'"
        ) from None


def _schema() -> Any:
    import pyarrow as pa

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    return pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])


def write_parquet(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write tidy rows, whole or not at all; equal rows give equal bytes."""
    import pyarrow as pa

    columns = {name: [row.get(name, kind()) for row in rows] for name, kind in COLUMNS.items()}
    write_signed(file, pa.Table.from_pydict(columns, schema=_schema()), _digest)


def read_parquet(file: Path) -> list[dict[str, Any]]:
    """Read tidy rows, and make sure that they are those that were written."""
    rows: list[dict[str, Any]] = read_signed(file, _schema(), _digest, what="rows").to_pylist()
    return rows


def _digest(table: Any) -> bytes:
    """Return a fingerprint of the rows."""
    return hashlib.sha256(repr(table.to_pydict()).encode()).hexdigest().encode()

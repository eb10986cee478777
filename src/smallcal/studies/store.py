"""A run's folder: what was asked, the rows of finished tasks, and the tables.

::

    RUN/manifest.json       configuration, versions, fingerprints of the inputs
    RUN/parts/KEY.parquet   rows of one finished task, written whole or not at all
    RUN/rows.parquet        all rows in the order of the tasks, when the run is complete
    RUN/tables.md .tex .json

A run that was stopped at any moment goes on from the parts that are there.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smallcal._version import __version__
from smallcal.errors import FileError, InputError, MissingExtraError
from smallcal.files import atomic_path
from smallcal.studies.units import COLUMNS, Frame, Task


class Store:
    """The folder of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts = folder / "parts"

    def open(self, configuration: Mapping[str, Any]) -> None:
        """Begin a run, or go on with one that was asked for in the same words.

        Raises
        ------
        InputError
            If the folder holds another run.
        """
        require_pyarrow()
        manifest = {**configuration, "versions": versions()}
        file = self.folder / "manifest.json"
        if file.exists():
            before = self.manifest()
            changed = [
                key
                for key in sorted(set(before) | set(manifest))
                if json.dumps(before.get(key), sort_keys=True)
                != json.dumps(manifest.get(key), sort_keys=True)
            ]
            if changed:
                raise InputError(
                    f"{self.folder} holds another run ({', '.join(changed)} differ); name another "
                    "folder with --out, or delete this one"
                )
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make {self.parts}: {error.strerror or error}") from None
        if not file.exists():
            with atomic_path(file) as path:
                path.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", "utf-8")

    def manifest(self) -> dict[str, Any]:
        """Return what the run was asked for."""
        file = self.folder / "manifest.json"
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FileError(f"{self.folder} holds no run: {file} is missing") from None
        except (OSError, ValueError) as error:
            raise FileError(f"{file} cannot be read: {error}") from None
        if not isinstance(found, dict):
            raise FileError(f"{file} is not a manifest")
        return found

    def is_done(self, task: Task) -> bool:
        """Whether a task's rows are there."""
        return self._part(task).exists()

    def put(self, task: Task, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep a finished task's rows."""
        write_parquet(self._part(task), rows)

    def rows(self, tasks: Sequence[Task]) -> Frame:
        """Return the rows of these tasks, in their order."""
        found: list[Mapping[str, Any]] = []
        for task in tasks:
            found += read_parquet(self._part(task))
        return Frame.of(found)

    def finish(self, tasks: Sequence[Task]) -> Frame:
        """Put all rows into one file and return them."""
        frame = self.rows(tasks)
        write_parquet(self.folder / "rows.parquet", list(frame.rows()))
        return frame

    def _part(self, task: Task) -> Path:
        return self.parts / f"{task.key}.parquet"


def require_pyarrow() -> None:
    """Raise one clear line where pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "studies keep their rows as Parquet, which needs pyarrow: "
            "pip install 'smallcal[studies]'"
        ) from None


def write_parquet(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write tidy rows, whole or not at all; equal rows give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    columns = [[row.get(name, kind()) for row in rows] for name, kind in COLUMNS.items()]
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
    ]
    with atomic_path(file) as path:
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, compression="zstd")


def read_parquet(file: Path) -> list[dict[str, Any]]:
    """Read tidy rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
    except FileNotFoundError:
        raise FileError(f"{file} is missing: the run is not complete") from None
    except (OSError, pa.ArrowInvalid) as error:
        raise FileError(f"{file} cannot be read ({error}); delete it and run again") from None
    if table.column_names != list(COLUMNS):
        raise FileError(f"{file} does not hold the rows of a study")
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def versions() -> dict[str, str]:
    """Return the versions that a result may depend on."""
    import numpy
    import scipy
    import sklearn

    return {
        "smallcal": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }

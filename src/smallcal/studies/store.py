"""A run's folder: what was asked, the rows of finished tasks, and the tables.

::

    RUN/manifest.json       configuration, versions, fingerprints of the inputs
    RUN/parts/KEY.parquet   rows of one finished task, written whole or not at all
    RUN/rows.parquet        all rows in the order of the tasks, when the run is complete
    RUN/tables.md .tex .json
    RUN/.lock               who is at work on the run

A run that was stopped at any moment goes on from the parts that are there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smallcal._version import versions
from smallcal.errors import FileError, InputError, MissingExtraError
from smallcal.io.atomic import atomic_path
from smallcal.io.lock import alone_in
from smallcal.studies.frame import COLUMNS, Frame, Task

#: Names that are the same file nowhere else, also where A and a are one.
PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")

#: Where a file keeps the fingerprint of its rows.
DIGEST = b"smallcal.sha256"


class Store:
    """The folder of one run.

    Attributes
    ----------
    folder, parts : Path
    notes : list of str
        What happened to the run that its reader should know.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts = folder / "parts"
        self.notes: list[str] = []

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other processes out of the folder; make it if there is none."""
        require_pyarrow()
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make {self.parts}: {error.strerror or error}") from None
        with alone_in(self.folder) as certain:
            if certain:
                self._sweep()
            yield

    def _sweep(self) -> None:
        """Remove what a process that was killed had not finished writing."""
        names = (".manifest-*.json", ".rows-*.parquet", ".tables-*.*")
        for path in [
            *(path for name in names for path in self.folder.glob(name)),
            *self.parts.glob(".*.parquet"),
        ]:
            path.unlink(missing_ok=True)

    def open(self, configuration: Mapping[str, Any]) -> None:
        """Begin a run, or go on with one that was asked for in the same words.

        Raises
        ------
        InputError
            If the folder holds another run.
        """
        asked = json.loads(
            json.dumps({**configuration, "versions": versions("pyarrow")}, default=str)
        )
        if (self.folder / "manifest.json").exists():
            self._resume(self.manifest(), asked)
        elif any(self.parts.iterdir()):
            # The manifest is written before any part, so no kill leaves this behind.
            raise InputError(
                f"{self.folder} has parts of a run, but no manifest to say of which; name another "
                "folder with --out, or delete this one"
            )
        else:
            self._write_manifest(asked)

    def _resume(self, before: dict[str, Any], asked: dict[str, Any]) -> None:
        """Check that this is the run that was begun.

        Another smallcal may fit or measure something else under the same names, so its rows must
        not be mixed with these. Other packages change no more than the rounding of a number: to
        throw hours of work away for their sake would be worse than to say so and keep a record.
        """
        begun, now = before.get("versions"), asked["versions"]
        begun = begun if isinstance(begun, dict) else {}
        used = before.pop("resumed_with", [])
        last = used[-1] if used else begun
        others = [
            f"{name} {last.get(name)}, now {now.get(name)}"
            for name in sorted({*last, *now} - {"smallcal"})
            if last.get(name) != now.get(name)
        ]
        wanted = {**asked, "versions": {**begun, "smallcal": now["smallcal"]}}
        if changed := _changes(before, wanted):
            raise InputError(
                f"{self.folder} holds another run ({_some(changed)}); name another folder with "
                "--out, or delete this one"
            )
        if others:
            self.notes.append(f"the run was begun with other versions: {_some(others)}")
            self._write_manifest({**before, "resumed_with": [*used, now]})

    def _write_manifest(self, document: Mapping[str, Any]) -> None:
        with atomic_path(self.folder / "manifest.json") as path:
            path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", "utf-8")

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

    def missing(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks whose rows are not there; damaged parts are removed, with a note."""
        there = {path.name for path in self.parts.iterdir()}
        return [
            task for task in tasks if self._part(task).name not in there or not self._is_sound(task)
        ]

    def _is_sound(self, task: Task) -> bool:
        part = self._part(task)
        try:
            rows = read_parquet(part)
        except FileError:
            why = "is damaged"
        else:
            if all((row["cell"], row["draw"]) == (task.cell, task.draw) for row in rows):
                return True
            why = "holds the rows of another task"
        self.notes.append(f"{part} {why}; it was removed and the task done again")
        try:
            part.unlink()
        except OSError as error:
            raise FileError(f"cannot remove {part}: {error.strerror or error}") from None
        return False

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
        # Read back, also those that are still at hand: then a resumed run cannot differ.
        frame = self.rows(tasks)
        write_parquet(self.folder / "rows.parquet", list(frame.rows()))
        return frame

    def _part(self, task: Task) -> Path:
        return self.parts / f"{file_name(task.key)}.parquet"


def file_name(key: str) -> str:
    """Return a name for a file, whatever the key: others get other names.

    Examples
    --------
    >>> file_name("cifar10__vit__s0__n250__d1"), file_name("CIFAR/10")
    ('cifar10__vit__s0__n250__d1', 'cifar-10-1731a5d7d800eb1b')
    """
    if PLAIN.fullmatch(key):
        return key
    slug = re.sub(r"[^a-z0-9_]+", "-", key.lower())[:80].strip("-")
    return f"{slug}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say what differs between two configurations, in a few words each."""
    found = []
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
            found += [_change(f"{key} {name}", old.get(name), new.get(name)) for name in names]
        else:
            found.append(_change(key, old, new))
    return found


def _change(what: str, old: Any, new: Any) -> str:
    shown = json.dumps(old), json.dumps(new)
    return f"{what}: {shown[0]}, now {shown[1]}" if max(map(len, shown)) < 30 else what


def _some(items: Sequence[str]) -> str:
    more = f"; and {len(items) - 3} more" if len(items) > 3 else ""
    return "; ".join(items[:3]) + more


def require_pyarrow() -> None:
    """Raise one clear line where pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "studies keep their rows as Parquet, which needs pyarrow: "
            "pip install 'smallcal[studies]'"
        ) from None


def _schema() -> Any:
    import pyarrow as pa

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    return pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])


def write_parquet(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write tidy rows, whole or not at all; equal rows give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema()
    columns = [[row.get(name, kind()) for row in rows] for name, kind in COLUMNS.items()]
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=schema)
    table = table.replace_schema_metadata({DIGEST: _digest(table)})
    with atomic_path(file) as path:
        pq.write_table(table, path, compression="zstd")


def read_parquet(file: Path) -> list[dict[str, Any]]:
    """Read tidy rows, and make sure that they are those that were written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
        rows: list[dict[str, Any]] = table.to_pylist()
        digest = _digest(table)
    except FileNotFoundError:
        raise FileError(f"{file} is missing: the run is not complete") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        said = " ".join(str(error).split())
        raise FileError(f"{file} cannot be read ({said}); delete it and run again") from None
    if not table.schema.equals(_schema()):
        raise FileError(f"{file} does not hold the rows of a study")
    if (table.schema.metadata or {}).get(DIGEST) != digest:
        raise FileError(f"{file} is damaged; delete it and run again")
    return rows


def _digest(table: Any) -> bytes:
    """Return a fingerprint of the rows: Parquet's own checksums leave out what describes them."""
    return hashlib.sha256(repr(table.to_pydict()).encode()).hexdigest().encode()

"""An output that is made part by part, and is there whole or not at all.

::

    OUT.parts/_smallcal.json    what is made there: of which files, by which calibrator
    OUT.parts/NAME.arrow ...    finished parts, each written whole or not at all
    OUT.parts/.lock             who is at work on it

When all parts are there they are joined into the file OUT; where OUT is a folder, ``OUT.parts``
becomes it by one rename, and keeps its manifest as ``_smallcal.json``. A run that was stopped at
any moment goes on from the parts that are there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from smallcal.errors import FileError, InputError, file_errors, needing
from smallcal.io.atomic import atomic_path, behind_links, settle
from smallcal.io.lock import FILE_NAME
from smallcal.io.npy import join_npy, npy_header, write_npy_header
from smallcal.io.pieces import Part
from smallcal.io.readers import opened
from smallcal.io.resumable import Resumable, changes, read_manifest
from smallcal.io.source import KINDS
from smallcal.io.units import unit_rows

MANIFEST = "_smallcal.json"


#: One block of a result: an array for .npy, a table for the others.
Result = Any


@dataclass(frozen=True)
class Target:
    """Where a result goes: a file, or a folder of files.

    Attributes
    ----------
    path : Path
    kind : {"npy", "parquet", "arrow"}
    folder : bool
    """

    path: Path
    kind: str
    folder: bool

    @classmethod
    def of(cls, output: str, source_kind: str) -> Target | None:
        """Read what the user wrote; None if a result cannot be made there in parts.

        Examples
        --------
        >>> Target.of("p.feather", "parquet").kind, Target.of("out/", "arrow").folder
        ('arrow', True)
        >>> Target.of("p.csv", "parquet") is None
        True
        """
        path = behind_links(Path(output))
        if path.suffix.lower() in KINDS and not output.endswith("/") and not os.path.isdir(path):
            return cls(path, KINDS[path.suffix.lower()], folder=False)
        if output.endswith("/") or not path.suffix or os.path.isdir(path):
            return cls(path, "arrow" if source_kind == "arrow" else "parquet", folder=True)
        return None

    @property
    def work(self) -> Path:
        """The folder of the parts."""
        return self.path.with_name(self.path.name + ".parts")

    @property
    def part_kind(self) -> str:
        """The kind of a part; what is joined later is kept in the kind that is quickest to read."""
        return "arrow" if self.kind == "parquet" and not self.folder else self.kind

    @property
    def whole(self) -> Path:
        """The file in which parts are joined before it is given its name."""
        return self.work / f"whole{self.path.suffix}"

    def part(self, part: Part) -> Path:
        """Return the path of a part."""
        return self.work / f"{part.name}.{self.part_kind}"


def part_folder(target: Target) -> Resumable[Part]:
    """Return the folder of a result's parts, which need not be there yet."""
    work = target.work
    return Resumable(
        folder=work,
        parts=work,
        manifest=work / MANIFEST,
        part=target.part,
        flaw=partial(_flaw, target.part_kind),
        others=(target.whole,),
        what=str(target.path),
        instead="another output",
        other=lambda changes: (
            f"{work} holds parts of another run (changed since: {changes}); delete {work}, or "
            "name another output"
        ),
        unknown=f"{work} is not a folder of parts; name another output",
        indent=1,
    )


def _flaw(kind: str, part: Part, file: Path) -> str:
    return "" if rows_in(file, kind) == part.rows else "is damaged"


def is_finished(target: Target, asked: Mapping[str, Any]) -> bool:
    """Whether a folder is there that was made of the same; another one is an error."""
    path = target.path
    if not target.folder or not os.path.exists(path):
        return False
    found = read_manifest(path / MANIFEST) if path.is_dir() else None
    if found is None:
        raise InputError(
            f"{path} exists already and was not written by smallcal; name another output",
            code="file-exists",
        )
    if changed := changes(found, asked):
        raise InputError(
            f"{path} is the result of another run (changed since: {changed}); delete it, or name "
            "another output",
            code="run-differs",
        )
    return True


@contextmanager
def cleared_on_error(
    folder: Resumable[Part], target: Target, parts: Sequence[Part]
) -> Iterator[None]:
    """Keep what is finished when the block fails, unless it is the data that were wrong.

    Those must change, and then the parts are of something else.
    """
    try:
        yield
    except BaseException as error:
        done = any(target.part(part).exists() for part in parts)
        if isinstance(error, InputError) or not done:
            folder.sweep(parts)
            _clear(target, parts)
        raise


def finish(folder: Resumable[Part], target: Target, parts: Sequence[Part]) -> None:
    """Make the result of its parts."""
    if target.folder:
        folder.sweep(parts)
        with file_errors(f"cannot make {target.path}"):
            target.work.rename(target.path)
        (target.path / FILE_NAME).unlink(missing_ok=True)
        return
    with atomic_path(target.whole) as path:
        files = [target.part(part) for part in parts]
        if target.kind == "npy":
            join_npy(files, path)
        else:
            write_tables(path, target.kind, _batches(files))
    with file_errors(f"cannot write {target.path}"):
        settle(target.whole, target.path)
    _clear(target, parts)


def _clear(target: Target, parts: Sequence[Part]) -> None:
    """Remove the parts, then what says of what they are, and last the lock."""
    work = target.work
    files = [target.part(part) for part in parts]
    for path in [*files, work / MANIFEST, work / FILE_NAME]:
        with suppress(OSError):
            path.unlink(missing_ok=True)
    folders = {folder for file in files for folder in file.parents if work in folder.parents}
    for folder in [*sorted(folders, reverse=True), work]:
        with suppress(OSError):  # what else is in it stays, and another process may have begun
            folder.rmdir()


def rows_in(file: Path, kind: str) -> int | None:
    """Return the rows of a part, or None if it is damaged."""
    if kind == "npy":
        header = npy_header(file)
        if header is None:
            return None
        size = header.offset + header.shape[0] * header.row_bytes
        return header.shape[0] if file.stat().st_size == size else None
    try:
        with opened(kind, file) as content:
            return sum(unit_rows(kind, content, file))
    except FileError:
        return None


def write_part(file: Path, kind: str, rows: int, results: Iterator[Result]) -> None:
    """Write the blocks of a part, whole or not at all."""
    with file_errors(f"cannot make {file.parent}"):
        file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(file) as path:
        if kind == "npy":
            _write_npy(path, rows, results)
        else:
            write_tables(path, kind, results)


def _write_npy(path: Path, rows: int, results: Iterator[Result]) -> None:
    with path.open("wb") as handle:
        for number, result in enumerate(results):
            if number == 0:
                write_npy_header(handle, (rows, *result.shape[1:]), result.dtype)
            handle.write(np.ascontiguousarray(result).data)


def write_tables(path: Path, kind: str, tables: Iterator[Any]) -> None:
    """Write tables of the same columns one after the other into a Parquet or Arrow file."""
    with needing("pyarrow", "parquet", f"writing {path.suffix} files"):
        import pyarrow as pa
    first = next(tables)
    try:
        with (
            pa.OSFile(str(path), "wb") as handle,
            _table_writer(handle, kind, first.schema) as writer,
        ):
            for table in chain([first], tables):
                writer.write_table(table, max(1, table.num_rows))
    except pa.ArrowException as error:
        raise FileError(
            f"cannot write {path.suffix} files of this data: {error}", code="file-write"
        ) from None


def _table_writer(handle: Any, kind: str, schema: Any) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind == "arrow":
        return pa.ipc.new_file(handle, schema)
    types = {field.name: getattr(field.type, "value_type", field.type) for field in schema}
    # Probabilities hardly repeat: a dictionary of them would cost time and gain nothing.
    words = [name for name, item in types.items() if not pa.types.is_floating(item)]
    return pq.ParquetWriter(handle, schema, use_dictionary=words or False)


def _batches(files: Sequence[Path]) -> Iterator[Any]:
    import pyarrow as pa

    for file in files:
        with opened("arrow", file) as content:
            for number in range(content.num_record_batches):
                yield pa.Table.from_batches([content.get_batch(number)])

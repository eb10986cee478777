"""Logits on disk: parts while a set is being made, one .npz file when it is done.

::

    DIR/collection.toml                  every cell
    DIR/CELL/manifest.json               what its files are, with checksums
    DIR/CELL/split.json                  which images calibrate
    DIR/CELL/calibration.npz, test.npz   logits, features, labels, ids, class names
    DIR/CELL/shift/fog-3.npz
    DIR/CELL/parts/SET/00000.npz ...     what is finished of a set that is not

A part is written whole or not at all, and has a checksum for each array. So a run that is stopped
in any way goes on from there, and ends with the same bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.names import require_names
from smallcal.errors import FileError, InputError, file_errors
from smallcal.io import make_folder, write_arrays
from smallcal.io.atomic import atomic_path, leftovers
from smallcal.io.documents import read_document
from smallcal.io.layout import AS_IT_IS
from smallcal.io.npy import write_npy_header
from smallcal.io.paths import file_sha256
from smallcal.io.readers import READERS, explained
from smallcal.io.resumable import Resumable, changes
from smallcal_lab.vision.extraction.cell_images import LogitSet

MANIFEST, SPLIT, PARTS = "manifest.json", "split.json", "parts"
FORMAT, VERSION = "smallcal-logits", 1
MAX_BYTES = 64 * 1024 * 1024

#: Images of a part, which are what a kill costs at most; of small ones, which are quick, more.
PART_IMAGES = 512
_USUAL_SIDE, _MOST_TIMES = 224, 4
#: Ids that are written at a time.
_ROWS = 4096

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Part:
    """Rows ``start`` to ``stop`` of a set, a whole number of batches but for the last."""

    number: int
    start: int
    stop: int


def parts_of(n: int, batch_size: int, side: int = _USUAL_SIDE) -> list[Part]:
    """Return the parts of ``n`` images that a model sees with so many pixels a side.

    Examples
    --------
    >>> [(part.start, part.stop) for part in parts_of(1000, 100)]
    [(0, 500), (500, 1000)]
    >>> len(parts_of(50_000, 64)), len(parts_of(50_000, 64, side=32))
    (98, 25)
    """
    wanted = PART_IMAGES * min(_MOST_TIMES, max(1, (_USUAL_SIDE // side) ** 2))
    rows = max(1, wanted // batch_size) * batch_size
    starts = range(0, n, rows)
    return [Part(number, start, min(n, start + rows)) for number, start in enumerate(starts)]


@dataclass(frozen=True, eq=False)
class SetStore:
    """Where the logits of one set go.

    Attributes
    ----------
    folder : Path
        Of the cell.
    images : LogitSet
    asked : mapping
        What the numbers depend on: the model, the images, what is done to them.
    how : mapping
        What a number's last bits may depend on: batch size, device, versions of packages.
    columns : int
        Of the logits.
    notes : list of str
        What happened to its files that the user should know.
    """

    folder: Path
    images: LogitSet
    asked: Mapping[str, Any]
    how: Mapping[str, Any]
    columns: int
    notes: list[str] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """The finished file."""
        return self.folder / f"{self.images.name}.npz"

    @property
    def parts(self) -> list[Part]:
        """All parts, those that are done and those that are not."""
        return parts_of(len(self.images), self.how["batch_size"], max(self.asked["input"]["size"]))

    def begun(self) -> Resumable[Part]:
        """Return the folder of its parts."""
        work = self.folder / PARTS / self.images.name.replace("/", "-")
        return Resumable(
            folder=work,
            parts=work,
            manifest=work / MANIFEST,
            part=lambda part: work / f"{part.number:05d}.npz",
            flaw=self._flaw,
            others=(),
            what=str(self.file),
            instead="another folder with --output",
            other=lambda changed: (
                f"{work} holds parts of another extraction (changed: {changed}); delete {work}, "
                "or name another folder or cell"
            ),
            unknown=f"{work} does not hold parts of an extraction; name another output",
            notes=self.notes,
        )

    def begin(self, *, certain: bool) -> list[Part]:
        """Begin, or go on: return the parts that are missing."""
        work = self.begun()
        make_folder(work.parts)
        work.begin({**self.asked, **self.how})
        if certain:
            work.sweep(self.parts)
        return work.missing(self.parts)

    def write(self, part: Part, arrays: Arrays) -> None:
        """Write a part, whole or not at all."""
        write_arrays(self.begun().part(part), arrays)

    def _flaw(self, part: Part, file: Path) -> str:
        try:
            found = _read(file)
        except FileError:
            return "is damaged"
        rows = part.stop - part.start
        shapes = [found[name].shape[:1] for name in found]
        right = "logits" in found and found["logits"].shape == (rows, self.columns)
        return "" if right and shapes == [(rows,)] * len(shapes) else "has the wrong shape"

    def is_finished(self, entry: Mapping[str, Any] | None) -> bool:
        """Whether the file is there as the manifest has it; one of something else is an error."""
        if entry is None:
            # A kill may come between a file and the manifest that names it; the parts are there.
            if os.path.lexists(self.file) and not self.begun().manifest.exists():
                raise InputError(
                    f"{self.file} exists, but {MANIFEST} beside it does not list it; move it away"
                )
            return False
        before = {key: entry.get(key) for key in self.asked}
        if changed := changes(before, self.asked):
            raise InputError(
                f"{self.file} holds another extraction (changed: {changed}); ",
                python="change the cell's name (dataset, backbone or seed) or the folder",
                shell="change the cell's name with --dataset, --backbone or --seed, or the folder",
            )
        if self.file.is_file() and file_sha256(self.file) == entry.get("sha256"):
            return True
        self.notes.append(f"{self.file} is missing or damaged; making it again")
        return False

    def finish(self) -> dict[str, Any]:
        """Join the parts into the file; return what the manifest says of it."""
        work = self.begun()
        files = [work.part(part) for part in self.parts]
        make_folder(self.file.parent)
        widths = {name: array.shape[1] for name, array in _read(files[0]).items()}
        with atomic_path(self.file) as path:
            _write_npz(path, _members(self.images, files, widths))
        return {
            **self.asked,
            **self.how,
            "file": self.file.relative_to(self.folder).as_posix(),
            "sha256": file_sha256(self.file),
            "n": len(self.images),
            "columns": self.columns,
            "features": widths.get("features", 0),
            **self._shift(),
        }

    def _shift(self) -> dict[str, Any]:
        one = self.images
        if not one.kind:
            return {}
        return {"kind": one.kind, "severity": one.severity, "paired": one.paired}

    def clear(self) -> None:
        """Remove the parts, after the manifest knows the file."""
        work = self.begun()
        shutil.rmtree(work.folder, ignore_errors=True)
        with suppress(OSError):  # others may be unfinished
            (self.folder / PARTS).rmdir()


def _read(file: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a part; a damaged one is an error."""
    with explained(file), READERS[".npz"](file, AS_IT_IS) as arrays:
        return {name: arrays.get(name) for name in arrays.names}


#: An array that is written row by row: its shape, type and blocks of rows.
Member = tuple[tuple[int, ...], "np.dtype[Any]", Iterable[NDArray[Any]]]


def _members(
    images: LogitSet, files: Sequence[Path], widths: Mapping[str, int]
) -> Iterator[tuple[str, Member]]:
    """Yield the arrays of a finished file."""
    n = len(images)
    for name, width in widths.items():
        blocks = (_read(file)[name] for file in files)
        yield name, ((n, width), np.dtype("<f4"), blocks)
    labels = images.images.labels.astype("<i8")
    yield "labels", (labels.shape, labels.dtype, [labels])
    ids = images.images.ids
    text = np.dtype(f"<U{max(map(len, ids))}")
    blocks = (np.array(ids[row : row + _ROWS], dtype=text) for row in range(0, n, _ROWS))
    yield "ids", ((n,), text, blocks)
    classes = images.images.classes
    with suppress(InputError):  # names that repeat, say, would make the file unreadable
        require_names(classes)
        names = np.array(classes)
        yield "class_names", (names.shape, names.dtype, [names])


def _write_npz(path: Path, members: Iterable[tuple[str, Member]]) -> None:
    """Write arrays as numpy.savez does, with no more than a block of rows in memory."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, (shape, dtype, blocks) in members:
            # A ZipInfo of its own has no time in it: the same numbers give the same bytes.
            info = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(info, "w", force_zip64=True) as handle:
                write_npy_header(handle, shape, dtype)  # type: ignore[arg-type]
                for block in blocks:
                    handle.write(np.ascontiguousarray(block, dtype=dtype).tobytes())


# --- the manifest of a cell ----------------------------------------------------------------------


def read_cell(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a cell's folder; None where there is none yet."""
    file = folder / MANIFEST
    if not os.path.lexists(file):
        return None
    found = read_document(file, most=MAX_BYTES, what="manifest of logits", error=FileError)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise FileError(f"{file} is not a manifest of logits")
    if found.get("version") != VERSION or not isinstance(found.get("sets"), dict):
        raise FileError(f"{file} is a manifest of version {found.get('version')!r}, not {VERSION}")
    return found


def write_cell(folder: Path, document: Mapping[str, Any]) -> None:
    """Write the manifest of a cell."""
    text = json.dumps(document, indent=1)
    with atomic_path(folder / MANIFEST) as path:
        path.write_text(text + "\n", encoding="utf-8")


def sweep_cell(folder: Path, files: Iterable[Path]) -> None:
    """Remove what a killed process had not finished writing: files, manifest or split."""
    for path in leftovers([*files, folder / MANIFEST, folder / SPLIT]):
        path.unlink(missing_ok=True)


def require_own(folder: Path, file_name: str) -> None:
    """Raise where a folder holds something, and neither a collection nor a cell begun here."""
    with file_errors(f"cannot use {folder}"):
        if not os.path.lexists(folder) or (folder / file_name).exists():
            return
        if not folder.is_dir():
            raise FileError(f"{folder} is not a folder; name one for the logits")
        there = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
        others = [entry for entry in there if entry.name != f"{file_name}.lock"]
        begun = any((entry / MANIFEST).is_file() or _is_bare(entry) for entry in others)
    if others and not begun:
        raise InputError(
            f"{folder} holds other files ({others[0].name}) and no {file_name}; name a new "
            "folder, or one that smallcal made"
        )


def _is_bare(folder: Path) -> bool:
    """Whether no more was done in a cell's folder than to lock it."""
    return folder.is_dir() and all(one.name.startswith(".") for one in folder.iterdir())

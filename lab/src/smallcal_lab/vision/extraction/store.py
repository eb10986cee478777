"""Logits on disk: parts while a set is being made, one .npz file when it is done.

::

    DIR/collection.toml                  every cell
    DIR/CELL/manifest.json               what its files are, with checksums
    DIR/CELL/split.json                  which images calibrate
    DIR/CELL/calibration.npz, test.npz   logits, features, labels, ids, class names
    DIR/CELL/shift/fog-3.npz
    DIR/CELL/parts/SET/...               what is finished of a set that is not

A part is written whole or not at all, and has a checksum for each array. So a run that is stopped
in any way goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from smallcal.data.names import require_names
from smallcal.errors import FileError, InputError, file_errors
from smallcal.io import make_folder
from smallcal.io.atomic import atomic_path, leftovers
from smallcal.io.documents import read_document
from smallcal.io.lock import one_at_a_time
from smallcal.io.npy import write_npy_header
from smallcal.io.paths import file_sha256
from smallcal.io.resumable import MAX_BYTES, changes
from smallcal_lab.studies import collection
from smallcal_lab.studies.portions import EVERY
from smallcal_lab.vision.extraction.cell_images import LogitSet
from smallcal_lab.vision.models.model import VisionModel

MANIFEST, SPLIT, PARTS = "manifest.json", "split.json", "parts"
FORMAT, VERSION = "smallcal-logits", 1

#: Images of a part, which are what a kill costs at most; of small ones, which are quick, more.
PART_IMAGES = 512

#: What to do where a cell of the same name is there.
_RENAME = {
    "python": "change the cell's name (dataset, backbone or seed) or the folder",
    "shell": "change the cell's name with --dataset, --backbone or --seed, or the folder",
}


@dataclass(frozen=True, eq=False)
class SetStore:
    """Where the logits of one set go."""

    folder: Path  # of the cell
    images: LogitSet
    asked: Mapping[str, Any]  # what the numbers depend on: the model, the images, their changes
    how: Mapping[str, Any]  # what the last bits may depend on: batch size, device, versions
    columns: int  # of the logits
    notes: list[str] = field(default_factory=list)  # for the user, on what happened to its files

    @property
    def file(self) -> Path:
        """The finished file."""
        return self.folder / f"{self.images.name}.npz"

    @property
    def parts(self) -> list[range]:
        """The rows of all parts, done or not: whole batches, more where images are small."""
        n, size, side = len(self.images), self.how["batch_size"], max(self.asked["input"]["size"])
        wanted = PART_IMAGES * min(4, max(1, (224 // side) ** 2))
        rows = max(1, wanted // size) * size
        return [range(start, min(n, start + rows)) for start in range(0, n, rows)]

    @property
    def work(self) -> Path:
        """The folder of its parts."""
        return self.folder / PARTS / self.images.name.replace("/", "-")

    def part(self, rows: range) -> Path:
        """Return the file of a part, which no other extraction would take for its own."""
        about = {**self.asked, **self.how, "versions": self.how["versions"]["smallcal"]}
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        return self.work / f"{digest[:16]}-{rows.start:07d}.npz"

    def missing(self) -> list[range]:
        """Return the parts that are not done; damaged ones are noted."""
        make_folder(self.work)
        found = []
        for rows in self.parts:
            file, shape = self.part(rows), None
            with suppress(Exception), np.load(file) as arrays:  # a damaged file may raise anything
                shape = dict(arrays)["logits"].shape  # it reads them all, with their checksums
            if shape != (len(rows), self.columns):
                found.append(rows)
                if file.exists():
                    self.notes.append(f"{file} is damaged; it will be computed again")
        return found

    def is_finished(self, entry: Mapping[str, Any] | None) -> bool:
        """Whether the file is there as the manifest has it; one of something else is an error."""
        if entry is None:
            return False
        if changed := changes({key: entry.get(key) for key in self.asked}, self.asked):
            raise InputError(
                f"{self.file} holds another extraction (changed: {changed}); ", **_RENAME
            )
        if self.file.is_file() and file_sha256(self.file) == entry.get("sha256"):
            return True
        self.notes.append(f"{self.file} is missing or damaged; making it again")
        return False

    def finish(self) -> dict[str, Any]:
        """Join the parts into the file; return what the manifest says of it."""
        one, images = self.images, self.images.images
        files = [self.part(rows) for rows in self.parts]
        with np.load(files[0]) as first:
            widths = {name: array.shape[1] for name, array in first.items()}
        arrays = {"labels": images.labels, "ids": np.array(images.ids)}
        with suppress(InputError):  # names that repeat, say, would make the file unreadable
            require_names(images.classes)
            arrays["class_names"] = np.array(images.classes)
        make_folder(self.file.parent)
        # As numpy.savez does, with no more than a part in memory.
        with atomic_path(self.file) as path, zipfile.ZipFile(path, "w") as archive:
            for name, width in widths.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as handle:
                    shape = (len(one), width)
                    write_npy_header(handle, shape, np.dtype("<f4"))  # type: ignore[arg-type]
                    for file in files:
                        with np.load(file) as part:
                            handle.write(part[name].astype("<f4").tobytes())
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as handle:
                    np.save(handle, array, allow_pickle=False)
        shift = {"kind": one.kind, "severity": one.severity, "paired": one.paired}
        return {
            **{"name": images.name, **self.asked, **self.how},
            "file": self.file.relative_to(self.folder).as_posix(),
            "sha256": file_sha256(self.file),
            "n": len(one),
            "columns": self.columns,
            "features": widths.get("features", 0),
            **(shift if one.kind else {}),
        }


# --- the manifest of a cell ----------------------------------------------------------------------


def begin_cell(folder: Path, named: Mapping[str, Any], model: VisionModel) -> dict[str, Any]:
    """Return the manifest of a cell, begun if need be; that of another model is an error."""
    file = folder / MANIFEST
    found: dict[str, Any]
    if not file.exists():
        found = {"format": FORMAT, "version": VERSION, **named}
        found |= {"model": model.source, "weights": model.fingerprint, "sets": {}}
        write_cell(folder, found)
        return found
    found = read_document(file, most=MAX_BYTES, what="manifest of logits", error=FileError)
    about = [found.get("format"), found.get("version")] if isinstance(found, dict) else []
    if about != [FORMAT, VERSION]:
        raise FileError(f"{file} is not a manifest of logits, or one of another version")
    if found["weights"] != model.fingerprint:
        raise InputError(
            f"{folder} holds logits of another model ({found['model']}, with other weights); ",
            **_RENAME,
        )
    return found


def write_cell(folder: Path, document: Mapping[str, Any]) -> None:
    """Write the manifest of a cell."""
    with atomic_path(folder / MANIFEST) as path:
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def require_own(folder: Path) -> None:
    """Raise where a folder holds something, and no extraction was begun in it."""
    with file_errors(f"cannot use {folder}"):
        if not os.path.lexists(folder):
            return
        if not folder.is_dir():
            raise FileError(f"{folder} is not a folder; name one for the logits")
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    if names and not {collection.FILE_NAME, f"{collection.FILE_NAME}.lock"} & set(names):
        raise InputError(
            f"{folder} holds other files ({names[0]}) and no {collection.FILE_NAME}; name a new "
            "folder, or one that smallcal made"
        )


# --- entries of collection.toml ------------------------------------------------------------------

Entry = dict[str, Any]


def name_of(entry: Mapping[str, Any]) -> str:
    """Return what a cell and its folder are called."""
    return f"{entry['dataset']}__{entry['backbone']}__s{entry['seed']}"


def entries_of(manifest: Mapping[str, Any], folder: str) -> list[Entry]:
    """Return the entries of a cell, whose files are in a folder of this name.

    A shifted set that has only some of the classes, as ImageNet-R has 200 of 1,000, becomes a cell
    of its own that sees these classes of the same calibration and test files: logits of others
    must be gone before anything is done with them.
    """
    sets: Mapping[str, Any] = manifest["sets"]
    entry: Entry = {key: manifest[key] for key in ("dataset", "backbone", "seed")}
    entry |= {part: f"{folder}/{sets[part]['file']}" for part in ("calibration", "test")}
    whole: Entry = {**entry, "shift": []}
    found = [whole]
    for one in sets.values():
        if "kind" not in one:
            continue
        shift = {key: one[key] for key in ("kind", "severity", "paired")}
        shift["file"] = f"{folder}/{one['file']}"
        columns = one["model_columns"]
        if columns == sets["test"]["model_columns"]:
            whole["shift"].append(shift)
            continue
        kind, dataset = one["kind"], entry["dataset"]
        name = kind if kind.startswith(f"{dataset}-") else f"{dataset}-{kind}"
        shift |= {"paired": False, "classes": EVERY}
        found.append({**entry, "dataset": name, "classes": columns, "shift": [shift]})
    return found


def registered(root: Path, entries: Sequence[Entry]) -> collection.Collection:
    """Write entries into a folder's ``collection.toml``; others that are there stay."""
    with one_at_a_time(root / collection.FILE_NAME):
        for path in leftovers([root / collection.FILE_NAME]):
            path.unlink(missing_ok=True)
        return collection.write_description(_merged(root, entries), root)


def require_free(root: Path, named: Mapping[str, Any]) -> None:
    """Raise before any work if the entry of a cell could not be written."""
    files = {part: f"{name_of(named)}/{part}.npz" for part in ("calibration", "test")}
    try:
        merged = _merged(root, [{**named, **files, "shift": []}])
        collection.collection_of(merged, root, source=str(root / collection.FILE_NAME))
    except FileError as error:
        raise FileError(f"cannot add to the existing collection: {error}") from None


def _merged(root: Path, entries: Sequence[Entry]) -> Entry:
    """Return what is in a folder's ``collection.toml``, and these entries."""
    document: Entry = {"name": root.resolve().name, "cell": []}
    file = root / collection.FILE_NAME
    if file.exists():
        document, _ = collection.read_description(root)
        collection.collection_of(document, root, source=str(file))
    cells: dict[str, Entry] = {name_of({"seed": 0, **cell}): cell for cell in document["cell"]}
    for entry in entries:
        old = cells.get(name_of(entry), entry)
        if any(old.get(part) != entry[part] for part in ("calibration", "test")):
            name = f"{entry['dataset']} {entry['backbone']}, seed {entry['seed']},"
            raise InputError(f"{file} already has a cell {name} with other files; ", **_RENAME)
        cells[name_of(entry)] = {**old, **entry}
    return {**document, "cell": list(cells.values())}

"""A folder of logits: cells, each with a calibration split, a test split and perhaps shifted ones.

``collection.toml`` says what is there, see docs/lab/studies.md. Files are read when they are needed
and not before.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import Any

import numpy as np

from smallcal import io
from smallcal.data.checks import as_scores
from smallcal.data.predictions import Predictions
from smallcal.errors import FileError, InputError
from smallcal.io.atomic import atomic_path
from smallcal.io.paths import file_sha256, split_path
from smallcal_lab.studies.portions import (
    CLASSES,
    COLUMNS,
    FIXED,
    WAYS,
    Classes,
    Split,
    class_file,
    columns_of,
    draw_rows,
    rows_of_classes,
)
from smallcal_lab.toml import loads, toml_value

FILE_NAME = "collection.toml"


@dataclass(frozen=True)
class ShiftSet:
    """Test samples from elsewhere.

    ``classes`` are its own columns for the cell's classes, where they are not the same; ``labels``
    says whether its labels count "columns" or the chosen "classes".
    """

    kind: str
    severity: int
    file: str
    paired: bool = False
    classes: Classes = ""
    labels: str = COLUMNS


@dataclass(frozen=True)
class Cell:
    """One trained model: a data set, a backbone, a seed.

    ``calibration`` and ``test`` are files, relative to the ``folder`` (``file.npz:val`` names a
    split), or both the file of ``split``. ``classes`` are the columns that are there at all, empty
    for all. ``draw_ways`` says how the first draw of a budget is made, the second, ...; the last
    is for all others.
    """

    dataset: str
    backbone: str
    seed: int
    calibration: str
    test: str
    shifts: tuple[ShiftSet, ...] = ()
    folder: Path = Path()
    classes: Classes = ""
    draw_ways: tuple[str, ...] = ("stratified",)
    split: Split | None = None

    @property
    def name(self) -> str:
        """A name that no other cell has."""
        return f"{self.dataset}__{self.backbone}__s{self.seed}"

    @property
    def sets(self) -> tuple[str | ShiftSet, ...]:
        """What it has: "calibration", "test" and the shifts."""
        return ("calibration", "test", *self.shifts)

    def file(self, which: str | ShiftSet) -> str:
        """Return the file of one of its sets, as the description names it."""
        return which.file if isinstance(which, ShiftSet) else str(getattr(self, which))

    def columns(self, which: str | ShiftSet) -> tuple[int, ...] | None:
        """Return the columns of its classes in the file of one of its sets; None for all."""
        own = which.classes if isinstance(which, ShiftSet) else ""
        return columns_of(own or self.classes, self.folder)

    def read(self, which: str | ShiftSet) -> Predictions:
        """Return one of its sets; the last few are kept, as tasks of a cell follow each other."""
        stamp = None
        with suppress(OSError, ValueError):
            about = split_path(self.folder / self.file(which))[0].stat()
            stamp = about.st_mtime_ns, about.st_size, about.st_ino
        return kept_split(self, which, (stamp, self.columns(which)))

    def load(self, which: str | ShiftSet, *, whole: bool = False) -> Predictions:
        """Read and check one of its sets; a ``whole`` one before its file is split."""
        path = str(self.folder.absolute() / self.file(which))
        loaded = io.read(path)
        for note in loaded.notes:
            warnings.warn(note, stacklevel=2)
        if loaded.labels is None:
            raise FileError(f"{path} has no labels")
        shift = which if isinstance(which, ShiftSet) else None
        given, kind = loaded.logits, loaded.input
        labels, features = loaded.labels, loaded.features
        if given.dtype.kind == "f":
            # Probabilities come back in the type of the logits: rounding moves rows between bins.
            given = given.astype(np.float64)
        # Scores are taken for what those of the calibration split are.
        fitted = which == "calibration" or kind != "score"
        score = None if fitted else self.read("calibration").score
        try:
            if columns := self.columns(which):
                if kind == "score":
                    raise InputError("classes: one score per row has no columns to choose from")
                given, kind = as_scores(given, input=kind), "logits"
                counted = shift.labels if shift else COLUMNS
                rows, labels = rows_of_classes(given, labels, columns, counted=counted)
                given = given[np.ix_(rows, np.array(columns))]
                features = None if features is None else features[rows]
            preds = Predictions.of(given, labels, input=kind, features=features, score=score)
            # A paired set follows the file that is split: the calibration samples' twins go.
            if self.split is None or whole or (shift and not shift.paired):
                return preds
            part = "test" if shift else str(which)
            return preds.take(self.split.rows(preds.labels, seed=self.seed, part=part))
        except InputError as error:
            raise error.about(path) from error

    def draw(self, budget: int, draw: int) -> Predictions:
        """Return one draw of the calibration split; see ``draw_rows``."""
        split = self.read("calibration")
        way = self.draw_ways[min(draw, len(self.draw_ways) - 1)]
        return split.take(draw_rows(split.labels, budget, seed=self.seed, draw=draw, way=way))

    @property
    def splits(self) -> dict[str, Any]:
        """Which part of which file is what: fingerprints of files do not tell."""
        names = ("calibration", "test", "shifts", "classes", "draw_ways", "split")
        return {name: value for name, value in asdict(self).items() if name in names}

    @property
    def files(self) -> tuple[str, ...]:
        """Every file it needs, without the names of splits."""
        paths = [split_path(self.folder / self.file(which))[0] for which in self.sets]
        chosen = map(class_file, (self.classes, *(shift.classes for shift in self.shifts)))
        paths += [self.folder / file for file in chosen if file]
        return tuple(dict.fromkeys(map(str, paths)))


@lru_cache(maxsize=8)
def kept_split(cell: Cell, which: str | ShiftSet, stamp: object) -> Predictions:
    """Return a set; ``stamp`` changes when its file or its columns do, so that it is read again."""
    return cell.load(which)


@dataclass(frozen=True)
class Collection:
    """The cells of one folder."""

    name: str
    cells: tuple[Cell, ...]
    folder: Path

    def cell(self, name: str) -> Cell:
        """Return a cell by name."""
        for cell in self.cells:
            if cell.name == name:
                return cell
        raise InputError(f"{self.folder} has no cell {name!r}")

    def only(self, wanted: Sequence[str]) -> Collection:
        """Return the cells whose names hold one of these texts; all for none."""
        if not wanted:
            return self
        kept = tuple(c for c in self.cells if any(text in c.name for text in wanted))
        if not kept:
            names = ", ".join(cell.name for cell in self.cells[:5])
            raise InputError(f"no cell is called like {', '.join(wanted)}; there are {names} ...")
        return replace(self, cells=kept)

    def sha256(self) -> dict[str, str]:
        """Return a fingerprint of every file, by its path relative to the folder."""
        files = dict.fromkeys(file for cell in self.cells for file in cell.files)
        return {os.path.relpath(file, self.folder): file_sha256(file) for file in files}


def load_collection(folder: str | os.PathLike[str]) -> Collection:
    """Read what a folder's ``collection.toml`` says."""
    document, file = read_description(folder)
    return collection_of(document, file.parent, source=str(file))


def read_description(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], Path]:
    """Return what a folder's ``collection.toml`` holds, and the file; its keys are not checked."""
    root = Path(folder)
    file = root / FILE_NAME if os.path.isdir(root) else root
    try:
        return loads(file.read_text(encoding="utf-8")), file
    except FileNotFoundError:
        raise FileError(f"{file} is missing; `smallcal study import` writes one") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{file} cannot be read as a collection: {error}") from None


def collection_of(document: dict[str, Any], folder: Path, *, source: str) -> Collection:
    """Turn a parsed description into cells, saying which of its entries is wrong."""
    require_keys(document, {"cell": list}, {"name": str}, where=source)
    cells = tuple(
        cell
        for number, entry in enumerate(document["cell"], 1)
        for cell in _cells_of(entry, folder, f"{source}, cell {number}")
    )
    names = [cell.name for cell in cells]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise FileError(f"{source}: {', '.join(twice)} occurs more than once")
    if not cells:
        raise FileError(f"{source} names no cell")
    return Collection(document.get("name", folder.name), cells, folder)


#: Keys of a description with their types: those that must be there, and those that may.
_CELL: dict[str, type] = {"dataset": str, "backbone": str}
_CELL_TOO = {"seed": int | list, "shift": list, "classes": str | list, "draw": str | list}
_SHIFT = {"kind": str, "severity": int, "file": str}
_SHIFT_TOO = {"paired": bool, "classes": str | list, "labels": str}
_SPLIT_TOO = {"samples": int, "per_class": int, "draw": str}


def _cells_of(entry: Any, folder: Path, where: str) -> list[Cell]:
    """Return the cells of one entry: one for each of its seeds."""
    divided = isinstance(entry, dict) and "split" in entry
    files: dict[str, type] = {"split": dict} if divided else {"calibration": str, "test": str}
    require_keys(entry, _CELL | files, _CELL_TOO | {"split": dict}, where=where)
    where += f" ({entry['dataset']} {entry['backbone']})"
    split = _split_of(entry["split"], f"{where}, split") if divided else None
    shifts = enumerate(entry.get("shift", []), 1)
    cell = Cell(
        dataset=entry["dataset"],
        backbone=entry["backbone"],
        seed=0,
        calibration=split.file if split else entry["calibration"],
        test=split.file if split else entry["test"],
        shifts=tuple(_shift_of(shift, f"{where}, shift {place}") for place, shift in shifts),
        folder=folder,
        classes=_classes_of(entry, where),
        draw_ways=_ways_of(entry.get("draw", "stratified"), where),
        split=split,
    )
    seeds = entry.get("seed", 0)
    if not isinstance(seeds, list):
        return [replace(cell, seed=seeds)]
    if split is None or split.draw in FIXED:
        raise FileError(f"{where}: several seeds need a split that is drawn at random")
    if not seeds or not all(type(seed) is int for seed in seeds) or len(set(seeds)) < len(seeds):
        raise FileError(f"{where}: seed must be whole numbers that differ; got {seeds!r}")
    return [replace(cell, seed=require_in_range(seed, "seed", where=where)) for seed in seeds]


def _shift_of(entry: Any, where: str) -> ShiftSet:
    require_keys(entry, _SHIFT, _SHIFT_TOO, where=where)
    if entry.get("labels", COLUMNS) not in (COLUMNS, CLASSES):
        raise FileError(f"{where}: labels must be {COLUMNS} or {CLASSES}; got {entry['labels']!r}")
    return ShiftSet(**{**entry, "classes": _classes_of(entry, where)})


def _split_of(entry: dict[str, Any], where: str) -> Split:
    require_keys(entry, {"file": str}, _SPLIT_TOO, where=where)
    sizes = [entry[key] for key in ("samples", "per_class") if key in entry]
    if len(sizes) != 1 or sizes[0] < 1:
        raise FileError(f"{where}: give either samples or per_class, at least 1")
    usual = "per-class" if "per_class" in entry else "stratified"
    (way,) = _ways_of(entry.get("draw", usual), where)
    return Split(**{**entry, "draw": way})


def _ways_of(given: Any, where: str) -> tuple[str, ...]:
    ways = tuple(given) if isinstance(given, list) else (given,)
    if not ways or not set(map(str, ways)) <= set(WAYS):
        raise FileError(f"{where}: draw: one or more of {', '.join(WAYS)}; got {given!r}")
    return ways


def _classes_of(entry: dict[str, Any], where: str) -> Classes:
    given = entry.get("classes", "")
    if isinstance(given, str):
        return given
    if not all(type(column) is int for column in given):
        raise FileError(f"{where}: classes must be column numbers; got {given[:5]!r}")
    try:
        columns_of(tuple(given), Path())
    except InputError as error:
        raise FileError(f"{where}: {error}") from None
    return tuple(given)


def require_in_range(number: int, key: str, *, where: str) -> int:
    """Return a seed or another number of a collection, if random generators take it."""
    if not 0 <= number < 2**32:
        raise FileError(f"{where}: {key} must be from 0 to {2**32 - 1:,}; got {number}")
    return number


def require_keys(
    entry: Any,
    needed: Mapping[str, type],
    allowed: Mapping[str, type | UnionType],
    *,
    where: str,
) -> None:
    """Raise unless an entry of a TOML file has the keys it needs, of their types, and no others."""
    if not isinstance(entry, dict):
        raise FileError(f"{where}: expected a table of keys")
    known = {**needed, **allowed}
    missing, unknown = sorted(set(needed) - set(entry)), sorted(set(entry) - set(known))
    if missing or unknown:
        what = f"lacks {', '.join(missing)}" if missing else f"does not know {', '.join(unknown)}"
        raise FileError(f"{where}: {what}; keys are {', '.join(known)}")
    for key, value in entry.items():
        kind = known[key]
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            name = kind.__name__ if isinstance(kind, type) else str(kind)
            raise FileError(f"{where}: {key} must be of type {name}; got {value!r}")
        if isinstance(value, int):
            require_in_range(value, key, where=where)


def write_description(document: Mapping[str, Any], folder: Path) -> Collection:
    """Write ``collection.toml``, whole or not at all, and read it back; refuse what is wrong.

    A document has ``name`` and ``cell``, entries as the file has them.
    """
    file = folder / FILE_NAME
    collection_of(dict(document), folder, source=str(file))
    lines = [f"name = {toml_value(document['name'])}"] if "name" in document else []
    for cell in document["cell"]:
        tables = [("[[cell]]", cell), *(("[[cell.shift]]", one) for one in cell.get("shift", ()))]
        for title, entry in tables:
            lines += ["", title]
            lines += [f"{k} = {toml_value(value)}" for k, value in entry.items() if k != "shift"]
    io.make_folder(folder)
    with atomic_path(file) as path:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return load_collection(folder)


def plain_name(text: str) -> str:
    """Return a name that a file may have on any system.

    Examples
    --------
    >>> plain_name("google/vit b16"), plain_name("//")
    ('google-vit-b16', '-')
    """
    return re.sub(r"[^\w.+-]+", "-", text).strip("-") or "-"

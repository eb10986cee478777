"""A folder of logits: cells, each with a calibration split, a test split and perhaps shifted ones.

``collection.toml`` says what is there::

    name = "my models"

    [[cell]]
    dataset = "cifar100"
    backbone = "vit-b16"
    seed = 0
    calibration = "vit-seed0.npz:val"
    test = "vit-seed0.npz:test"

    [[cell.shift]]
    kind = "gaussian_noise"
    severity = 3
    file = "vit-seed0-noise3.npz"
    paired = true        # its rows are the test rows, in the same order

Files are read when they are needed and not before.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from smallcal import io
from smallcal.data.predictions import IntArray, Predictions
from smallcal.errors import FileError, InputError
from smallcal.io.read import file_sha256, split_path
from smallcal.studies.frame import ALL

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE_NAME = "collection.toml"


@dataclass(frozen=True)
class ShiftSet:
    """Test samples from elsewhere."""

    kind: str
    severity: int
    file: str
    paired: bool = False


@dataclass(frozen=True)
class Cell:
    """One trained model: a data set, a backbone, a seed.

    Attributes
    ----------
    dataset, backbone : str
    seed : int
    calibration, test : str
        Files, relative to the folder; ``file.npz:val`` names a split.
    shifts : tuple of ShiftSet
    folder : Path
    """

    dataset: str
    backbone: str
    seed: int
    calibration: str
    test: str
    shifts: tuple[ShiftSet, ...] = ()
    folder: Path = Path()

    @property
    def name(self) -> str:
        """A name that no other cell has."""
        return f"{self.dataset}__{self.backbone}__s{self.seed}"

    def read(self, which: str | ShiftSet) -> Predictions:
        """Return a split: "calibration", "test" or one of the shifts."""
        file = which.file if isinstance(which, ShiftSet) else getattr(self, which)
        path = os.path.abspath(self.folder / file)
        return kept_split(path, stamp_of(split_path(path)[0]))

    def draw(self, budget: int, draw: int) -> Predictions:
        """Return one draw of the calibration split; see :func:`draw_rows`."""
        split = self.read("calibration")
        return split.take(draw_rows(split.labels, budget, seed=self.seed, draw=draw))

    @property
    def splits(self) -> dict[str, Any]:
        """Which part of which file is what: fingerprints of files do not tell."""
        shifts = [asdict(shift) for shift in self.shifts]
        return {"calibration": self.calibration, "test": self.test, "shifts": shifts}

    @property
    def files(self) -> tuple[str, ...]:
        """Every file it needs, without the names of splits."""
        named = [self.calibration, self.test, *(shift.file for shift in self.shifts)]
        return tuple(dict.fromkeys(str(split_path(self.folder / one)[0]) for one in named))


@lru_cache(maxsize=8)
def kept_split(path: str, stamp: object) -> Predictions:
    """Return a split; the last few are kept, because tasks of a cell follow each other."""
    return read_split(path)


def stamp_of(file: str | os.PathLike[str]) -> object:
    """Return what changes when a file is written again, so that nothing old is taken for it."""
    try:
        about = os.stat(file)
    except (OSError, ValueError):
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino


def read_split(path: str) -> Predictions:
    """Read and check one file."""
    loaded = io.read(path)
    for note in loaded.notes:
        warnings.warn(note, stacklevel=2)
    if loaded.labels is None:
        raise FileError(f"{path} has no labels")
    logits = loaded.logits
    if logits.dtype.kind == "f":
        # Probabilities come back in the type of the logits, and the rounding of a short one moves
        # samples between bins: float16 changed ECE by 0.1 point.
        logits = logits.astype(np.float64)
    try:
        return Predictions.of(logits, loaded.labels, input=loaded.input, features=loaded.features)
    except InputError as error:
        raise error.about(path) from error


def draw_rows(labels: IntArray, budget: int, *, seed: int, draw: int) -> IntArray:
    """Return the rows of one draw, in order: stratified by class where that can be done.

    The seed is ``seed x 10**6 + budget x 10**3 + draw``, the paper's. With fewer samples than
    classes, or a class with one sample, rows are drawn without strata. A budget that is the whole
    split takes it as it is.

    Examples
    --------
    >>> draw_rows(np.arange(100) % 4, 20, seed=0, draw=1).shape
    (20,)
    >>> np.bincount(np.arange(100)[draw_rows(np.arange(100) % 4, 20, seed=0, draw=1)] % 4).tolist()
    [5, 5, 5, 5]
    """
    n = len(labels)
    if budget in (ALL, n):
        return np.arange(n)
    if not 0 < budget <= n:
        raise InputError(f"a budget of {budget:,} samples cannot be drawn from {n:,}")
    state = seed * 10**6 + budget * 10**3 + draw
    counts = np.unique(labels, return_counts=True)[1]
    if counts.min() >= 2 and min(budget, n - budget) >= len(counts):
        from sklearn.model_selection import train_test_split

        taken, _ = train_test_split(
            np.arange(n), train_size=budget, stratify=labels, random_state=state % 2**32
        )
        return np.sort(taken)
    rng = np.random.default_rng(state)
    return np.sort(rng.choice(n, budget, replace=False))


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
    """Read what a folder's ``collection.toml`` says.

    Raises
    ------
    FileError
        If the folder or its description is missing or is not one.
    """
    root = Path(folder)
    file = root / FILE_NAME if os.path.isdir(root) else root
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(
            f"{file} is missing; `smallcal study import` writes one for a folder of logits"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FileError(f"{file} cannot be read as a collection: {error}") from None
    return collection_of(document, file.parent, source=str(file))


def collection_of(document: dict[str, Any], folder: Path, *, source: str) -> Collection:
    """Turn a parsed description into cells, saying which of its entries is wrong."""
    _require_keys(document, {"cell": list}, {"name": str}, where=source)
    cells = []
    for number, entry in enumerate(document["cell"], 1):
        where = f"{source}, cell {number}"
        _require_keys(entry, _CELL, {"seed": int, "shift": list}, where=where)
        shifts = []
        for place, shift in enumerate(entry.get("shift", []), 1):
            _require_keys(shift, _SHIFT, {"paired": bool}, where=f"{where}, shift {place}")
            shifts.append(ShiftSet(**shift))
        plain = {key: value for key, value in entry.items() if key != "shift"}
        cells.append(Cell(**{"seed": 0, **plain}, shifts=tuple(shifts), folder=folder))
    names = [cell.name for cell in cells]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise FileError(f"{source}: {', '.join(twice)} is there more than once")
    if not cells:
        raise FileError(f"{source} names no cell")
    return Collection(document.get("name", folder.name), tuple(cells), folder)


_CELL = {"dataset": str, "backbone": str, "calibration": str, "test": str}
_SHIFT = {"kind": str, "severity": int, "file": str}


def _require_keys(
    entry: Any, needed: Mapping[str, type], allowed: Mapping[str, type], *, where: str
) -> None:
    if not isinstance(entry, dict):
        raise FileError(f"{where}: expected a table of keys")
    known = {**needed, **allowed}
    missing, unknown = sorted(set(needed) - set(entry)), sorted(set(entry) - set(known))
    if missing or unknown:
        what = f"lacks {', '.join(missing)}" if missing else f"does not know {', '.join(unknown)}"
        raise FileError(f"{where}: {what}; keys are {', '.join(known)}")
    for key, value in entry.items():
        if not isinstance(value, known[key]) or (known[key] is int and isinstance(value, bool)):
            raise FileError(f"{where}: {key} must be of type {known[key].__name__}; got {value!r}")

"""A small collection that never changes, with its own reference values and checksums.

Three simulated models with three seeds each: one of 20 classes with corrupted and shifted sets,
a plain one, and one of 8 classes. Made by ``scripts/freeze_collection.py``, which also computed
the values, without smallcal. To keep the package small, ``logits.npz`` holds the splits that were
drawn, and of each corruption what a step of severity adds to the test split. The corrupted sets are
put together here, exactly: logits are multiples of 1/32, rounded once, to half precision.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smallcal.errors import FileError
from smallcal.io.documents import read_document
from smallcal.io.paths import file_sha256
from smallcal_lab.studies.collection import Collection, load_collection
from smallcal_lab.studies.reproduce.reference import MAX_BYTES, Reference, load_reference

#: Where it is, and its files.
FOLDER = Path(__file__).parent
CHECKSUMS, PACKED = "checksums.json", "logits.npz"

SEVERITIES = (1, 2, 3, 4, 5)
#: The unit of what is kept.
STEP = 1 / 32
#: The share of every logit that a step of dimming takes away.
DIMMING = 0.06
#: Corruptions that add the same for every step of severity.
ADDED = ("weakening", "noise", "leaning")

Array = npt.NDArray[Any]


def load_frozen(folder: Path = FOLDER) -> tuple[Collection, Reference]:
    """Return the frozen collection and its values, if every file is as it was frozen.

    Examples
    --------
    >>> collection, reference = load_frozen()
    >>> [cell.name for cell in collection.cells][:2]
    ['simulated20__structured__s0', 'simulated20__structured__s1']
    """
    require_unchanged(folder)
    return load_collection(unpacked(folder)), load_reference(folder / "reference.json")


def require_unchanged(folder: Path) -> None:
    """Raise if a file of a folder is not what its checksums say."""
    file = folder / CHECKSUMS
    expected = read_document(file, most=MAX_BYTES, what="list of checksums", error=FileError)
    if not isinstance(expected, dict):
        raise FileError(f"{file} is not a list of checksums")
    for name, digest in expected.items():
        if file_sha256(folder / name) != digest:
            raise FileError(f"{folder / name} is not what was frozen: its checksum differs")


@cache
def unpacked(folder: Path) -> Path:
    """Return a folder with the collection's files, which is gone when the process ends."""
    try:
        made = Path(tempfile.mkdtemp(prefix="smallcal-frozen-"))
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        unpack(folder, made)
    except OSError as error:
        raise FileError(f"cannot unpack the frozen collection: {error}") from None
    return made


def unpack(folder: Path, made: str | os.PathLike[str]) -> None:
    """Write the collection that a folder keeps into another one."""
    shutil.copy(folder / "collection.toml", made)
    models: dict[str, dict[str, Array]] = {}
    with np.load(folder / PACKED, allow_pickle=False) as packed:
        for key in packed.files:
            model, _, name = key.partition("/")
            models.setdefault(model, {})[name] = packed[key]
    for model, kept in models.items():
        arrays: dict[str, Any] = {}
        for split, logits, labels in _splits(kept):
            arrays |= {f"{split}_labels": labels, f"{split}_logits": logits.astype(np.float16)}
        np.savez(Path(made) / f"{model}.npz", **arrays)


def _splits(kept: dict[str, Array]) -> Iterator[tuple[str, Array, Array]]:
    """Yield name, logits and labels of a model's splits, and of the test split corrupted."""
    for key in kept:
        if key.endswith("_labels"):
            split = key.removesuffix("_labels")
            yield split, _numbers(kept[f"{split}_logits"]), kept[key]
    if ADDED[0] in kept:
        clean, labels = _numbers(kept["test_logits"]), kept["test_labels"]
        for severity in SEVERITIES:
            for kind in ADDED:
                yield f"{kind}{severity}", clean + severity * _numbers(kept[kind]), labels
            yield f"dimming{severity}", clean * (1 - DIMMING * severity), labels


def _numbers(planes: Array) -> Array:
    """Return numbers of which the high and the low bytes are kept apart, so that they compress."""
    high, low = planes.astype(np.int64)
    values: Array = ((high - 128) * 256 + low) * STEP
    return values

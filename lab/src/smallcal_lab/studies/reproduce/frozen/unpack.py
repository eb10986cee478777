"""The files of the frozen collection, made from the little that is kept of them.

A package is downloaded more often than its frozen collection is used. So ``logits.npz`` keeps the
splits that were drawn, and of each corruption what it adds to the test split for one step of
severity; the corrupted sets are put together here. That is exact: logits are multiples of 1/32, and
what is computed from them is rounded once, to half precision.
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

PACKED = "logits.npz"
SEVERITIES = (1, 2, 3, 4, 5)

#: The unit of what is kept.
STEP = 1 / 32
#: The share of every logit that a step of dimming takes away.
DIMMING = 0.06
#: Corruptions that add the same for every step of severity.
ADDED = ("weakening", "noise", "leaning")

Array = npt.NDArray[Any]


@cache
def unpacked(folder: Path) -> Path:
    """Return a folder with the collection's files, made anew in each process that asks for them.

    It is gone when the process ends.
    """
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
    with np.load(folder / PACKED, allow_pickle=False) as packed:
        names = dict.fromkeys(key.partition("/")[0] for key in packed.files)
        for name in names:
            kept = {key: packed[f"{name}/{key}"] for key in _keys(packed.files, name)}
            arrays: dict[str, Any] = dict(_splits(kept))
            np.savez(Path(made) / f"{name}.npz", **arrays)


def _keys(keys: list[str], name: str) -> list[str]:
    return [key.partition("/")[2] for key in keys if key.startswith(f"{name}/")]


def _splits(kept: dict[str, Array]) -> Iterator[tuple[str, Array]]:
    """Yield the arrays of a file: logits in half precision, and labels."""
    for key in kept:
        if key.endswith("_labels"):
            yield key, kept[key]
            split = key.removesuffix("_labels")
            yield f"{split}_logits", _half(numbers(kept[f"{split}_logits"]))
    if ADDED[0] not in kept:
        return
    clean, labels = numbers(kept["test_logits"]), kept["test_labels"]
    for kind, severity, logits in _corrupted(clean, kept):
        yield f"{kind}{severity}_logits", _half(logits)
        yield f"{kind}{severity}_labels", labels


def _corrupted(clean: Array, kept: dict[str, Array]) -> Iterator[tuple[str, int, Array]]:
    """Yield the test split under every corruption, all of which leave its labels as they are."""
    added = {kind: numbers(kept[kind]) for kind in ADDED}
    for severity in SEVERITIES:
        for kind, step in added.items():
            yield kind, severity, clean + severity * step
        yield "dimming", severity, clean * (1 - DIMMING * severity)


def _half(logits: Array) -> Array:
    return logits.astype(np.float16)


def numbers(planes: Array) -> Array:
    """Return what :func:`planes` keeps, as float64."""
    high, low = planes.astype(np.int64)
    values: Array = ((high - 128) * 256 + low) * STEP
    return values


def planes(values: Array) -> Array:
    """Return numbers in units of 1/32, their high bytes before their low ones: so they compress.

    Examples
    --------
    >>> planes(np.array([0.0, 1.5, -100.0])).tolist()
    [[128, 128, 115], [0, 48, 128]]
    >>> numbers(planes(np.array([0.0, 1.5, -100.0]))).tolist()
    [0.0, 1.5, -100.0]
    """
    units = np.rint(values / STEP).astype(np.int64) + 128 * 256
    return np.stack(np.divmod(units, 256)).astype(np.uint8)

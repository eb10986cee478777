"""CIFAR-10 and CIFAR-100, clean and corrupted: arrays of 32 x 32 pixels."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from smallcal.data.predictions import IntArray
from smallcal.errors import FileError, InputError, choose, did_you_mean, file_errors
from smallcal.io.npy import map_npy
from smallcal_lab.corruption_names import EXTRA, SEVERITIES, STANDARD
from smallcal_lab.vision.image_set import ImageSet, one_line_errors, root_of

_TEN = "airplane automobile bird cat deer dog frog horse ship truck"
_HUNDRED = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile
cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp
lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree
orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum
rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train
trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
#: The names of classes, in the order of their numbers.
NAMES = {"cifar10": tuple(_TEN.split()), "cifar100": tuple(_HUNDRED.split())}

#: Their files by part, and what these call the labels.
_FILES = {
    "cifar10": {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]},
    "cifar100": {"train": ["train"], "test": ["test"]},
}
_LABELS = {"cifar10": "labels", "cifar100": "fine_labels"}
_LABEL_FILE = "labels.npy"

SIDE = 32

#: CIFAR's largest file has 155 MB.
MAX_BYTES = 1 << 30

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, eq=False)
class Rows:
    """Images in memory, one a row: all red values, all green ones, all blue ones."""

    data: Bytes

    def read(self, row: int, name: str) -> Image.Image:
        """Return one image in RGB."""
        planes = self.data[row].reshape(3, SIDE, SIDE)
        return Image.fromarray(np.ascontiguousarray(planes.transpose(1, 2, 0)))


@dataclass(frozen=True)
class Mapped:
    """Images in a .npy file that is read where it lies."""

    file: Path
    start: int

    def read(self, row: int, name: str) -> Image.Image:
        """Return one image in RGB."""
        return Image.fromarray(np.array(_mapped(self.file)[self.start + row]))


def _mapped(file: Path) -> Bytes:
    """Return the array in a file, of the shape that CIFAR-10-C's have."""
    with file_errors(f"cannot read {file}"):
        found = map_npy(file)
    if found.dtype != np.uint8 or found.shape[1:] != (SIDE, SIDE, 3) or len(found) % 5:
        raise FileError(
            f"{file} must hold bytes of shape (5 n, 32, 32, 3), not {found.dtype} {found.shape}"
        )
    return found


def clean_parts(kind: str, place: Path) -> tuple[str, ...]:
    """Return which of "train" and "test" are there."""
    folder, files = root_of(kind, place), _FILES[kind]
    return tuple(part for part in files if all((folder / one).exists() for one in files[part]))


def open_clean(kind: str, place: Path, part: str) -> ImageSet:
    """Return a part of CIFAR-10 or CIFAR-100 from the official Python batches."""
    part = part or "test"
    if part not in _FILES[kind]:
        raise InputError(f"{kind} has no part {part!r}; {choose(part, _FILES[kind])}")
    data, labels = [], []
    for file in (root_of(kind, place) / name for name in _FILES[kind][part]):
        batch = read_batch(file)
        pixels: Any = batch.get("data")
        if getattr(pixels, "dtype", None) != np.uint8 or pixels.shape[1:] != (3 * SIDE * SIDE,):
            raise FileError(
                f"{file} is not a batch of {kind}: 'data' must hold 3,072 bytes for each image"
            )
        data.append(pixels)
        labels.append(
            _numbers(batch.get(_LABELS[kind]), file, n=len(pixels), most=len(NAMES[kind]))
        )
    rows, numbers = Rows(np.concatenate(data)), np.concatenate(labels)
    ids = [f"{part}-{row:05d}" for row in range(len(numbers))]
    return ImageSet.of(f"{kind}-{part}", numbers, ids, classes=NAMES[kind], pixels=rows)


def _numbers(given: object, file: Path, *, n: int, most: int) -> IntArray:
    """Return labels, if there are so many and they are below ``most``."""
    labels = given if isinstance(given, np.ndarray) else np.array(given, dtype=object)
    whole = labels.dtype.kind in "iu" or all(type(one) is int for one in labels.ravel())
    if not n or labels.shape != (n,) or not whole or not 0 <= min(labels) <= max(labels) < most:
        raise FileError(f"{file}: labels must be 0 .. {most - 1}, whole numbers, for {n:,} images")
    return labels.astype(np.int64)


def corrupted_parts(kind: str, place: Path) -> tuple[str, ...]:
    """Return the corruptions that are there with their severities, such as "fog-3"."""
    files = root_of(kind, place).glob("*.npy")
    there = in_order(file.stem for file in files if file.name != _LABEL_FILE)
    return tuple(f"{one}-{severity}" for one in there for severity in SEVERITIES)


def in_order(kinds: Iterable[str]) -> list[str]:
    """Return corruptions in the order of the paper, then others by name."""
    there, known = set(kinds), (*STANDARD, *EXTRA)
    return [one for one in known if one in there] + sorted(there - set(known))


def named_part(source: str, part: str, there: tuple[str, ...]) -> tuple[str, int]:
    """Return corruption and severity of a part such as "fog-3" that is there."""
    if part not in there:
        what = did_you_mean(part, there) or f"name one that is there, such as {source}:fog-3"
        kind = InputError if there else FileError
        raise kind(f"{source} has no corruption and severity {part!r}; {what}")
    name, _, severity = part.rpartition("-")
    return name, int(severity)


def open_corrupted(kind: str, place: Path, part: str) -> ImageSet:
    """Return one corruption at one severity of CIFAR-10-C or CIFAR-100-C."""
    folder, clean = root_of(kind, place), kind.removesuffix("-c")
    corruption, severity = named_part(f"{kind}:{place}", part, corrupted_parts(kind, place))
    file, listed = folder / f"{corruption}.npy", folder / _LABEL_FILE
    n = len(_mapped(file))
    with file_errors(f"cannot read {listed}"):
        labels = _numbers(map_npy(listed), listed, n=n, most=len(NAMES[clean]))
    labels, *others = labels.reshape(len(SEVERITIES), -1)
    if any((other != labels).any() for other in others):
        raise FileError(f"{listed}: the five severities must have the same labels")
    rows = Mapped(file, (severity - 1) * len(labels))
    ids = [f"test-{row:05d}" for row in range(len(labels))]
    return ImageSet.of(f"{kind}-{part}", labels, ids, classes=NAMES[clean], pixels=rows)


# --- batches --------------------------------------------------------------------------------------

# A pickle is a program. Those of CIFAR use little of what it may do: dictionaries, lists, numbers,
# bytes and NumPy arrays of numbers. What a file asks to call is only written down here, and what
# stands for an array or a number is made of that afterwards, by functions of our own.

#: What a file may ask for, as the newest NumPy names it.
_ASKED = (
    *("_codecs.encode", "numpy.dtype", "numpy.ndarray", "numpy._core.multiarray._reconstruct"),
    *("numpy._core.multiarray.scalar", "numpy._core.numeric._frombuffer"),
)


class _Asked:
    """A call that a file asks for, and the state that it gives to what comes out; never made."""

    def __init__(self, name: str, given: tuple[Any, ...]) -> None:
        self.name, self.given = name, given
        self.state: Any = ()

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Reader(pickle._Unpickler):
    """An unpickler that writes down what a file asks for.

    The one in Python and not the one in C, which a file of ten bytes can make reserve gigabytes
    (its memo is an array as long as the largest number in the file).
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return what writes a call down; a new function each time, which a file may spoil."""
        asked = f"{module}.{name}".replace("numpy.core.", "numpy._core.")
        if asked not in _ASKED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no such file needs")
        return lambda *given: _Asked(name, given)


def _made(value: Any) -> Any:
    """Return a value, with arrays, numbers and text in the place of the calls for them."""
    if isinstance(value, list):
        return [_made(one) for one in value]
    if not isinstance(value, _Asked):
        return value.decode("latin-1") if isinstance(value, bytes) else value
    if value.name == "encode":  # bytes that Python 3 wrote for Python 2
        return str(value.given[0])
    if value.name == "_reconstruct":
        _, shape, kind, by_columns, raw = value.state
        return _array(raw, kind, shape, order="F" if by_columns else "C")
    if value.name == "_frombuffer":
        raw, kind, shape, order = value.given
        return _array(raw, kind, shape, order=_made(order))
    kind, raw = value.given
    return _array(raw, kind, (), order="C").item()


def _array(raw: Any, kind: Any, shape: Any, *, order: Any) -> np.ndarray[Any, Any]:
    """Return an array of numbers, if a file says it wholly."""
    code, direction = _made(kind.given[0]), _made(kind.state[1])
    if code[0] not in "iufb" or not code[1:].isdigit() or direction not in ("|", "<", ">", "="):
        raise ValueError(f"an array of {code!r}, which are not numbers")
    dtype, sizes = np.dtype(direction + code), tuple(map(int, shape))
    numbers = raw if isinstance(raw, bytes | bytearray) else _made(raw).encode("latin-1")
    if min(sizes, default=0) < 0 or math.prod(sizes) * dtype.itemsize != len(numbers):
        raise ValueError(f"an array of shape {sizes} with {len(numbers):,} bytes")
    return np.frombuffer(numbers, dtype).reshape(sizes, order=order)


def read_batch(file: Path) -> dict[str, Any]:
    """Return the dictionary in a pickle of CIFAR: lists, numbers, text and arrays by name."""
    with one_line_errors(f"{file} is not a batch of CIFAR", FileError):
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            raise ValueError(f"no file, or over {MAX_BYTES:,} bytes")
        with file.open("rb") as stream:
            found = _Reader(stream, encoding="bytes").load()
        if not isinstance(found, dict):
            raise ValueError("it does not hold a dictionary")
        return {_made(key): _made(value) for key, value in found.items()}

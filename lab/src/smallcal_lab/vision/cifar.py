"""CIFAR-10 and CIFAR-100, clean and corrupted: arrays of 32 x 32 pixels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from smallcal.data.predictions import IntArray
from smallcal.errors import FileError, InputError, choose
from smallcal.io.npy import map_npy
from smallcal_lab.corruption_names import EXTRA, SEVERITIES, STANDARD
from smallcal_lab.vision.image_set import ImageSet
from smallcal_lab.vision.pickles import read_batch

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
#: Folders that the official archives unpack to.
_FOLDERS = {
    "cifar10": "cifar-10-batches-py",
    "cifar100": "cifar-100-python",
    "cifar10-c": "CIFAR-10-C",
    "cifar100-c": "CIFAR-100-C",
}

SIDE = 32
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_PART = re.compile(r"(.+)-([1-5])")
_LABEL_FILE = "labels.npy"


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
    found = _loaded(file)
    if found.dtype != np.uint8 or found.ndim != 4 or found.shape[1:] != (SIDE, SIDE, 3):
        raise FileError(
            f"{file} must hold bytes of shape (n, 32, 32, 3), not {found.dtype} {found.shape}"
        )
    if len(found) % len(SEVERITIES) or not len(found):
        raise FileError(f"{file} has {len(found):,} images, not a multiple of the five severities")
    return found


def _loaded(file: Path) -> np.ndarray[Any, Any]:
    try:
        return map_npy(file)
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror or error}") from None
    except FileError as error:
        raise FileError(f"cannot read {file}: it is not a .npy file of numbers ({error})") from None


def _inside(kind: str, place: Path) -> Path:
    """Return the folder itself, or the one that the archive unpacked into it."""
    inner = place / _FOLDERS[kind]
    return inner if inner.is_dir() else place


def clean_parts(kind: str, place: Path) -> tuple[str, ...]:
    """Return which of "train" and "test" are there."""
    folder = _inside(kind, place)
    return tuple(
        part
        for part, files in _FILES[kind].items()
        if all((folder / one).exists() for one in files)
    )


def open_clean(kind: str, place: Path, part: str) -> ImageSet:
    """Return a part of CIFAR-10 or CIFAR-100 from the official Python batches."""
    part = part or "test"
    if part not in _FILES[kind]:
        raise InputError(f"{kind} has no part {part!r}; {choose(part, _FILES[kind])}")
    folder = _inside(kind, place)
    data, labels = [], []
    for file in (folder / name for name in _FILES[kind][part]):
        if not file.exists():
            raise FileError(f"{kind} needs {file}, an official Python batch, and it is not there")
        batch = read_batch(file)
        for name in ("data", _LABELS[kind]):
            if name not in batch:
                raise FileError(f"{file} is not a batch of {kind}: it has no {name!r}")
        pixels = batch["data"]
        if (
            not isinstance(pixels, np.ndarray)
            or pixels.dtype != np.uint8
            or (pixels.shape[1:] != (3 * SIDE * SIDE,))
        ):
            raise FileError(f"{file}: 'data' must hold 3,072 bytes for each image")
        data.append(pixels)
        most = len(NAMES[kind])
        labels.append(_numbers(batch[_LABELS[kind]], file, n=len(pixels), most=most))
    return ImageSet.of(
        f"{kind}-{part}",
        np.concatenate(labels),
        [f"{part}-{row:05d}" for row in range(sum(map(len, labels)))],
        classes=NAMES[kind],
        pixels=Rows(np.concatenate(data)),
    )


def _numbers(given: object, file: Path, *, n: int, most: int) -> IntArray:
    """Return labels, if there are so many and they are below ``most``."""
    try:
        labels = np.asarray(given)
    except ValueError:  # lists of several lengths
        labels = np.empty((0, 0))
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or not n:
        raise FileError(f"{file}: labels must be a list of whole numbers")
    if len(labels) != n:
        raise FileError(f"{file}: {len(labels):,} labels for {n:,} images")
    if not 0 <= labels.min() <= labels.max() < most:
        raise FileError(f"{file}: labels must be 0 .. {most - 1}")
    return labels.astype(np.int64)


def corrupted_parts(kind: str, place: Path) -> tuple[str, ...]:
    """Return the corruptions that are there with their severities, such as "fog-3"."""
    folder = _inside(kind, place)
    there = {file.stem for file in folder.glob("*.npy") if file.name != _LABEL_FILE}
    return tuple(f"{one}-{severity}" for one in in_order(there) for severity in SEVERITIES)


def in_order(kinds: set[str]) -> list[str]:
    """Return corruptions in the order of the paper, then others by name.

    Examples
    --------
    >>> in_order({"fog", "spatter", "shot_noise", "mist"})
    ['shot_noise', 'fog', 'spatter', 'mist']
    """
    known = [one for one in (*STANDARD, *EXTRA) if one in kinds]
    return known + sorted(kinds - set(known))


def named_part(source: str, part: str, there: tuple[str, ...]) -> tuple[str, int]:
    """Return corruption and severity of a part such as "fog-3" that is there."""
    found = _PART.fullmatch(part)
    if found is None:
        wanted = f"no part {part!r}" if part else "many parts"
        raise InputError(
            f"{source} has {wanted}; name a corruption and severity, such as {source}:fog-3"
        )
    if part not in there:
        kinds = dict.fromkeys(one.rpartition("-")[0] for one in there)
        say = choose(found[1], kinds) if found[1] not in kinds else "its folder is not there"
        raise InputError(f"{source} has no {part}; {say}")
    return found[1], int(found[2])


def open_corrupted(kind: str, place: Path, part: str) -> ImageSet:
    """Return one corruption at one severity of CIFAR-10-C or CIFAR-100-C."""
    folder, clean = _inside(kind, place), kind.removesuffix("-c")
    there = corrupted_parts(kind, place)
    if not there:
        raise FileError(f"{folder} holds no corruption of {kind}, such as fog.npy")
    corruption, severity = named_part(f"{kind}:{place}", part, there)
    file = folder / f"{corruption}.npy"
    pixels = _mapped(file)
    each = len(pixels) // len(SEVERITIES)
    known = _loaded(folder / _LABEL_FILE)
    labels = _numbers(known, folder / _LABEL_FILE, n=len(pixels), most=len(NAMES[clean]))
    if (labels.reshape(len(SEVERITIES), each) != labels[:each]).any():
        raise FileError(f"{folder / _LABEL_FILE}: the five severities must have the same labels")
    return ImageSet.of(
        f"{kind}-{part}",
        labels[:each],
        [f"test-{row:05d}" for row in range(each)],
        classes=NAMES[clean],
        pixels=Mapped(file, (severity - 1) * each),
    )

"""A set of labelled images, read one at a time, in whatever mode, to RGB with eight bits."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from smallcal.data.predictions import IntArray
from smallcal.data.shown import one_line
from smallcal.errors import FileError, InputError, SmallcalError

#: How names of image files end, in small letters.
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")

#: Folders that the official archives unpack to.
_FOLDERS = {
    "cifar10": ("cifar-10-batches-py",),
    "cifar100": ("cifar-100-python",),
    "cifar10-c": ("CIFAR-10-C",),
    "cifar100-c": ("CIFAR-100-C",),
    "tiny-imagenet": ("tiny-imagenet-200",),
    "imagenet": ("ILSVRC/Data/CLS-LOC", "CLS-LOC"),
    "imagenet-c": ("imagenet-c", "ImageNet-C"),
    "imagenet-r": ("imagenet-r",),
    "imagenet-a": ("imagenet-a",),
    "imagenet-sketch": ("sketch", "imagenet-sketch", "ImageNet-Sketch/sketch"),
}

#: What a file may hold, whatever its name: Pillow also knows formats that start other programs.
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")


@dataclass(frozen=True)
class Files:
    """Images in files below ``root``, by a pattern of the class and the name in ``class/name``."""

    root: Path
    pattern: str = "{owner}/{name}"

    def read(self, row: int, name: str) -> Image.Image:
        """Return one image in RGB."""
        owner, _, rest = name.partition("/")
        return read_image(self.root / self.pattern.format(owner=owner, name=rest))


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet:
    """Labelled images by number, in a fixed order.

    Attributes
    ----------
    name : str
        Such as ``cifar100-test``.
    labels : ndarray of int64, shape (n,)
        Which of ``classes`` each image is of.
    ids : tuple of str
        A name for each image, the same wherever the folder lies; images of a corrupted set have the
        ids of the clean ones.
    classes : tuple of str
    columns : tuple of int, or None
        The columns of a model of 1,000 ImageNet classes that ``classes`` are, in order; None where
        the model has just these classes.
    pixels : object
        Where images come from: its ``read(row, id)`` returns one in RGB. It is small, so that it
        can be sent to other processes.
    rows : ndarray of int64, shape (n,)
        The images' rows in ``pixels``.

    Examples
    --------
    >>> images = ImageSet.of("pets", [0, 1], "ab", classes=("cat", "dog"), pixels=None)
    >>> images, images.labels.tolist(), images.take([1]).ids
    (<ImageSet pets: 2 images, 2 classes>, [0, 1], ('b',))
    """

    name: str
    labels: IntArray
    ids: tuple[str, ...]
    classes: tuple[str, ...]
    columns: tuple[int, ...] | None
    pixels: Any
    rows: IntArray

    @classmethod
    def of(
        cls,
        name: str,
        labels: Sequence[int] | IntArray,
        ids: Sequence[str],
        *,
        classes: Sequence[str],
        pixels: Any,
        columns: Sequence[int] | None = None,
    ) -> ImageSet:
        """Return all images of a place."""
        numbers = _frozen(np.asarray(labels))
        if len(numbers) != len(ids) or not set(numbers.tolist()) <= set(range(len(classes))):
            raise InputError(f"{name}: each image must have a label from 0 to {len(classes) - 1}")
        rows, only = _frozen(np.arange(len(ids))), None if columns is None else tuple(columns)
        return cls(name, numbers, tuple(ids), tuple(classes), only, pixels, rows)

    def __repr__(self) -> str:
        return f"<ImageSet {self.name}: {len(self):,} images, {len(self.classes):,} classes>"

    def __len__(self) -> int:
        return len(self.ids)

    def image(self, i: int) -> Image.Image:
        """Return one image, in RGB."""
        if not 0 <= i < len(self):
            raise InputError(f"{self.name} has no image {i}; it has {len(self):,}, counted from 0")
        image: Image.Image = self.pixels.read(int(self.rows[i]), self.ids[i])
        return image

    def take(self, rows: Sequence[int] | IntArray) -> ImageSet:
        """Return some of the images, in the order of ``rows``; classes stay as they are."""
        wanted = np.asarray(rows)
        if not wanted.size:
            wanted = wanted.astype(np.int64)
        whole = wanted.ndim == 1 and wanted.dtype.kind in "iu"
        if not whole or not ((wanted >= 0) & (wanted < len(self))).all():
            raise InputError(f"rows of {self.name} must be whole numbers from 0 to {len(self) - 1}")
        return replace(
            self,
            labels=_frozen(self.labels[wanted]),
            ids=tuple(self.ids[row] for row in wanted.tolist()),
            rows=_frozen(self.rows[wanted]),
        )

    def checksum(self) -> str:
        """Return the SHA-256 of ids, labels and classes, in order; pixels are not read."""
        done = hashlib.sha256()
        for names in (self.classes, self.ids):
            done.update(f"{len(names)}\n".encode())
            # Names of files may hold bytes that are no text, which Python keeps as surrogates.
            done.update("\0".join(names).encode("utf-8", "surrogatepass"))
        done.update(self.labels.astype("<i8").tobytes())
        return done.hexdigest()


def _frozen(numbers: np.ndarray[tuple[int, ...], np.dtype[np.integer]]) -> IntArray:
    result = np.array(numbers, dtype=np.int64)
    result.flags.writeable = False
    return result


def root_of(kind: str, place: Path) -> Path:
    """Return the folder of a set: the one that is named, or one that an archive made in it."""
    inner = (place / one for one in _FOLDERS[kind])
    return next((one for one in inner if one.is_dir()), place)


@contextmanager
def one_line_errors(what: str, kind: type[SmallcalError] | None = None) -> Iterator[None]:
    """Say in one line what code that is not ours objects to: its errors have no one type.

    Without a kind it is a FileError; but a TypeError is an InputError, an option that is unknown.
    """
    try:
        yield
    except SmallcalError:
        raise
    except Exception as error:
        raised = kind or (InputError if isinstance(error, TypeError) else FileError)
        name = "" if kind is FileError else f"{type(error).__name__}: "
        why = getattr(error, "strerror", None) or one_line(error)[:300] or "it ends too early"
        raise raised(f"{what}: {name}{why}") from error


def read_image(file: Path) -> Image.Image:
    """Return the image in a file, whole and in RGB."""
    with one_line_errors(f"cannot read the image {file}", FileError), warnings.catch_warnings():
        if not file.is_file():  # also a pipe, which would be waited for
            raise FileNotFoundError("there is no such file")
        # Of odd notes, which thousands of photographs have.
        warnings.filterwarnings("ignore", module="PIL")
        with Image.open(file, formats=_FORMATS) as image:
            return to_rgb(image)


def to_rgb(image: Image.Image) -> Image.Image:
    """Return an image of any mode in RGB.

    As everywhere else, transparency is dropped, the first of several frames is taken and a camera's
    note that the picture should be turned is not followed: published accuracies are of such images.
    Grey values of 16 bits are scaled to eight: 65535 is white, as 255 is.
    """
    if image.mode == "RGB":
        return image.copy()  # of the picture alone: not tied to the file that it came from
    if image.mode == "F":
        raise ValueError("its pixels are fractions, and the value of white is unknown; store bytes")
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise ValueError(
                "its pixels have 32 bits, and the value of white is unknown; store bytes"
            )
        image = Image.fromarray(((values + 128) // 257).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")

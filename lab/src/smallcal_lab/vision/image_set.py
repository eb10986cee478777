"""A set of labelled images, read one at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from smallcal.data.predictions import IntArray
from smallcal.errors import InputError
from smallcal_lab.vision.pixels import read_image


class Pixels(Protocol):
    """Where the images of a set come from; small, so that it can be sent to other processes."""

    def read(self, row: int, name: str) -> Image.Image:
        """Return one image in RGB, by its row in the whole set and its id."""
        ...


@dataclass(frozen=True)
class Files:
    """Images in files.

    Attributes
    ----------
    root : Path
    pattern : str
        How a path below it is made of the class and the name in an id, ``class/name``.
    """

    root: Path
    pattern: str = "{owner}/{name}"

    def read(self, row: int, name: str) -> Image.Image:
        """Return one image in RGB."""
        return read_image(self.path(name))

    def path(self, name: str) -> Path:
        """Return the file of an id.

        Examples
        --------
        >>> Files(Path("train"), "{owner}/images/{name}").path("n01443537/a.JPEG").as_posix()
        'train/n01443537/images/a.JPEG'
        """
        owner, _, rest = name.partition("/")
        return self.root / self.pattern.format(owner=owner, name=rest)


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
    pixels : Pixels
        Where images come from.
    rows : ndarray of int64, shape (n,)
        The images' rows in ``pixels``.

    Examples
    --------
    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> for name in ("cat", "dog"):
    ...     (root / name).mkdir()
    ...     Image.new("L", (8, 6), 90).save(root / name / "1.png")
    >>> from smallcal_lab.vision import open_images
    >>> images = open_images(f"folder:{root}")
    >>> images
    <ImageSet tmp...: 2 images, 2 classes>
    >>> len(images), images.labels.tolist(), images.ids, images.image(1)
    (2, [0, 1], ('cat/1.png', 'dog/1.png'), <PIL.Image.Image image mode=RGB size=8x6 at ...>)
    >>> images.take([1]).ids
    ('dog/1.png',)
    """

    name: str
    labels: IntArray
    ids: tuple[str, ...]
    classes: tuple[str, ...]
    columns: tuple[int, ...] | None
    pixels: Pixels
    rows: IntArray

    @classmethod
    def of(
        cls,
        name: str,
        labels: Sequence[int] | IntArray,
        ids: Sequence[str],
        *,
        classes: Sequence[str],
        pixels: Pixels,
        columns: Sequence[int] | None = None,
    ) -> ImageSet:
        """Return all images of a place."""
        numbers = _frozen(np.asarray(labels))
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(classes):
            raise InputError(f"{name}: labels must be 0 .. {len(classes) - 1}")
        if len(numbers) != len(ids):
            raise InputError(f"{name}: {len(numbers):,} labels for {len(ids):,} images")
        return cls(
            name=name,
            labels=numbers,
            ids=tuple(ids),
            classes=tuple(classes),
            columns=None if columns is None else tuple(columns),
            pixels=pixels,
            rows=_frozen(np.arange(len(numbers))),
        )

    def __repr__(self) -> str:
        return f"<ImageSet {self.name}: {len(self):,} images, {len(self.classes):,} classes>"

    def __len__(self) -> int:
        return len(self.ids)

    def image(self, i: int) -> Image.Image:
        """Return one image, in RGB."""
        if not 0 <= i < len(self):
            raise InputError(f"{self.name} has no image {i}; it has {len(self):,}, counted from 0")
        return self.pixels.read(int(self.rows[i]), self.ids[i])

    def take(self, rows: Sequence[int] | IntArray) -> ImageSet:
        """Return some of the images, in the order of ``rows``; classes stay as they are."""
        wanted = np.asarray(rows)
        if not wanted.size:
            wanted = wanted.astype(np.int64)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise InputError(f"rows of {self.name} must be a list of whole numbers")
        if wanted.size and not 0 <= wanted.min() <= wanted.max() < len(self):
            raise InputError(f"rows of {self.name} must be 0 .. {len(self) - 1}")
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

"""Data sets of the package ``datasets``, from its cache, its hub or a folder it saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from smallcal.data.shown import one_line
from smallcal.errors import FileError, InputError, MissingExtraError, choose
from smallcal_lab.vision.image_set import ImageSet
from smallcal_lab.vision.pixels import DAMAGED, to_rgb


@dataclass(frozen=True, eq=False)
class Table:
    """Images in a column of a data set."""

    table: Any
    column: str
    name: str

    def read(self, row: int, name: str) -> Image.Image:
        """Return one image in RGB."""
        try:
            image = self.table[row][self.column]
            if not isinstance(image, Image.Image):
                raise ValueError("there is none")
            return to_rgb(image)
        except FileError as error:
            raise error.about(f"{self.name}, row {row}") from None
        except DAMAGED as error:
            why = one_line(error)[:200]
            raise FileError(f"cannot read the image in row {row} of {self.name}: {why}") from None


def _package() -> Any:
    try:
        import datasets
    except ImportError:
        raise MissingExtraError(
            "hf-datasets: needs the package 'datasets': pip install datasets"
        ) from None
    return datasets


@contextmanager
def _loading(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError, ImportError, LookupError) as error:
        why = one_line(error)[:300]
        raise FileError(f"hf-datasets:{name} cannot be loaded: {why}") from None


def hub_parts(place: str) -> tuple[str, ...]:
    """Return the splits of a data set."""
    name, config, _ = _asked(place)
    datasets = _package()
    with _loading(place):
        if Path(name).is_dir():
            saved = datasets.load_from_disk(name)
            return tuple(saved) if isinstance(saved, dict) else ()
        return tuple(datasets.get_dataset_split_names(name, config))


def open_hub(place: str) -> ImageSet:
    """Return one split of a data set that has a column of images and one of classes.

    ``place`` is ``NAME``, ``NAME:SPLIT`` or ``NAME:CONFIG:SPLIT``, where NAME may be a folder that
    ``save_to_disk`` wrote.
    """
    name, config, part = _asked(place)
    datasets = _package()
    with _loading(place):
        if Path(name).is_dir():
            found = datasets.load_from_disk(name)
        else:
            found = datasets.load_dataset(name, config, split=part or None)
    if isinstance(found, dict):
        found = _split(place, found, part)
    images = _column(datasets, found, "Image", place)
    labels = _column(datasets, found, "ClassLabel", place)
    numbers = np.asarray(found[labels][:])
    if numbers.dtype.kind not in "iu" or numbers.min(initial=0) < 0:
        raise FileError(f"hf-datasets:{place} has images without a label; take another split")
    title = "-".join(filter(None, (Path(name).name, config, part)))
    return ImageSet.of(
        title,
        numbers,
        [f"{part or 'row'}-{row:07d}" for row in range(len(found))],
        classes=found.features[labels].names,
        pixels=Table(found, images, title),
    )


def _asked(place: str) -> tuple[str, str | None, str]:
    """Return name, configuration and split."""
    fields = [place] if Path(place).is_dir() else place.split(":")
    if len(fields) > 3 or not all(fields):
        raise InputError(f"hf-datasets:{place} must be NAME, NAME:SPLIT or NAME:CONFIG:SPLIT")
    name, *rest = fields
    return name, rest[0] if len(rest) == 2 else None, rest[-1] if rest else ""


def _split(place: str, found: dict[str, Any], part: str) -> Any:
    """Return the split that was named, or the only one."""
    if not part and len(found) == 1:
        return next(iter(found.values()))
    if part not in found:
        which = f"no split {part!r}" if part else f"{len(found)} splits"
        raise InputError(f"hf-datasets:{place} has {which}; {choose(part, found)}")
    return found[part]


def _column(datasets: Any, table: Any, kind: str, place: str) -> str:
    """Return the one column of a kind."""
    wanted = getattr(datasets, kind)
    names = [name for name, feature in table.features.items() if isinstance(feature, wanted)]
    if len(names) != 1:
        raise FileError(
            f"hf-datasets:{place} must have one column of type {kind}; it has "
            f"{', '.join(names) or 'none'}"
        )
    return str(names[0])

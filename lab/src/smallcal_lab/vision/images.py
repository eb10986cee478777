"""Sets of images by one string, ``KIND:DIR`` or ``KIND:DIR:PART``, and those of ``datasets``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from smallcal.errors import FileError, InputError, MissingExtraError, choose, missing_file
from smallcal_lab.vision import cifar, folders
from smallcal_lab.vision.image_set import ImageSet, one_line_errors, to_rgb

#: What can be opened from a folder: functions that open a part of it, and that list its parts.
KINDS: dict[str, tuple[Callable[[Path, str], ImageSet], Callable[[Path], Iterable[str]]]] = {
    "folder": (folders.open_folder, folders.folder_parts),
    **{
        name: (partial(cifar.open_clean, name), partial(cifar.clean_parts, name))
        for name in ("cifar10", "cifar100")
    },
    **{
        name: (partial(cifar.open_corrupted, name), partial(cifar.corrupted_parts, name))
        for name in ("cifar10-c", "cifar100-c")
    },
    "tiny-imagenet": (folders.open_tiny, partial(folders.train_and_val, "tiny-imagenet")),
    "imagenet": (folders.open_imagenet, partial(folders.train_and_val, "imagenet")),
    "imagenet-c": (folders.open_corrupted, folders.corrupted_parts),
    "imagenet-v2": (folders.open_v2, folders.v2_parts),
    **{
        name: (partial(folders.open_variant, name), lambda place: ())
        for name in ("imagenet-r", "imagenet-a", "imagenet-sketch")
    },
}

#: The one kind that is named and does not lie in a folder.
HUB = "hf-datasets"


def open_images(source: str) -> ImageSet:
    """Open a set of labelled images; each is read when needed.

    Parameters
    ----------
    source : str
        ``KIND:DIR`` or ``KIND:DIR:PART``. Kinds are

        - ``folder``: class folders, and a part where these lie in ``train``, ``val``, ...;
        - ``cifar10``, ``cifar100``: the official batches for Python; ``train`` or ``test`` (usual);
        - ``tiny-imagenet``, ``imagenet``: ``train`` or ``val`` (usual);
        - ``cifar10-c``, ``cifar100-c``, ``imagenet-c``: a corruption and a severity, ``fog-3``;
        - ``imagenet-v2`` and its variants, ``imagenet-r``, ``imagenet-a``, ``imagenet-sketch``;
        - ``hf-datasets:NAME``, with ``:SPLIT`` or ``:CONFIG:SPLIT``, if that package is installed.

    Examples
    --------
    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp()) / "pets"
    >>> for name in ("cat", "dog"):
    ...     (root / "val" / name).mkdir(parents=True)
    ...     Image.new("CMYK", (8, 6)).save(root / "val" / name / "1.jpg")
    >>> images = open_images(f"folder:{root}:val")
    >>> images.name, images.classes, images.image(0).mode
    ('pets-val', ('cat', 'dog'), 'RGB')
    """
    kind, rest = _kind_of(source)
    if kind == HUB:
        return _open_hub(rest)
    return KINDS[kind][0](*_place_of(kind, rest))


def image_parts(source: str) -> tuple[str, ...]:
    """Return the parts that ``KIND:DIR`` has, as they are written after it; none if it has none."""
    kind, rest = _kind_of(source)
    if kind == HUB:
        return _hub_parts(rest)
    place, part = _place_of(kind, rest)
    if part:
        raise InputError(f"{source} is already one part; name {kind}:{place}")
    return tuple(KINDS[kind][1](place))


def image_place(source: str) -> tuple[Path, str]:
    """Return the folder and the part that a string names; of ``hf-datasets:NAME`` the name."""
    kind, rest = _kind_of(source)
    return (Path(rest), "") if kind == HUB else _place_of(kind, rest)


def _kind_of(source: str) -> tuple[str, str]:
    kind, _, rest = str(source).partition(":")
    if kind not in KINDS and kind != HUB:
        raise InputError(f"unknown kind of images {kind!r}; {choose(kind, (*KINDS, HUB))}")
    if not rest:
        what = "NAME" if kind == HUB else "DIR"
        raise InputError(f"the place of the images is missing: write {kind}:{what}")
    return kind, rest


def _place_of(kind: str, rest: str) -> tuple[Path, str]:
    """Return folder and part; a folder's own name may hold colons."""
    before, _, part = rest.rpartition(":")
    try:  # no shell expands a tilde behind a colon
        whole, place = Path(rest).expanduser(), Path(before or rest).expanduser()
        if whole.is_dir():
            return whole, ""
        if part and place.is_dir():
            return place, part
    except (OSError, ValueError, RuntimeError) as error:
        raise FileError(f"{kind}: cannot read {rest!r}: {error}") from None
    what = "a file, not a folder" if place.is_file() else f"not there{missing_file(place)}"
    raise FileError(f"{kind}: the folder {place} is {what}")


@dataclass(frozen=True, eq=False)
class Table:
    """Images in a column of a data set."""

    table: Any
    column: str
    name: str

    def read(self, row: int, name: str) -> Image.Image:
        """Return one image in RGB."""
        with one_line_errors(f"cannot read the image in row {row} of {self.name}", FileError):
            return to_rgb(self.table[row][self.column])


def _hub(place: str) -> tuple[Any, str, str | None, str]:
    """Return the package, and name, configuration and split that a string names."""
    name, *rest = [place] if Path(place).is_dir() else place.split(":")
    if len(rest) > 2 or not all((name, *rest)):
        raise InputError(f"{HUB}:{place} must be NAME, NAME:SPLIT or NAME:CONFIG:SPLIT")
    try:
        import datasets
    except ImportError:
        needed = f"{HUB}: needs the package 'datasets': pip install datasets"
        raise MissingExtraError(needed) from None
    return datasets, name, rest[0] if len(rest) == 2 else None, rest[-1] if rest else ""


def _hub_parts(place: str) -> tuple[str, ...]:
    """Return the splits of a data set."""
    datasets, name, config, _ = _hub(place)
    with one_line_errors(f"{HUB}:{place} cannot be loaded", FileError):
        if not Path(name).is_dir():
            return tuple(datasets.get_dataset_split_names(name, config))
        saved = datasets.load_from_disk(name)
    return tuple(saved) if isinstance(saved, dict) else ()


def _open_hub(place: str) -> ImageSet:
    """Return one split of a data set, or of a folder that its ``save_to_disk`` wrote."""
    datasets, name, config, part = _hub(place)
    with one_line_errors(f"{HUB}:{place} cannot be loaded", FileError):
        if Path(name).is_dir():
            found = datasets.load_from_disk(name)
        else:
            found = datasets.load_dataset(name, config, split=part or None)
    if isinstance(found, dict):
        which = part or (next(iter(found)) if len(found) == 1 else "")
        if which not in found:
            raise InputError(
                f"{HUB}:{place} names none of {len(found)} splits; {choose(part, found)}"
            )
        found = found[which]
    columns = []
    for kind in ("Image", "ClassLabel"):
        of_kind = [key for key, one in found.features.items() if type(one).__name__ == kind]
        if len(of_kind) != 1:
            raise FileError(
                f"{HUB}:{place} must have one column of type {kind}; it has {len(of_kind)}"
            )
        columns += of_kind
    images, labels = columns
    title = "-".join(filter(None, (Path(name).name, config, part)))
    numbers, classes = np.asarray(found[labels][:]), found.features[labels].names
    ids = [f"{part or 'row'}-{row:07d}" for row in range(len(found))]
    return ImageSet.of(title, numbers, ids, classes=classes, pixels=Table(found, images, title))

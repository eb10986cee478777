"""Which images a cell is made of: what calibrates, what tests, what is shifted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from PIL import Image

from smallcal.data.checks import whole_number
from smallcal.errors import InputError, choose
from smallcal.io.documents import shortened
from smallcal_lab.corruption_names import EXTRA, SEVERITIES, STANDARD
from smallcal_lab.studies.collection import plain_name
from smallcal_lab.vision.corruptions import corrupt
from smallcal_lab.vision.folders import ALL
from smallcal_lab.vision.image_set import ImageSet
from smallcal_lab.vision.images import HUB, image_parts, image_place, open_images
from smallcal_lab.vision.models.model import VisionModel
from smallcal_lab.vision.splits import CALIBRATION, TEST, ImageSplit, read_split, split_images

#: Sets whose parts are corruptions and severities; without a part all of them are meant.
_CORRUPTED = ("cifar10-c", "cifar100-c", "imagenet-c")
_KNOWN = (*STANDARD, *EXTRA)


@dataclass(frozen=True)
class Corruptions:
    """Which corrupted copies of the test images are made.

    Examples
    --------
    >>> Corruptions.parse("fog,snow", "1-3")
    Corruptions(kinds=('fog', 'snow'), severities=(1, 2, 3), seed=0, images=0)
    """

    kinds: tuple[str, ...]
    severities: tuple[int, ...] = SEVERITIES
    seed: int = 0  #: Random seed.
    #: How many test images are taken, evenly spread; 0 for all. With fewer, they are not paired.
    images: int = 0

    @classmethod
    def parse(
        cls, kinds: str, severities: str = "1-5", *, seed: int = 0, images: int = 0
    ) -> Corruptions:
        """Read what is typed: ``all``, ``standard`` or ``fog,snow``; ``1-5``, ``3`` or ``1,3``."""
        words = [word.strip() for word in kinds.split(",") if word.strip()]
        found = {"all": _KNOWN, "standard": STANDARD}.get(kinds) or tuple(dict.fromkeys(words))
        levels: set[int] = set()
        for word in severities.split(","):
            ends = re.fullmatch(r"([1-5])(?:-([1-5]))?", word.strip())
            if not ends:
                raise InputError(
                    f"severities are from 1 to 5, written as 3, 1-5 or 1,3,5; got {severities!r}"
                )
            levels.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
        return cls(found, tuple(sorted(levels)), seed, images)

    def __post_init__(self) -> None:
        offered = ("all", "standard", *_KNOWN)
        if not self.kinds or not self.severities:
            raise InputError(f"no corruption is named; {choose('', offered)}")
        for kind in self.kinds:
            if kind not in _KNOWN:
                raise InputError(f"there is no corruption {kind!r}: {choose(kind, offered)}")
        for severity in self.severities:
            whole_number(severity, "severity", least=1, most=5)
        whole_number(self.seed, "seed")
        whole_number(self.images, "images")

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Every kind with every severity."""
        return tuple(product(self.kinds, self.severities))


@dataclass(frozen=True)
class CellImages:
    """The images of one cell, by strings that :func:`open_images` opens, or as sets."""

    test: str | ImageSet
    #: How ``test`` is divided into calibration and test images: a rule such as ``halves``, or a
    #: file that ``ImageSplit.save`` wrote.
    split: str = ""
    #: Other images to calibrate on, where ``test`` is not divided.
    calibration: str | ImageSet = ""
    #: The rule, ``5%``, or the file whose part ``calibration`` is taken of those.
    calibration_split: str = ""
    split_seed: int = 0  #: Seed of a rule that draws at random.
    #: Shifted test sets. Of ``cifar100-c:DIR`` and its like, all parts are taken.
    shifts: tuple[str, ...] = ()
    corruptions: Corruptions | None = None  #: Corruptions to apply here to the test images.
    #: Whether shifted sets of which the test images are a part stay whole, as the paper's
    #: ImageNet-C: with the versions of calibration images, and not paired.
    whole_shifts: bool = False
    #: Largest number of images of each set, evenly spread, for a trial; 0 for all.
    limit: int = 0

    def __post_init__(self) -> None:
        whole_number(self.limit, "limit")

    @property
    def dataset(self) -> str:
        """What the data set is called."""
        if isinstance(self.test, ImageSet):
            return plain_name(self.test.name)
        kind, _, rest = self.test.partition(":")
        if kind == "folder":
            return plain_name(image_place(self.test)[0].resolve().name)
        return plain_name(Path(rest.partition(":")[0]).name if kind == HUB else kind)


@dataclass(frozen=True, eq=False)
class LogitSet:
    """A set of images whose logits are wanted."""

    name: str  # ``calibration``, ``test`` or ``shift/fog-3``
    images: ImageSet
    kind: str = ""  # of a shift, as is the severity
    severity: int = 0
    paired: bool = False  # whether these are the test images, in the same order
    corruption: tuple[str, int, int] | None = None  # kind, severity and seed of what is done here

    def __len__(self) -> int:
        return len(self.images)

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of the images."""
        return self.images.ids

    def image(self, row: int) -> Image.Image:
        """Return an image, corrupted where that is asked for."""
        image = self.images.image(row)
        if self.corruption is None:
            return image
        kind, severity, seed = self.corruption
        return Image.fromarray(corrupt(image, kind, severity, seed=seed, image_id=self.ids[row]))


def open_sets(wanted: CellImages) -> tuple[tuple[LogitSet, ...], ImageSplit | None]:
    """Open a cell's calibration, test and shifted images; return the split that made the first."""
    test, calibration, split = _divided(wanted)
    test = _some(test, wanted.limit)
    sets = [LogitSet("calibration", _some(calibration, wanted.limit)), LogitSet("test", test)]
    sets += [_natural(source, test, wanted) for source in _expanded(wanted.shifts)]
    if made := wanted.corruptions:
        images = _some(test, made.images)
        paired = len(images) == len(test)
        for kind, severity in made.parts:
            how = (kind, severity, made.seed)
            sets.append(LogitSet(_name(kind, severity), images, kind, severity, paired, how))
    names = [one.name for one in sets]
    for one in sets:
        if not len(one):
            raise InputError(f"{one.name}: {one.images.name} has no images")
        if names.count(one.name) > 1:
            raise InputError(f"{one.name} occurs twice: it is named twice, or also made here")
    return tuple(sets), split


def _divided(wanted: CellImages) -> tuple[ImageSet, ImageSet, ImageSplit | None]:
    """Return test and calibration images, and how they were divided."""
    if bool(wanted.split) == bool(wanted.calibration):
        raise InputError.with_options(
            "these are test images: to calibrate, either divide them with --split halves (or "
            "first-5, or FILE.json) or name others with --calibration: give only one of them"
        )
    if wanted.calibration_split and not wanted.calibration:
        raise InputError.with_options(
            "--calibration-split divides the images of --calibration: name those too"
        )
    images, split = _split(wanted.test, wanted.split, wanted.split_seed)
    if split is not None:
        if TEST not in split.parts:
            raise InputError.with_options(
                f"the split {split.rule} leaves no images to test on, only to train on: it is "
                "meant for --calibration-split"
            )
        return split.take(images, TEST), split.take(images, CALIBRATION), split
    others, split = _split(wanted.calibration, wanted.calibration_split, wanted.split_seed)
    others = others if split is None else split.take(others, CALIBRATION)
    others = _for_columns(others, images)
    _require_same_classes(images, others)
    if others.name == images.name and set(others.ids) & set(images.ids):
        raise InputError.with_options(
            f"{images.name} would be used both to calibrate and to test: name other images with "
            "--calibration, or divide these with --split"
        )
    return images, others, split


def _split(source: str | ImageSet, how: str, seed: int) -> tuple[ImageSet, ImageSplit | None]:
    """Open images and their split: by a rule, in a file, or none."""
    images = source if isinstance(source, ImageSet) else open_images(source)
    if not how.lower().endswith(".json"):
        return images, split_images(images, how, seed=seed) if how else None
    return images, read_split(how, images)


def _some(images: ImageSet, limit: int) -> ImageSet:
    """Return at most so many images, evenly spread over the set and so over its classes."""
    n = len(images)
    return images.take(np.arange(limit) * n // limit) if 0 < limit < n else images


# --- shifts --------------------------------------------------------------------------------------


def _expanded(sources: Sequence[str]) -> Iterator[str]:
    """Yield each shifted set by its whole name."""
    for source in sources:
        if source.partition(":")[0] not in _CORRUPTED or image_place(source)[1]:
            yield source
            continue
        parts = image_parts(source)
        if not parts:
            raise InputError(f"{source} holds no corruption")
        yield from (f"{source}:{part}" for part in parts)


def _natural(source: str, test: ImageSet, wanted: CellImages) -> LogitSet:
    """Open a shifted set; what is a twin of the test images is put in their order."""
    images = open_images(source)
    found = re.fullmatch(r"(.+)-([1-5])", image_place(source)[1])
    kind, severity = (found[1], int(found[2])) if found else (plain_name(images.name), 0)
    images = _for_columns(images, test)
    rows = None
    if images.columns == test.columns:
        _require_same_classes(test, images)
        if not wanted.whole_shifts or len(images) <= len(test):
            rows = _twins(test, images)
    images = _some(images, wanted.limit) if rows is None else images.take(rows)
    return LogitSet(_name(kind, severity), images, kind, severity, paired=rows is not None)


def _twins(test: ImageSet, images: ImageSet) -> list[int] | None:
    """Return the rows that have the ids and labels of the test images, in their order.

    The twins of calibration images are left out by that, which would make a test too easy.
    """
    place = {name: row for row, name in enumerate(images.ids)}
    if len(place) < len(images) or not place.keys() >= set(test.ids):
        return None
    rows = [place[name] for name in test.ids]
    return rows if np.array_equal(images.labels[rows], test.labels) else None


def _name(kind: str, severity: int) -> str:
    return f"shift/{plain_name(kind)}" + (f"-{severity}" if severity else "")


# --- classes and columns -------------------------------------------------------------------------


def columns_in(model: VisionModel, images: ImageSet) -> tuple[int, ...] | None:
    """Return the model's columns that the images' classes are; None for all, as they stand."""
    n = len(images.classes)
    columns = None if model.classes == n else images.columns
    if model.classes != n and (columns is None or model.classes != ALL):
        raise InputError(
            f"{images.name} has {n:,} classes and {model.source} has {model.classes:,} columns: "
            "name a model of these classes, such as a checkpoint that was trained on them"
        )
    names = model.class_names
    if len(names) == model.classes:
        names = names if columns is None else tuple(names[column] for column in columns)
        _require_order(images, names, f"the columns of {model.source}")
        if names != images.classes and model.source.startswith("checkpoint:"):
            theirs, ours = (shortened(", ".join(some), 40) for some in (names, images.classes))
            raise InputError(
                f"{model.source} was trained on other classes ({theirs}) than those of "
                f"{images.name} ({ours})"
            )
    return columns


def _for_columns(images: ImageSet, test: ImageSet) -> ImageSet:
    """Return the images of the test images' classes, where those are some of a larger set's.

    Images of ImageNet beside ImageNet-R's: those of its 200 classes stay, and labels count these.
    """
    if test.columns is None or images.columns is not None or len(images.classes) != ALL:
        return images
    number = np.full(ALL, -1)
    number[list(test.columns)] = np.arange(len(test.columns))
    labels = number[images.labels]
    kept = images.take(np.flatnonzero(labels >= 0))
    return replace(kept, labels=labels[labels >= 0], classes=test.classes, columns=test.columns)


def _require_same_classes(test: ImageSet, images: ImageSet) -> None:
    """Raise where two sets that are seen by the same columns have other classes."""
    if len(images.classes) != len(test.classes):
        raise InputError(
            f"{images.name} has {len(images.classes):,} classes and {test.name} has "
            f"{len(test.classes):,}: all image sets of a cell must have the same"
        )
    _require_order(images, test.classes, f"those of {test.name}")


def _require_order(images: ImageSet, names: Sequence[str], others: str) -> None:
    """Raise where classes that others have, too, have another place there."""
    places = {name: number for number, name in enumerate(names)}
    for number, name in enumerate(images.classes):
        if places.get(name, number) != number:
            raise InputError(
                f"the classes of {images.name} are in another order than {others}: {name!r} is "
                f"{places[name]} there and {number} here"
            )

"""Which images a cell is made of: what calibrates, what tests, what is shifted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from smallcal.data.checks import whole_number
from smallcal.errors import InputError, choose
from smallcal_lab.corruption_names import EXTRA, SEVERITIES, STANDARD
from smallcal_lab.studies.collection import plain_name
from smallcal_lab.vision.corruptions import corrupt
from smallcal_lab.vision.extraction.classes import for_columns, require_same_classes
from smallcal_lab.vision.image_set import ImageSet
from smallcal_lab.vision.images import HUB, image_parts, image_place, open_images
from smallcal_lab.vision.splits import CALIBRATION, TEST, ImageSplit, read_split, split_images

#: Sets whose parts are corruptions and severities; without a part all of them are meant.
_CORRUPTED = ("cifar10-c", "cifar100-c", "imagenet-c")
_PART = re.compile(r"(.+)-([1-5])")
_RANGE = re.compile(r"([1-5])-([1-5])")


@dataclass(frozen=True)
class Corruptions:
    """Which corrupted copies of the test images are made.

    Attributes
    ----------
    kinds : tuple of str
    severities : tuple of int
    seed : int
        Random seed.
    images : int
        How many test images are taken, evenly spread; 0 for all. With fewer than all, the shifted
        sets are not paired with the test set.

    Examples
    --------
    >>> Corruptions.parse("fog,snow", "1-3")
    Corruptions(kinds=('fog', 'snow'), severities=(1, 2, 3), seed=0, images=0)
    >>> len(Corruptions.parse("all").kinds), len(Corruptions.parse("standard").kinds)
    (19, 15)
    """

    kinds: tuple[str, ...]
    severities: tuple[int, ...] = SEVERITIES
    seed: int = 0
    images: int = 0

    @classmethod
    def parse(
        cls, kinds: str, severities: str = "1-5", *, seed: int = 0, images: int = 0
    ) -> Corruptions:
        """Read what is typed: ``all``, ``standard`` or ``fog,snow``; ``1-5``, ``3`` or ``1,3``."""
        named = {"all": (*STANDARD, *EXTRA), "standard": STANDARD}
        found = named.get(kinds) or tuple(dict.fromkeys(_words(kinds)))
        return cls(found, _severities(severities), seed, images)

    def __post_init__(self) -> None:
        known = (*STANDARD, *EXTRA)
        if not self.kinds or not self.severities:
            raise InputError(f"no corruption is named; {choose('', ('all', 'standard', *known))}")
        for kind in self.kinds:
            if kind not in known:
                offer = choose(kind, ("all", "standard", *known))
                raise InputError(f"there is no corruption {kind!r}: {offer}")
        for severity in self.severities:
            whole_number(severity, "severity", least=SEVERITIES[0], most=SEVERITIES[-1])
        whole_number(self.seed, "seed")
        whole_number(self.images, "images")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _severities(text: str) -> tuple[int, ...]:
    if (ends := _RANGE.fullmatch(text.strip())) and int(ends[1]) <= int(ends[2]):
        return tuple(range(int(ends[1]), int(ends[2]) + 1))
    words = _words(text)
    if not words or not all(re.fullmatch("[1-5]", word) for word in words):
        raise InputError(f"severities are from 1 to 5, written as 3, 1-5 or 1,3,5; got {text!r}")
    return tuple(dict.fromkeys(map(int, words)))


@dataclass(frozen=True)
class CellImages:
    """The images of one cell, by strings that :func:`open_images` opens, or as sets.

    Attributes
    ----------
    test : str or ImageSet
    split : str
        How ``test`` is divided into calibration and test images: a rule such as ``halves``, or a
        file that :meth:`ImageSplit.save` wrote.
    calibration : str or ImageSet
        Other images to calibrate on, where ``test`` is not divided.
    calibration_split : str
        The rule, ``5%``, or the file whose part ``calibration`` is taken of those.
    split_seed : int
        Seed of a rule that draws at random.
    shifts : tuple of str
        Shifted test sets. Of ``cifar100-c:DIR`` and its like, all parts are taken.
    corruptions : Corruptions, optional
        Corruptions to apply here to the test images.
    whole_shifts : bool
        Whether shifted sets of which the test images are a part stay whole, as the paper's
        ImageNet-C: with the versions of calibration images, and not paired.
    limit : int
        Largest number of images of each set, evenly spread, for a trial; 0 for all.
    """

    test: str | ImageSet
    split: str = ""
    calibration: str | ImageSet = ""
    calibration_split: str = ""
    split_seed: int = 0
    shifts: tuple[str, ...] = ()
    corruptions: Corruptions | None = None
    whole_shifts: bool = False
    limit: int = 0

    def __post_init__(self) -> None:
        given: object = self.shifts
        if isinstance(given, str):
            raise InputError(f"shifts must be a list of strings; got {given!r}")
        whole_number(self.limit, "limit")


@dataclass(frozen=True, eq=False)
class LogitSet:
    """A set of images whose logits are wanted.

    Attributes
    ----------
    name : str
        ``calibration``, ``test`` or ``shift/fog-3``.
    images : ImageSet
    kind, severity : str, int
        Of a shift.
    paired : bool
        Whether the images are the test images, in the same order.
    corruption : tuple of str, int and int, or None
        Kind, severity and seed of what is done to the images here.
    """

    name: str
    images: ImageSet
    kind: str = ""
    severity: int = 0
    paired: bool = False
    corruption: tuple[str, int, int] | None = None

    def __len__(self) -> int:
        return len(self.images)

    def image(self, row: int) -> Image.Image:
        """Return an image, corrupted where that is asked for."""
        image = self.images.image(row)
        if self.corruption is None:
            return image
        kind, severity, seed = self.corruption
        name = self.images.ids[row]
        return Image.fromarray(corrupt(image, kind, severity, seed=seed, image_id=name))


@dataclass(frozen=True)
class Opened:
    """The sets of a cell: calibration, test, then shifts; and the split that made the first."""

    sets: tuple[LogitSet, ...]
    split: ImageSplit | None


def open_sets(wanted: CellImages) -> Opened:
    """Open the images of a cell and divide them.

    Raises
    ------
    InputError
        If there is nothing to calibrate on, sets do not have the same classes, or a shift is there
        twice.
    FileError
        If files are missing or damaged, or a split was made for other images.
    """
    test, calibration, split = _divided(wanted)
    test = _some(test, wanted.limit)
    sets = [
        LogitSet("calibration", _some(calibration, wanted.limit)),
        LogitSet("test", test),
        *(_natural(source, test, wanted) for source in _expanded(wanted.shifts)),
        *_corrupted(test, wanted.corruptions),
    ]
    for one in sets:
        if not len(one):
            raise InputError(f"{one.name}: {one.images.name} has no images")
    names = [one.name for one in sets]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise InputError(f"{twice} occurs twice: it is named twice, or named and also made here")
    return Opened(tuple(sets), split)


def _divided(wanted: CellImages) -> tuple[ImageSet, ImageSet, ImageSplit | None]:
    """Return test and calibration images, and how they were divided."""
    if wanted.split and wanted.calibration:
        raise InputError.with_options(
            "--split takes calibration images from the test images, --calibration "
            "from another set: give only one of them"
        )
    if not wanted.split and not wanted.calibration:
        raise InputError.with_options(
            "these are test images, and there are none to calibrate on: add --split halves "
            "(or first-5, or FILE.json) to divide them, or --calibration with other images"
        )
    if wanted.calibration_split and not wanted.calibration:
        raise InputError.with_options(
            "--calibration-split divides the images of --calibration: name those too"
        )
    images = _opened(wanted.test)
    if wanted.split:
        split = _split(images, wanted.split, wanted.split_seed)
        if TEST not in split.parts:
            raise InputError.with_options(
                f"the split {split.rule} leaves no images to test on, only to train on: it is "
                "meant for --calibration-split"
            )
        return split.take(images, TEST), split.take(images, CALIBRATION), split
    others = _opened(wanted.calibration)
    split_of = None
    if wanted.calibration_split:
        split_of = _split(others, wanted.calibration_split, wanted.split_seed)
        others = split_of.take(others, CALIBRATION)
    return images, _calibration_for(images, others), split_of


def _calibration_for(images: ImageSet, others: ImageSet) -> ImageSet:
    """Return calibration images with the classes of the test images."""
    found = for_columns(others, images)
    require_same_classes(images, found)
    if found.name == images.name and set(found.ids) & set(images.ids):
        raise InputError.with_options(
            f"{images.name} would be used both to calibrate and to test: name other images with "
            "--calibration, or divide these with --split"
        )
    return found


def _opened(source: str | ImageSet) -> ImageSet:
    return source if isinstance(source, ImageSet) else open_images(source)


def _split(images: ImageSet, how: str, seed: int) -> ImageSplit:
    """Return a split by its rule, or the one in a file."""
    if how.lower().endswith(".json"):
        found = read_split(how, images)
        if CALIBRATION not in found.parts:
            raise InputError(f"{how} has no part {CALIBRATION!r}: {', '.join(found.parts)}")
        return found
    return split_images(images, how, seed=seed)


def _some(images: ImageSet, limit: int) -> ImageSet:
    """Return at most so many images, evenly spread over the set and so over its classes."""
    n = len(images)
    if not 0 < limit < n:
        return images
    return images.take(np.arange(limit) * n // limit)


# --- shifts --------------------------------------------------------------------------------------


def _expanded(sources: Sequence[str]) -> Iterator[str]:
    """Yield each shifted set by its whole name."""
    for source in sources:
        kind = source.partition(":")[0]
        if kind in _CORRUPTED and image_place(source)[1] == "":
            parts = image_parts(source)
            if not parts:
                raise InputError(f"{source} holds no corruption")
            yield from (f"{source}:{part}" for part in parts)
        else:
            yield source


def _natural(source: str, test: ImageSet, wanted: CellImages) -> LogitSet:
    """Open a shifted set; what is a twin of the test images is put in their order."""
    images = open_images(source)
    found = _PART.fullmatch(image_place(source)[1])
    kind, severity = (found[1], int(found[2])) if found else (plain_name(images.name), 0)
    images = for_columns(images, test)
    if images.columns == test.columns:
        require_same_classes(test, images)
    larger = len(images) > len(test)
    twins = None if wanted.whole_shifts and larger else twins_of(test, images)
    images = _some(images, wanted.limit) if twins is None else twins
    return LogitSet(_name(kind, severity), images, kind, severity, paired=twins is not None)


def twins_of(test: ImageSet, images: ImageSet) -> ImageSet | None:
    """Return the images that have the ids and labels of the test images, in their order.

    The twins of calibration images are left out by that, which would make a test too easy.
    """
    if images.ids == test.ids:
        rows = np.arange(len(test))
    elif images.columns != test.columns:
        return None
    else:
        place = {name: row for row, name in enumerate(images.ids)}
        if len(place) < len(images) or not all(name in place for name in test.ids):
            return None
        rows = np.array([place[name] for name in test.ids])
    found = images.take(rows)
    return found if np.array_equal(found.labels, test.labels) else None


def _corrupted(test: ImageSet, wanted: Corruptions | None) -> Iterator[LogitSet]:
    if wanted is None:
        return
    images = _some(test, wanted.images)
    for kind in wanted.kinds:
        for severity in wanted.severities:
            yield LogitSet(
                name=_name(kind, severity),
                images=images,
                kind=kind,
                severity=severity,
                paired=len(images) == len(test),
                corruption=(kind, severity, wanted.seed),
            )


def _name(kind: str, severity: int) -> str:
    return f"shift/{plain_name(kind)}" + (f"-{severity}" if severity else "")


def dataset_of(source: str | ImageSet) -> str:
    """Return what a data set is called, from the string that names it.

    Examples
    --------
    >>> dataset_of("cifar100:data/cifar-100-python:test"), dataset_of("hf-datasets:org/birds:val")
    ('cifar100', 'birds')
    """
    if isinstance(source, ImageSet):
        return plain_name(source.name)
    kind, _, rest = source.partition(":")
    if kind == "folder":
        return plain_name(image_place(source)[0].resolve().name)
    return plain_name(Path(rest.partition(":")[0]).name if kind == HUB else kind)

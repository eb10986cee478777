"""Which images to calibrate on, train on and test on: drawn once, written down, read back.

A split is a small JSON file of row numbers. It holds the checksum of the images that it was made
for, so that one of other images is refused, and a checksum of itself, so that one that was changed
by hand is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smallcal.data.checks import whole_number
from smallcal.data.predictions import IntArray
from smallcal.errors import FileError, InputError
from smallcal.io.atomic import atomic_path
from smallcal.io.documents import read_document
from smallcal_lab.studies.portions import draw_rows
from smallcal_lab.vision.image_set import ImageSet

FORMAT, VERSION = "smallcal-split", 1
#: A split of ImageNet's 1.3 million training images has 10 MB.
MAX_BYTES = 256 * 1024 * 1024

CALIBRATION, TRAIN, TEST = "calibration", "train", "test"

_RULE = re.compile(
    r"(?P<share>\d{1,2}(\.\d{1,6})?)%(\+(?P<of_rest>\d{1,2}(\.\d{1,6})?)%)?|(?P<halves>halves)"
    r"|first-(?P<first>[1-9]\d{0,8})|random-(?P<random>[1-9]\d{0,8})"
)


@dataclass(frozen=True, eq=False)
class ImageSplit:
    """Rows of a set of images, by part; see :func:`split_images`.

    Attributes
    ----------
    rule, seed : str, int
        How it was made.
    parts : mapping of str to ndarray of int64
        Row numbers in rising order; no row is in two parts.
    images, images_sha256, n : str, str, int
        The images: their name, their checksum, how many they are.
    """

    rule: str
    seed: int
    parts: Mapping[str, IntArray]
    images: str
    images_sha256: str
    n: int

    def take(self, images: ImageSet, part: str) -> ImageSet:
        """Return the images of a part; others than it was made for are refused."""
        if part not in self.parts:
            raise InputError(f"the split {self.rule} has no part {part!r}: {', '.join(self.parts)}")
        self.require(images)
        return images.take(self.parts[part])

    def require(self, images: ImageSet) -> None:
        """Raise unless the split was made for these images."""
        if images.checksum() != self.images_sha256:
            raise InputError(
                f"the split was made for other images ({self.images}, {self.n:,}) than "
                f"{images.name}, {len(images):,}: names, order or labels differ; make it again"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it down; a file that holds another split stays, and is an error."""
        file = Path(path)
        parts = {name: rows.tolist() for name, rows in self.parts.items()}
        content = {"format": FORMAT, "version": VERSION, **vars(self), "parts": parts}
        content["sha256"] = _digest(content)
        if file.is_file():
            old = _read(file)
            if old == content:
                return
            raise FileError(
                f"{file} holds another split already ({old['rule']}, seed {old['seed']}, "
                f"{old['images']}); name another file, or remove it"
            )
        with atomic_path(file) as made:
            made.write_text(json.dumps(content) + "\n", encoding="utf-8")


def split_images(images: ImageSet, rule: str, *, seed: int = 0) -> ImageSplit:
    """Split images by one of the paper's rules: ``calibration`` and ``train``, or ``test``.

    Parameters
    ----------
    images : ImageSet
    rule : str
        - ``5%``: this share of every class, at random, to calibrate on; the others to train on.
        - ``5%+10%``: the same calibration images, and of the others 10 % of every class to train
          on; the paper's low-data runs.
        - ``first-5``: the first five of every class to calibrate on, the others to test on.
        - ``halves``: half of every class to calibrate on, half to test on.
        - ``random-2500``: so many to calibrate on, at random with the classes' shares, as a study
          draws them; the others to test on.
    seed : int
        Seed of the random rules.

    Examples
    --------
    >>> images = ImageSet.of("four", [0, 0, 1, 1], "abcd", classes=("cat", "dog"), pixels=None)
    >>> {part: rows.tolist() for part, rows in split_images(images, "first-1").parts.items()}
    {'calibration': [0, 2], 'test': [1, 3]}
    """
    seed = whole_number(seed, "the seed")
    said = known_rule(rule)
    labels, rows = images.labels, np.arange(len(images))
    other = TRAIN if said["share"] else TEST
    if share := "50" if said["halves"] else said["share"]:
        taken = _stratified(labels, rows, float(share) / 100, np.random.default_rng(seed))
    else:
        each = len(np.unique(labels)) if said["first"] else 1
        way = "first-per-class" if said["first"] else "stratified"
        budget = min(int(said["first"] or said["random"]) * each, len(rows))
        taken = draw_rows(labels, budget, seed=seed, draw=0, way=way)
    rest = np.setdiff1d(rows, taken, assume_unique=True)
    if of_rest := said["of_rest"]:
        # With the paper, what is calibrated on does not depend on what is left.
        rng = np.random.default_rng((seed, 1))
        rest = _stratified(labels, rest, float(of_rest) / 100, rng)
    parts = {CALIBRATION: taken, other: rest}
    for name in parts:
        if not len(parts[name]):
            raise InputError(
                f"the split {rule} of {images.name} ({len(images):,}) leaves nothing for {name}"
            )
    return ImageSplit(rule, seed, parts, images.name, images.checksum(), len(images))


def read_split(path: str | os.PathLike[str], images: ImageSet) -> ImageSplit:
    """Read a split that was saved for these images; for others it is refused."""
    content = _read(Path(path))
    parts = {name: np.array(rows, dtype=np.int64) for name, rows in content["parts"].items()}
    own = {name: content[name] for name in ("rule", "seed", "images", "images_sha256", "n")}
    found = ImageSplit(parts=parts, **own)
    try:
        found.require(images)
    except InputError as error:
        raise FileError(f"{path} is stale: {error}") from None
    return found


def known_rule(rule: str) -> dict[str, str]:
    """Return what a rule for a split says, if it is one."""
    if found := _RULE.fullmatch(rule):
        return found.groupdict(default="")
    raise InputError(
        f"unknown split {rule!r}; write one as 5%, 5%+10%, first-5, halves or random-2500"
    )


def _stratified(
    labels: IntArray, rows: IntArray, share: float, rng: np.random.Generator
) -> IntArray:
    """Return a share of rows at random, of every class alike, in order.

    Each class gives its share rounded down, and those with the largest remainders one more, up to
    the share of all, rounded; equal remainders are decided by chance.
    """
    classes, counts = np.unique(labels[rows], return_counts=True)
    exact = share * counts
    each = np.floor(exact + 1e-9).astype(np.int64)
    left = int(np.floor(share * len(rows) + 0.5 + 1e-9)) - int(each.sum())
    chance = rng.permutation(len(classes))
    largest = np.lexsort((chance, -np.round(exact - each, 9)))
    each[largest[: max(left, 0)]] += 1
    taken = [
        rng.permutation(rows[labels[rows] == one])[:number]
        for one, number in zip(classes, each, strict=True)
    ]
    return np.sort(np.concatenate(taken)) if taken else np.arange(0)


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(file: Path) -> dict[str, Any]:
    """Read what a split says, without its images."""
    content = read_document(file, most=MAX_BYTES, what="split of images", error=FileError)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FileError(f"{file} is not a split of images")
    if content.get("version") != VERSION:
        raise FileError(f"{file} is a split of version {content.get('version')!r}, not {VERSION}")
    if _digest({key: content[key] for key in content if key != "sha256"}) != content.get("sha256"):
        raise FileError(f"{file} was changed since it was written: its checksum differs")
    n, parts = content["n"], content["parts"].values()
    rows = [row for part in parts for row in (part if isinstance(part, list) else [part, None])]
    if not all(type(row) is int and 0 <= row < n for row in rows) or len({*rows}) < len(rows):
        raise FileError(f"{file}: rows must be whole numbers below {n:,}, each once")
    return content

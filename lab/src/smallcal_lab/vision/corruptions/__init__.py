"""The corruptions of ImageNet-C and CIFAR-C, for images of any size."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from smallcal.data.checks import as_numpy, whole_number
from smallcal.errors import InputError, choose
from smallcal_lab.corruption_names import SEVERITIES
from smallcal_lab.corruption_names import STANDARD as STANDARD
from smallcal_lab.toml import loads
from smallcal_lab.vision.corruptions import kinds

#: The names of all corruptions, by family: functions of ``kinds``.
CORRUPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "noise": ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
        "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "gaussian_blur"),
        "weather": ("snow", "frost", "fog", "brightness", "spatter"),
        "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression", "saturate"),
    }
)
_KINDS = [kind for family in CORRUPTIONS.values() for kind in family]

#: The sizes whose numbers were published.
SIZES = (32, 64, 224)

#: The numbers of one corruption at one severity.
Row = tuple[float, ...]

_TABLES = loads(Path(__file__).with_name("severities.toml").read_text(encoding="utf-8"))


def corrupt(
    image: object, kind: str, severity: int, *, seed: int, image_id: str | int
) -> NDArray[np.uint8]:
    """Corrupt an image as in ImageNet-C or CIFAR-C; return an array of the same shape.

    Randomness depends only on the seed, the kind and the image's id: neither the
    order of images nor earlier calls matter, and all severities of an image share
    the same random pattern.

    Parameters
    ----------
    image : array of uint8, or Pillow image of mode RGB or L
        Height x width x 3, or height x width (x 1) for grey, at least 8 pixels on each side.
        The numbers of 32, 64 and 224 pixels are the published ones; others lie in between.
    kind : str
        A name from ``CORRUPTIONS``.
    severity : int
        From 1 to 5.
    seed : int
        Random seed of the noise.
    image_id : str or int
        A unique name of the image, such as the name of its file.

    Examples
    --------
    >>> image = np.full((32, 32, 3), 100, dtype=np.uint8)
    >>> corrupt(image, "brightness", 5, seed=0, image_id="a")[0, 0]  # 30 % of 255 more
    array([177, 177, 177], dtype=uint8)
    """
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InputError(f"there is no corruption {kind!r}: {choose(str(kind), _KINDS)}")
    severity = whole_number(severity, "severity", least=SEVERITIES[0], most=SEVERITIES[-1])
    pixels = _pixels(image)
    if isinstance(image_id, bool) or not isinstance(image_id, str | int | np.integer):
        raise InputError(f"image_id must be a text or a whole number; got {image_id!r}")
    seed = whole_number(seed, "seed")
    words = f"{seed}\n{kind}\n{image_id}".encode("utf-8", "surrogatepass")
    rng = Generator(PCG64(int.from_bytes(hashlib.sha256(words).digest(), "big")))
    x = pixels.reshape(*pixels.shape[:2], -1) / 255
    change, rows = getattr(kinds, kind), rows_of(kind, severity, min(pixels.shape[:2]))
    if kind == "defocus_blur":  # a disk of whole pixels cannot grow evenly: two are mixed
        made = sum(weight * change(x, rng, *row) for weight, row in rows)
    else:
        made = change(x, rng, *mixed(rows))
    return kinds.as_levels(made).reshape(pixels.shape)


def _pixels(image: Any) -> NDArray[np.uint8]:
    """Return the levels of an image, or say in a line why there are none."""
    mode = getattr(image, "mode", None)
    if mode not in (None, "RGB", "L"):
        raise InputError(f"an image of mode {mode!r} cannot be corrupted: convert it to 'RGB'")
    pixels = as_numpy(image, name="image")
    if pixels.dtype != np.uint8:
        raise InputError(f"image must hold levels from 0 to 255, of type uint8; got {pixels.dtype}")
    shape = pixels.shape
    if len(shape) not in (2, 3) or shape[2:] not in ((), (1,), (3,)) or min(shape[:2]) < 8:
        raise InputError(
            "image must be height x width x 3, or height x width for grey, and at least "
            f"8 x 8 pixels; got shape {shape}"
        )
    return pixels


@cache
def rows_of(kind: str, severity: int, size: int) -> tuple[tuple[float, Row], ...]:
    """Return the published numbers that those of a size lie between, with their weights.

    Published sizes have their own. In between the weights go straight from one to the next in the
    logarithm of the size. Smaller images have the numbers of 32 pixels; in larger ones lengths grow
    with the image, so that it looks the same when it is shrunk.
    """
    table = _TABLES[kind]
    grown, lengths = max(1.0, size / SIZES[-1]), table.get("lengths", ())

    def published(at: int) -> Row:
        row = table[str(at)][SEVERITIES.index(severity)]
        numbers = row if isinstance(row, list) else [row]
        return tuple(value * (grown if i in lengths else 1) for i, value in enumerate(numbers))

    size = min(max(size, SIZES[0]), SIZES[-1])
    if size in SIZES:
        return ((1.0, published(size)),)
    low, high = next(pair for pair in pairwise(SIZES) if pair[0] < size < pair[1])
    share = math.log(size / low) / math.log(high / low)
    return (1 - share, published(low)), (share, published(high))


def mixed(rows: tuple[tuple[float, Row], ...]) -> Row:
    """Return the weighted means of numbers."""
    weighted = ([weight * value for value in row] for weight, row in rows)
    return tuple(map(sum, zip(*weighted, strict=True)))

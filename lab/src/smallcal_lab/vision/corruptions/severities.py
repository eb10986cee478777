"""How strong each corruption is: its numbers at five severities, by the size of the image."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from smallcal_lab.corruption_names import SEVERITIES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The numbers of one corruption at one severity.
Row = tuple[float, ...]

#: The sizes whose numbers were published.
SIZES = (32, 64, 224)


@dataclass(frozen=True)
class Strength:
    """The numbers of a corruption at a severity, for an image of some size.

    Attributes
    ----------
    values : tuple of float
        The numbers.
    parts : tuple of (float, tuple)
        The published rows that they lie between, with their weights, for what is better mixed
        than computed from numbers in between.
    size : int
        The shorter side of the image.
    """

    values: Row
    parts: tuple[tuple[float, Row], ...]
    size: int


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("severities.toml").read_text(encoding="utf-8"))


@cache
def strength(kind: str, severity: int, size: int) -> Strength:
    """Return the numbers of a corruption for an image whose shorter side is ``size``.

    Published sizes have the published numbers. In between they go straight from one to the next in
    the logarithm of the size. Smaller images have those of 32 pixels; in larger ones lengths grow
    with the image, so that it looks the same when it is shrunk.

    Examples
    --------
    >>> [strength("gaussian_blur", 5, size).values for size in (28, 32, 64, 224, 448)]
    [(1.0,), (1.0,), (1.5,), (6.0,), (12.0,)]
    >>> 1.5 < strength("gaussian_blur", 5, 100).values[0] < 6.0
    True
    """
    grown = max(1.0, size / SIZES[-1])
    table = _tables()[kind]
    lengths = table.get("lengths", ())

    def published(at: int) -> Row:
        row = table[str(at)][SEVERITIES.index(severity)]
        numbers = row if isinstance(row, list) else [row]
        return tuple(value * (grown if i in lengths else 1) for i, value in enumerate(numbers))

    parts = tuple((weight, published(at)) for at, weight in _weights(size))
    mixed = zip(*([weight * value for value in row] for weight, row in parts), strict=True)
    return Strength(tuple(map(math.fsum, mixed)), parts, size)


def _weights(size: int) -> list[tuple[int, float]]:
    """Return the published sizes around one, and how near it is to each."""
    size = min(max(size, SIZES[0]), SIZES[-1])
    if size in SIZES:
        return [(size, 1.0)]
    low, high = next(pair for pair in pairwise(SIZES) if pair[0] < size < pair[1])
    share = math.log(size / low) / math.log(high / low)
    return [(low, 1 - share), (high, share)]

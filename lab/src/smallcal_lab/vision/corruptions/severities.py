"""How strong each corruption is: its numbers at five severities, by the size of the image.

The numbers are those of the scripts that made CIFAR-10-C (32 pixels), Tiny-ImageNet-C (64) and
ImageNet-C (224). Where two numbers of a row are a mean and a spread, or a strength and a width,
the comment above the table says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from smallcal_lab.corruption_names import SEVERITIES

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
    lengths = _LENGTHS.get(kind, ())
    rows = {at: _TABLES[kind][at][SEVERITIES.index(severity)] for at in SIZES}
    parts = tuple(
        (weight, tuple(value * (grown if i in lengths else 1) for i, value in enumerate(rows[at])))
        for at, weight in _weights(size)
    )
    values = tuple(
        math.fsum(weight * row[i] for weight, row in parts) for i in range(len(parts[0][1]))
    )
    return Strength(values, parts, size)


def _weights(size: int) -> list[tuple[int, float]]:
    """Return the published sizes around one, and how near it is to each."""
    size = min(max(size, SIZES[0]), SIZES[-1])
    if size in SIZES:
        return [(size, 1.0)]
    low, high = next(pair for pair in pairwise(SIZES) if pair[0] < size < pair[1])
    share = math.log(size / low) / math.log(high / low)
    return [(low, 1 - share), (high, share)]


def _single(*values: float) -> tuple[Row, ...]:
    return tuple((value,) for value in values)


#: Which numbers of a row are lengths in pixels.
_LENGTHS = {
    "gaussian_blur": (0,),
    "defocus_blur": (0,),
    "glass_blur": (0, 1),
    "motion_blur": (0, 1),
    "snow": (2, 4, 5),
    "spatter": (2, 5),
}

_TABLES: dict[str, dict[int, tuple[Row, ...]]] = {
    # Standard deviation.
    "gaussian_noise": {
        32: _single(0.04, 0.06, 0.08, 0.09, 0.10),
        64: _single(0.04, 0.08, 0.12, 0.15, 0.18),
        224: _single(0.08, 0.12, 0.18, 0.26, 0.38),
    },
    # Photons that make white.
    "shot_noise": {
        32: _single(500, 250, 100, 75, 50),
        64: _single(250, 100, 50, 30, 15),
        224: _single(60, 25, 12, 5, 3),
    },
    # Share of values that become black or white.
    "impulse_noise": {
        32: _single(0.01, 0.02, 0.03, 0.05, 0.07),
        64: _single(0.01, 0.02, 0.05, 0.08, 0.14),
        224: _single(0.03, 0.06, 0.09, 0.17, 0.27),
    },
    # Standard deviation, as a share of the value.
    "speckle_noise": {
        32: _single(0.06, 0.10, 0.12, 0.16, 0.20),
        64: _single(0.15, 0.20, 0.25, 0.30, 0.35),
        224: _single(0.15, 0.20, 0.35, 0.45, 0.60),
    },
    # Standard deviation.
    "gaussian_blur": {
        32: _single(0.4, 0.6, 0.7, 0.8, 1.0),
        64: _single(0.5, 0.75, 1.0, 1.25, 1.5),
        224: _single(1, 2, 3, 4, 6),
    },
    # Radius of the disk, standard deviation of its softened rim.
    "defocus_blur": {
        32: ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
        64: ((0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
        224: ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    },
    # Standard deviation, farthest neighbour, rounds.
    "glass_blur": {
        32: ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
        64: ((0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
        224: ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    },
    # Radius, standard deviation.
    "motion_blur": {
        32: ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
        64: ((10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
        224: ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    },
    # Largest magnification, and how many there are from 1 on.
    "zoom_blur": {
        32: ((1.06, 7), (1.11, 12), (1.15, 16), (1.20, 21), (1.25, 26)),
        64: ((1.06, 7), (1.11, 12), (1.15, 16), (1.20, 21), (1.25, 26)),
        224: ((1.11, 12), (1.15, 16), (1.20, 11), (1.24, 13), (1.30, 11)),
    },
    # Mean and spread of the flakes, their size, the least that stays, radius and standard
    # deviation of their fall, how much of the image stays unwhitened.
    "snow": {
        32: (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
        64: (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
        ),
        224: (
            (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
            (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
            (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
        ),
    },
    # How much of the image, how much of the frost.
    "frost": {
        32: ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
        64: ((1, 0.3), (0.9, 0.4), (0.8, 0.45), (0.75, 0.5), (0.7, 0.55)),
        224: ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    },
    # How much fog, and how fast its details fade.
    "fog": {
        32: ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
        64: ((0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)),
        224: ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    },
    # Mean and spread of the liquid, its smoothness, the least that stays, then the strength of
    # water or the smoothness of mud.
    "spatter": {
        32: (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0, 0.6),
            (0.65, 0.1, 0.5, 0.68, 0, 0.6),
        ),
        64: (
            (0.62, 0.1, 0.7, 0.7, 0.6, 0),
            (0.65, 0.1, 0.8, 0.7, 0.6, 0),
            (0.65, 0.3, 1, 0.69, 0.6, 0),
            (0.65, 0.1, 0.7, 0.68, 0, 0.6),
            (0.65, 0.1, 0.5, 0.67, 0, 0.6),
        ),
        224: (
            (0.65, 0.3, 4, 0.69, 0.6, 0),
            (0.65, 0.3, 3, 0.68, 0.6, 0),
            (0.65, 0.3, 2, 0.68, 0.5, 0),
            (0.65, 0.3, 1, 0.65, 0, 1.5),
            (0.67, 0.4, 1, 0.65, 0, 1.5),
        ),
    },
    # Added to the value of each colour.
    "brightness": {
        32: _single(0.05, 0.1, 0.15, 0.2, 0.3),
        64: _single(0.1, 0.2, 0.3, 0.4, 0.5),
        224: _single(0.1, 0.2, 0.3, 0.4, 0.5),
    },
    # How much of the contrast stays.
    "contrast": {
        32: _single(0.75, 0.5, 0.4, 0.3, 0.15),
        64: _single(0.4, 0.3, 0.2, 0.1, 0.05),
        224: _single(0.4, 0.3, 0.2, 0.1, 0.05),
    },
    # The saturation is multiplied by the first and added to the second.
    "saturate": {
        32: ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
        64: ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)),
        224: ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    },
    # Quality.
    "jpeg_compression": {
        32: _single(80, 65, 58, 50, 40),
        64: _single(65, 58, 50, 40, 25),
        224: _single(25, 18, 15, 10, 7),
    },
    # How many pixels of each side stay.
    "pixelate": {
        32: _single(0.95, 0.9, 0.85, 0.75, 0.65),
        64: _single(0.9, 0.8, 0.7, 0.6, 0.5),
        224: _single(0.6, 0.5, 0.4, 0.3, 0.25),
    },
    # As shares of the side: how far points wander, how smoothly, how far three corners move.
    # ImageNet-C multiplied by 244 where it meant 224.
    "elastic_transform": {
        32: (
            (0, 0, 0.08),
            (0.05, 0.2, 0.07),
            (0.08, 0.06, 0.06),
            (0.1, 0.04, 0.05),
            (0.1, 0.03, 0.03),
        ),
        64: (
            (0, 0, 0.08),
            (0.05, 0.3, 0.06),
            (0.1, 0.08, 0.06),
            (0.1, 0.03, 0.03),
            (0.16, 0.03, 0.02),
        ),
        224: tuple(
            tuple(value * 244 / 224 for value in row)
            for row in (
                (2, 0.7, 0.1),
                (2, 0.08, 0.2),
                (0.05, 0.01, 0.02),
                (0.07, 0.01, 0.02),
                (0.12, 0.01, 0.02),
            )
        ),
    },
}

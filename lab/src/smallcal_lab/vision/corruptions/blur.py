"""Blur: out of focus, behind frosted glass, in motion, on approach, and by a bell curve."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from scipy.fft import irfft2, next_fast_len, rfft2
from scipy.ndimage import gaussian_filter

from smallcal.data.checks import BoolArray, FloatArray, IntArray
from smallcal_lab.vision.corruptions.fields import magnified, streaked
from smallcal_lab.vision.corruptions.severities import Strength


def gaussian_blur(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Blur by a bell curve."""
    (sigma,) = strength.values
    return _blurred(x, sigma)


def _blurred(x: FloatArray, sigma: float) -> FloatArray:
    blurred: FloatArray = gaussian_filter(x, (sigma, sigma, 0), mode="nearest")
    return blurred


def defocus_blur(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Blur by a disk, as a lens that is out of focus does.

    Between published sizes the two disks are mixed: a disk of whole pixels cannot grow evenly.
    """
    disks = [(weight, _disk(*row)) for weight, row in strength.parts]
    reach = max(len(disk) for _, disk in disks) // 2
    kernel = sum(weight * np.pad(disk, reach - len(disk) // 2) for weight, disk in disks)
    wide = np.pad(x, ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
    return _convolved(wide, np.asarray(kernel))


def _convolved(x: FloatArray, kernel: FloatArray) -> FloatArray:
    """Return the part of a convolution that the borders have no share in.

    What ``scipy.signal.fftconvolve(mode="valid")`` does, which takes a second to import.
    """
    first = len(kernel) - 1
    height, width = x.shape[:2]
    size = (next_fast_len(height, real=True), next_fast_len(width, real=True))
    waves = rfft2(x, size, axes=(0, 1)) * rfft2(kernel, size)[..., None]
    made: FloatArray = irfft2(waves, size, axes=(0, 1))[first:height, first:width]
    return made


def _disk(radius: float, rim: float) -> FloatArray:
    """Return a disk of sum 1 with a rim softened over two pixels, over four if it is large."""
    soft = 1 if radius <= 8 else 2
    reach = math.floor(radius) + soft
    along = np.arange(-reach, reach + 1)
    disk = (along[:, None] ** 2 + along**2 <= radius**2).astype(float)
    disk = gaussian_filter(disk, rim, mode="constant", radius=soft)
    rounded: FloatArray = disk / disk.sum()
    return rounded


def motion_blur(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Smear to one side, up to 45 degrees from level."""
    radius, sigma = strength.values
    return streaked(x, radius, sigma, rng.uniform(-45, 45))


def zoom_blur(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Average the image with magnified ones; itself counts twice."""
    largest, number = strength.values
    factors = np.linspace(1, largest, round(number))
    return (x + sum(magnified(x, factor) for factor in factors)) / (len(factors) + 1)


def glass_blur(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Blur, let pixels take the place of their neighbours, and blur again."""
    sigma, reach, rounds = strength.values
    x = _blurred(x, sigma)
    for _ in range(round(rounds)):
        x = _taken_from_neighbours(x, round(reach), rng)
    return _blurred(x, sigma)


def _taken_from_neighbours(x: FloatArray, reach: int, rng: Generator) -> FloatArray:
    """Go from the last pixel to the first, and give each the colour of a neighbour drawn for it.

    The scripts of ImageNet-C are written as if the two changed places, but NumPy hands them views,
    so that the neighbour keeps its colour. The published images are made so, and so are these.
    """
    height, width = x.shape[:2]
    drawn = rng.integers(-reach, reach, size=(2, height, width))
    place = np.arange(height * width).reshape(height, width)
    inside = np.zeros((height, width), dtype=bool)
    inside[reach + 1 : height - reach + 1, reach + 1 : width - reach + 1] = True
    source = np.where(inside, place + drawn[0] * width + drawn[1], place).ravel()
    return x.reshape(height * width, -1)[_origins(source, inside.ravel())].reshape(x.shape)


def _origins(source: IntArray, inside: BoolArray) -> IntArray:
    """Return whose colour each pixel has in the end.

    Pixels after it have been visited before it. So where its neighbour is one of those, a pixel
    gets what that neighbour got: such chains are followed for all pixels at once, twice as far
    each time.
    """
    place = np.arange(len(source))
    on = inside[source] & (source > place)
    following = np.where(on, source, place)
    while True:
        farther = following[following]
        if np.array_equal(farther, following):
            return source[following]
        following = farther

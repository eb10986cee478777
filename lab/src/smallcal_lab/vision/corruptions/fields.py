"""What several corruptions are made of: streaks, magnified centres, clouds, smooth fields."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.fft import dct, idct
from scipy.sparse import csr_array

from smallcal.data.checks import FloatArray, IntArray


def streaked(x: FloatArray, radius: float, sigma: float, angle: float) -> FloatArray:
    """Return an image smeared to one side, as ImageMagick's motion blur does.

    Each pixel is the mean of those on a line that starts at it, weighted by half of a bell curve;
    beyond the border the border's pixels count again.

    Parameters
    ----------
    x : array
        Height x width x channels.
    radius, sigma : float
        The line has ``2 * radius + 1`` pixels; the standard deviation of the bell curve.
    angle : float
        In degrees, clockwise from the right.
    """
    along = np.arange(2 * round(radius) + 1)
    weights = np.exp(-(along**2) / (2 * sigma**2))
    weights /= weights.sum()
    rows = _whole(along * math.sin(math.radians(angle)))
    columns = _whole(along * math.cos(math.radians(angle)))
    height, width = x.shape[:2]
    above, left = -min(0, rows.min()), -min(0, columns.min())
    border = ((above, max(0, rows.max())), (left, max(0, columns.max())), (0, 0))
    wide = np.pad(x, border, mode="edge")
    smeared = np.zeros_like(x)
    for weight, row, column in zip(weights, rows + above, columns + left, strict=True):
        smeared += weight * wide[row : row + height, column : column + width]
    return smeared


def _whole(steps: FloatArray) -> IntArray:
    """Round to whole pixels, halves down; the small number keeps sines of 90 degrees together."""
    whole: IntArray = np.ceil(steps - 0.5 - 1e-9).astype(np.int64)
    return whole


def magnified(x: FloatArray, factor: float) -> FloatArray:
    """Return the centre of an image, magnified to the size of the image.

    The corners of the part that is cut out, which has whole pixels, become the corners of a larger
    image, of which the middle is kept. In single precision, which is four times as fast.
    """
    x = x.astype(np.float32)
    for _ in range(2):
        rows = x.shape[0]
        read = _magnifier(rows, factor) @ x.reshape(rows, -1)
        x = read.reshape(x.shape).swapaxes(0, 1)
    return x


@lru_cache(maxsize=256)
def _magnifier(length: int, factor: float) -> Any:
    """Return what turns the rows of an image into those of its magnified centre."""
    kept = math.ceil(length / factor)
    grown = max(length, round(kept * factor))
    steps = np.arange(length) + (grown - length) // 2
    places = (length - kept) // 2 + steps * (kept - 1) / (grown - 1)
    before = np.minimum(places.astype(np.int64), length - 2)
    share = (places - before).astype(np.float32)
    weights, columns = np.stack([1 - share, share], 1), np.stack([before, before + 1], 1)
    starts = np.arange(0, 2 * length + 1, 2)
    return csr_array((weights.ravel(), columns.ravel(), starts), shape=(length, length))


def cloud(height: int, width: int, decay: float, rng: Generator) -> FloatArray:
    """Return a fractal landscape with heights from 0 to 1, by the diamond-square method.

    Parameters
    ----------
    height, width : int
        A part of the next larger square with a power of two at its side; that square's opposite
        borders meet.
    decay : float
        Bumps are lower by its square whenever they are half as wide.
    """
    side = 2 ** math.ceil(math.log2(max(height, width)))
    land = np.zeros((side, side))
    step, bump = side, 1.0
    while step >= 2:
        half = step // 2
        corners = land[::step, ::step]
        below = corners + np.roll(corners, -1, axis=0)
        centres = (below + np.roll(below, -1, axis=1)) / 4
        centres = centres + rng.uniform(-bump, bump, centres.shape)
        land[half::step, half::step] = centres
        # The middle of each side, from the two ends of the side and the centres next to it.
        for axis in (0, 1):
            ends = corners + np.roll(corners, -1, axis=1 - axis)
            beside = centres + np.roll(centres, 1, axis=axis)
            middles = (ends + beside) / 4 + rng.uniform(-bump, bump, ends.shape)
            if axis == 0:
                land[::step, half::step] = middles
            else:
                land[half::step, ::step] = middles
        step, bump = half, bump / decay**2
    land -= land.min()
    heights: FloatArray = land[:height, :width] / land.max()
    return heights


def smoothed(field: FloatArray, sigma: float, truncate: float) -> FloatArray:
    """Return a field after a Gaussian filter that mirrors it at its borders.

    The same as ``scipy.ndimage.gaussian_filter(field, sigma, mode="reflect", truncate=truncate)``,
    in the space of cosines: there a filter wider than the field costs no more than a narrow one.
    """
    reach = int(truncate * sigma + 0.5)
    along = np.arange(-reach, reach + 1)
    weights = np.exp(-(along**2) / (2 * sigma**2))
    weights /= weights.sum()
    for axis in (0, 1):
        waves = np.arange(field.shape[axis]) * math.pi / field.shape[axis]
        passed = np.cos(np.outer(waves, along)) @ weights
        shape = [-1 if one == axis else 1 for one in range(field.ndim)]
        field = idct(dct(field, axis=axis) * passed.reshape(shape), axis=axis)
    return field


def grey(x: FloatArray) -> FloatArray:
    """Return how light an image is, with one channel."""
    if x.shape[2] == 1:
        return x
    light: FloatArray = (x @ np.array([0.299, 0.587, 0.114]))[..., None]
    return light


def tinted(layer: FloatArray, colour: tuple[float, float, float], channels: int) -> FloatArray:
    """Return a layer of one channel in a colour, or in its grey."""
    shade = np.array(colour)[None, None, :]
    return layer * (shade if channels == 3 else grey(shade))

"""Digital: contrast, colour, elastic shapes, coarse pixels and JPEG."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from smallcal.data.checks import FloatArray
from smallcal.errors import needing
from smallcal_lab.vision.corruptions.fields import smoothed
from smallcal_lab.vision.corruptions.severities import Strength

if TYPE_CHECKING:
    from PIL import Image


def contrast(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Draw every channel towards its mean."""
    (kept,) = strength.values
    mean = x.mean(axis=(0, 1), keepdims=True)
    drawn: FloatArray = mean + kept * (x - mean)
    return drawn


def saturate(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Change the saturation of each colour; hue and value stay.

    A grey pixel has no hue: it turns to red, hue 0, where something is added. An image of one
    channel has no colours at all and stays as it is.
    """
    if x.shape[2] == 1:
        return x
    factor, more = strength.values
    value = x.max(axis=2, keepdims=True)
    short = np.where(value > 0, (value - x) / np.where(value > 0, value, 1), 0)
    saturation = short.max(axis=2, keepdims=True)
    wanted = np.minimum(saturation * factor + more, 1)
    plain = saturation == 0
    towards_red = np.array([0.0, 1.0, 1.0])
    share = np.where(plain, towards_red, short / np.where(plain, 1, saturation))
    coloured: FloatArray = value * (1 - share * wanted)
    return coloured


def elastic_transform(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Move three corners of the image, and let its points wander around."""
    wander, smooth, move = (share * strength.size for share in strength.values)
    height, width = x.shape[:2]
    rows, columns = _before_moving(height, width, move, rng)
    down, right = np.mgrid[:height, :width].astype(float)
    if wander > 0:
        down += wander * smoothed(rng.uniform(-1, 1, down.shape), smooth, 3)
        right += wander * smoothed(rng.uniform(-1, 1, down.shape), smooth, 3)
    places = [one[0] * down + one[1] * right + one[2] for one in (rows, columns)]
    channels = [
        map_coordinates(x[..., channel], places, order=1, mode="mirror")
        for channel in range(x.shape[2])
    ]
    return np.stack(channels, axis=2)


def _before_moving(
    height: int, width: int, move: float, rng: Generator
) -> tuple[FloatArray, FloatArray]:
    """Return where a pixel was before three points moved: factors of row, column and 1."""
    centre = np.array([height // 2, width // 2], dtype=float)
    third = min(height, width) // 3
    points = centre + third * np.array([[1, 1], [-1, 1], [-1, -1]])
    moved = points + rng.uniform(-move, move, points.shape)
    solved = np.linalg.solve(np.column_stack([moved, np.ones(3)]), points)
    return solved[:, 0], solved[:, 1]


def pixelate(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Shrink the image and let it grow again, both by averages over boxes."""
    (kept,) = strength.values
    picture = _picture(x)
    with needing("pillow", "vision", "pixelate", of="smallcal-lab"):
        from PIL.Image import Resampling
    width, height = picture.size
    few = picture.resize((int(width * kept), int(height * kept)), Resampling.BOX)
    return _floats(few.resize((width, height), Resampling.BOX), x.shape)


def jpeg_compression(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Write the image as JPEG and read it again."""
    (quality,) = strength.values
    picture = _picture(x)
    with needing("pillow", "vision", "jpeg_compression", of="smallcal-lab"):
        from PIL import Image
    file = BytesIO()
    picture.save(file, "JPEG", quality=round(quality))
    with Image.open(file) as read:
        return _floats(read, x.shape)


def _picture(x: FloatArray) -> Image.Image:
    with needing("pillow", "vision", "this corruption", of="smallcal-lab"):
        from PIL import Image
    return Image.fromarray(as_levels(x if x.shape[2] == 3 else x[..., 0]))


def _floats(picture: Image.Image, shape: tuple[int, ...]) -> FloatArray:
    return np.asarray(picture).reshape(shape) / 255


def as_levels(x: FloatArray) -> NDArray[np.uint8]:
    """Return an image in levels from 0 to 255, rounded.

    The small number keeps halves, which are common (a contrast of 0.5), from going either way
    with the last bit of a sum.
    """
    levels: NDArray[np.uint8] = np.floor(np.clip(x, 0, 1) * 255 + (0.5 + 1e-6)).astype(np.uint8)
    return levels

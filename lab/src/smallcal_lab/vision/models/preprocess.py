"""From an image to what a model sees, by Pillow and torch alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from smallcal.errors import InputError, choose
from smallcal_lab.vision.models.model import InputSpec

#: Fractions such as 224 / 232 must not lose a pixel to rounding.
_SLACK = 1e-6


@dataclass(frozen=True)
class Preprocess:
    """Resize, cut out the centre, normalise. It can be pickled.

    The shorter side is resized (the one that needs more of it where height and width differ), or
    both sides if the model wants images squashed.

    Attributes
    ----------
    input : InputSpec

    Examples
    --------
    >>> see = Preprocess(InputSpec((32, 32), mean=(0.5,) * 3, std=(0.5,) * 3, crop=0.875))
    >>> seen = see(Image.new("RGB", (100, 60), "white"))
    >>> tuple(seen.shape), seen.dtype, float(seen.min())
    ((3, 32, 32), torch.float32, 1.0)
    """

    input: InputSpec

    def __call__(self, image: Image.Image) -> Any:
        """Return a float32 tensor, 3 x height x width."""
        import torch

        # By NumPy: for one small image each of torch's operations costs more than its numbers.
        levels = np.asarray(self.picture(image)).transpose(2, 0, 1)
        seen = np.divide(levels, np.float32(255), order="C")
        seen -= _by_colour(self.input.mean)
        seen /= _by_colour(self.input.std)
        return torch.from_numpy(seen)

    def picture(self, image: Image.Image) -> Image.Image:
        """Return the image as the model sees it, before its levels become numbers."""
        height, width = self.input.size
        how = resampling(self.input.interpolation)
        tall, wide = (math.floor(side / self.input.crop + _SLACK) for side in (height, width))
        resized = image.convert("RGB").resize(self._sides(image, tall, wide), how)
        left, top = round((resized.width - width) / 2), round((resized.height - height) / 2)
        return resized.crop((left, top, left + width, top + height))

    def _sides(self, image: Image.Image, tall: int, wide: int) -> tuple[int, int]:
        """Return width and height that cover what is wanted."""
        if self.input.squash:
            return wide, tall
        if tall * image.width >= wide * image.height:
            return max(wide, tall * image.width // image.height), tall
        return wide, max(tall, wide * image.height // image.width)


def _by_colour(three: tuple[float, float, float]) -> NDArray[np.float32]:
    return np.array(three, dtype=np.float32).reshape(3, 1, 1)


def resampling(name: str) -> Image.Resampling:
    """Return Pillow's filter of a name.

    Examples
    --------
    >>> resampling("bicubic").name
    'BICUBIC'
    """
    found = Image.Resampling.__members__.get(str(name).upper())
    if found is None:
        known = [one.lower() for one in Image.Resampling.__members__]
        raise InputError(f"unknown interpolation {name!r}; {choose(str(name), known)}")
    return found

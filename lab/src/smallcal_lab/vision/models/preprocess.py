"""From an image to what a model sees, by Pillow and torch alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smallcal.errors import InputError, choose
from smallcal_lab.vision.models.model import InputSpec

#: Fractions such as 224 / 232 must not lose a pixel to rounding.
_SLACK = 1e-6

#: Where ConvNext's processor no longer crops.
_LARGE = 384


@dataclass(frozen=True)
class Preprocess:
    """Resize, cut out the centre, normalise. It can be pickled.

    The shorter side is resized (the one that needs more of it where height and width differ), or
    both sides if the model wants images squashed.

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
        seen = np.divide(np.asarray(self.picture(image)), np.float32(255))
        mean, std = (np.array(one, np.float32) for one in (self.input.mean, self.input.std))
        seen = ((seen - mean) / std).transpose(2, 0, 1)
        return torch.from_numpy(np.ascontiguousarray(seen))

    def picture(self, image: Image.Image) -> Image.Image:
        """Return the image as the model sees it, before its levels become numbers."""
        height, width = self.input.size
        tall, wide = (math.floor(side / self.input.crop + _SLACK) for side in (height, width))
        if not self.input.squash:
            if tall * image.width >= wide * image.height:
                wide = max(wide, tall * image.width // image.height)
            else:
                tall = max(tall, wide * image.height // image.width)
        resized = image.convert("RGB").resize((wide, tall), resampling(self.input.interpolation))
        left, top = round((wide - width) / 2), round((tall - height) / 2)
        return resized.crop((left, top, left + width, top + height))


def resampling(name: str) -> Image.Resampling:
    """Return Pillow's filter of a name."""
    found = Image.Resampling.__members__.get(str(name).upper())
    if found is None:
        known = [one.lower() for one in Image.Resampling.__members__]
        raise InputError(f"unknown interpolation {name!r}; {choose(str(name), known)}")
    return found


def processor_input(config: Mapping[str, Any], source: str) -> InputSpec:
    """Return the input that a ``preprocessor_config.json`` of transformers describes.

    Examples
    --------
    >>> processor_input({"size": {"shortest_edge": 256}, "crop_size": 224, "do_center_crop": True,
    ...                  "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3}, "a")
    InputSpec(size=(224, 224), mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), interpolation='bicubic',
    crop=0.875, squash=False)
    """
    try:
        factor = config.get("rescale_factor") or 1 / 255
        most = 255 * float(factor) if config.get("do_rescale", True) else 255.0
        normal = config if config.get("do_normalize", True) else {}
        r, g, b = (float(one) / most for one in normal.get("image_mean") or [0.0] * 3)
        x, y, z = (float(one) / most for one in normal.get("image_std") or [1.0] * 3)
        interpolation = Image.Resampling(config.get("resample") or 2).name.lower()
        size, crop, squash = _sides(config)
    except (TypeError, ValueError, LookupError, AttributeError):
        raise InputError(
            f"{source}: cannot use its preprocessor_config.json: write "
            "?input.size=224&input.mean=0.5&input.std=0.5&..."
        ) from None
    return InputSpec(size, (r, g, b), (x, y, z), interpolation, crop, squash)


def _sides(config: Mapping[str, Any]) -> tuple[tuple[int, int], float, bool]:
    """Return height and width, the share that the crop keeps, and whether shapes change."""
    size = config["size"]
    edge = size if isinstance(size, int) else size.get("shortest_edge")
    share = config.get("crop_pct")
    if edge is not None and share:
        large = edge >= _LARGE
        return (edge, edge), 1.0 if large else share, large
    cut = config.get("crop_size") if config.get("do_center_crop") else None
    if cut is None:
        return _pair(size), 1.0, True
    inner = _pair(cut)
    if edge is None:
        return inner, inner[0] / _pair(size)[0], True
    return inner, min(inner) / edge, False


def _pair(size: Any) -> tuple[int, int]:
    edge = size if isinstance(size, int) else size.get("shortest_edge")
    return (edge, edge) if edge else (int(size["height"]), int(size["width"]))

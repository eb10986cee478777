"""What a ``preprocessor_config.json`` of transformers says of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PIL import Image

from smallcal.errors import InputError
from smallcal_lab.vision.models.model import InputSpec

#: Where ConvNext's processor no longer crops.
_LARGE = 384


def processor_input(config: Mapping[str, Any], source: str) -> InputSpec:
    """Return the input that a processor's settings describe.

    Examples
    --------
    >>> processor_input({"size": {"shortest_edge": 256}, "crop_size": 224, "do_center_crop": True,
    ...                  "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3}, "a")
    InputSpec(size=(224, 224), mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), interpolation='bicubic',
    crop=0.875, squash=False)
    """
    try:
        size, crop, squash = _sides(config)
        factor = config.get("rescale_factor") or 1 / 255
        most = 255 * float(factor) if config.get("do_rescale", True) else 255.0
        normal = config.get("do_normalize", True)
        mean = _colours(config.get("image_mean") if normal else None, 0.0)
        std = _colours(config.get("image_std") if normal else None, 1.0)
        interpolation = Image.Resampling(config.get("resample") or 2).name.lower()
    except (TypeError, ValueError, LookupError, AttributeError):
        raise InputError(
            f"{source}: cannot use its preprocessor_config.json: write "
            "?input.size=224&input.mean=0.5&input.std=0.5&..."
        ) from None
    r, g, b = (one / most for one in mean)
    x, y, z = (one / most for one in std)
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
    if edge is None or cut is None:
        whole = _pair(size)
        if cut is None:
            return whole, 1.0, True
        inner = _pair(cut)
        return inner, inner[0] / whole[0], True
    inner = _pair(cut)
    return inner, min(inner) / edge, False


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    if size.get("height"):
        return int(size["height"]), int(size["width"])
    return int(size["shortest_edge"]), int(size["shortest_edge"])


def _colours(row: Any, otherwise: float) -> tuple[float, float, float]:
    r, g, b = [otherwise] * 3 if row is None else row
    return float(r), float(g), float(b)

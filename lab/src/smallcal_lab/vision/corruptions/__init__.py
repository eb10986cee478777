"""The corruptions of ImageNet-C and CIFAR-C, for images of any size."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from smallcal.data.checks import as_numpy, whole_number
from smallcal.errors import InputError, choose
from smallcal_lab.corruption_names import SEVERITIES
from smallcal_lab.corruption_names import STANDARD as STANDARD
from smallcal_lab.vision.corruptions import kinds
from smallcal_lab.vision.corruptions.severities import strength

_FAMILIES = {
    "noise": (kinds.gaussian_noise, kinds.shot_noise, kinds.impulse_noise, kinds.speckle_noise),
    "blur": (
        *(kinds.defocus_blur, kinds.glass_blur, kinds.motion_blur, kinds.zoom_blur),
        kinds.gaussian_blur,
    ),
    "weather": (kinds.snow, kinds.frost, kinds.fog, kinds.brightness, kinds.spatter),
    "digital": (
        *(kinds.contrast, kinds.elastic_transform, kinds.pixelate),
        *(kinds.jpeg_compression, kinds.saturate),
    ),
}
_NAMED = {one.__name__: one for family in _FAMILIES.values() for one in family}

#: The names of all corruptions, by family.
CORRUPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {family: tuple(one.__name__ for one in members) for family, members in _FAMILIES.items()}
)

#: The shortest side of an image that a corruption can be seen in.
LEAST_SIDE = 8


def corrupt(
    image: object, kind: str, severity: int, *, seed: int, image_id: str | int
) -> NDArray[np.uint8]:
    """Corrupt an image as in ImageNet-C or CIFAR-C.

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

    Returns
    -------
    array of uint8
        Of the same shape; never the image itself.

    Raises
    ------
    InputError
        If the image, the kind or the severity cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from smallcal_lab.vision import corrupt
    >>> image = np.full((32, 32, 3), 100, dtype=np.uint8)
    >>> corrupt(image, "brightness", 5, seed=0, image_id="a")[0, 0]  # 30 % of 255 more
    array([177, 177, 177], dtype=uint8)
    >>> noisy = [corrupt(image, "gaussian_noise", 3, seed=0, image_id=name) for name in "aab"]
    >>> [bool((other == noisy[0]).all()) for other in noisy]
    [True, True, False]
    """
    if not isinstance(kind, str) or kind not in _NAMED:
        raise InputError(f"there is no corruption {kind!r}: {choose(str(kind), _NAMED)}")
    severity = whole_number(severity, "severity", least=SEVERITIES[0], most=SEVERITIES[-1])
    pixels = _pixels(image)
    if isinstance(image_id, bool) or not isinstance(image_id, str | int | np.integer):
        raise InputError(f"image_id must be a text or a whole number; got {image_id!r}")
    seed = whole_number(seed, "seed")
    words = f"{seed}\n{kind}\n{image_id}".encode("utf-8", "surrogatepass")
    rng = Generator(PCG64(int.from_bytes(hashlib.sha256(words).digest(), "big")))
    x = pixels.reshape(*pixels.shape[:2], -1) / 255
    made = _NAMED[kind](x, strength(kind, severity, min(pixels.shape[:2])), rng)
    return kinds.as_levels(made).reshape(pixels.shape)


def _pixels(image: Any) -> NDArray[np.uint8]:
    """Return the levels of an image, or say in a line why there are none."""
    mode = getattr(image, "mode", None)
    if mode not in (None, "RGB", "L"):
        raise InputError(f"an image of mode {mode!r} cannot be corrupted: convert it to 'RGB'")
    pixels = as_numpy(image, name="image")
    if pixels.dtype != np.uint8:
        raise InputError(f"image must hold levels from 0 to 255, of type uint8; got {pixels.dtype}")
    if pixels.ndim not in (2, 3) or pixels.shape[2:] not in ((), (1,), (3,)):
        raise InputError(
            "image must be height x width x 3, or height x width for grey; "
            f"got shape {pixels.shape}"
        )
    if min(pixels.shape[:2]) < LEAST_SIDE:
        raise InputError(
            f"image must be at least {LEAST_SIDE} x {LEAST_SIDE} pixels; "
            f"got {pixels.shape[0]} x {pixels.shape[1]}"
        )
    return pixels

"""Weather: snow, frost, fog, bright light, and splashes on the lens."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.fft import irfft2, rfft2
from scipy.ndimage import (
    binary_erosion,
    convolve,
    distance_transform_edt,
    gaussian_filter,
    uniform_filter,
)

from smallcal.data.checks import FloatArray
from smallcal_lab.vision.corruptions.fields import (
    cloud,
    grey,
    magnified,
    smoothed,
    streaked,
    tinted,
)
from smallcal_lab.vision.corruptions.severities import Strength

_WATER = (175 / 255, 238 / 255, 238 / 255)
_MUD = (63 / 255, 42 / 255, 20 / 255)

#: In how many directions the needles of a pane of frost lie.
_DIRECTIONS = 8

#: Distances from the rim of a drop count up to here.
_DEEP = 20
#: Lit from one side, a drop is bright on the other.
_LIGHT = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])


def snow(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Whiten, and let flakes fall twice, once from each side."""
    mean, spread, flake, least, radius, sigma, kept = strength.values
    layer = magnified(rng.normal(mean, spread, x.shape[:2])[..., None], flake)
    layer = np.where(layer < least, 0, np.clip(layer, 0, 1))
    layer = streaked(layer, radius, sigma, rng.uniform(-135, -45))
    x = kept * x + (1 - kept) * np.maximum(x, grey(x) * 1.5 + 0.5)
    return x + layer + layer[::-1, ::-1]


def frost(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Lay frost over the image."""
    image, ice = strength.values
    return image * x + ice * _ice(*x.shape, size=strength.size, rng=rng)


def _ice(height: int, width: int, channels: int, *, size: int, rng: Generator) -> FloatArray:
    """Return a picture of frost: patches of needles, each with its direction, on a clouded pane.

    Drawn, where ImageNet-C has five photographs. How light, how blue and how uneven it is varies
    from image to image as much as from photograph to photograph.
    """
    noise = rfft2(rng.standard_normal((height, width)))
    here, there = (smoothed(rng.standard_normal((height, width)), size / 12, 3) for _ in range(2))
    patch = np.floor(np.arctan2(here, there) / (2 * math.pi) * _DIRECTIONS) % _DIRECTIONS
    needles = np.zeros((height, width))
    for number, angle in enumerate(rng.uniform(0, math.pi, _DIRECTIONS)):
        grown = irfft2(noise * _smeared(height, width, angle, size), s=(height, width))
        needles = np.where(patch == number, _standard(grown), needles)
    pane = _standard(cloud(height, width, 1.5, rng))
    layer = _standard(np.abs(needles) + 0.5 * pane)[..., None]
    light, uneven, blue = rng.uniform((0.45, 0.07, 0.05), (0.85, 0.15, 0.30))
    tint = np.array([-0.6, 0.15, 0.45]) * blue if channels == 3 else 0.0
    ice: FloatArray = np.clip(light + uneven * layer + tint, 0, 1)
    return ice


def _smeared(height: int, width: int, angle: float, size: int) -> FloatArray:
    """Return which waves are left of noise that is smeared along a line, and a little across."""
    down, right = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    along = down * math.sin(angle) + right * math.cos(angle)
    across = down * math.cos(angle) - right * math.sin(angle)
    long, thin = max(1.0, size / 40), size / 200
    passed: FloatArray = np.exp(-2 * math.pi**2 * ((long * along) ** 2 + (thin * across) ** 2))
    return passed


def _standard(layer: FloatArray) -> FloatArray:
    standard: FloatArray = (layer - layer.mean()) / max(float(layer.std()), 1e-12)
    return standard


def fog(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Add clouds, and darken so that the lightest value stays about as light."""
    amount, decay = strength.values
    height, width, _ = x.shape
    mist = amount * cloud(height, width, decay, rng)[..., None]
    lightest = float(x.max())
    return (x + mist) * (lightest / (lightest + amount))


def brightness(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Add to the value of each colour, its largest channel; hue and saturation stay."""
    (more,) = strength.values
    value = x.max(axis=2, keepdims=True)
    lit = np.minimum(value + more, 1)
    dark = value == 0
    brighter: FloatArray = np.where(dark, lit, x * (lit / np.where(dark, 1, value)))
    return brighter


def spatter(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Splash water on the lens; from severity 4 on, mud."""
    mean, spread, sigma, least, water, mud = strength.values
    liquid = gaussian_filter(rng.normal(mean, spread, x.shape[:2]), sigma, mode="nearest")
    if mud == 0:
        return x + tinted(water * _drops(liquid, least)[..., None], _WATER, x.shape[2])
    cover = gaussian_filter((liquid > least).astype(float), mud, mode="nearest")[..., None]
    cover = np.where(cover < 0.8, 0, cover)
    muddy: FloatArray = x * (1 - cover) + tinted(cover, _MUD, x.shape[2])
    return muddy


def _drops(liquid: FloatArray, least: float) -> FloatArray:
    """Return how much light each pixel of the drops catches, 1 at most."""
    wet = liquid >= least
    if not wet.any():
        return np.zeros_like(liquid)
    # The outermost pixels of a drop are its rim.
    rim = wet & ~binary_erosion(wet, border_value=1)
    depth = distance_transform_edt(~rim) if rim.any() else np.full(liquid.shape, math.inf)
    depth = _evened(uniform_filter(np.minimum(depth, _DEEP), 3, mode="mirror").astype(np.uint8))
    lit = np.clip(convolve(depth, _LIGHT, mode="mirror"), 0, 255)
    caught: FloatArray = np.where(wet, liquid, 0) * uniform_filter(lit, 3, mode="mirror")
    most = caught.max()
    return caught / most if most > 0 else caught


def _evened(levels: NDArray[np.uint8]) -> FloatArray:
    """Return levels spread over 0 to 255 by how many pixels have them."""
    below = np.bincount(levels.ravel(), minlength=256).cumsum()
    first = below[levels.min()]
    evened: FloatArray = np.rint((below[levels] - first) * (255 / max(levels.size - first, 1)))
    return evened

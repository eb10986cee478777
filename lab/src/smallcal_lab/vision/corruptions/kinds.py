"""All corruptions, by family.

Each takes an image of floats, height x width x channels from 0 to 1, the numbers of its severity
and a generator; what it returns is clipped to 0 and 1 by the caller.
"""

from __future__ import annotations

import math
from io import BytesIO

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image
from scipy.fft import irfft2, rfft2
from scipy.ndimage import (
    binary_erosion,
    convolve,
    distance_transform_edt,
    gaussian_filter,
    map_coordinates,
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

# --- noise ----------------------------------------------------------------------------------------


def gaussian_noise(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Add normal noise to every value."""
    (spread,) = strength.values
    return x + spread * rng.standard_normal(x.shape)


def shot_noise(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Count photons, of which white has so many on average."""
    (photons,) = strength.values
    counted: FloatArray = rng.poisson(x * photons) / photons
    return counted


def impulse_noise(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Make some values black and as many white, in each channel by itself."""
    (share,) = strength.values
    drawn = rng.random(x.shape)
    return np.where(drawn < share / 2, 0.0, np.where(drawn < share, 1.0, x))


def speckle_noise(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Add normal noise in proportion to every value."""
    (spread,) = strength.values
    return x + spread * x * rng.standard_normal(x.shape)


# --- blur -----------------------------------------------------------------------------------------


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
    from scipy.signal import fftconvolve  # a second, which other corruptions do not need

    disks = [(weight, _disk(*row)) for weight, row in strength.parts]
    reach = max(len(disk) for _, disk in disks) // 2
    kernel = sum(weight * np.pad(disk, reach - len(disk) // 2) for weight, disk in disks)
    wide = np.pad(x, ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
    made: FloatArray = fftconvolve(wide, np.asarray(kernel)[..., None], "valid", axes=(0, 1))
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
    place = np.arange(height * width)
    square = np.zeros((height, width), dtype=bool)
    square[reach + 1 : height - reach + 1, reach + 1 : width - reach + 1] = True
    inside = square.ravel()
    source = np.where(inside, place + (drawn[0] * width + drawn[1]).ravel(), place)
    # Pixels further on were visited before: where the neighbour is one of those, a pixel gets what
    # that one got. Such chains are followed for all pixels at once, twice as far each time.
    following = np.where(inside[source] & (source > place), source, place)
    while not np.array_equal(farther := following[following], following):
        following = farther
    return x.reshape(height * width, -1)[source[following]].reshape(x.shape)


# --- weather --------------------------------------------------------------------------------------


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
    down, right = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    long, thin = max(1.0, size / 40), size / 200
    here, there = (smoothed(rng.standard_normal((height, width)), size / 12, 3) for _ in range(2))
    patch = np.floor(np.arctan2(here, there) / (2 * math.pi) * _DIRECTIONS) % _DIRECTIONS
    needles = np.zeros((height, width))
    for number, angle in enumerate(rng.uniform(0, math.pi, _DIRECTIONS)):
        # The waves of noise that are left when it is smeared along a line, and a little across.
        along = down * math.sin(angle) + right * math.cos(angle)
        across = down * math.cos(angle) - right * math.sin(angle)
        left = np.exp(-2 * math.pi**2 * ((long * along) ** 2 + (thin * across) ** 2))
        grown = irfft2(noise * left, s=(height, width))
        needles = np.where(patch == number, _standard(grown), needles)
    pane = _standard(cloud(height, width, 1.5, rng))
    layer = _standard(np.abs(needles) + 0.5 * pane)[..., None]
    light, uneven, blue = rng.uniform((0.45, 0.07, 0.05), (0.85, 0.15, 0.30))
    tint = np.array([-0.6, 0.15, 0.45]) * blue if channels == 3 else 0.0
    ice: FloatArray = np.clip(light + uneven * layer + tint, 0, 1)
    return ice


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
    levels = uniform_filter(np.minimum(depth, _DEEP), 3, mode="mirror").astype(np.uint8)
    # Levels are spread over 0 to 255 by how many pixels have them.
    below = np.bincount(levels.ravel(), minlength=256).cumsum()
    first = below[levels.min()]
    depth = np.rint((below[levels] - first) * (255 / max(levels.size - first, 1)))
    lit = np.clip(convolve(depth, _LIGHT, mode="mirror"), 0, 255)
    caught: FloatArray = np.where(wet, liquid, 0) * uniform_filter(lit, 3, mode="mirror")
    most = caught.max()
    return caught / most if most > 0 else caught


# --- digital --------------------------------------------------------------------------------------


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
    # Where a pixel was before three points moved: factors of row, column and 1.
    third = min(height, width) // 3
    points = np.array([height // 2, width // 2]) + third * np.array([[1, 1], [-1, 1], [-1, -1]])
    moved = points + rng.uniform(-move, move, points.shape)
    before = np.linalg.solve(np.column_stack([moved, np.ones(3)]), points.astype(float))
    down, right = np.mgrid[:height, :width].astype(float)
    if wander > 0:
        down += wander * smoothed(rng.uniform(-1, 1, down.shape), smooth, 3)
        right += wander * smoothed(rng.uniform(-1, 1, down.shape), smooth, 3)
    places = [one[0] * down + one[1] * right + one[2] for one in before.T]
    channels = [
        map_coordinates(x[..., channel], places, order=1, mode="mirror")
        for channel in range(x.shape[2])
    ]
    return np.stack(channels, axis=2)


def pixelate(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Shrink the image and let it grow again, both by averages over boxes."""
    (kept,) = strength.values
    picture = _picture(x)
    width, height = picture.size
    few = picture.resize((int(width * kept), int(height * kept)), Image.Resampling.BOX)
    return _floats(few.resize((width, height), Image.Resampling.BOX), x.shape)


def jpeg_compression(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Write the image as JPEG and read it again."""
    (quality,) = strength.values
    picture = _picture(x)
    file = BytesIO()
    picture.save(file, "JPEG", quality=round(quality))
    with Image.open(file) as read:
        return _floats(read, x.shape)


def _picture(x: FloatArray) -> Image.Image:
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

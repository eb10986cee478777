"""All corruptions, by family, and what they are made of.

Each takes an image of floats, height x width x channels from 0 to 1, a generator and the numbers of
its severity; what it returns is clipped to 0 and 1 by the caller.
"""

from __future__ import annotations

import math
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage
from scipy.fft import dct, idct, irfft2, rfft2
from scipy.sparse import csr_array

from smallcal.data.checks import FloatArray


def gaussian_noise(x: FloatArray, rng: Generator, spread: float) -> FloatArray:
    """Add normal noise to every value."""
    return x + spread * rng.standard_normal(x.shape)


def shot_noise(x: FloatArray, rng: Generator, photons: float) -> FloatArray:
    """Count photons, of which white has so many on average."""
    return np.asarray(rng.poisson(x * photons) / photons)


def impulse_noise(x: FloatArray, rng: Generator, share: float) -> FloatArray:
    """Make some values black and as many white, in each channel by itself."""
    drawn = rng.random(x.shape)
    return np.where(drawn < share / 2, 0.0, np.where(drawn < share, 1.0, x))


def speckle_noise(x: FloatArray, rng: Generator, spread: float) -> FloatArray:
    """Add normal noise in proportion to every value."""
    return x + spread * x * rng.standard_normal(x.shape)


def gaussian_blur(x: FloatArray, _: Generator, sigma: float) -> FloatArray:
    """Blur by a bell curve."""
    return np.asarray(ndimage.gaussian_filter(x, (sigma, sigma, 0), mode="nearest"))


def defocus_blur(x: FloatArray, _: Generator, radius: float, rim: float) -> FloatArray:
    """Blur by a disk, as a lens that is out of focus does."""
    from scipy.signal import fftconvolve  # a second, which other corruptions do not need

    disk = _disk(radius, rim)
    reach = len(disk) // 2
    wide = np.pad(x, ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
    return np.asarray(fftconvolve(wide, disk[..., None], "valid", axes=(0, 1)))


def _disk(radius: float, rim: float) -> FloatArray:
    """Return a disk of sum 1 with a rim softened over two pixels, over four if it is large."""
    soft = 1 if radius <= 8 else 2
    reach = math.floor(radius) + soft
    along = np.arange(-reach, reach + 1)
    disk = (along[:, None] ** 2 + along**2 <= radius**2).astype(float)
    disk = ndimage.gaussian_filter(disk, rim, mode="constant", radius=soft)
    return np.asarray(disk / disk.sum())


def motion_blur(x: FloatArray, rng: Generator, radius: float, sigma: float) -> FloatArray:
    """Smear to one side, up to 45 degrees from level."""
    return streaked(x, radius, sigma, rng.uniform(-45, 45))


def streaked(x: FloatArray, radius: float, sigma: float, angle: float) -> FloatArray:
    """Return an image smeared to one side, as ImageMagick's motion blur does.

    Each pixel is the mean of the ``2 * radius + 1`` on a line that starts at it, ``angle`` degrees
    clockwise from the right, weighted by half of a bell curve; beyond the border the border's
    pixels count again.
    """
    along = np.arange(2 * round(radius) + 1)
    turn = math.radians(angle)
    # In whole pixels, halves down; the small number keeps sines of 90 degrees together.
    steps = np.outer((math.sin(turn), math.cos(turn)), along)
    rows, columns = np.ceil(steps - 0.5 - 1e-9).astype(np.int64)
    height, width = x.shape[:2]
    above, left = -min(0, rows.min()), -min(0, columns.min())
    border = ((above, max(0, rows.max())), (left, max(0, columns.max())), (0, 0))
    wide = np.pad(x, border, mode="edge")
    smeared = np.zeros_like(x)
    for weight, row, column in zip(_bell(along, sigma), rows + above, columns + left, strict=True):
        smeared += weight * wide[row : row + height, column : column + width]
    return smeared


def _bell(along: NDArray[Any], sigma: float) -> FloatArray:
    """Return a bell curve's weights of sum 1 at some places."""
    weights = np.exp(-(along**2) / (2 * sigma**2))
    return np.asarray(weights / weights.sum())


def zoom_blur(x: FloatArray, _: Generator, largest: float, number: float) -> FloatArray:
    """Average the image with magnified ones; itself counts twice."""
    factors = np.linspace(1, largest, round(number))
    return (x + sum(magnified(x, factor) for factor in factors)) / (len(factors) + 1)


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


def glass_blur(
    x: FloatArray, rng: Generator, sigma: float, reach: float, rounds: float
) -> FloatArray:
    """Blur, let pixels take the place of their neighbours, and blur again."""
    x = gaussian_blur(x, rng, sigma)
    for _ in range(round(rounds)):
        x = _taken_from_neighbours(x, round(reach), rng)
    return gaussian_blur(x, rng, sigma)


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


_WATER = (175 / 255, 238 / 255, 238 / 255)
_MUD = (63 / 255, 42 / 255, 20 / 255)

#: Lit from one side, a drop is bright on the other.
_LIGHT = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])


def snow(x: FloatArray, rng: Generator, *strength: float) -> FloatArray:
    """Whiten, and let flakes fall twice, once from each side."""
    mean, spread, flake, least, radius, sigma, kept = strength
    layer = magnified(rng.normal(mean, spread, x.shape[:2])[..., None], flake)
    layer = np.where(layer < least, 0, np.clip(layer, 0, 1))
    layer = streaked(layer, radius, sigma, rng.uniform(-135, -45))
    x = kept * x + (1 - kept) * np.maximum(x, _grey(x) * 1.5 + 0.5)
    return x + layer + layer[::-1, ::-1]


def _grey(x: FloatArray) -> FloatArray:
    """Return how light an image is, with one channel."""
    return x if x.shape[2] == 1 else np.asarray(x @ np.array([0.299, 0.587, 0.114]))[..., None]


def frost(x: FloatArray, rng: Generator, image: float, ice: float) -> FloatArray:
    """Lay frost over the image."""
    return image * x + ice * _ice(*x.shape, rng=rng)


def _ice(height: int, width: int, channels: int, *, rng: Generator) -> FloatArray:
    """Return a picture of frost: patches of needles, each with its direction, on a clouded pane.

    Drawn, where ImageNet-C has five photographs. How light, how blue and how uneven it is varies
    from image to image as much as from photograph to photograph.
    """
    size, directions = min(height, width), 8
    noise = rfft2(rng.standard_normal((height, width)))
    down, right = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    long, thin = max(1.0, size / 40), size / 200
    here, there = (smoothed(rng.standard_normal((height, width)), size / 12) for _ in range(2))
    patch = np.floor(np.arctan2(here, there) / (2 * math.pi) * directions) % directions
    needles = np.zeros((height, width))
    for number, angle in enumerate(rng.uniform(0, math.pi, directions)):
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
    return np.asarray(np.clip(light + uneven * layer + tint, 0, 1))


def _standard(layer: FloatArray) -> FloatArray:
    return np.asarray((layer - layer.mean()) / max(float(layer.std()), 1e-12))


def fog(x: FloatArray, rng: Generator, amount: float, decay: float) -> FloatArray:
    """Add clouds, and darken so that the lightest value stays about as light."""
    height, width, _ = x.shape
    mist = amount * cloud(height, width, decay, rng)[..., None]
    lightest = float(x.max())
    return (x + mist) * (lightest / (lightest + amount))


def cloud(height: int, width: int, decay: float, rng: Generator) -> FloatArray:
    """Return a fractal landscape with heights from 0 to 1, by the diamond-square method.

    It is a part of the next larger square with a power of two at its side, whose opposite borders
    meet. Bumps are lower by the square of ``decay`` whenever they are half as wide.
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
        for axis, (top, left) in enumerate([(0, half), (half, 0)]):
            ends = corners + np.roll(corners, -1, axis=1 - axis)
            beside = centres + np.roll(centres, 1, axis=axis)
            middles = (ends + beside) / 4 + rng.uniform(-bump, bump, ends.shape)
            land[top::step, left::step] = middles
        step, bump = half, bump / decay**2
    land -= land.min()
    return np.asarray(land[:height, :width] / land.max())


def brightness(x: FloatArray, _: Generator, more: float) -> FloatArray:
    """Add to the value of each colour, its largest channel; hue and saturation stay."""
    value = x.max(axis=2, keepdims=True)
    lit = np.minimum(value + more, 1)
    dark = value == 0
    return np.asarray(np.where(dark, lit, x * (lit / np.where(dark, 1, value))))


def spatter(x: FloatArray, rng: Generator, *strength: float) -> FloatArray:
    """Splash water on the lens; from severity 4 on, mud."""
    mean, spread, sigma, least, water, mud = strength
    liquid = ndimage.gaussian_filter(rng.normal(mean, spread, x.shape[:2]), sigma, mode="nearest")
    if mud == 0:
        return x + _tinted(water * _drops(liquid, least)[..., None], _WATER, x.shape[2])
    cover = ndimage.gaussian_filter((liquid > least).astype(float), mud, mode="nearest")[..., None]
    cover = np.where(cover < 0.8, 0, cover)
    return np.asarray(x * (1 - cover) + _tinted(cover, _MUD, x.shape[2]))


def _tinted(layer: FloatArray, colour: tuple[float, float, float], channels: int) -> FloatArray:
    """Return a layer of one channel in a colour, or in its grey."""
    shade = np.array(colour)[None, None, :]
    return layer * (shade if channels == 3 else _grey(shade))


def _drops(liquid: FloatArray, least: float) -> FloatArray:
    """Return how much light each pixel of the drops catches, 1 at most."""
    wet = liquid >= least
    if not wet.any():
        return np.zeros_like(liquid)
    # The outermost pixels of a drop are its rim.
    rim = wet & ~ndimage.binary_erosion(wet, border_value=1)
    depth = ndimage.distance_transform_edt(~rim) if rim.any() else np.full(liquid.shape, math.inf)
    levels = ndimage.uniform_filter(np.minimum(depth, 20), 3, mode="mirror").astype(np.uint8)
    # Levels are spread over 0 to 255 by how many pixels have them.
    below = np.bincount(levels.ravel(), minlength=256).cumsum()
    first = below[levels.min()]
    depth = np.rint((below[levels] - first) * (255 / max(levels.size - first, 1)))
    lit = np.clip(ndimage.convolve(depth, _LIGHT, mode="mirror"), 0, 255)
    caught = np.where(wet, liquid, 0) * ndimage.uniform_filter(lit, 3, mode="mirror")
    most = caught.max()
    return np.asarray(caught / most if most > 0 else caught)


def contrast(x: FloatArray, _: Generator, kept: float) -> FloatArray:
    """Draw every channel towards its mean."""
    mean = x.mean(axis=(0, 1), keepdims=True)
    return np.asarray(mean + kept * (x - mean))


def saturate(x: FloatArray, _: Generator, factor: float, more: float) -> FloatArray:
    """Change the saturation of each colour; hue and value stay.

    A grey pixel has no hue: it turns to red, hue 0, where something is added. An image of one
    channel has no colours at all and stays as it is.
    """
    if x.shape[2] == 1:
        return x
    value = x.max(axis=2, keepdims=True)
    short = np.where(value > 0, (value - x) / np.where(value > 0, value, 1), 0)
    saturation = short.max(axis=2, keepdims=True)
    wanted = np.minimum(saturation * factor + more, 1)
    plain = saturation == 0
    towards_red = np.array([0.0, 1.0, 1.0])
    share = np.where(plain, towards_red, short / np.where(plain, 1, saturation))
    return np.asarray(value * (1 - share * wanted))


def elastic_transform(
    x: FloatArray, rng: Generator, wander: float, smooth: float, move: float
) -> FloatArray:
    """Move three corners of the image, and let its points wander around: by shares of the side."""
    height, width = x.shape[:2]
    side = min(height, width)
    # Where a pixel was before three points moved: factors of row, column and 1.
    third = side // 3
    points = np.array([height // 2, width // 2]) + third * np.array([[1, 1], [-1, 1], [-1, -1]])
    moved = points + rng.uniform(-move * side, move * side, points.shape)
    before = np.linalg.solve(np.column_stack([moved, np.ones(3)]), points.astype(float))
    places = np.mgrid[:height, :width].astype(float)
    if wander > 0:
        for axis in places:
            axis += wander * side * smoothed(rng.uniform(-1, 1, axis.shape), smooth * side)
    down, right = places
    sources = [one[0] * down + one[1] * right + one[2] for one in before.T]
    channels = np.moveaxis(x, 2, 0)
    read = [ndimage.map_coordinates(one, sources, order=1, mode="mirror") for one in channels]
    return np.stack(read, axis=2)


def smoothed(field: FloatArray, sigma: float) -> FloatArray:
    """Return a field after a Gaussian filter that mirrors it at its borders.

    The same as ``scipy.ndimage.gaussian_filter(field, sigma, mode="reflect", truncate=3)``, in the
    space of cosines: there a filter wider than the field costs no more than a narrow one.
    """
    reach = int(3 * sigma + 0.5)
    along = np.arange(-reach, reach + 1)
    for axis in (0, 1):
        waves = np.arange(field.shape[axis]) * math.pi / field.shape[axis]
        passed = np.cos(np.outer(waves, along)) @ _bell(along, sigma)
        field = idct(dct(field, axis=axis) * np.expand_dims(passed, 1 - axis), axis=axis)
    return field


def pixelate(x: FloatArray, _: Generator, kept: float) -> FloatArray:
    """Shrink the image and let it grow again, both by averages over boxes."""
    picture = _picture(x)
    width, height = picture.size
    few = picture.resize((int(width * kept), int(height * kept)), Image.Resampling.BOX)
    return _floats(few.resize((width, height), Image.Resampling.BOX), x.shape)


def jpeg_compression(x: FloatArray, _: Generator, quality: float) -> FloatArray:
    """Write the image as JPEG and read it again."""
    file = BytesIO()
    _picture(x).save(file, "JPEG", quality=round(quality))
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
    return np.asarray(np.floor(np.clip(x, 0, 1) * 255 + (0.5 + 1e-6)).astype(np.uint8))

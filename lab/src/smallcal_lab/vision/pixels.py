"""One image: from a file or from memory, in whatever mode, to RGB with eight bits."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from smallcal.errors import FileError

#: How names of image files end, in small letters.
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")

#: What a file may hold, whatever its name: Pillow also knows formats that start other programs.
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")

#: What Pillow raises for files that are damaged.
DAMAGED = (
    *(OSError, SyntaxError, ValueError, EOFError, TypeError, IndexError, KeyError, OverflowError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)

#: A grey value of 16 bits is 257 times one of eight: 65535 is white, as 255 is.
_SIXTEEN = 257


def read_image(file: Path) -> Image.Image:
    """Return the image in a file, whole and in RGB.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "grey.png"
    >>> Image.new("L", (4, 3), 128).save(file)
    >>> image = read_image(file)
    >>> image.mode, image.size, image.getpixel((0, 0))
    ('RGB', (4, 3), (128, 128, 128))
    """
    if not file.is_file():  # also a pipe, which would be waited for
        raise FileError(f"cannot read the image {file}: there is no such file")
    try:
        with _quiet(), Image.open(file, formats=_FORMATS) as image:
            image.load()
            return to_rgb(image)
    except UnidentifiedImageError:
        kinds = ", ".join(_FORMATS)
        raise FileError(f"cannot read the image {file}: it is not one of {kinds}") from None
    except FileError as error:
        raise error.about(file) from None
    except DAMAGED as error:
        why = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read the image {file}: {why}") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Pillow says of odd notes in files, which thousands of photographs have."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        yield


def to_rgb(image: Image.Image) -> Image.Image:
    """Return an image of any mode in RGB.

    As everywhere else, transparency is dropped, the first of several frames is taken and a camera's
    note that the picture should be turned is not followed: published accuracies are of such images.
    Grey values of 16 bits are scaled to eight.

    Examples
    --------
    >>> to_rgb(Image.fromarray(np.array([[65535, 257]], dtype=np.uint16))).getpixel((1, 0))
    (1, 1, 1)
    """
    if image.mode == "RGB":
        return image.copy()  # of the picture alone: not tied to the file that it came from
    if image.mode.startswith("I"):
        return _from_whole_numbers(image)
    if image.mode == "F":
        raise FileError("its pixels are fractions, and the value of white is unknown; store bytes")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def _from_whole_numbers(image: Image.Image) -> Image.Image:
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise FileError("its pixels have 32 bits, and the value of white is unknown; store bytes")
    eight = (values.astype(np.int64) + _SIXTEEN // 2) // _SIXTEEN
    return Image.fromarray(eight.astype(np.uint8)).convert("RGB")

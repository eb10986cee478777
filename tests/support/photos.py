"""Real images for the tests: the photographs and digits that scikit-learn ships."""

from functools import cache

import numpy as np
from sklearn.datasets import load_digits, load_sample_images


@cache
def photos(size, n=8):
    """Return ``n`` squares cut out of two photographs, shrunk to ``size`` pixels."""
    from PIL import Image

    cut, found = 224, []
    for number, whole in enumerate(load_sample_images().images):
        rng = np.random.default_rng(number)
        for _ in range(n // 2):
            top, left = (int(rng.integers(0, side - cut)) for side in whole.shape[:2])
            square = Image.fromarray(whole[top : top + cut, left : left + cut])
            found.append(np.asarray(square.resize((size, size), Image.Resampling.BICUBIC)))
    return found


def digits(size, n=3):
    """Return ``n`` images of digits, another one in each colour: the same on every machine."""
    grey = (load_digits().images[: n + 2] * 15.9375).astype(np.uint8)
    large = grey.repeat(size // 8, axis=1).repeat(size // 8, axis=2)
    return [np.stack(large[first : first + 3], axis=2) for first in range(n)]

"""Small sets of real images, written in the layouts that published ones have."""

import pickle
import struct
from functools import cache
from io import BytesIO

import numpy as np
from sklearn.datasets import load_sample_image


@cache
def photograph(name="china.jpg"):
    """A photograph that scikit-learn ships, as an array."""
    return load_sample_image(name)


def crops(n, side=32, *, seed=0):
    """Pieces of the photographs, n x side x side x 3."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(n):
        whole = photograph(("china.jpg", "flower.jpg")[number % 2])
        top, left = (rng.integers(size - side) for size in whole.shape[:2])
        found.append(whole[top : top + side, left : left + side])
    return np.stack(found)


def write_folders(root, names, each=2, *, side=16, ending=".JPEG", inner=""):
    """Class folders of image files, called after their class and number."""
    from PIL import Image

    pixels = iter(crops(each * len(names), side))
    for name in names:
        folder = root / name / inner
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(each):
            Image.fromarray(next(pixels)).save(folder / f"{name}_{number}{ending}")
    return root


def wnids(n, *, step=7):
    """As many names of classes as one likes, sorted."""
    return [f"n{1440764 + step * number:08d}" for number in range(n)]


def _save_bytes(pickler, value):
    """Write what Python 2 wrote for a string."""
    pickler.write(b"T" + struct.pack("<i", len(value)) + value)
    pickler.memoize(value)


def python2_pickle(content):
    """The bytes of a dictionary as the official batches hold them."""
    stream = BytesIO()
    pickler = pickle._Pickler(stream, protocol=2)
    pickler.dispatch = {**pickler.dispatch, bytes: _save_bytes}
    pickler.dump(content)
    return stream.getvalue().replace(b"cnumpy._core.multiarray", b"cnumpy.core.multiarray")


def channel_major(pixels):
    """Rows of 3,072 bytes: red, green, blue."""
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).reshape(len(pixels), -1)


def write_cifar10(root, each=4):
    """CIFAR-10's six batches; pixels and labels of train and of test."""
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    pixels = crops(6 * each)
    labels = rng.integers(10, size=6 * each)
    files = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for number, name in enumerate(files):
        rows = slice(number * each, (number + 1) * each)
        batch = {
            b"batch_label": name.encode(),
            b"labels": labels[rows].tolist(),
            b"data": channel_major(pixels[rows]),
            b"filenames": [b"a.png"] * each,
        }
        (root / name).write_bytes(python2_pickle(batch))
    return (pixels[: 5 * each], labels[: 5 * each]), (pixels[5 * each :], labels[5 * each :])

"""Real logits that ship with the package, for the demo, the docs and the tests.

A small convolutional network's logits on Quick, Draw! drawings: 345 classes, trained with label
smoothing and MixUp, visibly under-confident. See README.md in this folder for how they were
made and for the credit.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import NamedTuple

import numpy as np

from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError

SPLITS = ("cal", "test")


class DemoSplit(NamedTuple):
    """Logits, labels and class names of one split."""

    logits: FloatArray
    labels: IntArray
    class_names: tuple[str, ...]


def load_demo(split: str = "cal") -> DemoSplit:
    """Load the demo data: ``"cal"`` (1,250 rows) or ``"test"`` (3,000 rows) of 345 classes.

    Examples
    --------
    >>> test = load_demo("test")
    >>> test.logits.shape, str(test.logits.dtype), len(test.class_names)
    ((3000, 345), 'float32', 345)
    """
    if split not in SPLITS:
        raise InputError(f"split must be one of {', '.join(SPLITS)}; got {split!r}")
    source = files("smallcal.data.demo").joinpath("quickdraw345.npz")
    with as_file(source) as path, np.load(path, allow_pickle=False) as arrays:
        return DemoSplit(
            logits=arrays[f"{split}_logits"].astype(np.float32),
            labels=arrays[f"{split}_labels"].astype(np.int64),
            class_names=tuple(arrays["class_names"].tolist()),
        )

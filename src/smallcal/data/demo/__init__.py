"""Real logits that ship with the package, for the demo, the docs and the tests.

A small convolutional network's logits on Quick, Draw! drawings: 345 classes, trained with label
smoothing and MixUp, visibly underconfident. See README.md in this folder for how they were
made, how they are kept, and for the credit.
"""

from __future__ import annotations

import zlib
from importlib.resources import as_file, files
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError

SPLITS = ("cal", "test")

#: Largest logits of a row that are kept to half a :data:`FINE`.
N_EXACT = 20
#: Units of a logit's rough value and of its correction.
UNIT, FINE = 1 / 128, 1 / 512

Whole = npt.NDArray[np.int8] | npt.NDArray[np.int16]


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
        raise InputError(
            f"split must be one of {', '.join(SPLITS)}; got {split!r}", code="unknown-choice"
        )
    source = files("smallcal.data.demo").joinpath("quickdraw345.npz")
    with as_file(source) as path, np.load(path, allow_pickle=False) as arrays:
        labels = arrays[f"{split}_labels"].astype(np.int64)
        packed = Packed(
            coefficients=decoded(arrays[f"{split}_coefficients"], np.int8, len(labels)),
            exact=decoded(arrays[f"{split}_exact"], np.int16, len(labels)),
            bend=arrays[f"{split}_bend"],
        )
        return DemoSplit(
            logits=packed.logits(arrays["components"], arrays["centre"]),
            labels=labels,
            class_names=tuple(arrays["class_names"].tolist()),
        )


class Packed(NamedTuple):
    """A split's logits as they are kept: whole numbers, one column for each row of logits."""

    coefficients: Whole
    exact: Whole
    bend: Whole

    def logits(self, components: Whole, centre: IntArray) -> FloatArray:
        """Return the logits: rough ones, those that are known better put right."""
        rough = self.rough(self.coefficients, components, centre)
        places = self.places(rough)
        exact = np.take_along_axis(rough, places, axis=1) + self.exact.T * FINE
        found = self.bent(rough, self.bend)
        np.put_along_axis(found, places, exact, axis=1)
        return found.astype(np.float32)

    @staticmethod
    def rough(coefficients: Whole, components: Whole, centre: IntArray) -> FloatArray:
        """Return every logit roughly; sums of whole numbers, so exact in whatever order."""
        sums: FloatArray = coefficients.T.astype(np.float64) @ components.astype(np.float64)
        return sums * UNIT + centre * FINE

    @staticmethod
    def bent(rough: FloatArray, bend: Whole) -> FloatArray:
        """Return rough logits after the correction of each row: a polynomial of degree two."""
        level, slope, curve = (bend * FINE)[:, :, None]
        quarter = rough / 4
        bent: FloatArray = rough + level + quarter * (slope + quarter * curve)
        return bent

    @staticmethod
    def places(rough: FloatArray) -> IntArray:
        """Return the classes of each row whose logits are kept: the largest ones."""
        return np.argsort(-rough, axis=1, kind="stable")[:, :N_EXACT]


def decoded(content: npt.NDArray[np.uint8], kind: type[np.signedinteger[Any]], n: int) -> Whole:
    """Return compressed whole numbers: all low bytes, then all high ones, if there are any."""
    size = np.dtype(kind).itemsize
    planes = np.frombuffer(zlib.decompress(content.tobytes()), dtype=np.uint8).reshape(size, -1)
    numbers: Whole = np.ascontiguousarray(planes.T).view(np.dtype(kind).newbyteorder("<"))
    return numbers.reshape(-1, n)

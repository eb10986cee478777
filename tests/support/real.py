"""Logits of real models: two cells that the repository brings, and more where there are more.

``quickdraw345`` is the demo's; scripts/make_digits_cell.py makes ``digits10__mlp``. The folder that
SMALLCAL_DATA names, or ../shared/data, may hold others, one ``.npz`` for each model.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np

import smallcal as sc

OWN = Path(__file__).parent / "cells"
SHIPPED = ("quickdraw345", "digits10__mlp")


def data_folder() -> Path | None:
    """Return the folder of real logits beside those that are shipped."""
    candidates = [os.environ.get("SMALLCAL_DATA"), Path(__file__).parents[3] / "shared" / "data"]
    return next((Path(c) for c in candidates if c and Path(c).is_dir()), None)


def there(*names: str) -> tuple[str, ...]:
    """Return the cells that are shipped, and those of the names that are in the folder."""
    return (*SHIPPED, *(names if data_folder() else ()))


@functools.cache
def cell(name: str) -> dict[str, np.ndarray]:
    """Return val_logits, val_labels, test_logits and test_labels of a model."""
    if name == "quickdraw345":
        cal, test = sc.load_demo("cal"), sc.load_demo("test")
        arrays = dict(zip(("val_logits", "val_labels"), cal[:2], strict=True))
        arrays |= dict(zip(("test_logits", "test_labels"), test[:2], strict=True))
    else:
        folder = OWN if name in SHIPPED else data_folder()
        with np.load(folder / f"{name}.npz") as file:
            arrays = {key: file[key] for key in file.files}
    for array in arrays.values():
        array.flags.writeable = False  # all tests see the same
    return arrays

"""Files in and out: logits and labels by suffix, written whole or not at all.

``READERS`` and ``WRITERS`` are the only registry: one row per file type. Nothing here executes a
pickle, whatever the file says.

>>> import tempfile, numpy as np
>>> path = tempfile.mkdtemp() + "/cells.npz"
>>> write_arrays(path, {"val_logits": np.eye(3), "val_labels": np.arange(3)})
>>> loaded = read(path + ":val")
>>> loaded.logits.shape, loaded.labels.tolist(), loaded.input
((3, 3), [0, 1, 2], 'logits')
"""

from smallcal.io.layout import CALIBRATION_SPLITS, Choice, Loaded
from smallcal.io.parts import Target
from smallcal.io.pieces import Block, Part
from smallcal.io.read import read, read_labels, read_names, split_path, splits, type_of
from smallcal.io.readers import READERS
from smallcal.io.source import KINDS, Source, is_source, open_source
from smallcal.io.write import (
    WRITERS,
    make_folder,
    require_apart,
    require_folder,
    require_parent,
    require_writable,
    write_arrays,
)

__all__ = [
    "CALIBRATION_SPLITS",
    "KINDS",
    "READERS",
    "WRITERS",
    "Block",
    "Choice",
    "Loaded",
    "Part",
    "Source",
    "Target",
    "is_source",
    "make_folder",
    "open_source",
    "read",
    "read_labels",
    "read_names",
    "require_apart",
    "require_folder",
    "require_parent",
    "require_writable",
    "split_path",
    "splits",
    "type_of",
    "write_arrays",
]

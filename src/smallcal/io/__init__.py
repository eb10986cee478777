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

from smallcal.io.layout import CALIBRATION_SPLITS, Loaded
from smallcal.io.read import read, read_names, splits
from smallcal.io.readers import READERS
from smallcal.io.stream import map_rows, row_count, streamable
from smallcal.io.write import WRITERS, require_folder, require_writable, write_arrays

__all__ = [
    "CALIBRATION_SPLITS",
    "READERS",
    "WRITERS",
    "Loaded",
    "map_rows",
    "read",
    "read_names",
    "require_folder",
    "require_writable",
    "row_count",
    "splits",
    "streamable",
    "write_arrays",
]

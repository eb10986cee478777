"""Files in and out: logits and labels by suffix, written whole or not at all.

``READERS`` and ``WRITERS`` are the only registry: one row per file type. Nothing here executes a
pickle, whatever the file says. Names are loaded when first used: a saved calibrator is read without
the readers of data.

>>> import tempfile, numpy as np
>>> path = tempfile.mkdtemp() + "/cells.npz"
>>> write_arrays(path, {"val_logits": np.eye(3), "val_labels": np.arange(3)})
>>> loaded = read(path + ":val")
>>> loaded.logits.shape, loaded.labels.tolist(), loaded.input
((3, 3), [0, 1, 2], 'logits')
"""

from typing import TYPE_CHECKING

from smallcal._lazy import attach

if TYPE_CHECKING:
    from smallcal.io.layout import CALIBRATION_SPLITS as CALIBRATION_SPLITS
    from smallcal.io.layout import Choice as Choice
    from smallcal.io.layout import Loaded as Loaded
    from smallcal.io.parts import Target as Target
    from smallcal.io.paths import make_folder as make_folder
    from smallcal.io.paths import require_apart as require_apart
    from smallcal.io.paths import require_folder as require_folder
    from smallcal.io.paths import require_parent as require_parent
    from smallcal.io.paths import split_path as split_path
    from smallcal.io.pieces import Block as Block
    from smallcal.io.pieces import Part as Part
    from smallcal.io.readers import READERS as READERS
    from smallcal.io.reading import read as read
    from smallcal.io.reading import read_labels as read_labels
    from smallcal.io.reading import read_names as read_names
    from smallcal.io.reading import splits as splits
    from smallcal.io.reading import type_of as type_of
    from smallcal.io.source import KINDS as KINDS
    from smallcal.io.source import Source as Source
    from smallcal.io.source import is_source as is_source
    from smallcal.io.source import open_source as open_source
    from smallcal.io.write import WRITERS as WRITERS
    from smallcal.io.write import require_writable as require_writable
    from smallcal.io.write import write_arrays as write_arrays
else:  # checkers know the names above, and no others
    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "layout": ["CALIBRATION_SPLITS", "Choice", "Loaded"],
            "parts": ["Target"],
            "paths": [
                "make_folder",
                "require_apart",
                "require_folder",
                "require_parent",
                "split_path",
            ],
            "pieces": ["Block", "Part"],
            "reading": ["read", "read_labels", "read_names", "splits", "type_of"],
            "readers": ["READERS"],
            "source": ["KINDS", "Source", "is_source", "open_source"],
            "write": ["WRITERS", "require_writable", "write_arrays"],
        },
    )

"""A small collection that never changes, with its own reference values and checksums.

Three simulated models with three seeds each: one of 20 classes with corrupted and shifted sets,
a plain one, and one of 8 classes. Made by ``scripts/freeze_collection.py``, which also computed
the values, without smallcal. Its files are put together when they are needed: ``unpack.py``.
"""

from __future__ import annotations

from pathlib import Path

from smallcal.errors import FileError
from smallcal.io.documents import read_document
from smallcal.io.paths import file_sha256
from smallcal_lab.studies.collection import Collection, load_collection
from smallcal_lab.studies.reproduce.frozen.unpack import unpacked
from smallcal_lab.studies.reproduce.reference import MAX_BYTES, Reference, load_reference

#: Where it is.
FOLDER = Path(__file__).parent

CHECKSUMS = "checksums.json"


def load_frozen(folder: Path = FOLDER) -> tuple[Collection, Reference]:
    """Return the frozen collection and its values, if every file is as it was frozen.

    Raises
    ------
    FileError
        If a file is missing or has changed.

    Examples
    --------
    >>> collection, reference = load_frozen()
    >>> [cell.name for cell in collection.cells][:2]
    ['simulated20__structured__s0', 'simulated20__structured__s1']
    """
    require_unchanged(folder)
    return load_collection(unpacked(folder)), load_reference(folder / "reference.json")


def require_unchanged(folder: Path) -> None:
    """Raise if a file of a folder is not what its checksums say."""
    file = folder / CHECKSUMS
    expected = read_document(file, most=MAX_BYTES, what="list of checksums", error=FileError)
    if not isinstance(expected, dict):
        raise FileError(f"{file} is not a list of checksums")
    for name, digest in expected.items():
        if file_sha256(folder / name) != digest:
            raise FileError(f"{folder / name} is not what was frozen: its checksum differs")

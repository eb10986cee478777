"""Write ``collection.toml``: what is not a collection is not written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from smallcal import io
from smallcal.io.atomic import atomic_path
from smallcal_lab.studies.collection import FILE_NAME, Collection, collection_of, load_collection
from smallcal_lab.toml import toml_value


def write_description(document: Mapping[str, Any], folder: Path) -> Collection:
    """Write a description, whole or not at all, and read it back.

    Parameters
    ----------
    document : mapping
        ``name`` and ``cell``, a list of entries as the file has them.
    folder : Path
        Where the file goes; paths in it start there.

    Raises
    ------
    FileError
        If it is no description; nothing is written then.

    Examples
    --------
    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> cell = {"dataset": "birds", "backbone": "vit", "calibration": "v.npz", "test": "t.npz"}
    >>> write_description({"name": "mine", "cell": [cell]}, root).cells[0].name
    'birds__vit__s0'
    >>> print((root / "collection.toml").read_text().splitlines()[2:4])
    ['[[cell]]', 'dataset = "birds"']
    """
    file = folder / FILE_NAME
    collection_of(dict(document), folder, source=str(file))
    io.make_folder(folder)
    with atomic_path(file) as path:
        path.write_text("\n".join(_lines(document)) + "\n", encoding="utf-8")
    return load_collection(folder)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    if "name" in document:
        yield f"name = {toml_value(document['name'])}"
    for cell in document["cell"]:
        yield from ("", "[[cell]]")
        yield from _pairs(cell)
        for shift in cell.get("shift", ()):
            yield from ("", "[[cell.shift]]")
            yield from _pairs(shift)


def _pairs(entry: Mapping[str, Any]) -> Iterator[str]:
    for key, value in entry.items():
        if key != "shift":
            yield f"{key} = {toml_value(value)}"


def plain_name(text: str) -> str:
    """Return a name that a file may have on any system.

    Examples
    --------
    >>> plain_name("google/vit b16"), plain_name("//")
    ('google-vit-b16', '-')
    """
    return re.sub(r"[^\w.+-]+", "-", text).strip("-") or "-"

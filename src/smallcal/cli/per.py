"""A log of several models or tasks: its samples apart, and a folder with a calibrator for each."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from smallcal import io
from smallcal.cli import inputs
from smallcal.cli.inputs import Asked
from smallcal.data.masks import is_masked
from smallcal.errors import FileError, InputError, file_errors
from smallcal.io import Loaded

#: What says which file is whose.
INDEX = "index.json"
#: Letters of a file's name at most, before its suffix.
_MOST_LETTERS = 80


def apart(data: str, asked: Asked) -> dict[str, Loaded]:
    """Return the samples of each value of ``asked.per``, in the order of the values."""
    whole = inputs.load(data, asked)
    named = inputs.load(data, replace(asked, group=asked.per), quiet=True).groups
    if named is None or len(named) != len(whole.logits):
        raise InputError(f"--per: {data} does not say the {asked.per} of each row")
    without = int(np.count_nonzero(named == ""))
    if without:
        raise InputError(f"--per: {without:,} of {len(named):,} rows of {data} have no {asked.per}")
    return {
        str(value): _own_options(
            replace(whole.take(np.flatnonzero(named == value)), source=f"{data}, {value}")
        )
        for value in np.unique(named)
    }


def _own_options(loaded: Loaded) -> Loaded:
    """Leave out the columns that none of the rows has: another task's options."""
    if loaded.logits.ndim != 2 or loaded.logits.dtype.kind != "f":
        return loaded
    there = np.asarray(~is_masked(loaded.logits).all(axis=0))
    last = int(np.flatnonzero(there)[-1]) + 1 if there.any() else len(there)
    if last == len(there):
        return loaded
    names = loaded.class_names
    return replace(
        loaded,
        logits=loaded.logits[:, :last],
        class_names=None if names is None else names[:last],
    )


def file_names(values: Sequence[str]) -> dict[str, str]:
    """Return a file name for each value, safe on every system and different from the others.

    Examples
    --------
    >>> file_names(["org/model 7B", "org:model 7B", ".."])
    {'org/model 7B': 'org_model_7B.json', 'org:model 7B': 'org_model_7B-2.json', '..': '_.json'}
    """
    found: dict[str, str] = {}
    taken = {Path(INDEX).stem}
    for value in values:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", value)[:_MOST_LETTERS].strip(".") or "_"
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.lower())
        found[value] = f"{name}.json"
    return found


@contextmanager
def whole_folder(output: str) -> Iterator[Path]:
    """Give a folder to write into, which becomes ``output`` when all is done."""
    target = Path(output)
    io.require_parent(target)
    if os.path.lexists(target):
        raise FileError(f"{output} is there already; name a new folder")
    with file_errors(f"cannot make the folder {output}"):
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.absolute().parent))
    try:
        yield made
        with file_errors(f"cannot write {output}"):
            made.chmod(0o777 & ~_umask())
            made.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_index(folder: Path, per: str, files: Mapping[str, str]) -> None:
    """Write which file is whose."""
    document = {"format": "smallcal-calibrators", "per": per, "files": dict(files)}
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    with file_errors(f"cannot write {folder / INDEX}"):
        (folder / INDEX).write_text(text, encoding="utf-8")

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal import io, runtime
from smallcal.cli import inputs
from smallcal.cli.inputs import Asked
from smallcal.data.masks import is_masked
from smallcal.data.names import listed
from smallcal.deploy.decided_rows import predicted, require_decisions
from smallcal.errors import FileError, InputError, file_errors
from smallcal.io import Loaded
from smallcal.io.documents import read_document

#: What says which file is whose.
INDEX = "index.json"
#: Letters of a file's name at most, before its suffix.
_MOST_LETTERS = 80
_MOST_BYTES = 2**24
_KEYS = ("per", "files")


def apart(data: str, asked: Asked) -> dict[str, Loaded]:
    """Return the samples of each value of ``asked.per``, in the order of the values."""
    whole, named = _read(data, asked)
    return {
        str(value): _own_options(
            replace(whole.take(np.flatnonzero(named == value)), source=f"{data}, {value}")
        )
        for value in np.unique(named)
    }


def _read(data: str, asked: Asked, *, as_written: bool = False) -> tuple[Loaded, NDArray[np.str_]]:
    """Return all samples, and whose each is."""
    whole = inputs.load(data, asked, as_written=as_written)
    by = replace(asked, group=asked.per)
    named = inputs.load(data, by, as_written=as_written, quiet=True).groups
    if named is None or len(named) != len(whole.logits):
        raise InputError(
            f"--per: {data} does not say the {asked.per} of each row", code="groups-missing"
        )
    without = int(np.count_nonzero(named == ""))
    if without:
        raise InputError(
            f"--per: {without:,} of {len(named):,} rows of {data} have no {asked.per}",
            code="groups-missing",
        )
    return whole, named


def applied(
    folder: str, data: str, asked: Asked, *, with_decision: bool = False
) -> dict[str, NDArray[Any]]:
    """Return the arrays to write: each row as the calibrator of its model or task has it."""
    per, files = _index(folder)
    for name in [*files.values()][:1]:  # one fit wrote them all, on one kind of input
        asked = replace(asked, input=asked.kind or runtime.load(Path(folder) / name).input)
    whole, named = _read(data, replace(asked, per=per), as_written=True)
    unknown = [str(value) for value in np.unique(named) if value not in files]
    if unknown:
        raise InputError(
            f"{folder} has no calibrator of {per} {listed(unknown)}, which {data} has",
            code="unknown-choice",
        )
    scored = whole.input == "score"
    result = np.zeros((len(named), 2 if scored else whole.logits.shape[1]))
    flags: dict[str, NDArray[Any]] = {}
    for value in np.unique(named):
        rows = np.flatnonzero(named == value)
        file = Path(folder) / files[str(value)]
        fitted = runtime.load(file)
        part = replace(whole.take(rows), source=f"{data}, {value}")
        part = part if scored else _widened(part, fitted.n_classes)
        found = inputs.calibrated(fitted, part)
        proba = found.adjusted(fitted)
        width = min(proba.shape[1], result.shape[1])
        result[rows, :width] = proba[:, :width]
        told = predicted(fitted, found, whole.class_names)
        if with_decision:
            require_decisions(fitted, str(file))
            told |= inputs.decisions(fitted, part, found)
        _fill(flags, told, rows, result, str(file))
    arrays: dict[str, NDArray[Any]] = {"probabilities": result}
    if scored:
        arrays = {"probability": result[:, 1]}
    arrays |= flags
    if whole.labels is not None:
        arrays["outcome" if scored else "labels"] = inputs.label_column(whole.labels, whole)
    if whole.class_names is not None and not scored:
        arrays["class_names"] = np.array(whole.class_names)
    return arrays


def _fill(
    flags: dict[str, NDArray[Any]],
    found: Mapping[str, NDArray[Any]],
    rows: NDArray[Any],
    like: NDArray[Any],
    file: str,
) -> None:
    """Put what decisions say of some rows among that of all; all must decide the same things."""
    if flags and set(flags) != set(found):
        told = " and ".join(", ".join(sorted(each)) for each in (flags, found))
        raise InputError(
            f"{file} has other decisions than the calibrators before it ({told}); certify all of "
            "them with the same risks",
            code="options-conflict",
        )
    for column, values in found.items():
        shape = like.shape[: values.ndim]
        whole = flags.setdefault(column, np.zeros(shape, dtype=values.dtype))
        if values.ndim == 1:
            whole[rows] = values
        else:
            width = min(values.shape[1], shape[1])
            whole[rows, :width] = values[:, :width]


def _widened(part: Loaded, n_classes: int) -> Loaded:
    """Return samples with as many columns as a calibrator has; those they lack are masked."""
    z = part.logits
    if bool((~is_masked(z[:, n_classes:])).any()):
        raise InputError(
            f"{part.source} has more options than its calibrator: {n_classes}",
            code="too-few-options",
        )
    wide = np.full((len(z), n_classes), -np.inf)
    wide[:, : z.shape[1]] = z[:, :n_classes]
    return replace(part, logits=wide, class_names=None)


def _index(folder: str) -> tuple[str, dict[str, str]]:
    """Return what the calibrators of a folder are told apart by, and the file of each."""
    file = Path(folder) / INDEX
    if not file.is_file():
        raise FileError(
            f"{folder} holds no {INDEX}; fit --per writes such folders", code="file-missing"
        )
    document = read_document(file, most=_MOST_BYTES, what="index of calibrators", error=FileError)
    per, files = (document.get(key) if isinstance(document, dict) else None for key in _KEYS)
    if not isinstance(per, str) or not isinstance(files, dict):
        raise FileError(f"{file} is damaged; fit --per writes it", code="file-damaged")
    if not all(isinstance(name, str) and Path(name).name == name for name in files.values()):
        raise FileError(f"{file} names files outside of its folder", code="file-objects")
    return per, files


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
        raise FileError(f"{output} is there already; name a new folder", code="file-exists")
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

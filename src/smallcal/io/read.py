"""Read logits and labels from a file, choosing the split and naming what is wrong."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.checks import INPUT_KINDS, as_numpy
from smallcal.errors import FileError, InputError
from smallcal.io.layout import Layout, Loaded, score_role, two_columns
from smallcal.io.memory import require_memory
from smallcal.io.readers import (
    READERS,
    TEXT_READERS,
    Arrays,
    Reader,
    nested_h5,
    readable,
    text_lines,
)
from smallcal.io.source import open_source

PathLike = str | os.PathLike[str]

_PREFIX = re.compile(r"[A-Za-z0-9_.+-]+")
#: A group of an HDF5 file has a slash in it, which no split has; a split may follow.
_GROUPED = re.compile(r"(.+\.(?:h5|hdf5)):([^:]*/[^:]*(?::[A-Za-z0-9_.+-]+)?)", re.IGNORECASE)


def read(path: PathLike, *, labels: PathLike | None = None, input: str | None = None) -> Loaded:
    """Read logits, and labels if there are any, from a file of any known type.

    Parameters
    ----------
    path : path
        A file whose suffix is in ``READERS``, or a folder of Parquet or Arrow files.
        ``cells.npz:val`` takes the arrays ``val_logits`` and ``val_labels``,
        ``bench.h5:adult/forest:cal`` those of a split of a group. In HDF5 files one column of
        probabilities is that of class 1 of two, as in CalArena's.
    labels : path, optional
        Another file that holds the labels: any known type, or one label per line.
    input : {"logits", "probabilities"}, optional
        What the scores are, when the file's own names do not say.

    Returns
    -------
    Loaded

    Raises
    ------
    FileError
        If the file is missing, damaged, of an unknown type or does not hold such arrays.
    MissingExtraError
        If this type of file needs a package that is not installed.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/logits.npy"
    >>> np.save(path, np.zeros((2, 3)))
    >>> read(path).logits.shape, read(path).labels
    ((2, 3), None)
    """
    if input is not None and input not in INPUT_KINDS:
        raise InputError(f"input must be one of {', '.join(INPUT_KINDS)}; got {input!r}")
    folder, _ = split_path(path)
    if folder.is_dir():
        return _folder(folder, labels=labels, input=input)
    with _opened(path, READERS) as (file, arrays, layout, prefix):
        roles = layout.choose(prefix)
        role = score_role(roles, input)
        scores = _array(arrays, roles[role], file)
        if role == "probabilities" and file.suffix.lower() in (".h5", ".hdf5"):
            scores = two_columns(scores)
        own_labels = None
        if labels is None and "labels" in roles:
            own_labels = _array(arrays, roles["labels"], file)
        features = None
        if "features" in roles:
            features = _array(arrays, roles["features"], file)
        names = roles.get("class_names") or layout.splits.get("", {}).get("class_names")
        class_names = None if names is None else _names(_array(arrays, names, file))
    loaded = Loaded(
        logits=scores,
        labels=own_labels if labels is None else read_labels(labels),
        features=features,
        class_names=class_names,
        input=input or role,
        source=str(path),
    )
    _require_equal_length(loaded)
    return loaded


def _folder(folder: Path, *, labels: PathLike | None, input: str | None) -> Loaded:
    """Read all files of a data set into memory."""
    source = open_source(folder, input=input)
    require_memory(source.rows * source.n_classes * 8, str(folder))
    scores, own = [], []
    for part in source.parts():
        for block in source.blocks(part, carry=False):
            scores.append(block.scores)
            own.append(block.labels)
    if not scores:
        raise FileError(f"{folder} has no rows")
    found = None if labels is None else read_labels(labels)
    if labels is None and source.label is not None:
        found = np.concatenate([entry for entry in own if entry is not None])
    loaded = Loaded(
        logits=np.concatenate(scores),
        labels=found,
        class_names=source.class_names,
        input=source.input,
        source=str(folder),
    )
    _require_equal_length(loaded)
    return loaded


def splits(path: PathLike) -> tuple[str, ...]:
    """Return the prefixes under which a file holds logits or probabilities.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/cells.npz"
    >>> np.savez(path, val_logits=np.eye(2), test_logits=np.eye(2))
    >>> splits(path)
    ('val', 'test')
    """
    with _opened(path, READERS) as (_, _, layout, prefix):
        return layout.scored if prefix is None else ()


def read_labels(path: PathLike) -> NDArray[Any]:
    """Read labels alone: from any known file, or from text with one label per line."""
    with _opened(path, {**READERS, **TEXT_READERS}) as (file, arrays, layout, prefix):
        return _array(arrays, layout.labels(prefix), file)


def read_names(path: PathLike) -> tuple[str, ...]:
    r"""Read class names, one per line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "names.txt"
    >>> _ = path.write_text("cat\ndog\n")
    >>> read_names(path)
    ('cat', 'dog')
    """
    file = Path(path)
    with readable(file, text_lines) as arrays:
        return _names(arrays.get("lines"))


def split_path(path: PathLike) -> tuple[Path, str | None]:
    """Return the file and the split, or group and split, it is asked for.

    Examples
    --------
    >>> split_path("a/cells.npz:val")[1], split_path("a/cells.npz")[1]
    ('val', None)
    >>> split_path("bench.h5:adult/forest:cal")[1]
    'adult/forest:cal'
    """
    text = os.fspath(path)
    grouped = _GROUPED.fullmatch(text)
    if grouped and not Path(text).exists():
        return Path(grouped[1]), grouped[2]
    file, colon, prefix = text.rpartition(":")
    if colon and _PREFIX.fullmatch(prefix) and Path(file).suffix and not Path(text).exists():
        return Path(file), prefix
    return Path(text), None


def file_sha256(path: PathLike) -> str:
    """Return the fingerprint of a file's bytes."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    return digest.hexdigest()


@contextmanager
def _opened(
    path: PathLike, table: Mapping[str, Reader]
) -> Iterator[tuple[Path, Arrays, Layout, str | None]]:
    """Open what a path names: give the file, its arrays, their layout and the split."""
    file, prefix = split_path(path)
    reader, source = reader_of(file, table), str(file)
    if prefix is not None and "/" in prefix:
        group, _, split = prefix.partition(":")
        reader, source = partial(nested_h5, depth=0, group=group), f"{file}:{group}"
        prefix = split or None
    with readable(file, reader) as arrays:
        yield file, arrays, Layout.of(arrays.names, source=source), prefix


def reader_of(file: Path, table: Mapping[str, Reader]) -> Reader:
    """Return the reader for a file's suffix."""
    reader = table.get(file.suffix.lower())
    if reader is None:
        given = file.suffix or "no suffix"
        raise FileError(f"cannot read {file} ({given}): the type must be one of {', '.join(table)}")
    return reader


def _array(arrays: Arrays, name: str, file: Path) -> NDArray[Any]:
    array = as_numpy(arrays.get(name), name=name)
    if array.dtype == object and all(isinstance(value, str) for value in array.ravel()):
        array = array.astype(str)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind not in "fiubU":
        raise FileError(f"{file}: {name} must hold numbers; it has type {array.dtype}")
    return array


def _names(array: NDArray[Any]) -> tuple[str, ...]:
    return tuple(str(name) for name in array.ravel())


def _require_equal_length(loaded: Loaded) -> None:
    labels = loaded.labels
    if labels is None or not loaded.logits.ndim or not labels.ndim:
        return
    if len(labels) != len(loaded.logits):
        raise FileError(
            f"{loaded.source} has {len(loaded.logits)} rows of {loaded.input} and {len(labels)} "
            "labels; there must be one label per row"
        )

"""Read logits and labels from a file, choosing the split and naming what is wrong."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.checks import INPUT_KINDS, as_numpy
from smallcal.errors import FileError, InputError, file_errors
from smallcal.io.layout import Layout, Loaded, score_role, two_columns
from smallcal.io.memory import require_memory
from smallcal.io.readers import READERS, TEXT_READERS, Arrays, Reader, loading, nested_h5, readable
from smallcal.io.source import open_source
from smallcal.io.tables import lines_of

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
        loaded = _folder(folder, input)
    else:
        loaded = _file(path, input, labelled=labels is None)
    if labels is not None:
        loaded = replace(loaded, labels=read_labels(labels))
    found, scores = loaded.labels, loaded.logits
    if found is not None and scores.ndim and found.ndim and len(found) != len(scores):
        raise FileError(
            f"{loaded.source} has {len(scores)} rows of {loaded.input} and {len(found)} labels; "
            "there must be one label per row"
        )
    return loaded


def _file(path: PathLike, input: str | None, *, labelled: bool) -> Loaded:
    """Read one file, with its own labels if they are wanted."""
    with _opened(path, READERS) as (file, arrays, layout, prefix):
        roles = layout.choose(prefix)
        role = score_role(roles, input)
        scores = _array(arrays, roles[role], file)
        if role == "probabilities" and file.suffix.lower() in (".h5", ".hdf5"):
            scores = two_columns(scores)
        wanted = ("labels", "features") if labelled else ("features",)
        others = {name: _array(arrays, roles[name], file) for name in wanted if name in roles}
        names = roles.get("class_names") or layout.splits.get("", {}).get("class_names")
        class_names = None if names is None else _names(_array(arrays, names, file))
    kind = input or role
    return Loaded(logits=scores, class_names=class_names, input=kind, source=str(path), **others)


def _folder(folder: Path, input: str | None) -> Loaded:
    """Read all files of a data set into memory."""
    source = open_source(folder, input=input)
    require_memory(source.rows * source.n_classes * 8, str(folder))
    blocks = [block for part in source.parts() for block in source.blocks(part, carry=False)]
    if not blocks:
        raise FileError(f"{folder} has no rows")
    labels = [block.labels for block in blocks if block.labels is not None]
    return Loaded(
        logits=np.concatenate([block.scores for block in blocks]),
        labels=np.concatenate(labels) if labels else None,
        class_names=source.class_names,
        input=source.input,
        source=str(folder),
    )


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
    with readable(Path(path), partial(loading, lambda file: {"names": lines_of(file)})) as lines:
        return tuple(lines.get("names"))


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
    with file_errors(f"cannot read {path}"), open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
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

"""Read logits and labels from a file, choosing the split and naming what is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.checks import as_numpy, require_input_kind
from smallcal.data.groups import as_groups
from smallcal.data.names import require_names
from smallcal.errors import FileError, SmallcalError, missing_file
from smallcal.io.layout import AS_IT_IS, Choice, Layout, Loaded, score_role, two_columns
from smallcal.io.memory import require_memory
from smallcal.io.paths import DASH, PathLike, split_path
from smallcal.io.readers import (
    READERS,
    TEXT_READERS,
    Arrays,
    Opener,
    Reader,
    loading,
    nested_h5,
    readable,
    suffix_of,
)
from smallcal.io.shaping import flattened, kind_of, refuse_predicted, scored
from smallcal.io.source import KINDS, open_source
from smallcal.io.stdin import NAMED, spooled
from smallcal.io.text import lines_of


def read(  # noqa: PLR0913 - one keyword for each thing that a file may not say
    path: PathLike,
    *,
    labels: PathLike | None = None,
    input: str | None = None,
    columns: Sequence[str] = (),
    logits_key: str | None = None,
    labels_key: str | None = None,
    score: str | None = None,
    outcome: str | None = None,
    group: str | None = None,
    per: str | None = None,
    class_names: Sequence[str] | None = None,
    known: Sequence[str] | None = None,
    keep_ignored: bool = False,
) -> Loaded:
    """Read logits, and labels if there are any, from a file of any known type.

    Parameters
    ----------
    path : path
        A file whose suffix is in ``READERS``, a folder of Parquet or Arrow files, or ``-`` for
        standard input. ``cells.npz:val`` takes the arrays ``val_logits`` and ``val_labels``,
        ``bench.h5:adult/forest:cal`` those of a split of a group. In HDF5 files one column of
        probabilities is that of class 1 of two, as in CalArena's.
    labels : path, optional
        Another file that holds the labels: any known type, or one label per line.
    input : {"logits", "probabilities", "score"}, optional
        What the numbers are, if the names in the file do not say: one per class, or one score per
        row whose label is an outcome.
    columns : sequence of str, optional
        The columns of a table that are classes, in order; ``"class_*"`` stands for several.
    logits_key, labels_key : str, optional
        Name of the array or column with the logits, and of the one with the labels. In JSON
        lines ``judge.score`` is the field ``score`` of the field ``judge``.
    score, outcome : str, optional
        The same for scores and their outcomes; either one implies ``input="score"``.
    group : str, optional
        Name of the array or column with the group of each row; in a file with several splits,
        ``"groups"`` means ``val_groups`` for the split ``val``.
    per : str, optional
        The field that says which model or task a sample of an eval log belongs to. A log of
        several needs it, or ``group``.
    class_names : sequence of str, optional
        The classes in order. Columns of these names are used, and put in that order.
    known : sequence of str, optional
        Names of classes that columns may have, in any order: those of a calibrator.
    keep_ignored : bool
        Whether to keep rows with the label -100; by default they are left out, with a note.

    Returns
    -------
    Loaded
        Its ``notes`` say what was left out.

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
    if score is not None or outcome is not None:
        input, logits_key, labels_key = "score", score or logits_key, outcome or labels_key
    if input is not None:
        require_input_kind(input)
    choice = Choice(
        input=input,
        columns=tuple(columns),
        logits_key=logits_key,
        labels_key=None if labels is not None else labels_key,
        group=group,
        per=per,
        class_names=None if class_names is None else tuple(class_names),
        known=None if known is None else tuple(known),
        labels=None if labels is None else read_labels(labels, key=labels_key, input=input),
    )
    folder, _ = split_path(path)
    if os.path.isdir(folder):
        loaded = _folder(folder, choice)
    else:
        loaded = _file(path, choice, labelled=labels is None)
    if choice.labels is not None:
        loaded = replace(loaded, labels=choice.labels)
    loaded = scored(loaded) if loaded.input == "score" else flattened(loaded)
    found, scores = loaded.labels, loaded.logits
    if found is not None and scores.ndim and found.ndim and len(found) != len(scores):
        raise FileError(
            f"{loaded.source} has {len(scores)} rows of {loaded.input} and {len(found)} labels; "
            "there must be one label per row",
            code="rows-differ",
        )
    return loaded if keep_ignored else loaded.without_ignored()


def _file(path: PathLike, choice: Choice, *, labelled: bool) -> Loaded:
    """Read one file, with its own labels if they are wanted."""
    with _opened(path, READERS, choice) as (file, arrays, layout, prefix):
        table = arrays.table
        _refuse_columns(choice, arrays, file)
        # A table's reader has seen to the caller's wishes.
        asked = choice if table is None else AS_IT_IS
        roles = layout.choose(prefix, asked)
        role = score_role(roles, choice.input)
        scores = _array(arrays, roles[role], file)
        kind = choice.input or kind_of(scores, role, roles[role])
        if kind != "score":
            refuse_predicted(scores, roles[role], file)
        if kind == "probabilities" and file.suffix.lower() in (".h5", ".hdf5"):
            scores = two_columns(scores)
        wanted = ("labels", "features") if labelled else ("features",)
        others = {name: _array(arrays, roles[name], file) for name in wanted if name in roles}
        groups, note = _groups(arrays, roles.get("groups"), file, len(scores), choice)
        names = roles.get("class_names") or layout.splits.get("", {}).get("class_names")
        class_names = None if names is None else _names(_array(arrays, names, file), file)
    if table is None:
        class_names = _renamed(class_names, choice.class_names, str(path))
    source = NAMED if str(path) == DASH else str(path)
    notes = (*(() if table is None else table.notes), *note)
    return Loaded(
        logits=scores,
        groups=groups,
        class_names=class_names,
        input=kind,
        source=source,
        ordered=table is None or table.ordered,
        notes=tuple(note.replace(str(file), source) for note in notes),
        **others,
    )


def _groups(
    arrays: Arrays, name: str | None, file: Path, n: int, choice: Choice
) -> tuple[NDArray[np.str_] | None, tuple[str, ...]]:
    """Return the group of each row; an array that is called so and holds none is left out."""
    if name is None:
        return None, ()
    try:
        return as_groups(arrays.get(name), n=n, name=name), ()
    except (SmallcalError, ValueError) as error:
        if choice.group is not None:
            raise FileError(f"{file}: {error}", code="groups-invalid") from None
        return None, (f"{file}: left out {name}: it does not give one group per row",)


def _refuse_columns(choice: Choice, arrays: Arrays, file: Path) -> None:
    if choice.columns and arrays.table is None and choice.input != "score":
        raise FileError.with_options(
            f"--columns: {file} is not a table with one column per class", code="file-type"
        )


def _renamed(
    own: tuple[str, ...] | None, given: tuple[str, ...] | None, source: str
) -> tuple[str, ...] | None:
    """Return the names that were given; the file's own in another order are a mistake."""
    if given is None or own is None or own == given or set(own) != set(given):
        return own if given is None else given
    raise FileError(
        f"{source} holds class names, and the given ones are in another order; leave the given "
        "ones out",
        code="class-names-invalid",
    )


def _folder(folder: Path, choice: Choice) -> Loaded:
    """Read all files of a data set into memory."""
    source = open_source(folder, choice=choice)
    require_memory(source.rows * source.n_classes * 8, str(folder))
    blocks = [block for part in source.parts() for block in source.blocks(part, carry=False)]
    if not blocks:
        raise FileError(f"{folder} has no rows", code="empty")
    labels = [block.labels for block in blocks if block.labels is not None]
    groups = [block.groups for block in blocks if block.groups is not None]
    return Loaded(
        logits=np.concatenate([block.scores for block in blocks]),
        labels=np.concatenate(labels) if labels else None,
        groups=np.concatenate(groups) if groups else None,
        class_names=source.class_names,
        input=source.input,
        source=str(folder),
        ordered=source.ordered,
        notes=source.notes,
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
    with _opened(path, READERS, AS_IT_IS) as (_, _, layout, prefix):
        return layout.scored if prefix is None else ()


def read_labels(
    path: PathLike, *, key: str | None = None, input: str | None = None
) -> NDArray[Any]:
    """Read labels alone: from any known file, or from text with one label per line."""
    choice = Choice(labels_key=key, labels_only=True, input=input)
    with _opened(path, {**READERS, **TEXT_READERS}, choice) as (file, arrays, layout, prefix):
        asked = choice if arrays.table is None else AS_IT_IS
        return _array(arrays, layout.labels(prefix, asked), file)


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
        names = tuple(lines.get("names"))
    require_names(names, what=str(path))
    return names


def type_of(path: PathLike) -> str:
    """Return the suffix that tells the type of what a path names: a file, a folder, or ``-``.

    Examples
    --------
    >>> type_of("a/cells.npz:val"), type_of("scores.csv.gz")
    ('.npz', '.csv.gz')
    """
    file, _ = split_path(path)
    if str(file) == DASH:
        file = spooled()
    if os.path.isdir(file):
        return next((one.suffix for one in sorted(file.rglob("*")) if one.suffix in KINDS), "")
    return suffix_of(file)


@contextmanager
def _opened(
    path: PathLike, table: Mapping[str, Reader], choice: Choice
) -> Iterator[tuple[Path, Arrays, Layout, str | None]]:
    """Open what a path names: give the file, its arrays, their layout and the split."""
    file, prefix = split_path(path)
    if str(file) == DASH:
        copy = spooled()
        try:
            with _opened(f"{copy}:{prefix}" if prefix else copy, table, choice) as found:
                yield found
        except SmallcalError as error:  # the copy is nothing the user knows of
            raise error.calling(copy, NAMED) from error
        return
    reader, source = reader_of(file, table), str(file)
    opener: Opener = partial(_read_by, reader, choice)
    if prefix is not None and "/" in prefix:
        group, _, split = prefix.partition(":")
        opener, source = partial(nested_h5, depth=0, group=group), f"{file}:{group}"
        prefix = split or None
    with readable(file, opener) as arrays:
        asked = choice if arrays.table is None else AS_IT_IS
        yield file, arrays, Layout.of(arrays.names, source=source, choice=asked), prefix


def _read_by(reader: Reader, choice: Choice, file: Path) -> AbstractContextManager[Arrays]:
    return reader(file, choice)


def reader_of(file: Path, table: Mapping[str, Reader]) -> Reader:
    """Return the reader for a file's suffix."""
    reader = table.get(suffix_of(file))
    if reader is None:
        if meant := missing_file(file):
            raise FileError(
                f"cannot read {file}: No such file or directory{meant}", code="file-missing"
            )
        given = file.suffix or "no suffix"
        raise FileError(
            f"cannot read {file} ({given}): the type must be one of {', '.join(table)}",
            code="file-type",
        )
    return reader


def _array(arrays: Arrays, name: str, file: Path) -> NDArray[Any]:
    array = as_numpy(arrays.get(name), name=name)
    if array.dtype == object and all(isinstance(value, str) for value in array.ravel()):
        array = array.astype(str)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind not in "fiubU":
        raise FileError(
            f"{file}: {name} must hold numbers; it has type {array.dtype}", code="file-value"
        )
    return array


def _names(array: NDArray[Any], file: Path) -> tuple[str, ...]:
    names = tuple(str(name) for name in array.ravel())
    require_names(names, what=f"{file}: class_names")
    return names

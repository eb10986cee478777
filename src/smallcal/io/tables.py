"""Tables, one row per sample: which columns are logits, which one is the label."""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.errors import FileError
from smallcal.io.layout import LABEL_NAMES, SCORE_KINDS, parse_name

#: Columns that pandas makes of an index: neither scores nor labels.
_INDEX = re.compile(r"|unnamed: 0|__index_level_\d+__")
_KIND_WORD = re.compile(r"((?:logits?|prob|probs|probas?|probability|probabilities)_).+")
_NUMBERED = re.compile(r"(?:(?:logits?|probs?|class|column|col|c|x|z)_?)?(\d+)")

#: Cells turned to text at once when a table is written.
_CELLS = 100_000


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The meaning of a table's columns.

    Examples
    --------
    >>> columns = Columns.of(["cat", "dog", "label"], source="a.csv")
    >>> columns.scores, columns.label, columns.class_names
    ((0, 1), 2, ('cat', 'dog'))
    >>> Columns.of(["prob_0", "prob_1"], source="a.csv").kind
    'probabilities'
    """

    scores: tuple[int, ...]
    label: int | None
    class_names: tuple[str, ...] | None
    kind: str

    @classmethod
    def of(cls, headers: Sequence[str], *, source: str) -> Columns:
        """Read the header row."""
        clean = [header.strip() for header in headers]
        lower = [header.lower() for header in clean]
        repeated = next((name for name in clean if name and clean.count(name) > 1), None)
        if repeated is not None:
            raise FileError(f"{source} has two columns called {repeated!r}; rename one")
        labels = [i for i, name in enumerate(lower) if name in LABEL_NAMES]
        if len(labels) > 1:
            found = " and ".join(clean[i] for i in labels)
            raise FileError(f"{source} has several label columns, {found}; keep one")
        scores, word = _score_columns(lower, labels)
        names = tuple(clean[i][len(word) :] for i in scores)
        return cls(
            scores=scores,
            label=labels[0] if labels else None,
            class_names=names if _are_names(names, source=source) else None,
            kind="probabilities" if word.startswith("prob") else "logits",
        )


def _score_columns(names: Sequence[str], labels: Sequence[int]) -> tuple[tuple[int, ...], str]:
    """Return which columns are scores, and what all their names begin with: logit_ or prob_.

    They are all but the label, or those that say so by their names: where several columns are
    called logit_..., or several prob_..., and none the other, columns with other names hold
    something else: numbers of rows, temperatures.
    """
    words = [match[1] if match else "" for match in map(_KIND_WORD.fullmatch, names)]
    said = [i for i, word in enumerate(words) if word]
    scores = [i for i, name in enumerate(names) if i not in labels and not _INDEX.fullmatch(name)]
    if len(said) > 1 and len({words[i][:4] for i in said}) == 1:
        scores = said
    shared = {words[i] for i in scores}
    return tuple(scores), shared.pop() if len(shared) == 1 else ""


def _are_names(headers: Sequence[str], *, source: str) -> bool:
    """Return whether headers name classes; numbers must be in order, and no data."""
    matches = [_NUMBERED.fullmatch(header.lower()) for header in headers]
    numbers = [int(match[1]) for match in matches if match]
    if len(numbers) < len(headers):
        if all(map(_is_number, headers)):
            raise FileError(
                f"{source} has no header row: its first line is numbers. Add column names"
            )
        return True
    if numbers and (numbers[0] > 1 or numbers != [*range(numbers[0], numbers[0] + len(numbers))]):
        raise FileError(
            f"{source}: numbered columns must stand in order 0, 1, 2, ...; the first line has "
            f"{', '.join(headers[:5])}. Without a header row, add one"
        )
    return False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_csv(file: Path) -> dict[str, Any]:
    """Read a comma-separated table with a header row."""
    with file.open(newline="", encoding="utf-8-sig") as handle:
        rows = csv.reader(handle)
        headers = next(rows, [])
        if len(headers) < 2:
            raise FileError(
                f"{file}: the first line must be column names separated by commas; got "
                f"{','.join(headers)[:60]!r}"
            )
        columns = Columns.of(headers, source=str(file))
        numbers, labels = array("d"), []
        for row in rows:
            if not row:
                continue
            if len(row) != len(headers):
                raise FileError(
                    f"{file}, line {rows.line_num}: {len(row)} columns where the header has "
                    f"{len(headers)}"
                )
            try:
                numbers.extend([float(row[i]) for i in columns.scores])
            except ValueError:
                raise _not_a_number(
                    row, headers, columns, f"{file}, line {rows.line_num}"
                ) from None
            if columns.label is not None:
                labels.append(row[columns.label].strip())
    scores = np.frombuffer(numbers, dtype=np.float64) if numbers else np.empty(0)
    found = {
        columns.kind: scores.reshape(-1, len(columns.scores)) if columns.scores else None,
        "labels": None if columns.label is None else _typed(labels),
        "class_names": None if columns.class_names is None else np.array(columns.class_names),
    }
    return {name: values for name, values in found.items() if values is not None}


def _not_a_number(
    row: Sequence[str], headers: Sequence[str], columns: Columns, where: str
) -> FileError:
    bad = next(i for i in columns.scores if not _is_number(row[i]))
    return FileError(
        f"{where}: column {headers[bad]!r} must be a number; got {row[bad][:40]!r}. Every column "
        f"but the label ({', '.join(LABEL_NAMES)}) is taken as a class"
    )


def lines_of(file: Path) -> list[str]:
    """Return the lines of a text file that are not blank."""
    lines = (line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines())
    values = [line for line in lines if line]
    if not values:
        raise FileError(f"{file} has only blank lines; write one entry per line")
    return values


def read_lines(file: Path) -> NDArray[Any]:
    """Read one label per line; a first line that says "label" is a heading."""
    values = [line.strip('"') for line in lines_of(file)]
    if values[0].lower() in LABEL_NAMES:
        values = values[1:]
    if not values:
        raise FileError(f"{file} holds no labels; write one per line")
    return _typed(values)


def _typed(values: Sequence[str]) -> NDArray[Any]:
    """Return column numbers as integers, other numbers as floats, names as they are."""
    for kind in (np.int64, np.float64):
        try:
            return np.array(values, dtype=str).astype(kind)
        except (ValueError, OverflowError):
            continue
    return np.array(values, dtype=str)


def read_parquet(table: Any, *, source: str) -> dict[str, Any]:
    """Read a table with one column per class, or one column of lists called logits."""
    found, names = columns_of(table.schema, source=source)
    arrays: dict[str, Any] = {
        name: vector_of(table, columns[0], source=source)
        if parse_name(name)[0] == "labels"
        else matrix_of(table, columns, source=source)
        for name, columns in found.items()
    }
    return arrays if names is None else {**arrays, "class_names": np.array(names)}


def columns_of(
    schema: Any, *, source: str
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...] | None]:
    """Return the columns of each array that a table holds, and the names of the classes."""
    headers = [str(name) for name in schema.names]
    if lists := list_columns(schema):
        labels = [name for name in headers if parse_name(name)[0] == "labels"]
        return {name: (name,) for name in [*lists, *labels]}, None
    columns = Columns.of(headers, source=source)
    found = {columns.kind: tuple(headers[i] for i in columns.scores)} if columns.scores else {}
    if columns.label is not None:
        found["labels"] = (headers[columns.label],)
    return found, columns.class_names


def list_columns(schema: Any) -> list[str]:
    """Return the columns that hold a whole row of scores as a list."""
    import pyarrow as pa

    return [
        field.name
        for field in schema
        if parse_name(field.name)[0] in SCORE_KINDS and not pa.types.is_primitive(field.type)
    ]


def matrix_of(table: Any, names: Sequence[str], *, source: str, first_row: int = 0) -> NDArray[Any]:
    """Return scores as a matrix: a column of lists, or one column per class."""
    if names[0] in list_columns(table.schema):
        _refuse_nulls(table, names[0], source, first_row)
        return _matrix(table[names[0]], f"{source}: {names[0]}", first_row)
    vectors = [vector_of(table, name, source=source, first_row=first_row) for name in names]
    for name, vector in zip(names, vectors, strict=True):
        if vector.dtype.kind not in "fiu":
            raise FileError(f"{source}: column {name!r} must hold numbers; got {vector.dtype}")
    return np.column_stack(vectors)


def vector_of(table: Any, name: str, *, source: str, first_row: int = 0) -> NDArray[Any]:
    """Return a column that has a value in every row."""
    import pyarrow as pa

    _refuse_nulls(table, name, source, first_row)
    column = table[name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values: NDArray[Any] = column.to_numpy()
    return values


def _refuse_nulls(table: Any, name: str, source: str, first_row: int) -> None:
    import pyarrow.compute as pc

    if table[name].null_count:
        row = first_row + int(pc.index(table[name].is_null(), True).as_py())
        raise FileError(
            f"{source}: column {name!r} has missing values, the first in row {row}; drop those rows"
        )


def _matrix(column: Any, where: str, first_row: int) -> NDArray[Any]:
    values = column.combine_chunks()
    flat: NDArray[Any] = values.flatten().to_numpy(zero_copy_only=False)
    n = len(values)
    width = len(flat) // n if n else 0
    lengths = values.value_lengths().to_numpy(zero_copy_only=False)
    if n and not bool((lengths == width).all()):
        row = int(np.argmax(lengths != lengths[0]))
        raise FileError(
            f"{where} must hold lists of one length; row {first_row} has {lengths[0]} numbers, "
            f"row {first_row + row} has {lengths[row]}"
        )
    return flat.reshape(n, width)


def to_columns(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the columns of a table that :class:`Columns` reads back.

    Examples
    --------
    >>> list(to_columns({"probabilities": np.eye(2), "labels": np.arange(2)}))
    ['prob_0', 'prob_1', 'label']
    """
    names = arrays.get("class_names")
    columns: dict[str, NDArray[Any]] = {}
    for name, values in arrays.items():
        role, prefix = parse_name(name)
        if role == "class_names":
            continue
        if prefix:
            raise FileError(f"a table holds one split; {name} has the prefix {prefix!r}")
        if values.ndim == 2:
            word = "prob" if role == "probabilities" else "logit"
            headers = range(values.shape[1]) if names is None else names
            columns |= {f"{word}_{header}": values[:, i] for i, header in enumerate(headers)}
        else:
            columns["label" if role == "labels" else name] = values
    return columns


def csv_rows(columns: Mapping[str, NDArray[Any]]) -> Iterator[list[str]]:
    """Yield the rows of a table as text; numbers in the fewest digits that read back equal."""
    n = max((len(column) for column in columns.values()), default=0)
    size = max(1, _CELLS // max(1, len(columns)))
    for start in range(0, n, size):
        block = [column[start : start + size].astype(str).tolist() for column in columns.values()]
        yield from map(list, zip(*block, strict=True))

"""Tables, one row per sample: Parquet and Arrow, and what a table is written as."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.data.groups import as_groups
from smallcal.data.names import read_header
from smallcal.errors import FileError
from smallcal.io.columns import Columns, list_arrays
from smallcal.io.judge import SAMPLE, Labels
from smallcal.io.layout import AS_IT_IS, Choice
from smallcal.io.outcomes import one_number
from smallcal.io.words import parse_name

#: What spreadsheets take for a formula, or the escape of one.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")

#: Cells turned to text at once when a table is written.
_CELLS = 100_000


class Table(NamedTuple):
    """The arrays that a table holds, by role; whether their order was given; what was left out."""

    arrays: Mapping[str, Any]
    ordered: bool = False
    notes: tuple[str, ...] = ()


def read_parquet(table: Any, *, source: str, choice: Choice = AS_IT_IS) -> Table:
    """Read a table with one column per class, or one column of lists called logits."""
    found = columns_of(
        table.schema,
        source=source,
        choice=choice,
        head=lambda names: table.select(names).slice(0, SAMPLE),
        labels=lambda name: [table[name]],
    )
    arrays: dict[str, Any] = {
        name: _array(table, name, columns, source) for name, columns in found.arrays.items()
    }
    if found.class_names is not None:
        arrays["class_names"] = np.array(found.class_names)
    return Table(arrays, ordered=found.ordered, notes=found.notes)


def _array(table: Any, name: str, columns: Sequence[str], source: str) -> NDArray[Any]:
    """Return one array of a table: a group may be missing, labels and scores may not."""
    role = parse_name(name)[0]
    if role == "groups":
        return as_groups(table[columns[0]].to_pylist())
    if role == "labels":
        return vector_of(table, columns[0], source=source)
    found = matrix_of(table, columns, source=source)
    return one_number(found, source=source) if name == "score" else found


class Arranged(NamedTuple):
    """The columns of each array that a table holds, and the names of the classes."""

    arrays: Mapping[str, tuple[str, ...]]
    class_names: tuple[str, ...] | None = None
    as_list: bool = False
    ordered: bool = False
    notes: tuple[str, ...] = ()


def columns_of(
    schema: Any,
    *,
    source: str,
    choice: Choice,
    head: Callable[[list[str]], Any],
    labels: Callable[[str], Iterable[Any]],
) -> Arranged:
    """Say which columns are what; ``head`` gives first rows, ``labels`` a column bit by bit."""
    headers = [str(name) for name in schema.names]
    if lists := list_arrays(headers, list_columns(schema), choice, source=source):
        return Arranged(lists, as_list=True)

    def look(places: Sequence[int]) -> dict[int, NDArray[np.float64] | None]:
        table = head([headers[i] for i in places])
        return {i: _numbers(table[headers[i]]) for i in places}

    columns = Columns.of(
        headers,
        source=source,
        choice=choice,
        look=look,
        seen=lambda: _seen(schema, headers, labels, choice, source),
    )
    found = {columns.kind: tuple(headers[i] for i in columns.scores)} if columns.scores else {}
    if columns.label is not None:
        found["labels"] = (headers[columns.label],)
    if columns.group is not None:
        found["groups"] = (headers[columns.group],)
    return Arranged(found, columns.class_names, ordered=columns.ordered, notes=columns.notes)


def _seen(
    schema: Any,
    headers: Sequence[str],
    labels: Callable[[str], Iterable[Any]],
    choice: Choice,
    source: str,
) -> Labels | None:
    """Count the labels of a table."""
    import pyarrow as pa

    place = Columns.of(headers, source=source, choice=replace(choice, labels_only=True)).label
    if place is None:
        return None
    kind = schema.field(place).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    names = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not names and not pa.types.is_integer(kind):
        return None
    counts: Counter[str] = Counter()
    for column in labels(headers[place]):
        for entry in column.value_counts():
            counts[str(entry["values"].as_py())] += entry["counts"].as_py()
    return Labels(names, counts)


def _numbers(column: Any) -> NDArray[np.float64] | None:
    """Return the numbers of a column, or None if it holds something else."""
    import pyarrow as pa

    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return None
    values: NDArray[np.float64] = column.to_numpy().astype(np.float64)
    return values


def list_columns(schema: Any) -> list[str]:
    """Return the columns that hold a list in each row."""
    import pyarrow as pa

    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return [field.name for field in schema if any(kind(field.type) for kind in kinds)]


def matrix_of(table: Any, names: Sequence[str], *, source: str, first_row: int = 0) -> NDArray[Any]:
    """Return scores as a matrix: a column of lists, or one column per class."""
    if len(names) == 1 and names[0] in list_columns(table.schema):
        _refuse_nulls(table, names[0], source, first_row)
        return _matrix(table[names[0]], f"{source}: {names[0]}", first_row)
    vectors = [vector_of(table, name, source=source, first_row=first_row) for name in names]
    for name, vector in zip(names, vectors, strict=True):
        if vector.dtype.kind not in "fiu":
            raise FileError(
                f"{source}: column {name!r} must hold numbers; got {vector.dtype}",
                code="file-value",
            )
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
            f"{source}: column {name!r} has missing values, first in row {row}; drop those rows",
            code="file-value",
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
            f"row {first_row + row} has {lengths[row]}",
            code="file-ragged",
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
            raise FileError(
                f"a table holds one split; {name} has the prefix {prefix!r}", code="file-ambiguous"
            )
        for header, column in _columns_of(name, role, values, names):
            if header in columns:
                raise FileError(
                    f"a table cannot hold two columns called {header!r}; rename one",
                    code="file-ambiguous",
                )
            columns[header] = column
    return columns


def _columns_of(
    name: str, role: str | None, values: NDArray[Any], names: NDArray[Any] | None
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the columns of one array, each with its header."""
    if values.ndim < 2:
        yield ("label", _numbered(values, names)) if role == "labels" else (name, values)
        return
    word = "prob" if role == "probabilities" else "logit"
    if values.dtype.kind == "b":  # what is said of each class
        word = name
    headers = list(range(values.shape[1]) if names is None else names)
    if len(headers) != values.shape[1]:
        raise FileError(
            f"{len(headers)} class_names for {values.shape[1]} columns of {name}",
            code="class-names-invalid",
        )
    for i, header in enumerate(headers):
        yield f"{word}_{header}", values[:, i]


def _numbered(labels: NDArray[Any], names: NDArray[Any] | None) -> NDArray[Any]:
    """Return labels as column numbers where the names of the classes are read as numbers."""
    if names is None or labels.dtype.kind != "U":
        return labels
    if read_header([f"logit_{name}" for name in names]).names is not None:
        return labels
    with suppress(KeyError):
        return codes_of(labels, names)
    return labels


def codes_of(labels: NDArray[Any], names: Iterable[Any]) -> NDArray[Any]:
    """Return the column numbers of labels that are names; a KeyError tells of one that is none.

    Examples
    --------
    >>> codes_of(np.array(["dog", "cat"]), ["cat", "dog"]).tolist()
    [1, 0]
    """
    place = {str(name): i for i, name in enumerate(names)}
    return np.array([place[label] for label in labels.tolist()], dtype=np.int64)


def csv_rows(columns: Mapping[str, NDArray[Any]]) -> Iterator[list[str]]:
    """Yield the rows of a table as text; numbers in the fewest digits that read back equal."""
    n = max((len(column) for column in columns.values()), default=0)
    size = max(1, _CELLS // max(1, len(columns)))
    for start in range(0, n, size):
        block = [column[start : start + size] for column in columns.values()]
        cells = (
            map(escaped, part.tolist()) if part.dtype.kind == "U" else part.astype(str).tolist()
            for part in block
        )
        yield from map(list, zip(*cells, strict=True))


def escaped(text: str) -> str:
    """Return text for a cell of CSV: what a spreadsheet would run gets an apostrophe before it.

    Numbers stay as they are. :func:`unescaped` takes the apostrophe away again.

    Examples
    --------
    >>> escaped("=cmd()"), escaped("-1"), unescaped("'=cmd()"), unescaped("'tis")
    ("'=cmd()", '-1', '=cmd()', "'tis")
    """
    if _FORMULA.match(text) is None:
        return text
    with suppress(ValueError):
        float(text)
        return text
    return f"'{text}"


def unescaped(cell: str) -> str:
    """Return the text of a cell that :func:`escaped` made."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell

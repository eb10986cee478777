"""Tables as text: comma or tab separated, plain or packed by gzip."""

from __future__ import annotations

import csv
import gzip
import re
from array import array
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.errors import FileError
from smallcal.io.columns import Columns
from smallcal.io.judge import SAMPLE, Labels, count_labels
from smallcal.io.layout import AS_IT_IS, Choice
from smallcal.io.memory import refuse_bomb
from smallcal.io.outcomes import one_number
from smallcal.io.tables import Table, unescaped
from smallcal.io.words import LABEL_NAMES, OUTCOME_WORDS


@contextmanager
def text_of(file: Path) -> Iterator[IO[str]]:
    """Open a text file, packed or not."""
    if file.suffix.lower() != ".gz":
        with file.open(newline="", encoding="utf-8-sig") as plain:
            yield plain
        return
    size, stored = 0, file.stat().st_size
    # A look beforehand: to parse it would take a hundred times as long.
    with gzip.open(file, "rb") as packed:
        while found := packed.read(2**20):
            size += len(found)
            refuse_bomb(str(file), size=size, stored=stored)
    with gzip.open(file, "rt", encoding="utf-8-sig", newline="") as text:
        yield text


class _Row(NamedTuple):
    line: int
    cells: list[str]


def read_csv(file: Path, choice: Choice = AS_IT_IS, *, separator: str = ",") -> Table:
    """Read a table with a header row."""
    with text_of(file) as handle:
        headers, rows = _rows(handle, file, separator, alone=choice.input == "score")
        head = list(islice(rows, SAMPLE))
        columns = Columns.of(
            headers,
            source=str(file),
            choice=choice,
            look=lambda places: {i: _cells(head, i) for i in places},
            seen=lambda: _seen(file, separator, headers, choice),
        )
        numbers, labels, names = array("d"), [], frozenset(columns.class_names or ())
        groups: list[str] = []
        for row in chain(head, rows):
            try:
                numbers.extend([float(row.cells[i]) for i in columns.scores])
            except ValueError:
                raise _not_a_number(row, headers, columns, file) from None
            if columns.label is not None:
                cell = unescaped(row.cells[columns.label])
                labels.append(cell if cell in names else cell.strip())
            if columns.group is not None:
                groups.append(unescaped(row.cells[columns.group]).strip())
    scores = np.frombuffer(numbers, dtype=np.float64) if numbers else np.empty(0)
    matrix = scores.reshape(-1, len(columns.scores)) if columns.scores else None
    found = None if columns.label is None else typed(labels, names)
    return table_of(columns, matrix, found, None if columns.group is None else np.array(groups))


class NamedMatrix(NamedTuple):
    """Numbers whose rows and columns have names."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: NDArray[np.float64]


def read_matrix(file: Path, *, separator: str = ",") -> NamedMatrix:
    """Read a matrix with names: those of the columns above it, those of the rows before them."""
    with text_of(file) as handle:
        headers, rows = _rows(handle, file, separator)
        names, values = [], []
        for row in rows:
            odd = next((i for i, cell in enumerate(row.cells[1:], 1) if not is_float(cell)), None)
            if odd is not None:
                raise FileError(
                    f"{file}, line {row.line}: column {headers[odd]!r} must be a number; got "
                    f"{row.cells[odd][:40]!r}",
                    code="file-value",
                )
            names.append(row.cells[0].strip())
            values.append([float(cell) for cell in row.cells[1:]])
    matrix = np.array(values, dtype=np.float64).reshape(len(names), len(headers) - 1)
    return NamedMatrix(tuple(names), tuple(headers[1:]), matrix)


def table_of(
    columns: Columns,
    scores: NDArray[Any] | None,
    labels: NDArray[Any] | None,
    groups: NDArray[Any] | None,
) -> Table:
    """Return the arrays of a table by their roles."""
    names = columns.class_names
    if columns.kind == "score" and scores is not None:
        scores = one_number(scores, source="")
    found = {
        columns.kind: scores,
        "labels": labels,
        "groups": groups,
        "class_names": None if names is None or scores is None else np.array(names),
    }
    arrays = {name: values for name, values in found.items() if values is not None}
    return Table(arrays, ordered=columns.ordered, notes=columns.notes)


def _rows(
    handle: IO[str], file: Path, separator: str, *, alone: bool = False
) -> tuple[list[str], Iterator[_Row]]:
    """Return the headers, and the rows under them, each as wide.

    A column may stand ``alone``, and then without a header, as numpy.savetxt writes it.
    """
    lines: list[str] = []
    reader = csv.reader(chain(_kept(handle, lines), handle), delimiter=separator)
    headers = _trimmed(next(reader, []), "".join(lines))
    first: list[_Row] = []
    if alone and len(headers) == 1 and is_float(headers[0]):
        first, headers = [_Row(1, headers)], ["score"]
    if len(headers) < (1 if alone else 2):
        name = "commas" if separator == "," else "tabs"
        raise FileError(
            f"{file}: the first line must be column names separated by {name}; got "
            f"{','.join(headers)[:60]!r}. For one score per line, use ",
            python="input='score'",
            shell="--input score",
            code="file-header",
        )

    def rows() -> Iterator[_Row]:
        for cells in reader:
            if cells and len(cells) != len(headers):
                raise FileError(
                    f"{file}, line {reader.line_num}: {len(cells)} columns where the header has "
                    f"{len(headers)}",
                    code="file-ragged",
                )
            if cells:
                yield _Row(reader.line_num, cells)

    return headers, chain(first, rows())


def _kept(handle: IO[str], lines: list[str]) -> Iterator[str]:
    """Yield lines until the header's quotes are closed, and keep them."""
    quotes = 0
    for line in handle:
        lines.append(line)
        yield line
        quotes += line.count('"')
        if quotes % 2 == 0:
            return


def _trimmed(headers: Sequence[str], raw: str) -> list[str]:
    """Return headers without the blanks around them, but for those that stand in quotes."""
    quoted = (f'"{header.replace(chr(34), chr(34) * 2)}"' for header in headers)
    return [
        header if header == header.strip() or whole in raw else header.strip()
        for header, whole in zip(headers, quoted, strict=True)
    ]


def _cells(rows: Sequence[_Row], place: int) -> NDArray[np.float64] | None:
    """Return the numbers of a column, NaN where there is none; None if it is all text."""
    return floats_of([row.cells[place] for row in rows])


def floats_of(cells: Sequence[Any]) -> NDArray[np.float64] | None:
    """Return numbers, NaN where there is none; None where all is text."""
    values = np.array([_float(cell) for cell in cells], dtype=np.float64)
    told = [cell for cell in cells if cell is not None and str(cell).strip()]
    is_text = bool(told) and not any(is_float(cell) for cell in told)
    return None if is_text else values


def _float(cell: Any) -> float:
    return float(cell) if is_float(cell) else np.nan


def is_float(cell: Any) -> bool:
    """Whether a cell holds a number, as it is or as text."""
    if isinstance(cell, bool | list | dict | None):
        return False
    try:
        float(cell)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def _seen(file: Path, separator: str, headers: Sequence[str], choice: Choice) -> Labels | None:
    """Count the labels of a table."""
    place = label_place(headers, choice, source=str(file))
    if place is None:
        return None
    with text_of(file) as handle:
        labels = [unescaped(row.cells[place]).strip() for row in _rows(handle, file, separator)[1]]
    return count_labels(typed(labels))


def label_place(headers: Sequence[str], choice: Choice, *, source: str) -> int | None:
    """Return the column of the labels."""
    only = Choice(labels_only=True, labels_key=choice.labels_key, columns=choice.columns)
    return Columns.of(headers, source=source, choice=only).label


def _not_a_number(row: _Row, headers: Sequence[str], columns: Columns, file: Path) -> FileError:
    bad = next(i for i in columns.scores if not is_float(row.cells[i]))
    return FileError.with_options(
        f"{file}, line {row.line}: column {headers[bad]!r} must be a number; got "
        f"{row.cells[bad][:40]!r}. If it is not a class, name the classes with --columns",
        code="file-value",
    )


def lines_of(file: Path) -> list[str]:
    """Return the lines of a text file that are not blank."""
    with text_of(file) as handle:
        # Not splitlines, which also breaks where a name holds a page break, say.
        lines = [line.strip() for line in re.split(r"\r\n|\r|\n", handle.read())]
    values = [line for line in lines if line]
    if not values:
        raise FileError(f"{file} has only blank lines; write one entry per line", code="empty")
    return values


def read_lines(file: Path) -> NDArray[Any]:
    """Read one label per line; a first line that says "label" is a heading."""
    values = [line.strip('"') for line in lines_of(file)]
    if values[0].lower() in (*LABEL_NAMES, *OUTCOME_WORDS):
        values = values[1:]
    if not values:
        raise FileError(f"{file} holds no labels; write one per line", code="no-labels")
    return typed(values)


def one_column(file: Path, separator: str) -> bool:
    """Whether the first line of a table has one entry."""
    with text_of(file) as handle:
        return len(next(csv.reader(handle, delimiter=separator), [])) < 2


def typed(values: Sequence[Any], names: Collection[str] = ()) -> NDArray[Any]:
    """Return column numbers as integers, other numbers as floats, names as they are.

    Where all are ``names`` of classes, they are no numbers, whatever they look like.

    Examples
    --------
    >>> typed(["1", "2"]), typed(["cat", "2"])
    (array([1, 2]), array(['cat', '2'], dtype='<U3'))
    """
    text = np.array(values, dtype=str)
    if names and all(isinstance(value, str) and value in names for value in values):
        return text
    for kind in (np.int64, np.float64):
        try:
            return text.astype(kind)
        except (ValueError, OverflowError):
            continue
    return text

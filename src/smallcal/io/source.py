"""Data that need not fit in memory: .npy, Parquet and Arrow files, and folders of the latter two.

A source is cut into parts: rows of one file, in whole row groups (Parquet) or record batches
(Arrow). A part is read block by block, so memory depends on the size of a block, not of the data;
only an Arrow record batch is always read whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.groups import as_groups
from smallcal.data.names import order_of
from smallcal.errors import FileError, file_errors
from smallcal.io import npy
from smallcal.io.judge import SAMPLE
from smallcal.io.layout import AS_IT_IS, Choice, Layout, moved_note, score_role
from smallcal.io.npy import npy_header, npy_rows, require_npy
from smallcal.io.outcomes import one_number
from smallcal.io.pieces import Block, Part, Piece, cuts_of, stamp_of
from smallcal.io.readers import explained, opened
from smallcal.io.tables import Arranged, columns_of, matrix_of, vector_of
from smallcal.io.units import tables_of, unit_rows

#: The kind of a file by its suffix.
KINDS = MappingProxyType(
    {".npy": "npy", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}
)
#: Bytes of scores in a part, unless the caller says how many rows.
PART_BYTES = 64 * 2**20

#: Labels that are counted at a time.
_LABEL_ROWS = 1 << 16


@dataclass(frozen=True)
class Source:
    """Scores in one file or a folder of files, and which of their columns is what.

    Attributes
    ----------
    path : str
        As it was given.
    kind : {"npy", "parquet", "arrow"}
    pieces : tuple of Piece
    scores : tuple of str
        The column of lists, or the columns of the classes; empty for .npy.
    label, group : str or None
    others : tuple of str
        All columns that are not scores, the label among them.
    class_names : tuple of str, or None
    input : {"logits", "probabilities", "score"}
    n_classes : int
        Two, where a row is one score.
    as_list : bool
        Whether a row of scores is one list.
    row_bytes : int
        Bytes of one row's scores.
    ordered : bool
        Whether labels that are numbers surely count in the order of the columns.
    order : tuple of int, or None
        Where the columns stood, if they were put in another order.
    notes : tuple of str
        What was left out, or done to the columns.
    """

    path: str
    kind: str
    pieces: tuple[Piece, ...]
    n_classes: int
    row_bytes: int
    scores: tuple[str, ...] = ()
    label: str | None = None
    group: str | None = None
    others: tuple[str, ...] = ()
    class_names: tuple[str, ...] | None = None
    input: str = "logits"
    as_list: bool = False
    ordered: bool = False
    order: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()

    def in_order_of(self, known: Sequence[str] | None) -> Source:
        """Return the source with its columns in the order of these classes, if it has names.

        Raises
        ------
        InputError
            If the names differ.
        """
        if known is None or self.class_names is None:
            return self
        order = order_of(self.class_names, known, what=f"{self.path}: the columns")
        if order is None:
            return self
        by_column = len(self.scores) == len(order)
        return replace(
            self,
            scores=tuple(self.scores[i] for i in order) if by_column else self.scores,
            class_names=tuple(known),
            order=tuple(order.tolist()),
            notes=(*self.notes, moved_note(self.path)),
        )

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(sum(piece.units) for piece in self.pieces)

    def parts(self, rows: int | None = None) -> list[Part]:
        """Cut the source into parts of at least so many rows, as far as each file has them."""
        size = rows or max(1, PART_BYTES // self.row_bytes)
        cut = [(piece, cuts_of(piece.units, size, self.kind)) for piece in self.pieces]
        numbered = any(len(cuts) > 1 for _, cuts in cut)
        return [
            Part(
                file=os.path.abspath(piece.file),
                shown=str(piece.file),
                name=f"{piece.name}-{number:05d}" if numbered else piece.name,
                start=start,
                rows=height,
                units=units,
                stamp=piece.stamp,
            )
            for piece, cuts in cut
            for number, (start, height, units) in enumerate(cuts)
        ]

    def blocks(self, part: Part, *, carry: bool = True) -> Iterator[Block]:
        """Yield the rows of a part; without ``carry`` only scores and labels are read."""
        step = max(1, npy.BLOCK_BYTES // self.row_bytes)
        start = part.start
        file = Path(part.file)
        part.require_unchanged()
        if self.kind == "npy":
            for scores in npy_rows(file, start, start + part.rows, step):
                yield Block(self._moved(scores), None, None, start)
                start += len(scores)
            return
        named = [name for name in (self.label, self.group) if name is not None]
        wanted = [*self.scores, *(self.others if carry else named)]
        for table in tables_of(self.kind, file, part.units, wanted, step):
            with explained(Path(part.shown)):
                block = self._block(table, part.shown, start, carry=carry)
            yield block
            start += table.num_rows
        if start != part.start + part.rows:
            raise FileError(
                f"{part.shown} does not have as many rows as it says; write it again",
                code="file-damaged",
            )

    def _moved(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Put scores that were not read column by column in the order they should have."""
        if self.input == "score":
            return one_number(scores, source=self.path)
        whole = len(self.scores) < 2 and self.order is not None
        return scores[:, self.order] if whole else scores

    def _block(self, table: Any, shown: str, start: int, *, carry: bool) -> Block:
        scores = self._moved(matrix_of(table, self.scores, source=shown, first_row=start))
        labels = None
        if self.label is not None and not carry:
            labels = vector_of(table, self.label, source=shown, first_row=start)
        groups = None if self.group is None else as_groups(table[self.group].to_pylist())
        others = table.select(list(self.others)) if carry else None
        return Block(scores, labels, others, start, groups)


def is_source(path: Path, *, input: str | None = None) -> bool:
    """Whether a path can be opened as a source: a folder, or a file of one of the kinds."""
    if os.path.isdir(path):  # unlike Path.is_dir, no error where no such name can be
        return True
    kind = KINDS.get(path.suffix.lower())
    if kind != "npy":
        return kind is not None
    header = npy_header(path)
    return header is not None and (header.is_matrix or (input == "score" and header.is_vector))


def open_source(path: Path, *, prefix: str | None = None, choice: Choice = AS_IT_IS) -> Source:
    """Look at the files of a source: how many rows, which columns.

    Raises
    ------
    FileError
        If a file is damaged, the files of a folder differ in their columns, or there are none.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> file = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(file, np.zeros((100, 3)))
    >>> source = open_source(file)
    >>> source.rows, source.n_classes, [part.rows for part in source.parts(40)]
    (100, 3, [40, 40, 20])
    """
    files = _files(path)
    kind = KINDS[files[0].suffix.lower()]
    if kind == "npy":
        if choice.columns:
            raise FileError.with_options(
                f"--columns: {path} is not a table with one column per class", code="file-type"
            )
        score = choice.input == "score"
        with explained(path):
            header = require_npy(path, vector=score)
            if score:
                one_number(np.empty((0, *header.shape[1:])), source=str(path))
            piece = Piece(path, path.stem, (header.shape[0],), stamp_of(path))
        return Source(
            path=str(path),
            kind=kind,
            pieces=(piece,),
            n_classes=2 if score else header.shape[1],
            row_bytes=header.row_bytes,
            class_names=choice.class_names,
            input=choice.input or "logits",
            ordered=True,
        )
    with explained(path):
        return _open_tables(path, files, kind, prefix, choice)


def _files(path: Path) -> list[Path]:
    """Return the data files of a folder by name; those that begin with . or _ are not data."""
    if not os.path.isdir(path):
        return [path]
    with file_errors(f"cannot list {path}"):
        found = sorted(
            file
            for file in path.rglob("*")
            if file.suffix.lower() in KINDS
            and not any(name.startswith((".", "_")) for name in file.relative_to(path).parts)
        )
    kinds = {KINDS[file.suffix.lower()] for file in found}
    if not kinds or "npy" in kinds:
        raise FileError(
            f"{path} is a folder without Parquet or Arrow files; name a file in it",
            code="file-type",
        )
    if len(kinds) > 1:
        raise FileError(
            f"{path} holds both Parquet and Arrow files; keep one kind in a folder",
            code="file-ambiguous",
        )
    return found


def _open_tables(
    path: Path, files: list[Path], kind: str, prefix: str | None, choice: Choice
) -> Source:
    pieces: list[Piece] = []
    first: Any = None
    for file in files:
        with opened(kind, file) as content:
            schema = content.schema_arrow if kind == "parquet" else content.schema
            units = unit_rows(kind, content, file)
            if first is None:
                first = schema
            elif not schema.equals(first):
                raise FileError(
                    f"{file} has other columns than {files[0]}; all files of a data set must "
                    "have the same columns",
                    code="file-ragged",
                )
        name = file.relative_to(path).with_suffix("").as_posix() if path.is_dir() else file.stem
        pieces.append(Piece(file, name, units, stamp_of(file)))
    found = _arranged(kind, pieces, first, str(path), choice)
    columns = found.arrays
    scored = columns if columns.keys() - {"labels", "groups"} else ()
    roles = Layout.of(scored, source=str(path)).choose(prefix)
    role, label, group = score_role(roles, choice.input), roles.get("labels"), roles.get("groups")
    scores = columns[roles[role]]
    n_classes = _width(kind, pieces, scores[0], str(path)) if found.as_list else len(scores)
    n_classes = 2 if role == "score" else n_classes
    item = first.field(scores[0]).type
    item = getattr(item, "value_type", item)
    return Source(
        path=str(path),
        kind=kind,
        pieces=tuple(pieces),
        n_classes=n_classes,
        row_bytes=n_classes * _item_bytes(item),
        scores=scores,
        label=None if label is None else columns[label][0],
        group=None if group is None else columns[group][0],
        others=tuple(str(name) for name in first.names if name not in scores),
        class_names=choice.class_names if found.as_list else found.class_names,
        input=choice.input or role,
        as_list=found.as_list,
        ordered=found.as_list or found.ordered,
        notes=found.notes,
    )


def _item_bytes(item: Any) -> int:
    """Return the bytes of one number; what is none, lists of lists say, is refused when read."""
    try:
        return max(1, int(item.bit_width) // 8)
    except ValueError:
        return 8


def _arranged(kind: str, pieces: list[Piece], schema: Any, source: str, choice: Choice) -> Arranged:
    """Say which columns are what; only where their names do not tell, some rows are read."""

    def tables(names: list[str], step: int) -> Iterator[Any]:
        for piece in pieces:
            yield from tables_of(kind, piece.file, (0, len(piece.units)), names, step)

    def head(names: list[str]) -> Any:
        return next(
            (table for table in tables(names, SAMPLE) if table.num_rows), schema.empty_table()
        )

    def labels(name: str) -> Iterator[Any]:
        return (table[name] for table in tables([name], _LABEL_ROWS))

    return columns_of(schema, source=source, choice=choice, head=head, labels=labels)


def _width(kind: str, pieces: list[Piece], column: str, source: str) -> int:
    """Return the length of the first list."""
    for piece in pieces:
        if sum(piece.units):
            last = next(i for i, rows in enumerate(piece.units, start=1) if rows)
            table = next(tables_of(kind, piece.file, (last - 1, last), [column], 1))
            return int(matrix_of(table, [column], source=str(piece.file)).shape[1])
    raise FileError(f"{source} has no rows", code="empty")

"""What data are cut into: files, parts of files, blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from smallcal.errors import FileError

Stamp = tuple[int, int]


class Block(NamedTuple):
    """Some rows: scores, labels, all other columns, where they begin, and their groups."""

    scores: NDArray[Any]
    labels: NDArray[Any] | None
    others: Any
    start: int
    groups: NDArray[Any] | None = None


class Piece(NamedTuple):
    """One file of a source, with the number of rows in each of its units."""

    file: Path
    name: str
    units: tuple[int, ...]
    stamp: Stamp


@dataclass(frozen=True)
class Part:
    """Rows of one file, the least that is done again after a crash.

    Attributes
    ----------
    file : str
        With its whole path, so that another machine finds it.
    shown : str
        The path as the user wrote it.
    name : str
        What the part's own file is called, without suffix.
    start, rows : int
        Counted in the file.
    units : tuple of int
        The first row group or record batch, and the one after the last.
    stamp : tuple of int
        Size and time of the last change of the file.
    """

    file: str
    shown: str
    name: str
    start: int
    rows: int
    units: tuple[int, int]
    stamp: Stamp

    def require_unchanged(self) -> None:
        """Raise when the file is not the one that the source was opened with."""
        file = Path(self.file)
        if not file.exists():
            raise FileError(
                f"a worker cannot find {file}; all workers must have access to its folder",
                code="file-missing",
            )
        if stamp_of(file) != self.stamp:
            raise FileError(
                f"{self.shown} was changed while it was read; run the command again",
                code="file-changed",
            )


def cuts_of(units: tuple[int, ...], size: int, kind: str) -> list[tuple[int, int, tuple[int, int]]]:
    """Return first row, rows and units of each part: as few whole units as reach the size.

    Examples
    --------
    >>> cuts_of((4, 4, 4), 6, "parquet")
    [(0, 8, (0, 2)), (8, 4, (2, 3))]
    >>> cuts_of((10,), 6, "npy")
    [(0, 6, (0, 0)), (6, 4, (0, 0))]
    """
    if kind == "npy":
        return [(row, min(size, units[0] - row), (0, 0)) for row in range(0, units[0], size)]
    found, first, height = [], 0, 0
    for number, (end, rows) in enumerate(zip(accumulate(units), units, strict=True), start=1):
        height += rows
        if height and (height >= size or number == len(units)):
            found.append((end - height, height, (first, number)))
            first, height = number, 0
    return found


def stamp_of(file: Path) -> Stamp:
    """Return what changes when a file is written again: its size and the time of the change."""
    status = file.stat()
    return status.st_size, status.st_mtime_ns

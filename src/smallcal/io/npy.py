"""Rows of .npy files, a few megabytes at a time.

Plain reads and writes, not memory maps: the pages of a map count as the process's memory, so a
map of the whole file would look like a copy of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.errors import FileError

#: Bytes of input worked on at once.
BLOCK_BYTES = 16 * 2**20


class NpyHeader(NamedTuple):
    """What a .npy file says about itself."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    in_rows: bool
    offset: int

    @property
    def is_matrix(self) -> bool:
        """Whether it is a matrix of numbers stored row by row, and not empty."""
        plain = self.in_rows and self.dtype.kind in "fiu"
        return plain and len(self.shape) == 2 and 0 not in self.shape

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize


def npy_header(file: Path) -> NpyHeader | None:
    """Return the header of a .npy file, or None if it is not a plain one."""
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        with file.open("rb") as handle:
            version = np.lib.format.read_magic(handle)
            shape, fortran, dtype = readers[version](handle)
            offset = handle.tell()
    except (OSError, ValueError, KeyError):
        return None
    return NpyHeader(shape, dtype, not fortran, offset)


def require_npy(file: Path) -> NpyHeader:
    """Return the header of a .npy file whose rows can be read one after the other.

    Raises
    ------
    FileError
        If it is of another type, or cut short.
    """
    header = npy_header(file)
    if header is None or not header.is_matrix:
        raise FileError(f"{file} is not a plain .npy matrix stored row by row")
    if file.stat().st_size < header.offset + header.shape[0] * header.row_bytes:
        raise FileError(
            f"{file} is cut short: it should hold {header.shape[0]} rows; write it again"
        )
    return header


def npy_rows(file: Path, start: int, stop: int, step: int) -> Iterator[NDArray[Any]]:
    """Yield rows of a .npy file in blocks of at most ``step``.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(file, np.arange(10).reshape(5, 2))
    >>> [block[:, 0].tolist() for block in npy_rows(file, 1, 5, 3)]
    [[2, 4, 6], [8]]
    """
    header = require_npy(file)
    width = header.shape[1]
    native = header.dtype.newbyteorder("=")
    with file.open("rb") as handle:
        handle.seek(header.offset + start * header.row_bytes)
        for first in range(start, stop, step):
            rows = min(step, stop - first)
            block = np.fromfile(handle, dtype=header.dtype, count=rows * width)
            if len(block) < rows * width:
                raise FileError(f"{file} became shorter while it was read; start again")
            yield block.reshape(rows, width).astype(native, copy=False)


def write_npy_header(handle: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Begin a .npy file whose rows follow."""
    kind = np.lib.format.dtype_to_descr(dtype)
    description: dict[str, Any] = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(handle, description)


def join_npy(files: Sequence[Path], target: Path) -> None:
    """Write the rows of several .npy files into one.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "a.npy", np.ones((3, 2))); np.save(folder / "b.npy", np.zeros((1, 2)))
    >>> join_npy([folder / "a.npy", folder / "b.npy"], folder / "c.npy")
    >>> np.load(folder / "c.npy")[:, 0].tolist()
    [1.0, 1.0, 1.0, 0.0]
    """
    headers = [require_npy(file) for file in files]
    rows = sum(header.shape[0] for header in headers)
    with target.open("wb") as writing:
        write_npy_header(writing, (rows, *headers[0].shape[1:]), headers[0].dtype)
        for file, header in zip(files, headers, strict=True):
            with file.open("rb") as reading:
                reading.seek(header.offset)
                shutil.copyfileobj(reading, writing, 2**20)

"""Map the rows of one .npy file into another, a few megabytes at a time.

Plain reads and writes, not memory maps: the pages of a map count as the process's memory, so a
map of the whole file would look like a copy of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.errors import FileError
from smallcal.files import atomic_path

#: Bytes of input worked on at once.
BLOCK_BYTES = 16 * 2**20

RowMap = Callable[[NDArray[Any], int], NDArray[Any]]


class _Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    in_rows: bool
    offset: int


def streamable(source: Path, target: Path) -> bool:
    """Whether both are .npy files and the source is a matrix stored row by row."""
    if source.suffix.lower() != ".npy" or target.suffix.lower() != ".npy":
        return False
    header = _header(source)
    return (
        header is not None and header.in_rows and len(header.shape) == 2 and 0 not in header.shape
    )


def row_count(source: Path) -> int:
    """Return the number of rows of a streamable file."""
    return _require_header(source).shape[0]


def map_rows(
    source: Path,
    target: Path,
    transform: RowMap,
    *,
    advance: Callable[[int], object] = lambda rows: None,
) -> tuple[int, ...]:
    """Write ``transform`` of each block of rows to ``target``, whole or not at all.

    Parameters
    ----------
    source, target : Path
        .npy files for which :func:`streamable` is true.
    transform : callable
        Takes a block of rows and the number of its first row; returns as many rows.
    advance : callable, optional
        Told how many rows were done, after each block.

    Returns
    -------
    tuple of int
        The shape of the source.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "a.npy", np.ones((3, 2)))
    >>> map_rows(folder / "a.npy", folder / "b.npy", lambda block, start: 2 * block)
    (3, 2)
    >>> float(np.load(folder / "b.npy").sum())
    12.0
    """
    header = _require_header(source)
    n, width = header.shape
    row_bytes = width * header.dtype.itemsize
    if source.stat().st_size < header.offset + n * row_bytes:
        raise FileError(f"{source} is cut short: it should hold {n} rows; write it again")
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    with source.open("rb") as reading, atomic_path(target) as temporary:
        reading.seek(header.offset)
        with temporary.open("wb") as writing:
            for start in range(0, n, step):
                rows = min(step, n - start)
                block = np.fromfile(reading, dtype=header.dtype, count=rows * width)
                native = block.reshape(rows, width).astype(
                    header.dtype.newbyteorder("="), copy=False
                )
                result = transform(native, start)
                if start == 0:
                    _write_header(writing, (n, *result.shape[1:]), result.dtype)
                writing.write(np.ascontiguousarray(result).data)
                advance(rows)
    return header.shape


def _require_header(file: Path) -> _Header:
    header = _header(file)
    if header is None or not header.in_rows or len(header.shape) != 2:
        raise FileError(f"{file} is not a plain .npy matrix stored row by row")
    return header


def _header(file: Path) -> _Header | None:
    """Return what a .npy file says about itself, or None if it is not a plain one."""
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
    if dtype.kind not in "fiu":
        return None
    return _Header(shape, dtype, not fortran, offset)


def _write_header(handle: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    description: dict[str, Any] = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(handle, description)

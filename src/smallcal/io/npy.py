"""Rows of .npy files, a few megabytes at a time.

Plain reads and writes, not memory maps: the pages of a map count as the process's memory, so a
map of the whole file would look like a copy of it.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

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
    def is_vector(self) -> bool:
        """Whether it is one number per row, and not empty."""
        return self.dtype.kind in "fiu" and len(self.shape) == 1 and self.shape != (0,)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def n_bytes(self) -> int:
        """Bytes of all numbers."""
        return math.prod(self.shape) * self.dtype.itemsize


#: Bytes of the field that says how long a header is, by version.
_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
#: Headers of plain arrays have about a hundred characters.
_MOST_HEADER = 2**16
_MOST_AXES = 32
#: One entry of a header; NumPy would evaluate it, and what is not of this form is no plain array.
_ENTRY = (
    r"""\s*(?:["']descr["']\s*:\s*["'](?P<dtype{i}>[<>|=]?[A-Za-z]\d{{0,9}}(?:\[\w+\])?)["']"""
    r"""|["']fortran_order["']\s*:\s*(?P<fortran{i}>True|False)"""
    r"""|["']shape["']\s*:\s*\((?P<shape{i}>[\dL,\s]{{0,999}})\))\s*"""
)
_HEADER = re.compile(
    r"\{" + ",".join(_ENTRY.format(i=i) for i in range(3)) + r",?\s*\}\s*", re.ASCII
)


def npy_header(file: Path) -> NpyHeader | None:
    """Return the header of a .npy file, or None if it is not a plain one."""
    try:
        with file.open("rb") as handle:
            return parse_header(handle, str(file))
    except (OSError, FileError):
        return None


def parse_header(handle: IO[bytes], what: str) -> NpyHeader:
    """Read the header of an array, up to its first number; nothing in it is evaluated.

    Raises
    ------
    FileError
        If it is damaged, or that of Python objects or records.

    Examples
    --------
    >>> import io
    >>> kept = io.BytesIO()
    >>> np.save(kept, np.zeros((2, 3)))
    >>> _ = kept.seek(0)
    >>> parse_header(kept, "a.npy").shape
    (2, 3)
    """
    start = handle.read(8)
    length = _LENGTH_BYTES.get((start[6], start[7])) if len(start) == 8 else None
    if length is None or not start.startswith(b"\x93NUMPY"):
        raise FileError(
            f"{what} is not an .npy array; write it with numpy.save", code="file-damaged"
        )
    size = int.from_bytes(handle.read(length), "little")
    text = handle.read(size).decode("latin-1") if size <= _MOST_HEADER else ""
    found = _HEADER.fullmatch(text) if len(text) == size else None
    entries = {} if found is None else found.groupdict()
    said = {name[:-1]: value for name, value in entries.items() if value is not None}
    if "'|O'" in text or said.get("dtype", "").strip("<>|=") == "O":
        raise FileError(
            f"{what} holds Python objects, which are never unpickled; save numbers",
            code="file-objects",
        )
    try:
        shape = tuple(int(part.strip().rstrip("L")) for part in _parts(said["shape"]))
        dtype = np.dtype(said["dtype"])
        in_rows = said["fortran"] == "False"
    except (KeyError, TypeError, ValueError):
        shape, dtype, in_rows = (), np.dtype("V"), False
    possible = len(shape) <= _MOST_AXES and max(shape, default=0) < 2**63
    if found is None or dtype == np.dtype("V") or not possible:
        raise FileError(
            f"{what}: the header is damaged, or not that of a plain array; write it again with "
            "numpy.save",
            code="file-damaged",
        )
    return NpyHeader(shape, dtype, in_rows, 8 + length + size)


def _parts(shape: str) -> list[str]:
    """Return the lengths in a shape; the comma after the last is no length."""
    parts = shape.split(",")
    return parts[:-1] if not parts[-1].strip() else parts


def require_size(header: NpyHeader, stored: int, what: str) -> None:
    """Raise when an array would need more bytes than are stored."""
    if stored < header.offset + header.n_bytes:
        shape = " x ".join(map(str, header.shape)) or "1"
        raise FileError(
            f"{what} is cut short: {shape} numbers of type {header.dtype} do not fit in "
            f"{stored:,} bytes; write it again",
            code="file-damaged",
        )


def map_npy(file: Path) -> NDArray[Any]:
    """Return the array of a .npy file as a read-only map, which takes no memory."""
    with file.open("rb") as handle:
        header = parse_header(handle, str(file))
        require_size(header, file.stat().st_size, str(file))
        if not header.n_bytes:
            return np.empty(header.shape, header.dtype)
        order: Any = "C" if header.in_rows else "F"
        return np.memmap(handle, header.dtype, "r", header.offset, header.shape, order)


def read_npy(handle: IO[bytes], stored: int, what: str) -> NDArray[Any]:
    """Read an array of so many bytes, header and all, from a stream."""
    header = parse_header(handle, what)
    require_size(header, stored, what)
    data = bytearray()  # bit by bit: no memory is taken for bytes that are only promised
    while len(data) < header.n_bytes:
        block = handle.read(min(2**20, header.n_bytes - len(data)))
        if not block:
            raise FileError(f"{what} is cut short; write it again", code="file-damaged")
        data += block
    if not data:
        return np.empty(header.shape, header.dtype)
    flat: NDArray[Any] = np.frombuffer(data, header.dtype, math.prod(header.shape))
    return flat.reshape(header.shape, order="C" if header.in_rows else "F")


def require_npy(file: Path, *, vector: bool = False) -> NpyHeader:
    """Return the header of a .npy file whose rows can be read one after the other.

    A row may be one number where a ``vector`` will do.

    Raises
    ------
    FileError
        If it is of another type, or cut short.
    """
    header = npy_header(file)
    if header is None or not (header.is_matrix or (vector and header.is_vector)):
        raise FileError(f"{file} is not a plain .npy matrix stored row by row", code="file-damaged")
    if file.stat().st_size < header.offset + header.shape[0] * header.row_bytes:
        raise FileError(
            f"{file} is cut short: it should hold {header.shape[0]} rows; write it again",
            code="file-damaged",
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
    header = require_npy(file, vector=True)
    width = math.prod(header.shape[1:])
    native = header.dtype.newbyteorder("=")
    with file.open("rb") as handle:
        handle.seek(header.offset + start * header.row_bytes)
        for first in range(start, stop, step):
            rows = min(step, stop - first)
            block = np.fromfile(handle, dtype=header.dtype, count=rows * width)
            if len(block) < rows * width:
                raise FileError(
                    f"{file} became shorter while it was read; start again", code="file-changed"
                )
            yield block.reshape(rows, *header.shape[1:]).astype(native, copy=False)


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
    headers = [require_npy(file, vector=True) for file in files]
    rows = sum(header.shape[0] for header in headers)
    with target.open("wb") as writing:
        write_npy_header(writing, (rows, *headers[0].shape[1:]), headers[0].dtype)
        for file, header in zip(files, headers, strict=True):
            with file.open("rb") as reading:
                reading.seek(header.offset)
                shutil.copyfileobj(reading, writing, 2**20)

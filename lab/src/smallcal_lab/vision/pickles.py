"""The pickles of CIFAR, read so that no file can do harm.

A pickle is a program. Those of CIFAR use little of what it may do: dictionaries, lists, numbers,
bytes and NumPy arrays of numbers. Only these are made here; arrays by functions of our own, so
that not even NumPy's constructors are called with what a file says. Whatever else a file names is
refused.
"""

from __future__ import annotations

import math
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from smallcal.data.shown import one_line
from smallcal.errors import FileError

#: CIFAR's largest file has 155 MB.
MAX_BYTES = 1 << 30

_MODULES = ("numpy", "numpy.core", "numpy._core")


class _Kind:
    """What a file says of the type of an array: a number's kind, size and order of bytes."""

    __slots__ = ("code", "order")

    def __init__(self, code: object) -> None:
        self.code, self.order = _text(code), "="

    def __setstate__(self, state: Any) -> None:
        self.order = _text(state[1])

    def made(self) -> np.dtype[Any]:
        number = self.code[:1] in "iufb" and self.code[1:].isdigit()
        if not number or self.order not in ("|", "<", ">", "="):
            raise ValueError(f"an array of {self.code!r}, which are not numbers")
        return np.dtype(self.order + self.code)


class _Array:
    """An array as a file builds it: empty first, then filled."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: np.ndarray[Any, Any] = np.empty(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, raw = state
        self.values = _filled(raw, kind, shape, by_columns=bool(by_columns))


def _filled(raw: Any, kind: Any, shape: Any, *, by_columns: bool) -> np.ndarray[Any, Any]:
    if not isinstance(kind, _Kind) or not isinstance(raw, bytes | bytearray):
        raise ValueError("an array that is not stored as numbers")
    sizes = tuple(int(size) for size in shape)
    dtype = kind.made()
    if min(sizes, default=0) < 0 or math.prod(sizes) * dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {sizes} with {len(raw):,} bytes")
    return np.frombuffer(raw, dtype).reshape(sizes, order="F" if by_columns else "C")


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _encoded(text: object, how: object) -> bytes:
    """Return bytes that Python 3 wrote for Python 2, as text."""
    if not isinstance(text, str) or _text(how) not in ("latin1", "latin-1"):
        raise ValueError("bytes in an unknown form")
    return text.encode("latin-1")


def _from_buffer(raw: Any, kind: Any, shape: Any, order: Any) -> _Array:
    made = _Array()
    made.values = _filled(raw, kind, shape, by_columns=_text(order) == "F")
    return made


class _Reader(pickle._Unpickler):
    """An unpickler that knows six names.

    The one in Python and not the one in C, which a file of ten bytes can make reserve gigabytes
    (its memo is an array as long as the largest number in the file).
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name; a new function each time, which a file may spoil."""
        stem, _, last = module.rpartition(".")
        known: dict[str, Callable[..., Any]] = {}
        if module == "_codecs":
            known = {"encode": lambda text, how: _encoded(text, how)}
        elif module == "numpy":
            known = {"dtype": lambda code, *_: _Kind(code), "ndarray": lambda: None}
        elif stem in _MODULES and last == "multiarray":
            known = {
                "_reconstruct": lambda *_: _Array(),
                "scalar": lambda kind, raw: _filled(raw, kind, (), by_columns=False).item(),
            }
        elif stem in _MODULES and last == "numeric":
            known = {"_frombuffer": lambda *given: _from_buffer(*given)}
        if name not in known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no such file needs")
        return known[name]


def read_batch(file: Path) -> dict[str, Any]:
    """Return the dictionary in a pickle of CIFAR: lists, numbers, bytes and arrays by name.

    Raises
    ------
    FileError
        If the file cannot be read, or is anything else; nothing that it says is run.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "test"
    >>> _ = file.write_bytes(pickle.dumps({"data": np.eye(2, dtype=np.uint8), "labels": [3, 8]}))
    >>> read_batch(file)["data"].tolist()
    [[1, 0], [0, 1]]
    >>> _ = file.write_bytes(pickle.dumps(print))
    >>> read_batch(file)
    Traceback (most recent call last):
    ...
    smallcal.errors.FileError: ... is not a batch of CIFAR: it asks for builtins.print, ...
    """
    try:
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            raise FileError(f"{file} is not a batch of CIFAR: no file, or over {MAX_BYTES:,} bytes")
        with file.open("rb") as stream:
            found = _Reader(stream, encoding="bytes").load()
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror or error}") from None
    except FileError:
        raise
    except _WRONG as error:
        why = one_line(error)[:200] or "it ends too early"
        raise FileError(f"{file} is not a batch of CIFAR: {why}") from None
    if not isinstance(found, dict):
        raise FileError(f"{file} is not a batch of CIFAR: it does not hold a dictionary")
    return {
        _text(key): value.values if isinstance(value, _Array) else value
        for key, value in found.items()
    }


#: What a damaged or hostile pickle makes the reader raise.
_WRONG = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError),
    *(ImportError, MemoryError, OverflowError, RecursionError, AssertionError, struct.error),
)

"""One process at a time in a folder.

The operating system holds the lock and lets go of it when the process ends, however it ends. So no
lock outlives its process, and none is taken for a live one because its number was given anew.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from smallcal.errors import FileError, InputError
from smallcal.io.atomic import claim as _claim

FILE_NAME = ".lock"


@contextmanager
def alone_in(
    folder: Path, *, what: str = "this run", instead: str = "another folder with --out"
) -> Iterator[bool]:
    """Hold a folder's lock; give whether that is certain: some file systems have no locks.

    ``what`` and ``instead`` are words of the error: what is being made there, and what to name
    so that it is made elsewhere.

    Raises
    ------
    InputError
        If another process holds it.

    Examples
    --------
    >>> import tempfile
    >>> with alone_in(Path(tempfile.mkdtemp())) as certain:
    ...     certain
    True
    """
    file = folder / FILE_NAME
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise FileError(f"cannot write to {folder}: {error.strerror or error}") from None
    try:
        yield _claimed(handle, folder, what, instead)
    finally:
        # The file stays: were it removed, a third process could lock a file that has no name.
        os.close(handle)


def _claimed(handle: int, folder: Path, what: str, instead: str) -> bool:
    try:
        _claim(handle)
    except (BlockingIOError, PermissionError):
        raise InputError(
            f"another process is at work on {what} ({_holder(folder)}); wait for it, or name "
            f"{instead}"
        ) from None
    except OSError:
        return False  # no locks here: work may be done twice, but each part is written whole
    os.ftruncate(handle, 0)
    os.write(handle, f"process {os.getpid()} on {platform.node()}".encode())
    return True


def _holder(folder: Path) -> str:
    """Return who holds the lock, as far as can be read."""
    try:
        return (folder / FILE_NAME).read_text(encoding="utf-8") or "it has just begun"
    except (OSError, UnicodeDecodeError):
        return "which cannot be read"

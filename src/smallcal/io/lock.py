"""One process at a time: in a folder, or for a file that is read and replaced.

The operating system holds the lock and lets go of it when the process ends, however it ends. So no
lock outlives its process, and none is taken for a live one because its number was given anew. The
file that is locked stays: were it removed, a third process could lock a file that has no name.
"""

from __future__ import annotations

import os
import platform
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from smallcal.errors import FileError, InputError, file_errors
from smallcal.io.atomic import behind_links, is_special

FILE_NAME = ".lock"

#: Seconds to wait for a file that another process holds, and between two tries.
PATIENCE = 60.0
_PAUSE = 0.02

#: What a folder's lock begins with.
_HOLDER = "process "

#: Files that are open here. A process that this one starts would hold their locks, too, and keep
#: them when this one is killed.
_OPEN: set[int] = set()


def _let_go() -> None:
    while _OPEN:
        os.close(_OPEN.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


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
    with _opened(folder / FILE_NAME, folder) as handle:
        _require_lock(handle, folder / FILE_NAME)
        try:
            claimed = _claimed(handle)
        except OSError:
            claimed = None  # no locks here: work may be done twice, but each part is written whole
        if claimed is False:
            raise InputError.with_options(
                f"another process is working on {what} ({_holder(folder)}); wait for it, or name "
                f"{instead}",
                code="file-busy",
            )
        if claimed:
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            os.write(handle, f"{_HOLDER}{os.getpid()} on {platform.node()}".encode())
        yield bool(claimed)


def _require_lock(handle: int, file: Path) -> None:
    """Raise for a file that has the name of a lock and says something else."""
    regular = stat.S_ISREG(os.fstat(handle).st_mode)
    found = os.read(handle, len(_HOLDER)) if regular else b"?"
    if found and found != _HOLDER.encode():
        raise FileError(f"{file} is not a lock file of smallcal; move it away", code="file-damaged")


def _holder(folder: Path) -> str:
    """Return who holds the lock, as far as can be read."""
    try:
        return (folder / FILE_NAME).read_text(encoding="utf-8") or "it has just started"
    except (OSError, UnicodeDecodeError):
        return "which cannot be read"


@contextmanager
def one_at_a_time(target: str | os.PathLike[str], *, patience: float = PATIENCE) -> Iterator[None]:
    """Let one process after another read and replace a file; a file ``.lock`` beside it stays.

    Not the file itself is locked: a replaced one is another file.

    Raises
    ------
    FileError
        If others hold it for longer than ``patience`` seconds, or the file system has no locks.

    Examples
    --------
    >>> import tempfile
    >>> with one_at_a_time(Path(tempfile.mkdtemp()) / "state.json"):
    ...     pass
    """
    final = behind_links(Path(target))  # whatever it is called, it has one lock
    if is_special(target):
        raise FileError(
            f"{target} is a device or a pipe; name a file that can be replaced", code="file-write"
        )
    if os.path.isdir(final):
        raise FileError(f"{final} is a folder; name a file to write", code="file-write")
    end = time.monotonic() + patience
    with _opened(final.with_name(final.name + FILE_NAME), final) as handle:
        try:
            while not _claimed(handle):
                if time.monotonic() > end:
                    raise FileError(
                        f"other processes kept {final} locked; try again", code="file-busy"
                    )
                time.sleep(_PAUSE)
        except OSError as error:
            raise FileError(
                f"the file system of {final} has no locks ({error.strerror or error}); give each "
                "process its own file",
                code="file-write",
            ) from None
        yield


@contextmanager
def _opened(file: Path, target: Path) -> Iterator[int]:
    with file_errors(f"cannot write to {target}"):
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    _OPEN.add(handle)
    try:
        yield handle
    finally:
        if handle in _OPEN:  # not in a process that was started in between
            _OPEN.remove(handle)
            os.close(handle)


def _claimed(handle: int) -> bool:
    """Lock an open file, and return whether that could be done; raise where there are no locks."""
    from filelock import lock_descriptor  # a tenth of a second, which most commands do not need

    return lock_descriptor(handle, blocking=False)

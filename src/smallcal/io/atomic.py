"""Write files so that a crash, Ctrl-C or a full disk never leaves half of one behind.

A file is replaced whole. A link stays: what it leads to is replaced. A device, a pipe or an open
stream such as ``/dev/stdout`` is no file that could be replaced: bytes are written into it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from smallcal.errors import FileError, file_errors

#: What the name of a temporary file begins with, and how long a suffix it keeps.
_KEPT_STEM, _KEPT_SUFFIX = 40, 20
#: Open streams by other names.
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
#: A chain of more links than this is a loop.
_MOST_LINKS = 40


@contextmanager
def atomic_path(target: str | os.PathLike[str], *, suffix: str | None = None) -> Iterator[Path]:
    """Give a temporary path beside ``target`` and move it there when the block succeeds.

    If the block raises, the temporary file is removed and the old target, if any, is untouched.
    The temporary name keeps the target's suffix, for writers that choose a format by it, or has
    the one that is given.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "a.txt") as path:
    ...     _ = path.write_text("whole")
    >>> (folder / "a.txt").read_text(), len(list(folder.iterdir()))
    ('whole', 1)
    """
    named = Path(target)
    with file_errors(f"cannot write to {named}"):
        mode = _mode(named)
        special = is_special(named)
    if special:
        with _poured(named, suffix) as path:
            yield path
        return
    if mode is not None and stat.S_ISDIR(mode):
        raise FileError(f"{named} is a folder; name a file to write", code="file-write")
    with file_errors(f"cannot write to {named}"):
        final = behind_links(named)
        _require_permission(final)
        before, after = _temporary_name(final, suffix)
        handle, name = tempfile.mkstemp(dir=final.parent, prefix=before, suffix=after)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        settle(temporary, final)
    except OSError as error:
        raise FileError(
            f"cannot write {named}: {error.strerror or error}", code="file-write"
        ) from error
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def settle(made: Path, final: Path) -> None:
    """Let a finished file take the place of another, or a name that is free.

    It gets the permissions of the file that was there, or those any new file gets.
    """
    _require_permission(final)
    mode = _mode(final)
    os.chmod(made, 0o666 & ~_umask() if mode is None else stat.S_IMODE(mode))
    _flush(made)
    os.replace(made, final)


def _require_permission(final: Path) -> None:
    """Raise where a file must not be written to: a rename would not ask."""
    if final.exists() and not os.access(final, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextmanager
def _poured(target: Path, suffix: str | None) -> Iterator[Path]:
    """Give a path in a folder of its own, and copy the file into a device, pipe or stream.

    Some formats are not written from front to back, which a pipe cannot take.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="smallcal-") as folder:
            made = Path(folder) / f"result{target.suffix if suffix is None else suffix}"
            yield made
            with made.open("rb") as reading, _opened(target) as writing:
                shutil.copyfileobj(reading, writing)
    except BrokenPipeError:  # not a failure: who reads has seen enough
        raise
    except OSError as error:
        raise FileError(
            f"cannot write {target}: {error.strerror or error}", code="file-write"
        ) from error


@contextmanager
def _opened(target: Path) -> Iterator[BinaryIO]:
    """Open a device, pipe or stream as it is; one that is gone meanwhile is not made as a file."""
    number = stream_of(target)
    if number is None:
        handle = os.open(target, os.O_WRONLY)
    else:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()  # what was printed before comes before
        handle = os.dup(number)
    with open(handle, "wb") as writing:
        yield writing


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a device, a pipe or an open stream, into which a result is written.

    Raises
    ------
    FileError
        If it is a disk, which would be destroyed.

    Examples
    --------
    >>> is_special(os.devnull), is_special("result.json")
    (True, False)
    """
    if stream_of(path) is not None:
        return True
    mode = None
    with suppress(OSError):
        mode = _mode(Path(path))
    if mode is not None and stat.S_ISBLK(mode):
        raise FileError(f"{path} is a block device; name a file to write", code="file-write")
    return mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def stream_of(path: str | os.PathLike[str]) -> int | None:
    """Return the number of the open stream that a path stands for, or None.

    Opened by its name, a file that a shell redirects to would be written from its beginning.

    Examples
    --------
    >>> stream_of("/dev/stdout"), stream_of("/dev/fd/63"), stream_of("out.json")
    (1, 63, None)
    """
    text = os.path.abspath(path)
    for _ in range(_MOST_LINKS):
        if text in _STREAMS:
            return _STREAMS[text]
        if found := _DESCRIPTOR.fullmatch(text):
            return int(found[1])
        if not os.path.islink(text):
            return None
        text = os.path.normpath(os.path.join(os.path.dirname(text), os.readlink(text)))
    return None


def behind_links(path: Path) -> Path:
    """Return the path itself, or what it leads to if it is a link; that need not be there yet."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else path


def leftovers(files: Iterable[Path]) -> Iterator[Path]:
    """Yield what processes that were killed left of writing these files, and nothing else."""
    folders: dict[Path, set[tuple[str, str]]] = {}
    for file in files:
        folders.setdefault(file.parent, set()).add(_temporary_name(file))
    for folder, names in folders.items():
        for path in list(folder.iterdir()) if folder.is_dir() else ():
            before, _, random = path.name.removesuffix(path.suffix).rpartition("-")
            ours = (f"{before}-", path.suffix) in names and re.fullmatch("[a-z0-9_]{8}", random)
            if ours and path.is_file() and not path.is_symlink():
                yield path


def _temporary_name(final: Path, suffix: str | None = None) -> tuple[str, str]:
    """Return what the name of a temporary file begins and ends with."""
    last = final.suffix if suffix is None else suffix
    kept = last if len(last) <= _KEPT_SUFFIX else ""
    return f".{final.stem[:_KEPT_STEM]}-", kept


def _mode(path: Path) -> int | None:
    """Return type and permissions of what a path leads to; None if there is nothing yet."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _flush(path: Path) -> None:
    """Push the bytes to the disk before the rename, or a power cut could keep an empty file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

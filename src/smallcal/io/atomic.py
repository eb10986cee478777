"""Write files so that a crash, Ctrl-C or a full disk never leaves half of one behind."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from smallcal.errors import FileError

#: Seconds to wait for a file that another process holds, and between two tries.
PATIENCE = 60.0
_PAUSE = 0.02

# The operating system lets go of a lock when its process ends, however it ends.
if sys.platform == "win32":
    import msvcrt

    def claim(handle: int) -> None:
        """Lock an open file, or raise at once if another process holds it."""
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def claim(handle: int) -> None:
        """Lock an open file, or raise at once if another process holds it."""
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


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
    final = Path(target)
    try:
        handle = os.open(final.with_name(final.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise FileError(f"cannot write to {final}: {error.strerror or error}") from None
    try:
        _await(handle, final, time.monotonic() + patience)
        yield
    finally:
        os.close(handle)


def _await(handle: int, final: Path, end: float) -> None:
    while True:
        try:
            return claim(handle)
        except (BlockingIOError, PermissionError):
            if time.monotonic() > end:
                raise FileError(f"other processes kept {final} locked; try again") from None
            time.sleep(_PAUSE)
        except OSError as error:
            raise FileError(
                f"the file system of {final} has no locks ({error.strerror or error}); give each "
                "process a file of its own"
            ) from None


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``target`` and move it there when the block succeeds.

    If the block raises, the temporary file is removed and the old target, if any, is untouched.
    The temporary name keeps the target's suffix, for writers that choose a format by it.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "a.txt") as path:
    ...     _ = path.write_text("whole")
    >>> (folder / "a.txt").read_text(), len(list(folder.iterdir()))
    ('whole', 1)
    """
    final = Path(target)
    if final.is_dir():
        raise FileError(f"{final} is a folder; name a file to write")
    try:
        handle, name = tempfile.mkstemp(
            dir=final.parent, prefix=f".{final.stem[:40]}-", suffix=final.suffix
        )
    except OSError as error:
        raise FileError(f"cannot write to {final}: {error.strerror or error}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        # mkstemp makes private files; a result should have the permissions any new file gets.
        os.chmod(temporary, 0o666 & ~_umask())
        yield temporary
        _flush(temporary)
        os.replace(temporary, final)
    except OSError as error:
        raise FileError(f"cannot write {final}: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


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

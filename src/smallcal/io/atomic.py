"""Write files so that a crash, Ctrl-C or a full disk never leaves half of one behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from smallcal.errors import FileError, file_errors


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
    with file_errors(f"cannot write to {final}"):
        handle, name = tempfile.mkstemp(
            dir=final.parent, prefix=f".{final.stem[:40]}-", suffix=final.suffix
        )
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

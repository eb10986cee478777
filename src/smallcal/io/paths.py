"""What a path names, what may be written there, and whether that is what is read."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path

from smallcal.errors import FileError, InputError, file_errors
from smallcal.io.atomic import behind_links, is_special

PathLike = str | os.PathLike[str]

#: What stands for standard input.
DASH = "-"

_PREFIX = re.compile(r"[A-Za-z0-9_.+-]+")
#: A group of an HDF5 file has a slash in it, which no split has; a split may follow.
_GROUPED = re.compile(r"(.+\.(?:h5|hdf5)):([^:]*/[^:]*(?::[A-Za-z0-9_.+-]+)?)", re.IGNORECASE)


def split_path(path: PathLike) -> tuple[Path, str | None]:
    """Return the file and the split, or group and split, it is asked for.

    Examples
    --------
    >>> split_path("a/cells.npz:val")[1], split_path("a/cells.npz")[1]
    ('val', None)
    >>> split_path("bench.h5:adult/forest:cal")[1]
    'adult/forest:cal'
    """
    text = os.fspath(path)
    grouped = _GROUPED.fullmatch(text)
    # os.path, which does not raise where a name is too long: opening it says so in one line.
    if grouped and not os.path.exists(text):
        return Path(grouped[1]), grouped[2]
    file, colon, prefix = text.rpartition(":")
    typed = Path(file).suffix or file == DASH
    if colon and _PREFIX.fullmatch(prefix) and typed and not os.path.exists(text):
        return Path(file), prefix
    return Path(text), None


def file_sha256(path: PathLike) -> str:
    """Return the fingerprint of a file's bytes."""
    digest = hashlib.sha256()
    with file_errors(f"cannot read {path}"), open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def require_folder(path: PathLike) -> Path:
    """Raise before the work is done if no file can have this path."""
    file = Path(path)
    with file_errors(f"cannot write {file}"):
        if file.is_dir():
            raise FileError(f"{file} is a folder; name a file to write", code="file-write")
        if not is_special(file):
            require_parent(file)
    return file


def require_parent(file: Path) -> None:
    """Raise where the folder of what would be written is not there."""
    folder = behind_links(file).absolute().parent
    with file_errors(f"cannot write {file}"):
        if not folder.is_dir():
            said = file.parent if folder == file.absolute().parent else folder
            raise FileError(
                f"cannot write {file}: the folder {said} does not exist", code="file-missing"
            )


def require_apart(output: PathLike, given: PathLike, *, inside: bool = False) -> None:
    """Raise where a result would be written onto what it is made of, however that is spelt.

    Parameters
    ----------
    output, given : path
        What is written and what is read; ``-`` is read from standard input.
    inside : bool
        Whether what is read may be a folder that is written into.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "d.npz"
    >>> file.touch()
    >>> require_apart(file.with_name("cal.json"), file)
    >>> require_apart(file.parent / "." / "d.npz", file)
    Traceback (most recent call last):
    smallcal.errors.InputError: ...d.npz is an input and would be overwritten; name another output
    """
    read = _status(0 if os.fspath(given) == DASH else given)
    if read is None or (inside and stat.S_ISDIR(read.st_mode)):
        return
    if stat.S_ISDIR(read.st_mode):
        above = map(_status, Path(os.path.realpath(output)).parents)
        if any(one is not None and os.path.samestat(read, one) for one in above):
            raise InputError(
                f"{output} would be written into {given}, which is an input; name another output",
                code="file-overwrites-input",
            )
    elif not stat.S_ISREG(read.st_mode):
        return
    written = _status(output)
    if written is not None and os.path.samestat(read, written):
        raise InputError(
            f"{output} is an input and would be overwritten; name another output",
            code="file-overwrites-input",
        )


def _status(path: int | PathLike) -> os.stat_result | None:
    """Return what the system knows of a path or an open stream; None if there is no such thing."""
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, if need be; what stops that is one line."""
    with file_errors(f"cannot make the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)

"""Whether data fit in memory, asked before they are read; packed files that would grow too far."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from smallcal.errors import FileError

#: What is made of scores takes about so many times their own bytes.
COPIES = 3

#: A packed file is refused when it holds more megabytes than this, or than this variable says, and
#: more than a hundred times its own size.
MOST_UNPACKED = "SMALLCAL_MOST_UNPACKED_MB"
_MEGABYTES = 64
_RATIO = 100


def refuse_bomb(what: str, *, size: int, stored: int) -> None:
    """Raise when a small file unpacks to something enormous.

    Examples
    --------
    >>> refuse_bomb("a.csv.gz", size=10**9, stored=10**6)
    Traceback (most recent call last):
    ...
    smallcal.errors.FileError: a.csv.gz unpacks from 1.0 MB to 1,000 MB or more; it was not read...
    """
    said = os.environ.get(MOST_UNPACKED) or str(_MEGABYTES)
    if not said.isdecimal():
        raise FileError(
            f"{MOST_UNPACKED} must be a number of megabytes; got {said!r}", code="option-format"
        )
    if size > int(said) * 10**6 and size > _RATIO * max(stored, 1):
        raise FileError(
            f"{what} unpacks from {stored / 1e6:.1f} MB to {size / 1e6:,.0f} MB or more; it was "
            f"not read. If you trust it, set {MOST_UNPACKED}={-(-size // 10**6)} or more",
            code="file-too-large",
        )


def free_memory() -> int | None:
    """Return the bytes that are free, or None where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def fits(size: int) -> bool:
    """Whether scores of so many bytes, and what is made of them, fit in memory."""
    free = free_memory()
    return free is None or COPIES * size <= free


def require_memory(size: int, source: str) -> None:
    """Raise when scores of so many bytes would not fit.

    Raises
    ------
    FileError
        That says how much there is, and what to do.
    """
    if not fits(size):
        raise FileError(
            f"{source} needs about {COPIES * size / 1e9:.1f} GB of memory and "
            f"{(free_memory() or 0) / 1e9:.1f} GB are free; take a random sample of its rows (a "
            "few thousand are enough to fit or to compare calibrators)",
            code="file-too-large",
        )

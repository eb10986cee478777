"""Whether data fit in memory, asked before they are read."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from smallcal.errors import FileError

#: What is made of scores takes about so many times their own bytes.
COPIES = 3


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
            "few thousand are enough to fit or to compare calibrators)"
        )

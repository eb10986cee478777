"""What verbs show of a bootstrap: a bar while it works, and how many resamples it drew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from smallcal.cli import terminal
from smallcal.statistics.enough import MOST
from smallcal.statistics.interval import Interval


@contextmanager
def resampling(n_boot: int | None, level: float, seed: int) -> Iterator[dict[str, Any]]:
    """Show a bar while a bootstrap works; what it is told of its resamples is given."""
    with terminal.progress("Resampling", MOST if n_boot is None else n_boot) as advance:
        yield {"n_boot": n_boot, "level": level, "random_state": seed, "advance": advance}


def resamples(rows: Iterable[Interval]) -> str:
    """Say how many resamples are behind intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from smallcal.statistics.interval import interval_of
    >>> resamples(interval_of(0.0, np.zeros(k), unit="samples") for k in (500, 1250))
    '500 to 1,250 resamples'
    """
    drawn = sorted({row.n_boot for row in rows})
    ends = f"{drawn[0]:,} to {drawn[-1]:,}" if len(drawn) > 1 else f"{drawn[0]:,}"
    return f"{ends} resample{'s' if drawn[-1] != 1 else ''}"

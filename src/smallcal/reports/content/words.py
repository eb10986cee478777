"""Numbers and lists as people read them in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smallcal.metrics import METRICS
from smallcal.metrics.debiased import CUTS
from smallcal.reports.content.measure import Difference
from smallcal.statistics.interval import Interval


def with_interval(name: str, row: Interval, *, signed: bool = False) -> str:
    """Return a metric, or with its sign a difference, and its interval if there are resamples.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import numpy as np
    >>> from smallcal.statistics.interval import interval_of
    >>> found = interval_of(0.03, np.array([0.02, 0.04]), unit="samples", level=0.9)
    >>> with_interval("nll", found)
    '3.00 x100 (90 % interval 2.10 to 3.90)'
    >>> with_interval("ece15", replace(found, plain=0.034))
    '3.40 % (debiased 3.00, 90 % interval 2.10 to 3.90)'
    """
    unit = METRICS[name].unit
    value = unit.difference(row.point) if signed else unit.value(row.plain)
    if not row.n_boot:
        return value
    ends = row.ends(unit, signed=signed)
    said = f"{100 * row.level:g} % interval {ends}"
    if name in CUTS and not signed:
        said = f"debiased {unit.number(row.point)}, {said}"
    return f"{value} ({said})"


def changes(rows: Mapping[str, Difference]) -> str:
    """Return some metrics and how much they differ, as a list for people."""
    return listed(
        [
            f"{METRICS[name].title} {with_interval(name, r.row, signed=True)}"
            for name, r in rows.items()
        ]
    )


def listed(words: Sequence[str]) -> str:
    """Return words as a list for people.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last

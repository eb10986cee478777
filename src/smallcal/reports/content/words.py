"""Numbers for people: metrics, intervals and floors as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from smallcal.metrics import METRICS
from smallcal.statistics.interval import Interval


def shown_value(name: str, value: float, *, signed: bool = False) -> str:
    """Return a metric for people: in percent if that is how it is read.

    Examples
    --------
    >>> shown_value("ece15", 0.0312), shown_value("nll", 0.5), shown_value("auroc", float("nan"))
    ('3.12 %', '0.5000', 'undefined')
    """
    if math.isnan(value):
        return "undefined"
    sign = "+" if signed else ""
    return f"{100 * value:{sign}.2f} %" if METRICS[name].percent else f"{value:{sign}.4f}"


def shown_interval(name: str, row: Interval, *, signed: bool = False) -> str:
    """Return an interval for people."""
    if math.isnan(row.low):
        return "undefined"
    low, high = (shown_value(name, v, signed=signed).removesuffix(" %") for v in row)
    return f"{low} to {high}" + (f" ({row.n_undefined} undefined)" if row.n_undefined else "")


def shown_floor(name: str, row: Interval) -> str:
    """Return the noise floor for people, where the metric has one."""
    return "" if row.floor is None else shown_value(name, row.floor)


def with_interval(name: str, row: Interval, *, signed: bool = False) -> str:
    """Return a metric and its interval for people.

    Examples
    --------
    >>> import numpy as np
    >>> from smallcal.statistics.interval import interval_of
    >>> with_interval("ece15", interval_of(0.03, np.array([0.02, 0.04]), unit="samples", level=0.9))
    '3.00 % (90 % interval 2.10 to 3.90)'
    """
    interval = shown_interval(name, row, signed=signed)
    value = shown_value(name, row.point, signed=signed)
    if signed:  # a difference of percentages is in points
        value = value.replace(" %", " points")
    return f"{value} ({100 * row.level:g} % interval {interval})"


def listed(words: Sequence[str]) -> str:
    """Return words as a list for people.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def plain(value: Any) -> Any:
    """Return what JSON can hold: arrays as lists, what is not defined as None.

    Examples
    --------
    >>> plain({"a": (1.0, float("nan"))})
    {'a': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value

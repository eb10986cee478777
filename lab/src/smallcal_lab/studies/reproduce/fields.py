"""What the fields of a reference value may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_WORDS = ("table", "dataset", "backbone", "set", "unit", "kind", "spread_over")
_MAYBE_WORDS = (
    *("method", "metric", "against", "doubt", "note", "resampled", "study", "cells_of"),
    *("paper_method", "paper_metric"),
)
_COUNTS = ("draws", "decimals")
_NUMBERS = ("value", "spread", "ddof")


def fits(name: str, given: Any) -> bool:
    """Return whether a field can have this value; one that nobody knows can have any.

    Examples
    --------
    >>> fits("seeds", [0, 2]), fits("seeds", 0), fits("interval", [0.1])
    (True, False, False)
    """
    if name in _WORDS:
        return isinstance(given, str)
    if name in _COUNTS:
        least = 0 if name == "decimals" else 1
        return _is_whole(given, least) or (given is None and name != "decimals")
    if name in _MAYBE_WORDS:
        return given is None or isinstance(given, str)
    if name in _NUMBERS:
        return given is None or is_number(given)
    return _CHECKS[name](given) if name in _CHECKS else True


def _are_seeds(given: Any) -> bool:
    if isinstance(given, dict):
        return bool(given) and all(one is not None and _are_seeds(one) for one in given.values())
    if isinstance(given, list):
        return bool(given) and all(_is_whole(seed, 0) for seed in given)
    return given is None or _is_whole(given, 1)


def _is_interval(given: Any) -> bool:
    return given is None or (
        isinstance(given, list) and len(given) == 2 and all(map(is_number, given))
    )


def _is_entry(given: Any) -> bool:
    return (
        isinstance(given, dict)
        and isinstance(given.get("method"), str)
        and isinstance(given.get("options", {}), dict)
        and given.keys() <= {"method", "options"}
    )


def _are_numbers(given: Any) -> bool:
    return isinstance(given, list) and all(map(is_number, given))


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "seeds": _are_seeds,
    "budget": lambda given: not isinstance(given, list) and _are_seeds(given),
    "options": lambda given: isinstance(given, dict),
    "interval": _is_interval,
    "other_intervals": lambda given: (
        isinstance(given, dict) and all(map(_is_interval, given.values()))
    ),
    "per_seed": _are_numbers,
    "picks": _are_numbers,
    "entries": lambda given: isinstance(given, list) and all(map(_is_entry, given)),
    "part": lambda given: False,  # told from the others
    "draw": lambda given: False,
}


def _is_whole(given: Any, least: int) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= least


def is_number(given: Any) -> bool:
    """Return whether it is a finite number."""
    return isinstance(given, int | float) and not isinstance(given, bool) and given - given == 0

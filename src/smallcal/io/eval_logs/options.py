"""Options of a row as a log has them: lists of any length, or the tokens that an API shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.errors import FileError

#: Probability that is left, at least, to all options that are not shown: APIs round.
_LEAST_LEFT = 1e-6
#: Log-probabilities whose sum of probabilities is larger are no probabilities of one token.
_MOST_TOTAL = 1.01

#: The options, one row per sample, their names if they have any, and what to say of them.
Options = tuple[NDArray[np.float64], tuple[str, ...] | None, tuple[str, ...]]


def is_shown(value: Any) -> bool:
    """Whether a field maps tokens to log-probabilities, as an object or as an API's list."""
    if isinstance(value, dict):
        return True
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def padded(rows: Sequence[Any], where: str) -> Options:
    """Return lists of numbers as a matrix; a row with fewer options is masked by minus infinity.

    Examples
    --------
    >>> padded([[1.0, 2.0, 0.5], [3.0, 1.0]], "a.jsonl")[0].tolist()
    [[1.0, 2.0, 0.5], [3.0, 1.0, -inf]]
    """
    lists = [_numbers(row, number, where) for number, row in enumerate(rows, 1)]
    width, fewest = max(map(len, lists)), min(map(len, lists))
    if fewest < 2:
        row = next(i for i, one in enumerate(lists, 1) if len(one) == fewest)
        raise FileError(
            f"{where}: sample {row} has {fewest} options; it needs at least two",
            code="too-few-options",
        )
    matrix = np.full((len(lists), width), -np.inf)
    for place, numbers in zip(matrix, lists, strict=True):
        place[: len(numbers)] = numbers
    short = sum(len(numbers) < width for numbers in lists)
    note = f"{where}: {short:,} of {len(lists):,} samples have fewer than {width} options"
    return matrix, None, (f"{note}; the missing ones get probability 0",) if short else ()


def _numbers(row: Any, number: int, where: str) -> list[float]:
    try:
        found = [float(value) for value in row]
    except (TypeError, ValueError):
        raise FileError(
            f"{where}: sample {number} must be a list of numbers", code="file-value"
        ) from None
    odd = [value for value in found if not math.isfinite(value)]
    if odd:
        raise FileError(
            f"{where}: sample {number} has an option with the value {odd[0]:g}; values must be "
            "finite, and missing options left out",
            code="file-value",
        )
    return found


def shown(
    rows: Sequence[Any], options: Sequence[str] | None, labels: Sequence[Any] | None, where: str
) -> Options:
    """Return the log-probabilities of options from the tokens that were shown for each row.

    An option that is not shown is at most as probable as the last one shown, and all that are not
    shown share what the shown ones leave: it gets the smaller of the two.

    Examples
    --------
    >>> rows = [{"A": -0.1, "B": -3.0}, {"B": -0.7, "A": -0.8}]
    >>> matrix, names, notes = shown(rows, ("A", "B", "C"), None, "a.jsonl")
    >>> matrix.round(2).tolist()
    [[-0.1, -3.0, -3.09], [-0.8, -0.7, -2.92]]
    >>> notes[0].partition(";")[0]
    'a.jsonl: 2 of 6 log-probabilities are not shown'
    """
    tables = [_table(row, number, where) for number, row in enumerate(rows, 1)]
    names = tuple(options or _names(tables, labels, raw=any(isinstance(r, list) for r in rows)))
    if len(names) < 2:
        raise FileError.with_options(
            f"{where}: there must be at least two options; found {', '.join(names) or 'none'}. "
            "Name them with --columns A,B,...",
            code="too-few-options",
        )
    matrix = np.array([_row(table, names) for table in tables])
    hidden = sum(name not in table for table in tables for name in names)
    empty = sum(not any(name in table for name in names) for table in tables)
    notes = []
    if options is None:
        notes.append(
            f"{where}: the options are {', '.join(names[:8])} (to choose others, use --columns)"
        )
    if hidden:
        notes.append(
            f"{where}: {hidden:,} of {matrix.size:,} log-probabilities are not shown; each is "
            "set to the smallest one shown, or to an equal share of the remaining probability, "
            "whichever is smaller"
        )
    if empty:
        notes.append(f"{where}: {empty:,} of {len(tables):,} samples show none of the options")
    return matrix, names, tuple(notes)


def _table(row: Any, number: int, where: str) -> dict[str, float]:
    """Return what was shown; tokens that differ by blanks around them are one option."""
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(row, dict):
        pairs = row.items()
    elif isinstance(row, list) and all(isinstance(one, dict) for one in row):
        pairs = ((one.get("token"), one.get("logprob")) for one in row)
    else:
        raise FileError(
            f"{where}: sample {number} must map options to log-probabilities", code="file-value"
        )
    found: dict[str, float] = {}
    for token, value in pairs:
        number_ok = isinstance(value, int | float) and not isinstance(value, bool)
        if not isinstance(token, str) or not number_ok or not math.isfinite(value):
            raise FileError(
                f"{where}: sample {number}: {str(token)[:40]!r} has the log-probability {value!r}; "
                "it must be a finite number",
                code="file-value",
            )
        name = token.strip() or token
        found[name] = float(np.logaddexp(found.get(name, -np.inf), value))
    return found


def _names(
    tables: Sequence[Mapping[str, float]], labels: Sequence[Any] | None, *, raw: bool
) -> list[str]:
    """Return the options: all that occur; of an API's tokens, those that labels are called."""
    if raw and labels is not None and all(isinstance(label, str) for label in labels):
        found = sorted({str(label).strip() for label in labels})
        if all(len(name) == 1 and "A" <= name <= "Z" for name in found):
            return [chr(code) for code in range(ord("A"), ord(found[-1]) + 1)]
        return found
    return sorted({name for table in tables for name in table})


def _row(table: Mapping[str, float], names: Sequence[str]) -> list[float]:
    missing = sum(name not in table for name in names)
    if not missing:
        return [table[name] for name in names]
    smallest = min(table.values(), default=0.0)
    left = 1.0 - sum(math.exp(min(value, 1.0)) for value in table.values())
    if left >= 1 - _MOST_TOTAL:  # else these are no probabilities, and nothing is left to share
        smallest = min(smallest, math.log(max(left, _LEAST_LEFT) / missing))
    return [table.get(name, smallest) for name in names]

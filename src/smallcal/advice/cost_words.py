"""Costs as they are typed: ``miss=100,review=5``, or the name of a file with a matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from smallcal.advice.costs import NAMED, Costs, row_order
from smallcal.data.names import read_header
from smallcal.errors import InputError, choose
from smallcal.io.readers import explained, require_bytes, suffix_of
from smallcal.io.text import read_matrix

#: File types that hold a matrix with names, and what stands between its numbers.
_SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}


def costs_of(text: str) -> Costs:
    """Return the costs that a text names, or that the file of this name holds.

    Parameters
    ----------
    text : str
        ``miss=100,review=5``, or a ``.csv`` or ``.tsv`` file: its first line names the true
        classes, each further line begins with the name of a decision, and ``review`` is handing
        over.

    Examples
    --------
    >>> costs_of("miss=100, review=5").to_dict()
    {'miss': 100.0, 'review': 5.0}
    """
    separator = _SEPARATORS.get(suffix_of(Path(text)))
    if separator is None or ("=" in text and not Path(text).exists()):
        return _named(text)
    return _of_file(Path(text), separator)


def _named(text: str) -> Costs:
    given: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not name or not value:
            raise InputError(
                f"{text!r} must look like miss=100,review=5, or be a .csv or .tsv file with a "
                "matrix of costs",
                code="costs-invalid",
            )
        name = name.replace("-", "_")
        if name not in NAMED:
            raise InputError(
                f"{text!r}: unknown cost {name!r}; {choose(name, NAMED)}", code="costs-invalid"
            )
        if name in given:
            raise InputError(f"{text!r} names {name} twice", code="costs-invalid")
        try:
            given[name] = float(value)
        except ValueError:
            raise InputError(
                f"{text!r}: {name} must be a number; got {value!r}", code="costs-invalid"
            ) from None
    return Costs(**given)


def _of_file(file: Path, separator: str) -> Costs:
    with explained(file):
        require_bytes(file)
        found = read_matrix(file, separator=separator)
    n, (rows, columns) = len(found.columns), found.values.shape
    if rows not in (n, n + 1):
        raise InputError(
            f"{file} has {rows} rows and {columns} columns of costs; it must have a column for "
            "each true class, and a row for each decision: each class, and review if there is one",
            code="costs-invalid",
        )
    try:
        order = row_order(found.rows, found.columns)
        # Classes that are called 0, 1, 2, ... are columns, and have no names.
        return Costs(found.values[order], classes=read_header(found.columns).names)
    except InputError as error:
        raise error.about(file) from None

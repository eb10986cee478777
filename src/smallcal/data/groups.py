"""Groups of samples: which kind of question, site, language or customer each one belongs to.

A group is known by its name, a text. Numbers are named by their digits, so that 3, 3.0 and "3"
are one group; what is missing (None, NaN, "") belongs to no group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.checks import IntArray, as_numpy
from smallcal.errors import InputError

#: The code of a sample whose group is missing or unknown.
UNKNOWN = -1

#: How what stands for a missing value writes itself, NumPy's and pandas' own among them.
_MISSING = ("nan", "<NA>", "NaT")


def as_groups(values: object, *, n: int | None = None, name: str = "groups") -> NDArray[np.str_]:
    """Return the name of each sample's group, "" where there is none.

    Examples
    --------
    >>> as_groups([3, 3.0, float("nan")]).tolist(), as_groups(["a", None]).tolist()
    (['3', '3', ''], ['a', ''])
    """
    array = _column(values, name=name)
    if n is not None and len(array) != n:
        raise InputError(
            f"{name} must have one entry per row: {n} rows, {len(array)} {name}", code="rows-differ"
        )
    kind = array.dtype.kind
    if kind == "U":
        return array
    if kind == "S":
        return np.char.decode(array, "utf-8")
    if kind in "iub":
        return array.astype(str)
    return np.array([_name(value, name) for value in array.tolist()], dtype=str).reshape(-1)


def _column(values: object, *, name: str) -> NDArray[Any]:
    if isinstance(values, list | tuple):  # where names and None stand together, NumPy guesses
        values = np.array(values, dtype=object) if None in values else values
    array = as_numpy(getattr(values, "to_numpy", lambda: values)(), name=name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "OUSiubf":
        raise InputError(
            f"{name} must be one name or number per row; got shape {array.shape}, {array.dtype}",
            code="array-shape",
        )
    return array


def _name(value: object, name: str) -> str:
    if isinstance(value, str):
        return value
    if value is None or str(value) in _MISSING:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int | bool):
        return str(value)
    raise InputError(
        f"{name} must be one name or number per row; got {type(value).__name__}", code="option-type"
    )


def as_clusters(values: object, *, n: int) -> IntArray:
    """Return the cluster of each sample as a number; every sample must have one.

    Examples
    --------
    >>> as_clusters(["b", "a", "b"], n=3).tolist()
    [0, 1, 0]
    """
    found = as_groups(values, n=n, name="clusters")
    if len(missing := np.flatnonzero(found == "")):
        raise InputError(
            f"clusters: {len(missing):,} of {n:,} rows have none, row {missing[0]} first; a row "
            "that belongs to no other needs an id of its own",
            code="clusters-invalid",
        )
    names = tuple(dict.fromkeys(found.tolist()))
    if len(names) < 2 <= n:
        raise InputError(
            f"clusters: all {n:,} rows are in one; at least two are needed", code="clusters-invalid"
        )
    return group_codes(found, names)


def group_names(groups: NDArray[np.str_]) -> tuple[str, ...]:
    """Return the names of the groups there are, sorted.

    Examples
    --------
    >>> group_names(np.array(["b", "", "a", "b"]))
    ('a', 'b')
    """
    return tuple(sorted({*groups.tolist()} - {""}))


def group_codes(groups: NDArray[np.str_], names: Sequence[str]) -> IntArray:
    """Return the place of each group among some names, -1 for those that are not among them.

    Examples
    --------
    >>> group_codes(np.array(["b", "c", "a", ""]), ("b", "a")).tolist()
    [0, -1, 1, -1]
    """
    # A dictionary: sorting a million texts takes seconds.
    places = {name: i for i, name in enumerate(names)}
    found = (places.get(one, UNKNOWN) for one in groups.tolist())
    return np.fromiter(found, dtype=np.int64, count=len(groups))

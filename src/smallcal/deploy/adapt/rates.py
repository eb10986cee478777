"""Frequencies of classes as people give them: an array, a mapping, or a file; checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from smallcal import io
from smallcal.data.checks import FloatArray, as_numpy
from smallcal.data.shown import visible
from smallcal.errors import FileError, InputError, did_you_mean

#: How far from 1 rates may sum to: people round them.
_ROUNDING = 0.01

#: Names that are listed in an error.
_SOME = 5


def rates_of(rates: object, names: Sequence[str]) -> FloatArray:
    """Return the rate of each class, which sum to 1 exactly.

    Examples
    --------
    >>> rates_of({"spam": 0.02, "ham": 0.98}, ["ham", "spam"]).tolist()
    [0.98, 0.02]
    """
    if isinstance(rates, Mapping):
        rates = _in_order({str(name): value for name, value in rates.items()}, names)
    try:
        found = as_numpy(rates, name="rates").astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "rates must be numbers, one for each class", code="rates-invalid"
        ) from None
    if found.shape != (len(names),):
        raise InputError(
            f"rates must have one number for each of the {len(names)} classes; got shape "
            f"{found.shape}",
            code="rates-invalid",
        )
    wrong = np.flatnonzero(~((found > 0) & (found <= 1)))
    if len(wrong):
        name, value = visible(names[wrong[0]]), found[wrong[0]]
        raise InputError(
            f"rates must be above 0 and at most 1; that of class {name} is {value:g}. A class that "
            "never comes gets a small rate",
            code="rates-invalid",
        )
    total = float(found.sum())
    if abs(total - 1) > _ROUNDING:
        raise InputError(
            f"rates must sum to 1; they sum to {total:.4g}. Divide them by that",
            code="rates-invalid",
        )
    return np.asarray(found / total)


def _in_order(rates: Mapping[str, object], names: Sequence[str]) -> list[object]:
    unknown = [name for name in rates if name not in names]
    missing = [name for name in names if name not in rates]
    if unknown:
        hint = did_you_mean(unknown[0], names)
        text = f"rates name classes that the calibrator does not have: {_listed(unknown)}"
        raise InputError(f"{text}; {hint}" if hint else text, code="rates-invalid")
    if missing:
        raise InputError(
            f"rates lack {len(missing)} of the {len(names)} classes: {_listed(missing)}",
            code="rates-invalid",
        )
    return [rates[name] for name in names]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
    return ", ".join(map(visible, names[:_SOME])) + more


def read_rates(path: str) -> dict[str, float]:
    r"""Read a table of classes and their rates: columns class and rate, of any kind of table.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "rates.csv"
    >>> _ = file.write_text("class,rate\nham,0.98\nspam,0.02\n")
    >>> read_rates(str(file))
    {'ham': 0.98, 'spam': 0.02}
    """
    try:
        loaded = io.read(path, score="rate", group="class")
    except FileError as error:
        raise FileError(
            f"{error}; rates are a table with the columns class and rate", code="rates-invalid"
        ) from error
    if loaded.groups is None:
        raise FileError(
            f"{path} must have a column class that names the class of each rate", code="file-column"
        )
    classes = loaded.groups.tolist()
    twice = next((name for name in classes if classes.count(name) > 1), None)
    if twice is not None:
        raise FileError(
            f"{path} names class {visible(twice) or 'without a name'} more than once",
            code="rates-invalid",
        )
    return dict(zip(classes, np.asarray(loaded.logits).reshape(-1).tolist(), strict=True))

"""Logits that are finite, but for options that a row does not have: those are minus infinity.

Questions with two and with five options stand in one array: where a row has no such option, its
logit is minus infinity, and its probability is 0 whatever a calibrator does. Inside, such a logit
is :data:`MASKED`, a number so low that its exponential is 0 at every temperature: nothing divides
or multiplies infinities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.shapes import listed_rows
from smallcal.errors import InputError

FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]

#: Logits are squared for the norm statistic; beyond this a float32 row would overflow.
MAX_MAGNITUDE = 1e15
#: What stands for an option that a row does not have; a correction may add to it.
MASKED = -1e16

#: The fewest options of a row.
FEWEST = 2


def is_masked(logits: FloatArray) -> BoolArray:
    """Say which logits are those of options that the row does not have.

    Examples
    --------
    >>> is_masked(np.array([[1.0, -np.inf]])).tolist()
    [[False, True]]
    """
    half = logits.dtype.itemsize < 4  # which cannot hold the bound
    return np.asarray(logits < (np.float32(-MAX_MAGNITUDE) if half else -MAX_MAGNITUDE))


def any_masked(logits: FloatArray) -> bool:
    """Whether some row does not have all options."""
    return bool(logits.size) and float(logits.min()) < -MAX_MAGNITUDE


def filled(logits: FloatArray) -> FloatArray:
    """Return logits in which an option that is not there looks like the least likely one.

    For what reads all columns at once: a matrix cannot leave one out.

    Examples
    --------
    >>> filled(np.array([[3.0, 1.0, -np.inf]])).tolist()
    [[3.0, 1.0, 1.0]]
    """
    if not any_masked(logits):
        return logits
    gone = is_masked(logits)
    lowest = np.where(gone, np.inf, logits).min(axis=1, keepdims=True)
    return np.where(gone, lowest, logits).astype(logits.dtype, copy=False)


def without_masked(proba: FloatArray, logits: FloatArray) -> FloatArray:
    """Return probabilities that are 0 where a row has no such option, and sum to 1 again.

    Examples
    --------
    >>> without_masked(np.array([[0.5, 0.25, 0.25]]), np.array([[1.0, 1.0, MASKED]])).round(3)
    array([[0.667, 0.333, 0.   ]])
    """
    gone = is_masked(logits)
    kept = np.where(gone, 0.0, proba)
    total = np.einsum("ij->i", kept)[:, None]
    alike = ~gone / np.maximum((~gone).sum(axis=1, keepdims=True), 1)
    return np.asarray(np.where(total > 0, kept / np.where(total > 0, total, 1), alike))


def squared_norms(array: FloatArray) -> FloatArray:
    """Return the squared norm of each row, float64, without options that it does not have."""
    return _norms(array)[0]


def _norms(array: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return squared norms, and the rows with numbers that would not go into them."""
    # One fused pass: the norm of a row is in bounds exactly when every entry is.
    norms = np.einsum("ij,ij->i", array, array, dtype=np.float64, casting="same_kind")
    rows = np.flatnonzero(~(norms <= MAX_MAGNITUDE**2))
    if len(rows):
        norms[rows] = _norms_without_masked(array[rows].astype(np.float64))
    return np.asarray(norms), rows


def _norms_without_masked(array: FloatArray) -> FloatArray:
    kept = np.where(is_masked(array), 0.0, array)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.einsum("ij,ij->i", kept, kept))


def checked_logits(
    array: FloatArray, *, name: str, first_row: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Return logits in which minus infinity is :data:`MASKED`, and squared row norms without those.

    Logits that are all finite are returned as they are. ``first_row`` is where this block starts
    in the whole array.

    Raises
    ------
    InputError
        If a number is NaN, plus infinity or huge, or a row has fewer than two options left.

    Examples
    --------
    >>> checked_logits(np.array([[3.0, 4.0, -np.inf]]), name="logits")
    (array([[ 3.e+00,  4.e+00, -1.e+16]]), array([25.]))
    """
    norms, rows = _norms(array)
    return (array, norms) if not len(rows) else _masked(array, norms, name, first_row)


def _masked(
    array: FloatArray, norms: FloatArray, name: str, first_row: int
) -> tuple[FloatArray, FloatArray]:
    """Return the same of logits some of which are not finite."""
    bad = ~(norms <= MAX_MAGNITUDE**2)
    if bool(bad.any()):
        raise bad_rows_error(array, bad, name=name, first_row=first_row)
    gone = is_masked(array)
    few = (~gone).sum(axis=1) < FEWEST
    if bool(few.any()):
        raise InputError(
            f"{name}: {listed_rows(few, first_row)} {'have' if few.sum() > 1 else 'has'} fewer "
            "than two options: minus infinity masks an option, and two must be left",
            code="too-few-options",
        )
    return np.where(gone, array.dtype.type(MASKED), array), norms


def require_finite(array: FloatArray, *, name: str, first_row: int = 0) -> FloatArray:
    """Return squared row norms, or raise naming the rows with NaN, infinite or huge numbers."""
    # One fused pass: the row norm is finite exactly when every entry is finite and not huge.
    norms = np.einsum("ij,ij->i", array, array, dtype=np.float64, casting="same_kind")
    bad = ~(norms <= MAX_MAGNITUDE**2)
    if bool(bad.any()):
        raise bad_rows_error(array, bad, name=name, first_row=first_row)
    return np.asarray(norms)


def bad_rows_error(
    array: FloatArray, bad: BoolArray, *, name: str, first_row: int = 0
) -> InputError:
    """Build the error for rows whose numbers are not finite or too large to square."""
    row = int(np.flatnonzero(bad)[0])
    numbers = array[row].astype(np.float64)
    wrong = ~(np.abs(numbers) <= MAX_MAGNITUDE)
    worse = wrong & ~is_masked(numbers)  # those that no mask explains
    column = int(np.argmax(worse if bool(worse.any()) else wrong))
    value = float(array[row, column])
    if np.isfinite(value):
        must, fix = f"smaller than {MAX_MAGNITUDE:g} in size", "Minus infinity masks a class"
    elif np.isnan(value):
        must, fix = "finite", "Drop those rows, or find out why the model gives NaN"
    else:
        must, fix = "finite", "Minus infinity masks a class; nothing else may be infinite"
    return InputError(
        f"{name} must be {must}; {int(bad.sum())} of {len(bad)} rows are not: "
        f"{listed_rows(bad, first_row)} (column {column} of the first is {value:g}). {fix}",
        code="not-finite",
    )


def require_present(logits: FloatArray, labels: NDArray[np.int64]) -> None:
    """Raise where a label names an option that its row does not have."""
    gone = is_masked(logits[np.arange(len(labels)), labels])
    if bool(gone.any()):
        raise _absent_label(labels, gone)


def _absent_label(labels: NDArray[np.int64], gone: BoolArray) -> InputError:
    first, verb = int(np.argmax(gone)), "do" if gone.sum() > 1 else "does"
    return InputError(
        f"labels must name options that the row has; {listed_rows(gone)} {verb} not (row {first} "
        f"has no option {int(labels[first])})",
        code="labels-unknown",
    )

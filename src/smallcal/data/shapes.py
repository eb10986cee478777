"""Shapes that are nearly right: what to do about them, in Python and in a file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.errors import InputError

_SHOWN_ROWS = 5


def shape_advice(array: NDArray[Any]) -> dict[str, str]:
    """Return what to do about a shape that is not (n, C), in Python and in a file."""
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
        what = ". For one number per row (a probability or margin of class 1 of two), use "
        return {"python": f"{what}input='score'", "shell": f"{what}--input score"}
    if array.ndim > 2:
        return {
            "python": f". Flatten the leading axes with .reshape(-1, {array.shape[-1]})",
            "shell": f". Flatten the leading axes: {array.shape[-1]} columns, the rest rows",
        }
    return {}


def one_hot_codes(
    array: NDArray[Any], *, n: int, n_classes: int, name: str = "labels"
) -> NDArray[np.int64]:
    """Return the column of the 1 in each row of one-hot labels; other matrices are refused.

    Examples
    --------
    >>> one_hot_codes(np.array([[0, 1, 0], [1, 0, 0]]), n=2, n_classes=3).tolist()
    [1, 0]
    """
    if array.dtype.kind not in "fiub" or array.shape != (n, n_classes):
        raise InputError(
            f"{name} must have shape ({n},), the column of each row's class, or ({n}, "
            f"{n_classes}), one-hot; got {array.shape}, {array.dtype}",
            code="labels-not-one-per-row",
        )
    ones = (array == 1).sum(axis=1)
    if not bool(((array == 0) | (array == 1)).all()):
        raise InputError(
            f"{name} is a matrix with numbers other than 0 and 1; each row needs one class: ",
            python=f"{name}.argmax(axis=1) takes the largest",
            shell="save the column number of the largest",
            code="labels-not-one-per-row",
        )
    if bool((ones != 1).any()):
        row = int(np.argmax(ones != 1))
        raise InputError(
            f"{name} are multilabel, a 0/1 matrix with several 1s or none in "
            f"{listed_rows(ones != 1)} (row {row} has {int(ones[row])}); a calibrator needs one "
            "class per row. Calibrate each label by itself, as two classes: ",
            python=f"np.column_stack([np.zeros(len(z)), z[:, j]]) with {name}[:, j]",
            shell="a file with the columns [0, z] of its logit z, and its 0/1 labels",
            code="labels-not-one-per-row",
        )
    return np.asarray(array.argmax(axis=1), dtype=np.int64)


def listed_rows(bad: NDArray[np.bool_], first_row: int = 0) -> str:
    """Say which rows, the first few by number: 'rows 3, 7, 12 and 40 more'."""
    rows = np.flatnonzero(bad)
    shown = ", ".join(str(int(row) + first_row) for row in rows[:_SHOWN_ROWS])
    more = f" and {len(rows) - _SHOWN_ROWS} more" if len(rows) > _SHOWN_ROWS else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"

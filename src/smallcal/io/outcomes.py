"""One number per row and what came of it, as files have them: columns, text, judgements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.shapes import listed_rows
from smallcal.errors import FileError

#: The outcome of rows that have none: ties of judgements.
NONE = -100

_YES = ("1", "1.0", "true", "t", "yes", "y", "correct", "right", "pass", "passed", "success")
_NO = ("0", "0.0", "false", "f", "no", "n", "incorrect", "wrong", "fail", "failed", "failure")
#: Who won a comparison of two, as judges write it.
_FIRST = ("a", "model_a", "answer_a", "response_a", "assistant_a", "[[a]]", "first")
_SECOND = ("b", "model_b", "answer_b", "response_b", "assistant_b", "[[b]]", "second")
_TIE = ("tie", "ties", "draw", "[[c]]", "tie (bothbad)", "both_bad", "both", "neither", "equal")
_WON = {**dict.fromkeys(_FIRST, 1), **dict.fromkeys(_SECOND, 0), **dict.fromkeys(_TIE, NONE)}
_SAID = {**dict.fromkeys(_YES, 1), **dict.fromkeys(_NO, 0), str(NONE): NONE}


def one_number(scores: NDArray[Any], *, source: str) -> NDArray[Any]:
    """Return scores of shape (n,); several columns are refused.

    Examples
    --------
    >>> one_number(np.array([[3.0], [1.0]]), source="a.npy").tolist()
    [3.0, 1.0]
    """
    if scores.ndim == 1:
        return scores
    if scores.ndim == 2 and scores.shape[1] == 1:
        return scores[:, 0]
    raise FileError(
        f"{source}: a score is one number per row; got shape {scores.shape}. From predict_proba, "
        "save [:, 1], or use ",
        python="input='logits' or input='probabilities'",
        shell="--input logits or --input probabilities",
        code="array-shape",
    )


def as_outcomes(
    values: NDArray[Any], *, source: str, first_row: int = 0
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return outcomes as 0 and 1, and what to say of them; winners of two count for the first.

    Ties are given the label that means none.

    Examples
    --------
    >>> as_outcomes(np.array(["true", "False"]), source="a.csv")[0].tolist()
    [1, 0]
    >>> as_outcomes(np.array(["model_a", "tie"]), source="a.csv")
    (array([   1, -100]), ('a.csv: 1 of 2 judgements is a tie and has no outcome',))
    """
    array = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if array.ndim != 1:
        raise FileError(
            f"{source}: outcomes must be one per row, 0 or 1; got shape {values.shape}. From "
            "one-hot labels, save the second column",
            code="array-shape",
        )
    if array.dtype.kind == "b":
        return array.astype(np.int64), ()
    if array.dtype.kind in "UOS":
        return _from_text(array, source, first_row)
    numbers = array.astype(np.float64)
    wrong = ~np.isin(numbers, (0.0, 1.0, NONE))
    if bool(wrong.any()):
        raise _refused(array, wrong, source, first_row)
    return numbers.astype(np.int64), ()


def _from_text(
    array: NDArray[Any], source: str, first_row: int
) -> tuple[NDArray[Any], tuple[str, ...]]:
    words = [str(value).strip().lower() for value in array.tolist()]
    judged = set(words) <= {*_WON, str(NONE)}
    table = {**_WON, str(NONE): NONE} if judged else _SAID
    wrong = np.array([word not in table for word in words])
    if bool(wrong.any()):
        raise _refused(array, wrong, source, first_row)
    found = np.array([table[word] for word in words], dtype=np.int64)
    ties = sum(word in _TIE for word in words)
    are = "judgements are ties and have" if ties > 1 else "judgements is a tie and has"
    note = f"{source}: {ties:,} of {len(words):,} {are} no outcome"
    return found, (note,) if ties else ()


def _refused(array: NDArray[Any], wrong: NDArray[Any], source: str, first_row: int) -> FileError:
    row = int(np.argmax(wrong))
    value = array[row]
    shown = repr(str(value)[:40]) if array.dtype.kind in "UOS" else f"{float(value):g}"
    return FileError.with_options(
        f"{source}: outcomes must be 0 or 1 (true or false; a, b or tie of a comparison); "
        f"{listed_rows(wrong, first_row)} {'are' if wrong.sum() > 1 else 'is'} not (row "
        f"{row + first_row} is {shown}). If this is the wrong column, name the right one with "
        "--outcome",
        code="outcomes-not-binary",
    )

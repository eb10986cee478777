"""What a user has, turned into checked arrays; every input error is raised here.

Everything below this door trusts its arrays: two-dimensional finite logits, integer labels
that name a column, probabilities on the simplex. Nothing is guessed from the values: the
caller says whether numbers are logits or probabilities, and is asked where they look otherwise.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from smallcal.data.masks import require_finite
from smallcal.data.names import require_names
from smallcal.data.shapes import listed_rows, one_hot_codes, shape_advice
from smallcal.errors import InputError

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

INPUT_KINDS = ("logits", "probabilities", "score")

#: Probabilities are floored here before the logarithm, so that an exact 0 stays finite.
PROBABILITY_FLOOR = 1e-30

#: The largest seed that every generator takes.
MAX_SEED = 2**32 - 1


def as_numpy(values: object, *, name: str) -> NDArray[Any]:
    """Return ``values`` as an ndarray without copying where possible.

    NumPy arrays, lists, pandas and polars frames, torch tensors (any device, bfloat16
    included) and anything with ``__array__`` are accepted.
    """
    if type(values) is np.ndarray:
        return values
    return _converted(values, name=name)


def _converted(values: Any, *, name: str) -> NDArray[Any]:
    if values is None:
        raise InputError(f"{name} is None; pass an array", code="array-unreadable")
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise InputError(
            f"{name} is a sparse matrix; pass {name}.toarray()", code="array-unreadable"
        )
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        return _from_torch(values)
    if isinstance(values, np.ma.MaskedArray) and bool(np.ma.getmaskarray(values).any()):
        raise InputError(
            f"{name} has masked values; fill or drop those rows first", code="array-unreadable"
        )
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{name} cannot be read as an array: {error}", code="array-unreadable"
        ) from None


def _from_torch(tensor: Any) -> NDArray[Any]:
    host = tensor.detach().cpu()
    try:
        array: NDArray[Any] = host.numpy()
    except TypeError:  # NumPy has no bfloat16; float32 holds every bfloat16 exactly
        array = host.float().numpy()
    return array


def as_scores(values: object, *, input: str | None = None, name: str = "logits") -> FloatArray:
    """Return floating logits of shape (n, C), C >= 2, without checking every value.

    float32 and float64 keep their type; float16, which cannot tell .9999 from 1, becomes float32;
    integers become float64. ``input="probabilities"`` checks the rows and takes the logarithm;
    where nothing is said, rows that look like probabilities are refused. Finiteness is left to
    :func:`smallcal.data.masks.checked_logits`, so that a memory-mapped file is not read twice.
    """
    require_input_kind(input or "logits")
    if input == "score":
        raise InputError("a score needs a calibrator's scale; see smallcal.data.score")
    array = _float_matrix(values, name=name)
    if input is None and (like := probabilities_like(array)):
        raise _looks_like_probabilities(like, name)
    array = _log_probabilities(array, name=name) if input == "probabilities" else array
    return array if array.dtype.itemsize >= 4 else array.astype(np.float32)


def _log_probabilities(array: FloatArray, *, name: str) -> FloatArray:
    require_probabilities(array, name=name, advice="say input='logits', in the fit too")
    wide = array if array.dtype.itemsize == 8 else array.astype(np.float32)
    return np.asarray(np.log(np.maximum(wide, wide.dtype.type(PROBABILITY_FLOOR))))


def require_input_kind(input: str) -> None:
    """Raise unless this is one of the things that numbers may be."""
    if input not in INPUT_KINDS:
        must = f"input must be one of {', '.join(INPUT_KINDS)}; got {input!r}"
        raise InputError(python=must, shell=f"--{must}", code="unknown-choice")


def as_probabilities(values: object, *, name: str = "y_proba") -> FloatArray:
    """Return checked float64 probabilities of shape (n, C)."""
    array = _float_matrix(values, name=name)
    require_probabilities(array, name=name)
    return array.astype(np.float64, copy=False)


def _float_matrix(values: object, *, name: str) -> FloatArray:
    array = as_numpy(values, name=name)
    if array.dtype.kind == "f" and array.ndim == 2 and min(*array.shape, 2) == 2:
        return array if array.dtype.itemsize <= 8 else array.astype(np.float64)
    return _made_matrix(array, name=name)


def _made_matrix(array: NDArray[Any], *, name: str) -> FloatArray:
    if array.dtype.kind not in "fiu":
        what = "ragged rows or mixed types" if array.dtype == object else f"type {array.dtype}"
        raise InputError(f"{name} must hold real numbers; got {what}", code="array-type")
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if array.ndim != 2 or array.shape[1] == 1:
        raise InputError(
            f"{name} must have shape (n, C) with one column per class; got {array.shape}",
            **shape_advice(array),
            code="array-shape",
        )
    if array.shape[0] == 0:
        raise InputError(f"{name} has no rows (shape {array.shape})", code="empty")
    if array.shape[1] == 0:
        raise InputError(f"{name} has no columns (shape {array.shape})", code="empty")
    return array


def require_probabilities(
    array: FloatArray, *, name: str, advice: str = "take their softmax first"
) -> None:
    """Raise :class:`InputError` unless every row lies on the simplex.

    ``advice`` is for numbers that are logits.
    """
    finite = np.asarray(np.isfinite(array).all(axis=1))
    if not bool(finite.all()):
        raise InputError(
            f"{name} must be finite; {listed_rows(~finite)} are not", code="not-finite"
        )
    outside = np.asarray((array.min(axis=1) < -1e-6) | (array.max(axis=1) > 1 + 1e-3))
    if bool(outside.any()):
        row = int(np.argmax(outside))
        raise InputError(
            f"{name} must be probabilities in [0, 1]; {listed_rows(outside)} are not (row {row} "
            f"spans {float(array[row].min()):g} to {float(array[row].max()):g}). If they are "
            "logits, ",
            python=advice,
            shell="say --input logits, in the fit too",
            code="probabilities-range",
        )
    total = array.sum(axis=1, dtype=np.float64)
    # float16 rows of a thousand classes drift by a few per mille; a wrong array is far off.
    slack = 2e-2 if array.dtype.itemsize == 2 else 1e-3
    off = np.abs(total - 1) > slack
    if bool(off.any()):
        row = int(np.argmax(off))
        raise InputError(
            f"every row of {name} must sum to 1; {listed_rows(off)} do not (row {row} sums to "
            f"{float(total[row]):g}). If they are rounded, divide each row by its sum",
            code="probabilities-sum",
        )


def as_features(values: object, *, n: int, name: str = "features") -> FloatArray:
    """Return features as float64 of shape (n, d): finite, one row per sample."""
    array = as_numpy(values, name=name)
    if array.ndim == 1:
        array = array[:, None]
    if array.dtype.kind not in "fiub" or array.ndim != 2 or array.shape[1] == 0:
        raise InputError(
            f"{name} must be numbers of shape (n, d); got shape {array.shape}, {array.dtype}",
            code="array-shape",
        )
    if len(array) != n:
        raise InputError(
            f"{name} must have one row per sample: {n} samples, {len(array)} rows",
            code="rows-differ",
        )
    wide = array.astype(np.float64)
    require_finite(wide, name=name)
    return wide


def as_labels(
    values: object,
    *,
    n: int,
    n_classes: int,
    class_names: Sequence[str] | None = None,
    name: str = "labels",
) -> IntArray:
    """Return labels as integers in 0 .. C-1, one per row.

    Integers, booleans and floats that are whole numbers are taken as column numbers;
    strings are looked up in ``class_names``. A matrix with a single 1 in each row is one-hot.
    """
    array = as_numpy(values, name=name)
    if array.ndim == 2 and array.shape[1] > 1:
        array = one_hot_codes(array, n=n, n_classes=n_classes, name=name)
    if array.dtype.kind not in "iu" or array.shape != (n,):
        array = _label_codes(_column(array, n=n, name=name), class_names=class_names, name=name)
    if array.min() < 0 or array.max() >= n_classes:
        raise _outside(array, n_classes, name=name)
    return array.astype(np.int64, copy=False)


def _outside(codes: IntArray, n_classes: int, *, name: str) -> InputError:
    outside = (codes < 0) | (codes >= n_classes)
    row = int(np.argmax(outside))
    hint = {}
    if int(codes.min()) == 1 and int(codes.max()) == n_classes:
        start = ". They seem to start at 1: "
        hint = {"python": f"{start}pass {name} - 1", "shell": f"{start}take 1 off each"}
    return InputError(
        f"{name} must lie in 0 .. {n_classes - 1} (there are {n_classes} columns); "
        f"{listed_rows(outside)} do not (row {row} is {int(codes[row])})",
        **hint,
        code="labels-out-of-range",
    )


def _column(array: NDArray[Any], *, n: int, name: str) -> NDArray[Any]:
    """Return an array of shape (n,); a single column is one."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"{name} must have shape ({n},); got {array.shape}", code="array-shape")
    if array.shape[0] != n:
        raise InputError(
            f"{name} must have one entry per row: {n} rows, {array.shape[0]} {name}",
            code="rows-differ",
        )
    return array


def _label_codes(array: NDArray[Any], *, class_names: Sequence[str] | None, name: str) -> IntArray:
    kind = array.dtype.kind
    if kind == "O" and not all(isinstance(value, str) for value in array):
        raise InputError(
            f"{name} must be integers or strings; got mixed types, the first entry is {array[0]!r}",
            code="labels-not-integers",
        )
    if kind in "OUS":  # a pandas column of strings holds objects
        return _lookup_names(array.astype(str), class_names=class_names, name=name)
    if kind in "iub":
        return array.astype(np.int64)
    if kind == "f":
        whole = np.isfinite(array) & (array == np.floor(array))
        if not bool(whole.all()):
            row = int(np.argmin(whole))
            raise InputError(
                f"{name} must be whole numbers (the column of the true class); "
                f"{listed_rows(~whole)} are not (row {row} is {float(array[row]):g})",
                code="labels-not-integers",
            )
        return array.astype(np.int64)
    raise InputError(f"{name} must be integers; got type {array.dtype}", code="labels-not-integers")


def _lookup_names(array: NDArray[Any], *, class_names: Sequence[str] | None, name: str) -> IntArray:
    if class_names is None and name == "y_true":  # what measures has no names of classes
        raise InputError(
            f"{name} are strings (the first is {str(array[0])!r}); pass the column number of each "
            "true class instead",
            code="labels-are-names",
        )
    if class_names is None:
        raise InputError(
            f"{name} are strings (the first is {str(array[0])!r}); say which column is which "
            "class with ",
            python="Calibrator(class_names=[...]), or pass column numbers",
            shell="--class-names FILE, one name per line, or save column numbers",
            code="labels-are-names",
        )
    position = {str(label): i for i, label in enumerate(class_names)}
    codes = np.array([position.get(str(label), -1) for label in array], dtype=np.int64)
    unknown = codes < 0
    if bool(unknown.any()):
        row = int(np.argmax(unknown))
        raise InputError(
            f"{name} must be among class_names; {listed_rows(unknown)} are not "
            f"(row {row} is {str(array[row])!r})",
            code="labels-unknown",
        )
    return codes


def as_weight(values: object, *, n: int, name: str = "sample_weight") -> FloatArray:
    """Return sample weights as float64; they must be finite, >= 0 and not all 0."""
    array = as_numpy(values, name=name)
    if array.dtype.kind not in "fiub" or array.shape != (n,):
        raise InputError(
            f"{name} must be {n} numbers; got shape {array.shape}, {array.dtype}",
            code="array-shape",
        )
    weight = array.astype(np.float64)
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bool(bad.any()):
        raise InputError(
            f"{name} must be finite and not negative; {listed_rows(bad)} are not",
            code="weights-invalid",
        )
    if not bool(weight.any()):
        raise InputError(f"{name} is zero everywhere ({n} rows)", code="weights-invalid")
    return weight


def whole_number(
    value: object, name: str, *, least: int = 0, most: int | None = None, why: str = ""
) -> int:
    """Return an option as an int; floats, booleans and numbers out of range are refused.

    ``why`` gives the reason for the bound, where it is not plain.

    Examples
    --------
    >>> whole_number(np.int32(5), "n_folds", least=2)
    5
    >>> whole_number(2.5, "n_folds", least=2)
    Traceback (most recent call last):
    ...
    smallcal.errors.InputError: n_folds must be a whole number of at least 2; got 2.5
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        span = f"of at least {least}" if most is None else f"from {least} to {most}"
        reason = f" ({why})" if why else ""
        raise InputError(
            f"{name} must be a whole number {span}{reason}; got {value!r}", code="option-range"
        )
    return number


def as_class_names(values: object, *, n_classes: int) -> tuple[str, ...]:
    """Return the class names as strings, one per column, without repeats."""
    if isinstance(values, str):
        raise InputError(
            f"class_names must be a list of strings; got the string {values!r}",
            code="class-names-invalid",
        )
    # A list is taken as it is: an array of text would drop a NUL at the end of a name.
    if not isinstance(values, list | tuple):
        values = as_numpy(values, name="class_names").ravel()
    names = tuple(str(value) for value in values)
    if len(names) != n_classes:
        raise InputError(
            f"class_names must have one name per column: {n_classes} columns, {len(names)} names",
            code="class-names-invalid",
        )
    if len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError(
            f"class_names must be different from one another; {repeated!r} repeats",
            code="class-names-invalid",
        )
    require_names(names)
    return names


def refuse_swapped(scores: object, labels: object, *, first: str, second: str) -> None:
    """Raise when the 2-D scores seem to stand where the 1-D labels belong."""
    left = getattr(scores, "ndim", None)
    right = getattr(labels, "ndim", None)
    if left == 1 and right == 2 and getattr(labels, "shape", (0, 0))[1] > 1:
        raise InputError(
            f"{first} is one-dimensional and {second} two-dimensional: the two arguments seem "
            "to be swapped",
            code="arguments-swapped",
        )


def refuse_unfittable(logits: FloatArray, *, least: int, name: str) -> None:
    """Raise when no calibrator could be fitted on these rows."""
    n = len(logits)
    if n < least:
        raise InputError(
            f"{name} has {n} sample{'s' if n != 1 else ''}; fitting needs at least {least} (a few "
            "hundred give a useful calibrator)",
            code="too-few-samples",
        )
    if bool((logits == logits[:, :1]).all()):
        raise InputError(
            f"{name} are constant in every row: no class is preferred, so calibration has no "
            "effect. Check which array was passed",
            code="logits-constant",
        )


#: How many rows are looked at for probabilities, and the fewest that tell beyond doubt.
_LOOKED_AT, _TELLING = 1000, 10


def probabilities_like(logits: FloatArray) -> str:
    """Say how logits look like probabilities, in words; "" where they do not.

    Three rows in four must sum to 1, or 100, but for rounding. Fewer than ten rows may do so by
    chance: they must sum to it exactly, and hold more than 0 and the sum itself.

    Examples
    --------
    >>> probabilities_like(np.array([[0.7, 0.2, 0.1]]))
    'they lie in [0, 1] and sum to 1'
    >>> probabilities_like(np.array([[33.0, 33.0, 33.0]] * 10))
    'they lie in [0, 100] and sum to about 100'
    >>> probabilities_like(np.array([[3.0, -1.0]])), probabilities_like(np.eye(3))
    ('', '')
    """
    first = logits[0]
    return _on_simplex(logits) if 0 <= first.min() <= first.max() <= 100 else ""


def _on_simplex(logits: FloatArray) -> str:
    """Do the same for logits whose first row might be probabilities."""
    rows = logits[:_LOOKED_AT].astype(np.float64)
    top = 100 if rows.max() > 1.001 else 1
    rows /= top
    if not rows.min() >= 0 or rows.max() > 1.001:
        return ""
    off, error = np.abs(rows.sum(axis=1) - 1), np.finfo(logits.dtype).eps
    if len(rows) < _TELLING:
        exact = off.max() < 1e-6 + error and bool((rows % 1).any())
        return f"they lie in [0, {top}] and sum to {top}" if exact else ""
    # What is rounded to tenths, hundredths or thousandths may be off by half of that per class.
    step = next((10.0**-d for d in (1, 2, 3) if np.abs(rows - rows.round(d)).max() < error), 0)
    if np.mean(off <= np.clip(step * rows.shape[1] / 2, 0.02, 0.5)) < 0.75:
        return ""
    about = "" if off.max() < 1e-3 else "about "
    return f"they lie in [0, {top}] and sum to {about}{top}"


def _looks_like_probabilities(like: str, name: str) -> InputError:
    """Return the error for rows that look like probabilities where nobody said what they are."""
    first = "" if like.endswith(" to 1") else "divide each row by its sum and "
    return InputError(
        f"{name} look like probabilities ({like}): {first}",
        python="say input='probabilities'; for real logits, say input='logits'",
        shell="say --input probabilities; for real logits, say --input logits",
        code="probabilities-as-logits",
    )

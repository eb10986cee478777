"""Reductions over the classes of each row, quick for few classes and for many.

NumPy reduces many short rows slowly: ten classes cost as much as fifty. Where classes are few,
matrices are therefore laid out class after class, and a reduction takes whole columns. The layout,
and with it the order in which numbers are added, depends on the number of classes alone: a row's
bits do not depend on the rows beside it. BLAS promises no such thing, so it is not used.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from smallcal.data.checks import FloatArray, IntArray

#: With at most so many classes, matrices are laid out class after class.
FEW_CLASSES = 48


def empty(n: int, n_classes: int, kind: np.dtype[Any]) -> FloatArray:
    """Return room for n rows, laid out as their number of classes asks for.

    Examples
    --------
    >>> empty(5, 3, np.dtype("f4")).flags.f_contiguous, empty(5, 300, np.dtype("f4")).shape
    (True, (5, 300))
    """
    return np.empty((n, n_classes), dtype=kind, order=_order(n_classes))


def laid_out(array: FloatArray, kind: np.dtype[Any]) -> FloatArray:
    """Return rows in this type, laid out as their number of classes asks for."""
    return np.asarray(array, dtype=kind, order=_order(array.shape[1]))


def sums(array: FloatArray, other: FloatArray | None = None) -> FloatArray:
    """Return the sum of each row, or of its products with the other array's row.

    Examples
    --------
    >>> sums(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [3.0, 7.0]
    """
    if array.shape[1] > FEW_CLASSES:
        parts = (array,) if other is None else (array, other)
        return np.asarray(np.einsum("ij->i" if other is None else "ij,ij->i", *parts))
    terms = array if other is None else np.multiply(array, other)
    if len(terms) > 1:
        return np.asarray(np.add.reduce(terms, axis=1))  # column after column
    return np.asarray(np.add.accumulate(terms[0])[-1:])  # a single row in the same order


def weighted(array: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the sum of each row's numbers times one weight each.

    Examples
    --------
    >>> weighted(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """
    array = laid_out(array, array.dtype)
    if _alone(array):
        return weighted(_twice(array), weights)[:1]
    return np.asarray(np.einsum("ij,j->i", array, weights))


def low_rank(
    array: FloatArray, reads: FloatArray, writes: FloatArray, *, out: FloatArray
) -> FloatArray:
    """Return ``array @ reads.T @ writes + writes[-1]``: the last of the writes reads a 1.

    Examples
    --------
    >>> z = np.array([[1.0, 2.0]])
    >>> low_rank(z, np.array([[1.0, 1.0]]), np.eye(2), out=np.empty((1, 2))).tolist()
    [[3.0, 1.0]]
    """
    n, n_classes = array.shape
    if _alone(array):
        pair = empty(2, n_classes, array.dtype)
        out[...] = low_rank(_twice(array), reads, writes, out=pair)[:1]
        return out
    seen = np.empty((n, len(writes)), dtype=array.dtype, order=_order(n_classes))
    seen[:, len(reads)] = 1
    np.einsum("ij,kj->ik", array, reads, out=seen[:, : len(reads)])
    return np.asarray(np.einsum("ik,kj->ij", seen, writes, out=out))


def largest(array: FloatArray) -> FloatArray:
    """Return the largest number of each row.

    Examples
    --------
    >>> largest(np.array([[1.0, 2.0], [4.0, 3.0]])).tolist()
    [2.0, 4.0]
    """
    n, n_classes = array.shape
    if n_classes <= FEW_CLASSES or n == 1:
        return np.asarray(np.maximum.reduce(array, axis=1))
    # On a flat array: reduceat is twice as quick as max(axis=1).
    return np.asarray(np.maximum.reduceat(array.reshape(-1), np.arange(0, array.size, n_classes)))


def first_largest(array: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the column of each row's largest number, the first of several, and the number.

    Examples
    --------
    >>> [found.tolist() for found in first_largest(np.array([[1.0, 2.0, 2.0]]))]
    [[1], [2.0]]
    """
    n_classes = array.shape[1]
    if n_classes > FEW_CLASSES:
        column = array.argmax(axis=1)
        return column, array.reshape(-1)[np.arange(0, array.size, n_classes) + column]
    top = largest(array)
    # Columns that hold it count the more the earlier they stand; small integers are quick.
    earlier = np.equal(array, top[:, None]).view(np.int8)
    earlier *= np.arange(n_classes, 0, -1, dtype=np.int8)
    return n_classes - np.maximum.reduce(earlier, axis=1).astype(np.int64), top


def put(array: FloatArray, column: IntArray, values: FloatArray | float) -> None:
    """Write one number into each row, or each of the first rows, at its column.

    Examples
    --------
    >>> array = np.zeros((2, 3))
    >>> put(array, np.array([2, 0]), 1.0)
    >>> array.tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    n, (size, n_classes) = len(column), array.shape
    # One index is several times as quick as two.
    if array.flags.c_contiguous:
        array.reshape(-1)[np.arange(0, n * n_classes, n_classes) + column] = values
    elif array.flags.f_contiguous:
        array.reshape(-1, order="F")[np.arange(n) + column * size] = values
    else:
        array[np.arange(n), column] = values


def _order(n_classes: int) -> Literal["C", "F"]:
    return "F" if n_classes <= FEW_CLASSES else "C"


def _alone(array: FloatArray) -> bool:
    """Whether this is a single row of few classes: NumPy would add it up in another order."""
    return len(array) == 1 and array.shape[1] <= FEW_CLASSES


def _twice(row: FloatArray) -> FloatArray:
    pair = empty(2, row.shape[1], row.dtype)
    pair[...] = row
    return pair

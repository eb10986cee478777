"""Logistic, softmax and error functions that stay accurate in the tails; NumPy only."""

from __future__ import annotations

import math

import numpy as np

from smallcal.data.predictions import FloatArray

#: From here on the error function is 1 in float64.
_ERF_END = 6.0
_ERF_STEPS = 128


def sigmoid(x: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-x)) without overflow.

    Examples
    --------
    >>> sigmoid(np.array([-1000.0, 0.0, 50.0])).round(3).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.asarray(1 / (1 + np.exp(-np.maximum(x, -700))))


def softplus(x: FloatArray) -> FloatArray:
    """Return log(1 + exp(x)); the same as ``np.logaddexp(0, x)``, several times faster.

    Examples
    --------
    >>> softplus(np.array([-800.0, 0.0, 800.0])).round(3).tolist()
    [0.0, 0.693, 800.0]
    """
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def erf(x: FloatArray) -> FloatArray:
    """Return the error function, (2 / √π) ∫ exp(-t²) dt from 0 to x, to the last digit or two.

    Examples
    --------
    >>> erf(np.array([-10.0, 0.0, 0.5])).round(6).tolist()
    [-1.0, 0.0, 0.5205]
    """
    size = np.minimum(np.abs(x), _ERF_END)
    nearest = np.rint(_ERF_STEPS * np.fmin(size, _ERF_END)).astype(np.intp)  # fmin: NaN has none
    step = size - nearest / _ERF_STEPS
    value = _ERF_TABLE[-1].take(nearest)
    for coefficient in _ERF_TABLE[-2::-1]:
        value *= step
        value += coefficient.take(nearest)
    return np.asarray(np.copysign(value, x))


def _erf_table() -> FloatArray:
    """Return Taylor coefficients of the error function about the points 0, 1/128, ..., 6.

    Its k-th derivative is (-1)^(k-1) (2 / √π) exp(-x²) H_(k-1)(x), with Hermite's polynomials H.
    At most 1/256 away, the sixth power is below the rounding of the sum.
    """
    points = np.arange(int(_ERF_END * _ERF_STEPS) + 1) / _ERF_STEPS
    bell = 2 / math.sqrt(math.pi) * np.exp(-(points**2))
    before, hermite = np.zeros_like(points), np.ones_like(points)
    rows = [np.array([math.erf(point) for point in points])]
    for k in range(5):
        rows.append((-1) ** k * bell * hermite / math.factorial(k + 1))
        before, hermite = hermite, 2 * points * hermite - 2 * k * before
    return np.array(rows)


_ERF_TABLE = _erf_table()


def softmax(logits: FloatArray) -> FloatArray:
    """Return the softmax of each row; a row's bits do not depend on the rows beside it.

    Examples
    --------
    >>> softmax(np.array([[1000.0, 1000.0]])).tolist()
    [[0.5, 0.5]]
    """
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weight * (1 / np.einsum("ij->i", weight))[:, None])


def log_softmax(logits: FloatArray) -> FloatArray:
    """Return the logarithm of the softmax of each row, accurate where the softmax is 0.

    Examples
    --------
    >>> log_softmax(np.array([[0.0, -1000.0]])).tolist()
    [[0.0, -1000.0]]
    """
    gaps = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(gaps - np.log(np.einsum("ij->i", np.exp(gaps)))[:, None])

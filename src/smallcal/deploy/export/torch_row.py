"""The operations of a narrow program for a single row: NumPy for classes, floats for the row.

A call of torch costs about as much as a thousand classes of a row, so one row makes none. As for
blocks (:mod:`smallcal.deploy.export.torch_fast`) a number of a class is float32.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.program import BELOW, LOWEST
from smallcal.calibrators.softmax import SHARING_ROUNDS

Numbers = NDArray[Any]


def made(numbers: Numbers, *, narrow: bool) -> Numbers:
    """Return numbers of the calibrator as the operations take them."""
    kind = np.float32 if narrow else np.float64
    # A matrix lies in memory by its longer side, which is quicker to multiply by.
    tall = numbers.ndim > 1 and len(numbers) > numbers.shape[1]
    return np.array(numbers, dtype=kind, order="F" if tall else "C")


def _least(first: Any, second: Any) -> Any:
    if isinstance(first, float) and isinstance(second, float):
        return min(first, second)
    return np.minimum(first, second)


def _most(first: Any, second: Any) -> Any:
    if isinstance(first, float) and isinstance(second, float):
        return max(first, second)
    return np.maximum(first, second)


def _exp(values: Any) -> Any:
    return math.exp(values) if isinstance(values, float) else np.exp(values)


def _largest(values: Numbers) -> float:
    return float(values.item(values.argmax()))  # quicker than max


def _dot(values: Any, matrix: Numbers) -> Any:
    product = matrix.dot(values)
    return product.item() if len(product) == 1 else product


def _dot_top(scores: Numbers, top: int, matrix: Numbers) -> Any:
    n = len(scores)
    if len(matrix) == 1:
        return matrix[0, :n].dot(scores).item() + matrix.item(n + top)
    return matrix[:, :n].dot(scores) + matrix[:, n + top]


def _join(*parts: float) -> Numbers:
    return np.array(parts)


def _second(top: int, values: Numbers) -> float:
    kept, values[top] = values[top], LOWEST
    found = float(values.item(values.argmax()))
    values[top] = kept
    return found


@cache
def _ones(n: int) -> Numbers:
    return np.ones(n, dtype=np.float32)


def _total(values: Numbers) -> float:
    """Return a sum in single precision, in half the time of a sum."""
    return float(values.dot(_ones(len(values))))


def _softmax_of(gaps: Numbers, temperature: float) -> Numbers:
    weight = np.exp(gaps * (1 / temperature))
    weight *= 1 / _total(weight)
    return weight


def _tailed(top: int, gaps: Numbers, second: float, temperature: float, tail: float) -> Numbers:
    rivals = gaps - second
    rivals[top] = LOWEST
    routed = np.exp(rivals * (1 / temperature))
    own = np.exp(rivals * (1 / tail))
    routed_sum, own_sum = _total(routed), _total(own)
    rest = routed_sum * math.exp(second / temperature)
    share = 1.0
    if own_sum < routed_sum:
        room = 1 / own_sum - 1 / routed_sum
        share = min(max((1 / max(rest, 1e-300) - 1 / routed_sum) / room, 0.0), 1.0)
    doubt = rest / (1 + rest)
    own *= doubt * share / own_sum
    if share < 1:
        own += routed * (doubt * (1 - share) / routed_sum)
    own[top] = 1 / (1 + rest)
    return own


def _held(top: int, p: Numbers) -> Numbers:
    best = p[top]
    if _second(top, p) >= best * BELOW:
        np.minimum(p, best * np.float32(BELOW), out=p)
        p[top] = best
    return p


def _kept(top: int, p: Numbers) -> Numbers:
    if p[p.argmax()] > p[top]:
        p = p.astype(np.float64)
        level = p[top]
        for _ in range(SHARING_ROUNDS):
            sharing = p >= level
            sharing[top] = True
            level = p[sharing].mean()
        np.minimum(p, level, out=p)
        p[top] = level
        p /= p.sum()
    return _held(top, p)


ROW: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": operator.add,
        "subtract": operator.sub,
        "multiply": operator.mul,
        "divide": operator.truediv,
        "minimum": _least,
        "maximum": _most,
        "reached": operator.ge,
        "choose": lambda where, then, otherwise: then if where else otherwise,
        "exp": _exp,
        "log": math.log,
        "sqrt": math.sqrt,
        "sum": _total,
        "inner": lambda a, b: a.dot(b).item(),
        "largest": _largest,
        "at_top": lambda a: int(a.argmax()),
        "second": _second,
        "dot": _dot,
        "dot_top": _dot_top,
        "join": _join,
        "softmax": lambda gaps: _softmax_of(gaps, 1.0),
        "softmax_of": _softmax_of,
        "tailed": _tailed,
        "held": _held,
        "kept": _kept,
    }
)

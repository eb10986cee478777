"""The largest and the second largest of each row of an ONNX graph, and where the largest stands."""

from __future__ import annotations

import math

import numpy as np

from smallcal.deploy.export.onnx_nodes import Graph

#: From this many classes on the largest is sought part by part.
MANY_CLASSES = 64


def two_largest(graph: Graph, row: str, width: int) -> tuple[str, str, str]:
    """Return the largest and the second largest of a row, and the place of the largest.

    They are sought part by part where there are many: two short searches, not a long one.
    """
    part = _part(width)
    if part is None:
        return _two_of(graph, row)
    parts = graph.node("Reshape", row, graph.integers([0, width // part, part]))
    largest, outside, which = _two_of(graph, reduce_max(graph, parts, keepdims=0))
    inner = graph.node("GatherND", parts, which, batch_dims=1)
    _, inside, place = _two_of(graph, inner)
    second = graph.node("Max", outside, inside)
    return largest, second, _within(graph, which, part, place)


def place_of_largest(graph: Graph, row: str, width: int) -> str:
    """Return the place of the largest, as :func:`two_largest` does."""
    part = _part(width)
    if part is None:
        return graph.node("ArgMax", row, axis=-1, keepdims=1)
    parts = graph.node("Reshape", row, graph.integers([0, width // part, part]))
    maxima = reduce_max(graph, parts, keepdims=0)
    which = graph.node("ArgMax", maxima, axis=-1, keepdims=1)
    inner = graph.node("GatherND", parts, which, batch_dims=1)
    return _within(graph, which, part, graph.node("ArgMax", inner, axis=-1, keepdims=1))


def reduce_max(graph: Graph, row: str, *, keepdims: int) -> str:
    """Return the largest along the last axis."""
    if graph.opset < 18:
        return graph.node("ReduceMax", row, axes=[-1], keepdims=keepdims)
    return graph.node("ReduceMax", row, graph.integers([-1]), keepdims=keepdims)


def _two_of(graph: Graph, row: str) -> tuple[str, str, str]:
    place = graph.node("ArgMax", row, axis=-1, keepdims=1)
    largest = reduce_max(graph, row, keepdims=1)
    lowest = graph.node("Sub", largest, graph.number(np.inf, np.float32))
    rivals = graph.node("ScatterElements", row, place, lowest, axis=-1)
    return largest, reduce_max(graph, rivals, keepdims=1), place


def _within(graph: Graph, which: str, part: int, place: str) -> str:
    """Return the place in the row of a place in a part."""
    return graph.node("Add", graph.node("Mul", which, graph.kept(np.array([[part]]))), place)


def _part(width: int) -> int | None:
    """Return the size of equal parts of a row; None if there is none that helps.

    A part is about twice as long as there are parts: taking the largest of a part is quick, but
    each part costs something of its own.
    """
    if width < MANY_CLASSES:
        return None
    most = math.isqrt(width) * 3 // 4
    count = next((n for n in range(most, most // 2, -1) if width % n == 0), None)
    return None if count is None else width // count

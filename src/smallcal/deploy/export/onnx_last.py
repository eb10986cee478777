"""The last step of the quick part of an ONNX graph, for all rows of the batch at once.

What goes out of a graph is written by its last node and can be changed no more without a copy,
which costs as much as half a softmax. So the rows that were computed again are put in before the
last step, in such a form that it gives them back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smallcal.deploy.export.onnx_nodes import Graph, Tensor
from smallcal.deploy.export.onnx_top import reduce_max

#: Logits of up to this many temperatures may be divided before their largest is taken off.
SMALL_EXPONENT = 16.0


@dataclass(frozen=True)
class Last:
    """Nothing is left to do.

    Attributes
    ----------
    columns : tuple of str
        Numbers of each row that the step asks for beside its matrix, in single precision.
    place : str
        The place of the predicted class in each row, if the step asks for that.
    """

    columns: tuple[str, ...] = ()
    place: str = ""

    def begun(self, graph: Graph, matrix: Tensor, columns: list[str]) -> list[str]:
        """Return what rows are put into: a matrix, and columns beside it.

        ``columns`` are of all rows; where there is one, ``place`` is the last.
        """
        return [matrix.name, *columns]

    def ended(self, graph: Graph, matrix: str, *columns: str) -> str:
        """Return probabilities of what :meth:`begun` gave."""
        return matrix

    def undone(self, graph: Graph, probabilities: str) -> list[str]:
        """Return what :meth:`ended` makes these probabilities of."""
        return [graph.cast(probabilities, "FLOAT")]


@dataclass(frozen=True)
class LastProduct(Last):
    """Each row is multiplied by a number of its own, once another number is put at the top.

    The columns are these two numbers.
    """

    def begun(self, graph: Graph, matrix: Tensor, columns: list[str]) -> list[str]:
        """Put the number at the top."""
        factor, at_top, place = columns
        return [graph.put(matrix, place, at_top, axis=-1), factor]

    def ended(self, graph: Graph, matrix: str, *columns: str) -> str:
        """Multiply."""
        return graph.node("Mul", matrix, columns[0])

    def undone(self, graph: Graph, probabilities: str) -> list[str]:
        """Return the probabilities, and 1 to multiply them by."""
        kept = graph.cast(probabilities, "FLOAT")
        first = graph.node("Slice", kept, *map(graph.integers, ([0], [1], [-1])))
        ones = graph.node("Expand", graph.number(1.0, np.float32), graph.node("Shape", first))
        return [kept, ones]


@dataclass(frozen=True)
class LastSoftmax(Last):
    """A softmax of a matrix."""

    def ended(self, graph: Graph, matrix: str, *columns: str) -> str:
        """Take the softmax."""
        return graph.node("Softmax", matrix, axis=-1)

    def undone(self, graph: Graph, probabilities: str) -> list[str]:
        """Return logarithms of shares of the largest, in which near ties stay apart."""
        exact = graph.cast(probabilities, "DOUBLE")
        shares = graph.node("Div", exact, reduce_max(graph, exact, keepdims=1))
        return [graph.cast(graph.node("Log", shares), "FLOAT")]


@dataclass(frozen=True)
class LastTemperature(LastSoftmax):
    """A softmax of logits over a temperature.

    The columns are the largest logit and, unless one ``temperature`` is everywhere the same, what
    to multiply by.
    """

    temperature: float | None = None

    def begun(self, graph: Graph, matrix: Tensor, columns: list[str]) -> list[str]:
        """Large logits lose digits when they are divided; then their largest is taken off first."""
        z, largest = matrix.name, columns[0]
        if self.temperature is None:
            share = columns[1]
        else:
            share = graph.number(1 / self.temperature, np.float32)
        size = graph.node("Abs", graph.node("Mul", largest, share))
        large = graph.node("Greater", size, graph.number(SMALL_EXPONENT, np.float32))
        lowered, whole = graph.inside("lowered"), graph.inside("whole")
        gaps = lowered.node("Mul", lowered.node("Sub", z, largest), share)
        result, other = Tensor(gaps, "FLOAT", matrix.width), whole.node("Mul", z, share)
        return graph.either(graph.some(large), (lowered, [result]), (whole, [other]))

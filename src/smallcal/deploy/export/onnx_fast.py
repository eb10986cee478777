"""The quick part of an ONNX graph: single precision, for the rows on which that is enough.

Each matrix of a number per class costs ONNX Runtime about a third of a softmax, so as few as can be
are written, in float32; what is one number per row is in double. Each step says on which rows it
holds: not where two classes are so near each other that rounding could change the prediction, where
a rival overtakes, or where a score lies at the edge of a step. Those rows are left to the program
in double (:mod:`smallcal.deploy.export.onnx_rows`), and the last step to
:mod:`smallcal.deploy.export.onnx_last`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.program import Program, Value
from smallcal.deploy.export.onnx_last import Last, LastProduct, LastSoftmax, LastTemperature
from smallcal.deploy.export.onnx_nodes import Graph
from smallcal.deploy.export.onnx_top import place_of_largest, two_largest

#: A runner-up has at most the confidence less this share, to be apart in single precision.
TIE = 2.0**-20
#: The same where probabilities go out in half precision.
TIE_IN_HALF = 2.0**-8
#: How wrong statistics in single precision may be, in units of what a score multiplies them by.
STATISTIC_ERROR = 2e-6
#: A score that multiplies statistics by more than this is left to double precision.
MOST_GAIN = 1e3
#: Logits that a correction moves may be as large as this.
LARGE = 64.0
#: What may be divided by in single precision.
SMALLEST = 1e-30

#: What is a matrix if a part of it is one, and what may be made of columns.
_ARITHMETIC = {"add", "subtract", "multiply", "divide", "minimum", "maximum", "exp", "log"}
_WIDE = _ARITHMETIC | {"choose", "at_top", "softmax", "tailed", "shared", "held"}
_COLUMNS = _ARITHMETIC | {"constant", "sqrt", "reached", "choose", "dot"}


class NotFastError(Exception):
    """The program has a step without a quick form."""


class FastGraph(Graph):
    """Nodes of the quick part; after :meth:`write`, :meth:`left` says what is left to do."""

    def __init__(self, outer: Graph, name: str, *, tie: float) -> None:
        prefix = f"{outer.prefix}{name}_"
        super().__init__(outer.onnx, opset=outer.opset, prefix=prefix, outer=outer)
        self._tie = tie
        self._safe: list[str] = []
        self._wide: set[int] = set()
        self._tops: dict[int, tuple[str, str, str]] = {}
        self._exponentials: dict[int, str] = {}
        self._confidence = self._place = ""
        self._gain = 1.0
        self._unchanged = ""
        #: What :meth:`name_of` the probabilities is still to go through, outside.
        self.last = Last()
        self.writes_matrices = False

    def write(self, program: Program, inputs: dict[str, str]) -> None:
        """Add all of a program; a matrix is made when something asks for it."""
        self._last, self._first = program, inputs["logits"]
        for value in program.values():
            if self._is_wide(value):
                self._wide.add(id(value))
                if value is program.probabilities:
                    self.name_of(value)
                continue
            if value is program.probabilities:
                raise NotFastError("probabilities that are no matrix")
            if value.operation == "join":  # written at once when it is asked for, however many
                continue
            self._names[id(value)] = self._column(value)
            self.note_sameness(value)

    def left(self) -> list[str]:
        """Return flags for each row: unsafe, and, where there can be any, safe but yet to share.

        Where something is decided by the confidence, or ties are wider, rows that share are unsafe.
        """
        if self._unchanged and (self._tie != TIE or (self._last and self._last.decisions)):
            self._safe.append(self._unchanged)
        safe = reduce(lambda first, second: self.node("And", first, second), self._safe)
        unsafe = self.node("Not", safe)
        if not self._unchanged or self._unchanged in self._safe:
            return [unsafe]
        return [unsafe, self.node("And", safe, self.node("Not", self._unchanged))]

    def name_of(self, value: Value) -> str:
        """Return the tensor of a value."""
        if id(value) not in self._names:
            form = getattr(self, f"_matrix_{value.operation}", None)
            if form is None:
                raise NotFastError(value.operation)
            name = self._names[id(value)] = form(*value.of)
            self.writes_matrices |= id(value) in self._wide and name != self._first
        return self._names[id(value)]

    def _is_wide(self, value: Value) -> bool:
        """Tell whether a value is a matrix in single precision."""
        if value.operation in ("logits", "features", "effect", "limits"):
            if value.operation != "logits":
                raise NotFastError(value.operation)
            return True
        wide = any(id(part) in self._wide for part in value.of)
        if value.operation == "dot":
            return wide and value.of[0].operation != "at_top"
        return wide and value.operation in _WIDE

    # Columns, in double.

    def _column(self, value: Value) -> str:
        if any(id(part) in self._wide for part in value.of):
            form = getattr(self, f"_column_{value.operation}", None)
            if form is None:
                raise NotFastError(value.operation)
            return str(form(value))
        if value.operation not in _COLUMNS:
            raise NotFastError(value.operation)
        self._amplify(value)
        name = self.written(value)
        if value.operation == "reached" and not self._same_for_all.issuperset(map(id, value.of)):
            self._away_from_edge(*map(self.name_of, value.of))
        return name

    def _amplify(self, value: Value) -> None:
        """Note by how much a score multiplies what it is made of."""
        factors = value.numbers if value.operation in ("dot", "dot_top") else np.empty(0)
        if value.operation == "divide" and value.of[1].operation == "constant":
            factors = 1 / value.of[1].numbers
        self._gain = max(self._gain, float(np.abs(factors).max(initial=0)))
        if self._gain > MOST_GAIN:
            raise NotFastError("a score that multiplies statistics by much")

    def _away_from_edge(self, score: str, edge: str) -> None:
        distance = self.node("Abs", self.node("Sub", score, edge))
        size = self.node("Add", self.node("Abs", edge), self.number(1.0))
        bound = self.node("Mul", size, self.number(STATISTIC_ERROR * self._gain))
        self._safe.append(self.node("Greater", distance, bound))

    def _column_largest(self, value: Value) -> str:
        (of,) = value.of
        if self._last is not None and of is self._last.probabilities:
            if not self._confidence:
                self._confidence = self._at(self._place, self.name_of(of))
            return self._confidence
        return self._double(self._top(of)[0])

    def _column_second(self, value: Value) -> str:
        largest, second, _ = self._top(_base(value.of[1]))
        return self.node("Sub", self._double(second), self._double(largest))

    def _column_sum(self, value: Value) -> str:
        """Return the sum of the weights exp(gap)."""
        return self._double(self._sum_of(self._weights(_exponent(value.of[0]))))

    def _column_inner(self, value: Value) -> str:
        first, second = value.of
        if first is second:
            name = self.name_of(first)
            return self._double(self._sum_of(self.node("Mul", name, name)))
        gaps = _exponent(first)
        if second is not gaps:
            raise NotFastError("inner")
        products = self.node("Mul", self._weights(gaps), self.name_of(gaps))
        return self._double(self._sum_of(products))

    def _column_dot_top(self, value: Value) -> str:
        """Return the product with scores, and what the predicted class adds."""
        self._amplify(value)
        scores, top = value.of
        own, effects = np.split(value.numbers, [scores.width], axis=1)
        linear = self.node("MatMul", self.name_of(scores), self.kept(np.ascontiguousarray(own.T)))
        return self.node("Add", linear, self._by_class(self._top(top.of[0])[2], effects))

    def _column_dot(self, value: Value) -> str:
        """Return the number of the predicted class."""
        (top,) = value.of
        if self._last is None or top.of[0] is not self._last.probabilities:
            raise NotFastError("dot")
        return self._by_class(self._place, value.numbers)

    def _by_class(self, places: str, table: NDArray[Any]) -> str:
        rows = self.node("Squeeze", places, self.integers([-1]))
        return self.node("Gather", self.kept(np.ascontiguousarray(table.T)), rows)

    def _sum_of(self, row: str) -> str:
        return self.node("ReduceSum", row, self.integers([-1]), keepdims=1)

    def _double(self, name: str) -> str:
        return self.cast(name, "DOUBLE")

    def _single(self, name: str) -> str:
        return self.cast(name, "FLOAT")

    def _matrix_join(self, *parts: Value) -> str:
        if any(id(part) in self._wide for part in parts):
            raise NotFastError("join")
        return self.node("Concat", *map(self.per_row, _joined(parts)), axis=-1)

    # What is at the top.

    def _top(self, value: Value) -> tuple[str, str, str]:
        """Return the largest and the second largest of a row, and the place of the largest."""
        if id(value) not in self._tops:
            self._tops[id(value)] = two_largest(self, self.name_of(value), value.width)
            if value.operation == "add":  # which rounds the more, the larger they are
                size = self.node("Abs", self._tops[id(value)][0])
                small = self.node("LessOrEqual", size, self.number(LARGE, np.float32))
                self._safe.append(small)
        return self._tops[id(value)]

    def _at(self, place: str, row: str) -> str:
        return self._double(self.node("GatherElements", row, place, axis=-1))

    # Matrices, in single precision.

    def _matrix_logits(self) -> str:
        return self._first

    def _matrix_add(self, moved: Value, more: Value) -> str:
        """Return logits that a correction moved: by a bias, and along some directions."""
        if more.operation == "constant":
            return self.node(
                "Add", self.name_of(moved), self.kept(more.numbers[None].astype(np.float32))
            )
        biased = moved.operation == "add" and moved.of[1].operation == "constant"
        if more.operation != "dot" or more.of[0].operation != "dot" or not biased:
            raise NotFastError("add")
        logits, bias = moved.of
        (seen,) = more.of
        if seen.of[0] is not logits:
            raise NotFastError("add")
        # The bias is one more direction, which sees 1 in every row: two products write it all.
        # Rows stand side by side in the first, as ONNX Runtime fills a few columns up to sixteen.
        reads = np.vstack([seen.numbers, np.zeros(logits.width)]).astype(np.float32)
        writes = np.vstack([more.numbers.T, bias.numbers]).astype(np.float32)
        one = np.array([[0.0]] * len(seen.numbers) + [[1.0]], dtype=np.float32)
        z = self.name_of(logits)
        along = self.node("Gemm", self.kept(reads), z, self.kept(one), transB=1)
        return self.node("Gemm", along, self.kept(writes), z, transA=1)

    def _matrix_subtract(self, row: Value, largest: Value) -> str:
        if largest.operation != "largest" or largest.of[0] is not row:
            raise NotFastError("subtract")
        return self.node("Sub", self.name_of(row), self._top(row)[0])

    def _weights(self, gaps: Value) -> str:
        if id(gaps) not in self._exponentials:
            self._exponentials[id(gaps)] = self.node("Exp", self.name_of(gaps))
        return self._exponentials[id(gaps)]

    def _matrix_softmax(self, scaled: Value) -> str:
        if scaled.operation != "divide":
            raise NotFastError("softmax")
        gaps, temperature = scaled.of
        row = _base(gaps)
        largest, second, self._place = self._top(row)
        t = self.name_of(temperature)
        gap = self.node("Sub", self._double(largest), self._double(second))
        apart = self.node("Div", gap, t)
        self._safe.append(self.node("GreaterOrEqual", apart, self.number(self._tie)))
        if self._last is not None and self._last.decisions:  # which read the confidence
            return self.node("Softmax", self._divided(gaps, temperature), axis=-1)
        if row.operation != "logits":
            self.last = LastSoftmax()
            return self._divided(gaps, temperature)
        if temperature.operation == "constant":
            self.last = LastTemperature((largest,), temperature=float(temperature.numbers[0]))
        else:
            each = self.per_row(temperature)
            share = self._single(self.node("Div", self.number(1.0), each))
            self.last = LastTemperature((largest, share))
        return self._first

    def _divided(self, gaps: Value, temperature: Value) -> str:
        if temperature.operation == "constant":
            share = self.number(1 / temperature.numbers[0], np.float32)
        else:
            share = self._single(self.node("Div", self.number(1.0), self.name_of(temperature)))
        return self.node("Mul", self.name_of(gaps), share)

    def _matrix_tailed(
        self, top: Value, gaps: Value, second: Value, temperature: Value, tail: Value
    ) -> str:
        """Return what ``tailed`` does where no rival overtakes.

        The rivals' shares come from a softmax in which the top is as large as the second.
        """
        self._place = self._top(_base(gaps))[2]
        if top.of[0] is not _base(gaps):
            raise NotFastError("tailed")
        rest = self._rest(gaps, temperature)  # (1 - c) / c
        own, shares = self._rivals(gaps, second, tail)
        most = self.node("Mul", own, self.number(1 - self._tie))
        self._safe.append(self.node("LessOrEqual", rest, most))
        one = self.number(1.0)
        total = self.node("Add", rest, one)
        self._confidence = self.node("Div", one, total)
        doubt = self.node("Div", rest, total)
        # The shares are of the rivals and of one more like the second, in whose place the top
        # gets what the factor makes its own.
        factor = self.node("Mul", doubt, self.node("Add", one, self.node("Div", one, own)))
        self._safe.append(self.node("Greater", factor, self.number(SMALLEST)))
        at_top = self.node("Div", self._confidence, factor)
        self.last = LastProduct(tuple(map(self._single, (factor, at_top))), place=self._place)
        return shares

    def _rest(self, gaps: Value, temperature: Value) -> str:
        """Return the rivals' weights, as a sum in which that of the top would be 1."""
        lowest = self.node("Sub", self._top(_base(gaps))[0], self.number(np.inf, np.float32))
        scaled = self._put(self._divided(gaps, temperature), self._place, lowest)
        return self._double(self._sum_of(self.node("Exp", scaled)))

    def _rivals(self, gaps: Value, second: Value, temperature: Value) -> tuple[str, str]:
        """Return the rivals' weights, as a sum of which the largest is 1, and their shares."""
        at = self.node("Div", self.name_of(second), self.name_of(temperature))
        scaled = self._put(self._divided(gaps, temperature), self._place, at)
        shares = self.node("Softmax", scaled, axis=-1)
        whole = self.node("Div", self.number(1.0), self._at(self._place, shares))
        return self.node("Sub", whole, self.number(1.0)), shares

    def _put(self, row: str, place: str, column: str) -> str:
        return self.node("ScatterElements", row, place, self._single(column), axis=-1)

    def _matrix_shared(self, top: Value, probabilities: Value) -> str:
        """Note the rows where another class came to the top."""
        found = self.name_of(probabilities)
        (row,) = top.of
        if id(row) in self._tops:
            own = self._top(row)[2]
        else:
            own = place_of_largest(self, self.name_of(row), row.width)
        if own != self._place:
            self._unchanged = self.node("Equal", own, self._place)
        return found

    def _matrix_held(self, top: Value, probabilities: Value) -> str:
        """Rows with a rival near the top are not safe, so that none is left to hold."""
        return self.name_of(probabilities)


def _joined(parts: Sequence[Value]) -> Iterator[Value]:
    """Yield what is joined, through joins of joins."""
    for part in parts:
        yield from _joined(part.of) if part.operation == "join" else (part,)


def _base(gaps: Value) -> Value:
    """Return what gaps are the gaps of."""
    if gaps.operation != "subtract" or gaps.of[1].operation != "largest":
        raise NotFastError(gaps.operation)
    return gaps.of[0]


def _exponent(weights: Value) -> Value:
    """Return the gaps that weights are the exponentials of."""
    if weights.operation != "exp":
        raise NotFastError(weights.operation)
    _base(weights.of[0])
    return weights.of[0]

"""The quick part of an ONNX graph: single precision, for the rows on which that is enough.

Each matrix of a number per class costs ONNX Runtime about a third of a softmax, so as few as can be
are written, in float32; what is one number per row is in double. Each step says on which rows it
holds: not where two classes are so near each other that rounding could change the prediction, where
a rival overtakes, or where a score lies at the edge of a step. Those rows are left to the program
in double (:mod:`smallcal.deploy.export.onnx_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.program import Program, Value
from smallcal.deploy.export.onnx_nodes import Graph, Tensor

#: A runner-up has at most the confidence less this share, to be apart in single precision.
TIE = 2.0**-20
#: The same where probabilities go out in half precision.
TIE_IN_HALF = 2.0**-8
#: How wrong statistics in single precision may be, in units of what a score multiplies them by.
STATISTIC_ERROR = 2e-6
#: A score that multiplies statistics by more than this is left to double precision.
MOST_GAIN = 1e3
#: Logits of up to this many temperatures may be divided before their largest is taken off.
SMALL_EXPONENT = 16.0
#: Logits that a correction moves may be as large as this.
LARGE = 64.0
#: What may be divided by in single precision.
SMALLEST = 1e-30
#: From this many classes on the largest is sought part by part.
MANY_CLASSES = 256

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
        self._shares: dict[int, str] = {}
        self._confidence = self._place = ""
        self._gain = 1.0
        self._unchanged = ""

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
            self._names[id(value)] = form(*value.of)
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
        """Return the sum of the weights exp(gap), of which the largest is 1."""
        gaps = _exponent(value.of[0])
        return self.node("Div", self.number(1.0), self._at_top_of(gaps, self._plain_softmax(gaps)))

    def _column_inner(self, value: Value) -> str:
        first, second = value.of
        if first is second:
            return self._double(self._inner(self.name_of(first), self.name_of(first)))
        gaps = _exponent(first)
        if second is not gaps:
            raise NotFastError("inner")
        shares = self._plain_softmax(gaps)
        mean = self._double(self._inner(shares, self.name_of(gaps)))
        return self.node("Div", mean, self._at_top_of(gaps, shares))

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

    def _inner(self, first: str, second: str) -> str:
        return self.node(
            "ReduceSum", self.node("Mul", first, second), self.integers([-1]), keepdims=1
        )

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
            self._tops[id(value)] = self._two_largest(self.name_of(value), value.width)
            if value.operation == "add":  # which rounds the more, the larger they are
                size = self.node("Abs", self._tops[id(value)][0])
                small = self.node("LessOrEqual", size, self.number(LARGE, np.float32))
                self._safe.append(small)
        return self._tops[id(value)]

    def _two_largest(self, row: str, width: int) -> tuple[str, str, str]:
        """Seek them part by part where there are many: two short searches, not a long one."""
        part = _part(width)
        if part is None:
            return self._two_of(row)
        parts = self.node("Reshape", row, self.integers([0, width // part, part]))
        largest, outside, which = self._two_of(self._reduce_max(parts, keepdims=0))
        inner = self.node("GatherND", parts, which, batch_dims=1)
        _, inside, place = self._two_of(inner)
        start = self.node("Mul", which, self.kept(np.array([[part]])))
        second = self.node("Max", outside, inside)
        return largest, second, self.node("Add", start, place)

    def _two_of(self, row: str) -> tuple[str, str, str]:
        place = self.node("ArgMax", row, axis=-1, keepdims=1)
        largest = self._reduce_max(row, keepdims=1)
        lowest = self.node("Sub", largest, self.number(np.inf, np.float32))
        rivals = self.node("ScatterElements", row, place, lowest, axis=-1)
        return largest, self._reduce_max(rivals, keepdims=1), place

    def _reduce_max(self, row: str, *, keepdims: int) -> str:
        if self.opset < 18:
            return self.node("ReduceMax", row, axes=[-1], keepdims=keepdims)
        return self.node("ReduceMax", row, self.integers([-1]), keepdims=keepdims)

    def _at(self, place: str, row: str) -> str:
        return self._double(self.node("GatherElements", row, place, axis=-1))

    def _at_top_of(self, gaps: Value, row: str) -> str:
        return self._at(self._top(_base(gaps))[2], row)

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
        reads = np.vstack([seen.numbers, np.zeros(logits.width)]).T.astype(np.float32)
        writes = np.vstack([more.numbers.T, bias.numbers]).astype(np.float32)
        one = np.array([[0.0] * len(seen.numbers) + [1.0]], dtype=np.float32)
        z = self.name_of(logits)
        along = self.node("Gemm", z, self.kept(np.ascontiguousarray(reads)), self.kept(one))
        return self.node("Gemm", along, self.kept(writes), z)

    def _matrix_subtract(self, row: Value, largest: Value) -> str:
        if largest.operation != "largest" or largest.of[0] is not row:
            raise NotFastError("subtract")
        return self.node("Sub", self.name_of(row), self._top(row)[0])

    def _plain_softmax(self, gaps: Value) -> str:
        if id(gaps) not in self._shares:
            self._shares[id(gaps)] = self.node("Softmax", self.name_of(gaps), axis=-1)
        return self._shares[id(gaps)]

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
        if temperature.operation != "constant":
            return self.node("Softmax", self._divided(gaps, temperature), axis=-1)
        return self._softmax_at(row, float(temperature.numbers[0]))

    def _softmax_at(self, row: Value, temperature: float) -> str:
        """Return the softmax at one temperature.

        Large logits lose digits when they are divided; then their largest is taken off first.
        """
        z, largest = self.name_of(row), self._top(row)[0]
        share = self.number(1 / temperature, np.float32)
        limit = self.number(SMALL_EXPONENT * temperature, np.float32)
        large = self.node("Greater", self.node("Abs", largest), limit)
        lowered, whole = self.inside("lowered"), self.inside("whole")
        scaled = lowered.node("Mul", lowered.node("Sub", z, largest), share)
        result = Tensor(lowered.node("Softmax", scaled, axis=-1), "FLOAT", row.width)
        other = whole.node("Softmax", whole.node("Mul", z, share), axis=-1)
        return self.either(self.some(large), (lowered, [result]), (whole, [other]))[0]

    def _divided(self, gaps: Value, temperature: Value) -> str:
        if temperature.operation == "constant":
            share = self.number(1 / temperature.numbers[0], np.float32)
            return self.node("Mul", self.name_of(gaps), share)
        return self.node("Div", self.name_of(gaps), self._single(self.name_of(temperature)))

    def _matrix_tailed(
        self, top: Value, gaps: Value, second: Value, temperature: Value, tail: Value
    ) -> str:
        """Return what ``tailed`` does where no rival overtakes.

        Both sums over the rivals come from a softmax in which the top is as large as the second.
        """
        self._place = self._top(_base(gaps))[2]
        if top.of[0] is not _base(gaps):
            raise NotFastError("tailed")
        routed, _ = self._rivals(gaps, second, temperature)
        own, shares = self._rivals(gaps, second, tail)
        exponent = self.node("Div", self.name_of(second), self.name_of(temperature))
        rest = self.node("Mul", routed, self.node("Exp", exponent))  # (1 - c) / c
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
        shares = self._put(shares, self._place, self.node("Div", self._confidence, factor))
        return self.node("Mul", shares, self._single(factor))

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
        own = self._top(top.of[0])[2] if id(top.of[0]) in self._tops else self._argmax(top.of[0])
        if own != self._place:
            self._unchanged = self.node("Equal", own, self._place)
        return found

    def _argmax(self, value: Value) -> str:
        """Return the place of the largest, as :meth:`_two_largest` does."""
        row, part = self.name_of(value), _part(value.width)
        if part is None:
            return self.node("ArgMax", row, axis=-1, keepdims=1)
        parts = self.node("Reshape", row, self.integers([0, value.width // part, part]))
        maxima = self._reduce_max(parts, keepdims=0)
        which = self.node("ArgMax", maxima, axis=-1, keepdims=1)
        inner = self.node("GatherND", parts, which, batch_dims=1)
        start = self.node("Mul", which, self.kept(np.array([[part]])))
        return self.node("Add", start, self.node("ArgMax", inner, axis=-1, keepdims=1))

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


def _part(width: int) -> int | None:
    """Return the size of equal parts of a row, near its square root; None if there is none."""
    if width < MANY_CLASSES:
        return None
    root = math.isqrt(width)
    sizes = (size for size in range(root, root // 2, -1) if width % size == 0)
    size = next(sizes, None)
    return None if size is None else width // size

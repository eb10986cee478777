"""Nodes of an ONNX graph, written value by value in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.program import Program, Value
from smallcal.deploy.export.decided import NamedGroups

_OPS = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "minimum": "Min",
    "maximum": "Max",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
}


class Graph:
    """Nodes and constants in the making; every name begins with a prefix."""

    def __init__(self, onnx: Any, *, opset: int, prefix: str = "smallcal_") -> None:
        self.onnx, self.opset, self.prefix = onnx, opset, prefix
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._names: dict[int, str] = {}
        self._masks: dict[int, str] = {}
        self._same_for_all: set[int] = set()
        self._first = ""
        self._last: Program | None = None  # a program keeps its values, and so their ids, alive

    def write(self, program: Program, inputs: dict[str, str]) -> None:
        """Add all of a program; ``inputs`` names the tensors that it reads."""
        self._last = program
        self._first = inputs["logits"]
        for value in program.values():
            if value.operation in inputs:
                self._names[id(value)] = self.cast(inputs[value.operation], "DOUBLE")
                continue
            self._names[id(value)] = self._written(value)
            if self._same_for_all.issuperset(map(id, value.of)):  # it has no rows of its own
                self._same_for_all.add(id(value))

    def _written(self, value: Value) -> str:
        """Add a value whose parts are there already."""
        if value.operation in _OPS:
            return self.node(_OPS[value.operation], *map(self.name_of, value.of))
        return str(getattr(self, f"_{value.operation}")(value))

    def name_of(self, value: Value) -> str:
        """Return the tensor of a value."""
        return self._names[id(value)]

    def per_row(self, value: Value) -> str:
        """Return the tensor of a value with a row for each row of the input."""
        name = self.name_of(value)
        if id(value) not in self._same_for_all:
            return name
        rows = self.node(
            "Slice", self.node("Shape", self._first), self.integers([0]), self.integers([-1])
        )
        shape = self.node("Concat", rows, self.integers([value.width]), axis=0)
        return self.node("Expand", name, shape)

    def node(self, operation: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        output = output or f"{self.prefix}{len(self.nodes)}"
        name = f"{self.prefix}node_{len(self.nodes)}"
        make = self.onnx.helper.make_node
        self.nodes.append(make(operation, inputs, [output], name=name, **attributes))
        return output

    def looked_up(self, places: str, numbers: Sequence[float]) -> str:
        """Return the column of numbers that stand at some places; 0 where there is none."""
        found = self._rows_at(places, np.array([*numbers, 0.0]))
        return self.node("Unsqueeze", found, self.integers([-1]))

    def _rows_at(self, places: str, table: NDArray[Any]) -> str:
        """Return the rows of a table that stand at some places; its last for all others."""
        last = self.integers([len(table) - 1])
        inside = self.node(
            "And",
            self.node("GreaterOrEqual", places, self.integers([0])),
            self.node("Less", places, last),
        )
        return self.node("Gather", self.kept(table), self.node("Where", inside, places, last))

    def of_groups(self, places: str, groups: NamedGroups) -> dict[str, str]:
        """Return the tensors of what is known of groups, by the inputs of a program."""
        found = {}
        if groups.effects:
            found["effect"] = self.looked_up(places, groups.effects)
        if groups.limits:
            table = np.array([*groups.limits, groups.unknown])
            found["limits"] = self._rows_at(places, table)
        return found

    def integers(self, numbers: list[int]) -> str:
        """Add whole numbers."""
        return self.kept(np.array(numbers, dtype=np.int64))

    def kept(self, array: NDArray[Any]) -> str:
        """Add numbers, or find them again."""
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            name = f"{self.prefix}constant_{len(self.initializers)}"
            content = np.ascontiguousarray(array)
            self.initializers.append(self.onnx.numpy_helper.from_array(content, name))
            self._constants[key] = name
        return self._constants[key]

    def cast(self, source: str, kind: str) -> str:
        """Add the same numbers in another type."""
        return self.node("Cast", source, to=getattr(self.onnx.TensorProto, kind))

    def _constant(self, value: Value) -> str:
        return self.kept(value.numbers[None])

    def number(self, number: float) -> str:
        """Add one number, of two axes: with less ONNX Runtime goes through columns row by row."""
        return self.kept(np.array([[number]]))

    def _reached(self, value: Value) -> str:
        return self._mask(value, self.node("GreaterOrEqual", *map(self.name_of, value.of)))

    def _mask(self, value: Value, name: str) -> str:
        self._masks[id(value)] = name
        return self.cast(name, "DOUBLE")

    def _choose(self, value: Value) -> str:
        where, *others = value.of
        mask = self._masks.get(id(where)) or self.cast(self.name_of(where), "BOOL")
        return self.node("Where", mask, *map(self.name_of, others))

    def _sum(self, value: Value) -> str:
        return self._reduced("ReduceSum", value, since=13)

    def _largest(self, value: Value) -> str:
        return self._reduced("ReduceMax", value, since=18)

    def _reduced(self, operation: str, value: Value, *, since: int) -> str:
        """Reduce rows to a column; the axis is an input since an opset, and was an attribute."""
        row = self.name_of(value.of[0])
        if self.opset < since:
            column = self.node(operation, row, axes=[-1], keepdims=1)
        else:
            column = self.node(operation, row, self.integers([-1]), keepdims=1)
        # ONNX Runtime leaves an empty batch as wide as it was.
        return self.node("Slice", column, *(self.integers([number]) for number in (0, 1, -1)))

    def _at_top(self, value: Value) -> str:
        place = self.node("ArgMax", self.name_of(value.of[0]), axis=-1, keepdims=1)
        places = self.integers(list(range(value.width)))
        return self._mask(value, self.node("Equal", place, places))

    def _dot(self, value: Value) -> str:
        (row,) = value.of
        if row.width == 1:  # not MatMul: ONNX Runtime merges a scale into it in single precision
            return self.node("Mul", self.name_of(row), self.kept(value.numbers[:, 0]))
        return self.node("MatMul", self.name_of(row), self.kept(value.numbers.T))

    def _rank(self, value: Value) -> str:
        """Search by halves: comparing with each number would need a row of them per row."""
        x = self.name_of(value.of[0])
        steps = 2 ** np.arange(len(value.numbers).bit_length())[::-1]
        padding = np.full(2 * int(steps[0]) - len(value.numbers), np.inf)
        ascending = self.kept(np.concatenate([value.numbers, padding]))
        found = self.integers([0])
        for step in steps.tolist():
            further = self.node("Add", found, self.integers([step]))
            number = self.node("Gather", ascending, self.node("Sub", further, self.integers([1])))
            found = self.node("Where", self.node("GreaterOrEqual", x, number), further, found)
        return self.cast(found, "DOUBLE")

    def _join(self, value: Value) -> str:
        return self.node("Concat", *map(self.per_row, value.of), axis=-1)

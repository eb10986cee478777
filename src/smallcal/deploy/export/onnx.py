"""A calibrator as an ONNX graph: a file of its own, or behind the model whose logits it takes.

Arithmetic is in double precision; ONNX Runtime has every operation used here in that type (it has
no error function, which is written out), and the numbers come back in the type they came in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.program import Program, Value, choose
from smallcal.calibrators.program_plain import plain
from smallcal.deploy.export.decided import NamedGroups, named_groups, rules_of, told
from smallcal.deploy.export.erf import without_erf
from smallcal.deploy.export.origin import Origin, origin_of
from smallcal.deploy.export.translate import program_of
from smallcal.errors import InputError, needing

#: What a file of its own is written in: ONNX 1.12, which every ONNX Runtime since 1.12 reads.
OPSET = 17
IR_VERSION = 8
#: The oldest whose operations are called as they are here.
LEAST_OPSET = 13
TYPES = ("float16", "float32", "float64")

#: What the first input is called, by what it holds; ``probabilities`` come out.
_FIRST_INPUT = {"logits": "logits", "probabilities": "model_probabilities", "score": "score"}

#: Rivals of the predicted class stay below it by this share, to be apart in half precision too.
_BELOW_IN_HALF = 1 - 2.0**-9
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


def to_onnx(
    fitted: FittedCalibrator, *, dtype: str = "float32", origin: Origin | None = None
) -> bytes:
    """Return a calibrator as the bytes of an ONNX file.

    It has the input ``logits`` (``model_probabilities`` or ``score``, of one column, where the
    calibrator takes those; and ``features`` where it needs them) and the outputs
    ``probabilities`` and, where there is one, ``temperature``. With effects of groups it has the
    input ``group``, int64: the place of the row's group among the names in ``smallcal.group_names``
    of the metadata; any other number, such as -1, stands for one that is not known. A calibrator
    with a certified threshold has the output ``accepted``, a truth value for each row, and one with
    thresholds by group the input ``group`` for it. The batch may have any size.

    Parameters
    ----------
    fitted : FittedCalibrator
    dtype : {"float32", "float16", "float64"}
        Of inputs and outputs.
    origin : Origin, optional
        What to say about where it comes from.

    Examples
    --------
    >>> import pytest, smallcal as sc
    >>> onnx = pytest.importorskip("onnx")
    >>> cal = sc.TemperatureScaling().fit([[2.0, 0.0], [1.0, 0.0]] * 20, [0, 1] * 20)
    >>> model = onnx.load_from_string(to_onnx(cal.fitted_))
    >>> [output.name for output in model.graph.output]
    ['probabilities', 'temperature']
    """
    if dtype not in TYPES:
        raise InputError(f"dtype must be one of {', '.join(TYPES)}; got {dtype!r}")
    onnx = require_onnx()
    helper = onnx.helper
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    program = graph_program(fitted, half=dtype == "float16")
    first = _FIRST_INPUT[program.takes]
    inputs = [helper.make_tensor_value_info(first, kind, ["batch", program.n_columns])]
    if program.n_features:
        shape = ["batch", program.n_features]
        inputs.append(helper.make_tensor_value_info("features", kind, shape))
    graph = Graph(onnx, opset=OPSET)
    tensors = {"logits": first, "features": "features"}
    if (groups := named_groups(fitted)) is not None:
        inputs.append(helper.make_tensor_value_info("group", onnx.TensorProto.INT64, ["batch"]))
        tensors |= graph.of_groups("group", groups)
    graph.write(program, tensors)
    graph.node("Cast", graph.result(program), output="probabilities", to=kind)
    outputs = [helper.make_tensor_value_info("probabilities", kind, ["batch", program.n_classes])]
    if program.temperature is not None:
        column = graph.per_row(program.temperature)
        flat = graph.node("Squeeze", column, graph.integers([-1]))
        graph.node("Cast", flat, output="temperature", to=kind)
        outputs.append(helper.make_tensor_value_info("temperature", kind, ["batch"]))
    for column, flag in program.decisions:
        graph.decided(program, flag, output=column)
        outputs.append(helper.make_tensor_value_info(column, onnx.TensorProto.BOOL, ["batch"]))
    model = helper.make_model(
        helper.make_graph(graph.nodes, "smallcal", inputs, outputs, graph.initializers),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="smallcal",
    )
    describe(model, fitted, origin or origin_of(fitted))
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def require_onnx() -> Any:
    """Import onnx, or say in one line what to install."""
    with needing("onnx", "onnx", "exporting to ONNX"):
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
        import onnx.version_converter
    return onnx


def describe(model: Any, fitted: FittedCalibrator, origin: Origin) -> None:
    """Write into a model which calibrator it holds."""
    entries = {
        "smallcal.method": origin.method,
        "smallcal.library": origin.library,
        "smallcal.artefact_sha256": origin.sha256,
    }
    if fitted.class_names is not None:
        entries["smallcal.class_names"] = json.dumps(fitted.class_names)
    if (groups := named_groups(fitted)) is not None:
        entries["smallcal.group_names"] = json.dumps(groups.names)
    if rules_of(fitted):
        entries["smallcal.decisions"] = told(fitted)
    for key, value in entries.items():
        model.metadata_props.add(key=key, value=value.encode(errors="replace").decode())


def graph_program(fitted: FittedCalibrator, *, half: bool) -> Program:
    """Return the program to write: without what ONNX Runtime lacks, and safe in the type."""
    program = without_erf(plain(program_of(fitted)))
    if not (half and fitted.preserves_argmax and fitted.score is None):
        return program
    logits = next(value for value in program.values() if value.operation == "logits")
    top, p = logits.at_top(), program.probabilities
    confidence = (top * p).sum()
    return replace(program, probabilities=choose(top, p, p.at_most(confidence * _BELOW_IN_HALF)))


class Graph:
    """Nodes and constants in the making; every name begins with a prefix."""

    def __init__(self, onnx: Any, *, opset: int, prefix: str = "smallcal_") -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._onnx, self._opset, self._prefix = onnx, opset, prefix
        self._names: dict[int, str] = {}
        self._masks: dict[int, str] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._same_for_all: set[int] = set()
        self._first = self._good = ""
        self._last: Program | None = None  # a program keeps its values, and so their ids, alive

    def write(self, program: Program, inputs: dict[str, str]) -> None:
        """Add all of a program; ``inputs`` names the tensors that it reads."""
        self._last = program
        self._first = inputs["logits"]
        for value in program.values():
            if value.operation in inputs:
                name = self._cast(inputs[value.operation], "DOUBLE")
            elif value.operation in _OPS:
                name = self.node(_OPS[value.operation], *map(self.name_of, value.of))
            else:
                name = getattr(self, f"_{value.operation}")(value)
            self._names[id(value)] = name
            if value.operation not in inputs and self._same_for_all.issuperset(map(id, value.of)):
                self._same_for_all.add(id(value))

    def name_of(self, value: Value) -> str:
        """Return the tensor of a value."""
        return self._names[id(value)]

    def result(self, program: Program) -> str:
        """Return the tensor of the probabilities; NaN where a score is none.

        Else such a score would be put at the nearest end, and look as sure as can be.
        """
        found = self.name_of(program.probabilities)
        if program.score is None:
            return found
        score = next(value for value in program.values() if value.operation == "logits")
        x = self.name_of(score)
        low, high = program.score.allowed
        above = self.node("GreaterOrEqual", x, self._kept(np.array([low])))
        below = self.node("LessOrEqual", x, self._kept(np.array([high])))
        self._good = self.node("And", above, below)
        return self.node("Where", self._good, found, self._kept(np.array([np.nan])))

    def decided(self, program: Program, flag: Value, *, output: str) -> None:
        """Add a truth value for each row: a decision; never where a score is none.

        To be called after :meth:`result`.
        """
        mask = self._masks[id(flag)]
        if program.score is not None:
            mask = self.node("And", mask, self._good)
        self.node("Squeeze", mask, self.integers([-1]), output=output)

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
        number = len(self.nodes)
        output = output or f"{self._prefix}{number}"
        name = f"{self._prefix}node_{number}"
        make = self._onnx.helper.make_node
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
        return self.node("Gather", self._kept(table), self.node("Where", inside, places, last))

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
        return self._kept(np.array(numbers, dtype=np.int64))

    def _kept(self, array: NDArray[Any]) -> str:
        """Add numbers, or find them again."""
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            name = f"{self._prefix}constant_{len(self.initializers)}"
            content = np.ascontiguousarray(array)
            self.initializers.append(self._onnx.numpy_helper.from_array(content, name))
            self._constants[key] = name
        return self._constants[key]

    def _cast(self, source: str, kind: str) -> str:
        return self.node("Cast", source, to=getattr(self._onnx.TensorProto, kind))

    def _constant(self, value: Value) -> str:
        return self._kept(value.numbers)

    def _reached(self, value: Value) -> str:
        return self._mask(value, self.node("GreaterOrEqual", *map(self.name_of, value.of)))

    def _mask(self, value: Value, name: str) -> str:
        self._masks[id(value)] = name
        return self._cast(name, "DOUBLE")

    def _choose(self, value: Value) -> str:
        where, *others = value.of
        mask = self._masks.get(id(where)) or self._cast(self.name_of(where), "BOOL")
        return self.node("Where", mask, *map(self.name_of, others))

    def _sum(self, value: Value) -> str:
        return self._reduced("ReduceSum", value, since=13)

    def _largest(self, value: Value) -> str:
        return self._reduced("ReduceMax", value, since=18)

    def _reduced(self, operation: str, value: Value, *, since: int) -> str:
        """Reduce rows to a column; the axis is an input since an opset, and was an attribute."""
        row = self.name_of(value.of[0])
        if self._opset < since:
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
            return self.node("Mul", self.name_of(row), self._kept(value.numbers[:, 0]))
        return self.node("MatMul", self.name_of(row), self._kept(value.numbers.T))

    def _rank(self, value: Value) -> str:
        """Search by halves: comparing with each number would need a row of them per row."""
        x = self.name_of(value.of[0])
        steps = 2 ** np.arange(len(value.numbers).bit_length())[::-1]
        padding = np.full(2 * int(steps[0]) - len(value.numbers), np.inf)
        ascending = self._kept(np.concatenate([value.numbers, padding]))
        found = self.integers([0])
        for step in steps.tolist():
            further = self.node("Add", found, self.integers([step]))
            number = self.node("Gather", ascending, self.node("Sub", further, self.integers([1])))
            found = self.node("Where", self.node("GreaterOrEqual", x, number), further, found)
        return self._cast(found, "DOUBLE")

    def _join(self, value: Value) -> str:
        return self.node("Concat", *map(self.per_row, value.of), axis=-1)

"""A calibrator as an ONNX graph: a file of its own, or behind the model whose logits it takes.

Inside it is double precision; the numbers come back in the type they came in, or in float32
where that is shorter.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.program import INPUTS, Program, Value, choose, constant
from smallcal.calibrators.program_plain import plain
from smallcal.data.masks import FEWEST, MAX_MAGNITUDE
from smallcal.deploy.export.decided import named_groups, rules_of, told
from smallcal.deploy.export.erf import without_erf
from smallcal.deploy.export.onnx_nodes import Graph
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


def to_onnx(
    fitted: FittedCalibrator, *, dtype: str = "float32", origin: Origin | None = None
) -> bytes:
    """Return a calibrator as the bytes of an ONNX file.

    The input is ``logits``, or ``model_probabilities`` or ``score`` (one column) for a calibrator
    of those; ``features`` is a second one where the method needs it. The outputs are
    ``probabilities`` and, if there is one temperature per row, ``temperature``. A calibrator with
    effects of groups, or thresholds by group, has the input ``group``, int64: the index of the
    row's group in ``smallcal.group_names`` of the metadata; any other number, such as -1, means
    an unknown group. A certified threshold adds the output ``accepted``, one boolean per row;
    ``keep_predictions`` adds ``confidence``, the calibrated probability of the model's own
    prediction. The batch may have any size. A row that NumPy would refuse, such as one with a NaN,
    gives NaN and is never accepted; minus infinity masks a class.

    Parameters
    ----------
    fitted : FittedCalibrator
    dtype : {"float32", "float16", "float64"}
        Type of inputs and outputs; the outputs of float16 are float32.
    origin : Origin, optional
        Where the calibrator comes from, for the metadata.

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
        raise InputError(
            f"dtype must be one of {', '.join(TYPES)}; got {dtype!r}", code="unknown-choice"
        )
    onnx = require_onnx()
    helper = onnx.helper
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    program = program_of(fitted)
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
    found = calibrated(graph, fitted, tensors, dtype=dtype)
    graph.node("Identity", found.probabilities, output="probabilities")
    kind = found.kind
    outputs = [helper.make_tensor_value_info("probabilities", kind, ["batch", program.n_classes])]
    for name, column in (("temperature", found.temperature), ("confidence", found.confidence)):
        if column is not None:
            graph.node("Squeeze", column, graph.integers([-1]), output=name)
            outputs.append(helper.make_tensor_value_info(name, kind, ["batch"]))
    for (column, _), flag in zip(program.decisions, found.decisions, strict=True):
        graph.node("Squeeze", flag, graph.integers([-1]), output=column)
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


class Columns(NamedTuple):
    """Tensors with a row for each row; decisions are truth values, the rest of one type."""

    kind: int

    probabilities: str
    temperature: str | None
    confidence: str | None
    decisions: list[str]


def calibrated(
    graph: Graph, fitted: FittedCalibrator, tensors: dict[str, str], *, dtype: str
) -> Columns:
    """Write a calibrator into a graph; ``tensors`` are named by the inputs of its program."""
    program = without_erf(plain(_refusing(program_of(fitted))))
    graph.write(program, tensors)
    kind = "DOUBLE" if dtype == "float64" else "FLOAT"
    probabilities, temperature, confidence = (
        None if value is None else graph.cast(graph.name_of(value), kind)
        for value in (program.probabilities, program.temperature, program.confidence)
    )
    assert probabilities is not None
    decisions = [graph.cast(graph.name_of(flag), "BOOL") for _, flag in program.decisions]
    number = getattr(graph.onnx.TensorProto, kind)
    return Columns(number, probabilities, temperature, confidence, decisions)


def _refusing(program: Program) -> Program:
    """Return a program that gives NaN for rows that the checks on arrays refuse.

    No decision accepts them.
    """
    found = {value.operation: value for value in program.values() if value.operation in INPUTS}
    logits, (low, high) = found["logits"], program.allowed
    usable = _all(constant(high).reached(logits))
    if program.takes == "logits":
        usable = choose(logits.reached(-MAX_MAGNITUDE).sum().reached(FEWEST), usable, 0.0)
    else:
        usable = choose(usable, _all(logits.reached(low)), 0.0)
    if "features" in found:
        size = found["features"].at_least(0.0 - found["features"])
        usable = choose(usable, _all(constant(MAX_MAGNITUDE).reached(size)), 0.0)
    temperature, confidence = (
        None if value is None else choose(usable, value, np.nan)
        for value in (program.temperature, program.confidence)
    )
    return replace(
        program,
        probabilities=choose(usable, program.probabilities, np.nan),
        temperature=temperature,
        confidence=confidence,
        decisions=tuple((name, choose(usable, flag, 0.0)) for name, flag in program.decisions),
    )


def _all(good: Value) -> Value:
    """Return 1 where all numbers of a row are 1."""
    return good.sum().reached(good.width)

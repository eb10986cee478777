"""Put a calibrator behind an ONNX model, so that one file yields calibrated probabilities."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.deploy.export.decided import named_groups, rules_of
from smallcal.deploy.export.onnx import (
    LEAST_OPSET,
    OPSET,
    TYPES,
    calibrated,
    describe,
    require_onnx,
)
from smallcal.deploy.export.onnx_nodes import Graph
from smallcal.deploy.export.origin import Origin, origin_of
from smallcal.errors import FileError, InputError, did_you_mean, file_errors

#: One file of the format cannot be larger.
MAX_BYTES = 2**31 - 1


def append_to_onnx(
    fitted: FittedCalibrator,
    model: str | os.PathLike[str],
    *,
    output_name: str | None = None,
    features_name: str | None = None,
    origin: Origin | None = None,
) -> bytes:
    """Return an ONNX model whose logits are followed by a calibrator.

    All outputs of the model stay; ``probabilities`` is added, in the type and shape of the
    logits (whose last axis is the classes). A model older than opset 13 is converted. For a
    calibrator of scores, the model's output is (batch,) or (batch, 1), and the probabilities are
    (batch, 2). A certified threshold adds ``accepted``, one boolean per row;
    ``keep_predictions`` adds ``confidence``, as in :func:`smallcal.deploy.export.to_onnx`.

    Parameters
    ----------
    fitted : FittedCalibrator
    model : path
        An ONNX file that holds its own weights, below 2 GB.
    output_name : str, optional
        The output with the logits, or scores; needed where there are several.
    features_name : str, optional
        The output with the features, for calibrators that need them.
    origin : Origin, optional
        Where the calibrator comes from, for the metadata.

    Returns
    -------
    bytes
        The content of an ONNX file.
    """
    onnx = require_onnx()
    first = "logits" if fitted.score is None else "scores"
    program_inputs = {first: output_name}
    if (groups := named_groups(fitted)) is not None:
        what = "effects of groups" if groups.effects else "thresholds by group"
        raise InputError(
            f"a calibrator with {what} cannot be appended to a model, which gives no groups; "
            "export it as a separate file",
            code="method-unsuitable",
        )
    if fitted.signal.n_features:
        if features_name is None:
            raise InputError(
                f"{fitted.method} needs features: say which output has them with ",
                python="features_name=...",
                shell="--features-name",
                code="features-missing",
            )
        program_inputs["features"] = features_name
    loaded = _modern(onnx, _loaded(onnx, Path(model)), Path(model))
    graph = loaded.graph
    outputs = {role: _output(graph, name, role) for role, name in program_inputs.items()}
    given = outputs.pop(first)
    dtype = _type_of(onnx, given, first)
    if fitted.score is None:
        _require_width(given, fitted.n_classes, "classes")
    if "features" in outputs:
        _require_width(outputs["features"], fitted.signal.n_features or 0, "features")
    taken = set(_names(graph))
    made = Graph(onnx, opset=_opset(loaded), prefix=_free("smallcal_", taken))
    named = {role: output.name for role, output in outputs.items()}
    column = given.name if fitted.score is None else _column(made, given)
    found = calibrated(made, fitted, {"logits": column, **named}, dtype=dtype)
    result = f"{_apart('probabilities', taken)}probabilities"
    made.node("Identity", found.probabilities, output=result)
    flags = {
        rule.column: each for rule, each in zip(rules_of(fitted), found.decisions, strict=True)
    }
    columns = {} if found.confidence is None else {"confidence": found.confidence}
    _add_output(graph, given, result, found.kind, n_columns=None if fitted.score is None else 2)
    for name, each in (columns | flags).items():
        added = made.node(
            "Squeeze", each, made.integers([-1]), output=f"{_apart(name, taken)}{name}"
        )
        _add_column(graph, given, added, onnx.TensorProto.BOOL if name in flags else found.kind)
    graph.node.extend(made.nodes)
    graph.initializer.extend(made.initializers)
    describe(loaded, fitted, origin or origin_of(fitted))
    return _bytes(onnx, loaded, Path(model))


def _column(made: Graph, output: Any) -> str:
    """Return a model's scores with an axis of one at the end, which those of shape (n,) lack."""
    if _n_axes(output) == 1:
        return made.node("Unsqueeze", output.name, made.integers([-1]))
    _require_width(output, 1, "score")
    return str(output.name)


def _n_axes(output: Any) -> int | None:
    """Return how many axes a tensor has; None where the model does not say."""
    tensor = output.type.tensor_type
    return len(tensor.shape.dim) if tensor.HasField("shape") else None


def _add_output(graph: Any, like: Any, name: str, kind: int, *, n_columns: int | None) -> None:
    """Add an output of the shape of another but for the last axis."""
    added = graph.output.add()
    added.CopyFrom(like)
    added.name = name
    added.type.tensor_type.elem_type = kind
    shape = added.type.tensor_type.shape
    if n_columns is None or not added.type.tensor_type.HasField("shape"):
        return
    if len(shape.dim) == 1:
        shape.dim.add()
    shape.dim[-1].dim_value = n_columns


def _add_column(graph: Any, like: Any, name: str, kind: int) -> None:
    """Add an output of some type, of the shape of another without its last axis."""
    added = graph.output.add()
    added.name = name
    tensor, given = added.type.tensor_type, like.type.tensor_type
    tensor.elem_type = kind
    if given.HasField("shape"):
        axes = list(given.shape.dim)
        tensor.shape.dim.extend(axes[:-1] if len(axes) > 1 else axes)


def _apart(name: str, taken: set[str]) -> str:
    """Return what to put before the name of an output: nothing where the model has none such."""
    return _free("smallcal_", taken) if name in taken else ""


def _loaded(onnx: Any, path: Path) -> Any:
    """Read a model and check it; nothing beside the file is touched."""
    with file_errors(f"cannot read {path}"):
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise FileError(
                f"{path} is {size / 1e9:.1f} GB; one ONNX file holds at most 2 GB",
                code="file-too-large",
            )
        content = path.read_bytes()
    with _explained(f"{path} is not an ONNX model"):
        model = onnx.load_from_string(content)
    if any(onnx.external_data_helper.uses_external_data(t) for t in _tensors(model.graph)):
        raise FileError(
            f"{path} keeps weights in other files; save it as one file first "
            "(onnx.save with save_as_external_data=False)",
            code="file-type",
        )
    if any(entry.key == "smallcal.method" for entry in model.metadata_props):
        raise FileError(
            f"{path} has a calibrator already; append to the model without one", code="file-exists"
        )
    with _explained(f"{path} is not a valid ONNX model"):
        onnx.checker.check_model(model)
    return model


@contextmanager
def _explained(what: str, advice: str = "") -> Iterator[None]:
    """Say in one line what failed: the errors of onnx and of protobuf have no common base."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - which one depends on the release
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise FileError(f"{what}: {lines[0]}{advice}", code="file-damaged") from None


def _modern(onnx: Any, model: Any, path: Path) -> Any:
    """Convert a model whose operations are too old to stand beside ours."""
    if _opset(model) >= LEAST_OPSET:
        return model
    if not _opset(model):  # only operations of other domains
        model.opset_import.add(domain="", version=OPSET)
        return model
    with _explained(
        f"{path} is of opset {_opset(model)} and cannot be converted to {OPSET}",
        advice=f"; export the model again with opset {OPSET}",
    ):
        return onnx.version_converter.convert_version(model, OPSET)


def _opset(model: Any) -> int:
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    return max(versions, default=0)


def _output(graph: Any, name: str | None, role: str) -> Any:
    names = [output.name for output in graph.output]
    if name is None and len(names) == 1:
        return graph.output[0]
    if name not in names:
        there = ", ".join(names) or "none"
        if name is not None:
            advice = did_you_mean(name, names) or f"the model has {there}"
            raise InputError(f"{role}: there is no output {name!r}; {advice}", code="file-column")
        option = "features_name" if role == "features" else "output_name"
        raise InputError(
            f"the model has the outputs {there}; say which one has the {role} with ",
            python=f"{option}=...",
            shell=f"--{option.replace('_', '-')}",
            code="file-ambiguous",
        )
    return graph.output[names.index(name)]


def _type_of(onnx: Any, output: Any, role: str) -> str:
    kind = output.type.tensor_type.elem_type
    name = onnx.TensorProto.DataType.Name(kind).lower()
    known = {"float": "float32", "float16": "float16", "double": "float64"}
    if name not in known:
        raise InputError(
            f"the output {output.name!r} is of type {name}; {role} are {', '.join(TYPES)}",
            code="array-type",
        )
    return known[name]


def _require_width(output: Any, width: int, what: str) -> None:
    """Check the last axis, where the model says how long it is."""
    tensor = output.type.tensor_type
    if not tensor.HasField("shape"):
        return
    if not tensor.shape.dim:
        raise InputError(
            f"the output {output.name!r} is one number, not {width} {what}", code="columns-differ"
        )
    last = tensor.shape.dim[-1]
    if last.HasField("dim_value") and last.dim_value != width:
        raise InputError(
            f"the output {output.name!r} has {last.dim_value} columns; the calibrator was fitted "
            f"on {width} {what}",
            code="columns-differ",
        )


def _free(prefix: str, taken: set[str]) -> str:
    """Return a prefix that no name begins with."""
    while any(name.startswith(prefix) for name in taken):
        prefix += "_"
    return prefix


def _names(graph: Any) -> Iterator[str]:
    """Yield every name in a graph and the graphs inside it."""
    for part in _graphs(graph):
        for entry in (*part.input, *part.output, *part.value_info, *part.initializer, *part.node):
            yield entry.name
        for sparse in part.sparse_initializer:
            yield sparse.values.name
        for node in part.node:
            yield from (*node.input, *node.output)


def _tensors(graph: Any) -> Iterator[Any]:
    """Yield every tensor in a graph and the graphs inside it."""
    for part in _graphs(graph):
        yield from part.initializer
        for attribute in _attributes(part):
            yield from (attribute.t, *attribute.tensors)


def _graphs(graph: Any) -> Iterator[Any]:
    """Yield a graph and the graphs inside it."""
    yield graph
    for attribute in _attributes(graph):
        for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            yield from _graphs(inner)


def _attributes(graph: Any) -> Iterator[Any]:
    return (attribute for node in graph.node for attribute in node.attribute)


def _bytes(onnx: Any, model: Any, path: Path) -> bytes:
    if model.ByteSize() > MAX_BYTES:
        raise FileError(
            f"{path} with a calibrator is over 2 GB, more than one ONNX file holds",
            code="file-too-large",
        )
    with _explained(f"{path} is not a valid ONNX model"):
        onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content

"""All rows of a batch: in single precision where that is enough, else in double."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.program import Program
from smallcal.deploy.export.onnx_fast import FastGraph, NotFastError
from smallcal.deploy.export.onnx_nodes import Graph, Tensor

#: Numbers in a block of rows: it stays in the cache from one operation to the next.
BLOCK = 2**19


class Columns(NamedTuple):
    """Tensors with a row for each row: probabilities, temperature, truth values of decisions."""

    probabilities: str
    temperature: str | None
    decisions: list[str]

    def typed(self, graph: Graph, dtype: str) -> Columns:
        """Return the same with probabilities of a type."""
        kind = {"float16": "FLOAT16", "float32": "FLOAT", "float64": "DOUBLE"}[dtype]
        return self._replace(probabilities=graph.cast(self.probabilities, kind))

    def shaped_like(self, graph: Graph, first: str) -> Columns:
        """Return the same with the leading axes of the logits."""
        shape = graph.node("Shape", first)
        lead = graph.node("Slice", shape, graph.integers([0]), graph.integers([-1]))
        column = graph.node("Concat", lead, graph.integers([1]), axis=0)
        temperature = self.temperature
        return Columns(
            graph.node("Reshape", self.probabilities, shape),
            None if temperature is None else graph.node("Reshape", temperature, column),
            [graph.node("Reshape", each, column) for each in self.decisions],
        )


def has_quick_form(onnx: object, program: Program, *, opset: int) -> bool:
    """Tell whether every step of a program can be written in single precision."""
    try:
        FastGraph(Graph(onnx, opset=opset), "tried", tie=0.0).write(program, {"logits": "logits"})
    except NotFastError:
        return False
    return program.score is None and program.takes == "logits"


def in_double(graph: Graph, program: Program, tensors: dict[str, str]) -> Columns:
    """Write a program of the twenty operations in double precision."""
    graph.write(program, tensors)
    probabilities = graph.result(program)
    temperature = None if program.temperature is None else graph.per_row(program.temperature)
    decisions = [graph.decided(program, flag) for _, flag in program.decisions]
    return Columns(probabilities, temperature, decisions)


def in_single(graph: Graph, quick: Program, exact: Program, z: str, *, tie: float) -> Columns:
    """Write a program in single precision, and in double for the rows that need it.

    Parameters
    ----------
    graph : Graph
    quick, exact : Program
        The same; ``exact`` in the twenty operations alone.
    z : str
        The logits, of two axes, in single precision.
    tie : float
        How near the confidence a runner-up may not come, as a share of it.
    """
    n_rows = graph.node("Slice", graph.node("Shape", z), graph.integers([0]), graph.integers([1]))
    blocks, nothing = graph.inside("blocks"), graph.inside("nothing")
    made = _in_blocks(blocks, quick, z, n_rows, tie=tie)
    # Not all runtimes go through no blocks, or reduce no rows.
    empty = [_empty(nothing, each) for each in made]
    names = graph.either(graph.some(n_rows), (blocks, made), (nothing, empty))
    safe, *found = (
        each._replace(name=graph.node("Reshape", name, graph.integers([-1, each.width])))
        for each, name in zip(made, names, strict=True)
    )
    probabilities, *columns = _mended(graph, exact, z, safe.name, found)
    temperature = None if quick.temperature is None else columns.pop(0)
    return Columns(probabilities, temperature, columns)


def _in_blocks(graph: Graph, quick: Program, z: str, n_rows: str, *, tie: float) -> list[Tensor]:
    """Go through the rows in blocks of one size.

    Returns tensors with an axis of blocks first: which rows are safe, then what is asked for.
    """
    width = quick.n_classes
    block = FastGraph(graph, "block", tie=tie)
    # With its axes named, ONNX Runtime knows that results have room where their input was.
    logits = Tensor(f"{block.prefix}logits", "FLOAT", width, ("rows", width))
    block.write(quick, {"logits": logits.name})
    found = [
        Tensor(block.safe(), "BOOL", 1),
        Tensor(block.name_of(quick.probabilities), "FLOAT", width),
    ]
    if quick.temperature is not None:
        found.append(Tensor(block.per_row(quick.temperature), "DOUBLE", 1))
    found += [Tensor(block.mask(flag), "BOOL", 1) for _, flag in quick.decisions]
    size, last = _block_size(graph, n_rows, width), graph.integers([width])
    shape = graph.node("Concat", graph.integers([-1]), size, last, axis=0)
    names = [f"{graph.prefix}joined_{k}" for k in range(len(found))]
    body = block.made("rows", found, [logits])
    graph.several("Scan", [graph.node("Reshape", z, shape)], names, body=body, num_scan_inputs=1)
    return [each._replace(name=name) for each, name in zip(found, names, strict=True)]


def _block_size(graph: Graph, n_rows: str, width: int) -> str:
    """Return how many rows a block has: all, if no round number of a good size divides them."""
    most = max(BLOCK // width, 1)
    products = {2**a * 5**b for a in range(20) for b in range(9)}
    sizes = graph.integers(sorted(size for size in products if most < 4 * size <= 4 * most))
    rest = graph.node("Mod", n_rows, sizes)
    divides = graph.node("Equal", rest, graph.integers([0]))
    fitting = graph.node("Where", divides, sizes, graph.integers([0]))
    largest = graph.node("ReduceMax", fitting, keepdims=1)
    return graph.node("Where", graph.cast(largest, "BOOL"), largest, n_rows)


def _mended(graph: Graph, exact: Program, z: str, safe: str, found: list[Tensor]) -> list[str]:
    """Compute rows that are not safe once more, in double, and put them in their places."""
    unsafe = graph.node("Squeeze", graph.node("Not", safe), graph.integers([-1]))
    rows = graph.node("Transpose", graph.node("NonZero", unsafe))
    again, nothing = graph.inside("again"), graph.inside("none")
    columns = in_double(again, exact, {"logits": again.node("GatherND", z, rows)})
    names = [again.cast(columns.probabilities, "FLOAT")]
    names += [] if columns.temperature is None else [columns.temperature]
    names += columns.decisions
    new = [each._replace(name=name) for each, name in zip(found, names, strict=True)]
    none = [_empty(nothing, each) for each in found]
    put = graph.either(graph.some(unsafe), (again, new), (nothing, none))
    return [
        graph.node(
            "ScatterElements",
            each.name,
            graph.node("Expand", rows, graph.node("Shape", name)),
            name,
            axis=0,
        )
        for each, name in zip(found, put, strict=True)
    ]


def _empty(graph: Graph, like: Tensor) -> str:
    kind = {"FLOAT": np.float32, "DOUBLE": np.float64, "BOOL": np.bool_}[like.kind]
    nothing: NDArray[Any] = np.empty((0, like.width), dtype=kind)
    return graph.node("Identity", graph.kept(nothing))

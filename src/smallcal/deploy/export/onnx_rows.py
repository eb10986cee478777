"""All rows of a batch: in single precision where that is enough, else in double."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smallcal.calibrators.program import Program
from smallcal.deploy.export.onnx_fast import FastGraph, NotFastError
from smallcal.deploy.export.onnx_nodes import Graph, Tensor

#: Numbers in a block of rows: it stays in the cache from one operation to the next.
BLOCK = 2**18


class Columns(NamedTuple):
    """Tensors with a row for each row: probabilities, temperature, truth values of decisions."""

    probabilities: str
    temperature: str | None
    decisions: list[str]


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


def in_single(graph: Graph, quick: Program, exact: Program, first: str, *, tie: float) -> Columns:
    """Write a program in single precision, and in double for the rows that need it.

    Parameters
    ----------
    graph : Graph
    quick, exact : Program
        The same; ``exact`` in the twenty operations alone.
    first : str
        The logits, of any leading axes.
    tie : float
        How near the confidence a runner-up may not come, as a share of it.
    """
    width = quick.n_classes
    z = graph.node("Reshape", graph.cast(first, "FLOAT"), graph.integers([-1, width]))
    n_rows = graph.node("Slice", graph.node("Shape", z), graph.integers([0]), graph.integers([1]))
    rows, nothing = graph.inside("rows"), graph.inside("nothing")
    found = _in_blocks(rows, quick, exact, (z, n_rows), tie=tie)
    # No runtime is asked to go through no blocks, or to reduce no rows.
    names = graph.either(graph.some(n_rows), (rows, found), (nothing, _no_rows(nothing, found)))
    shape = graph.node("Shape", first)
    probabilities = graph.node("Reshape", names.pop(0), shape)
    lead = graph.node("Slice", shape, graph.integers([0]), graph.integers([-1]))
    column = graph.node("Concat", lead, graph.integers([1]), axis=0)
    columns = [graph.node("Reshape", name, column) for name in names]
    temperature = None if quick.temperature is None else columns.pop(0)
    return Columns(probabilities, temperature, columns)


def _in_blocks(
    graph: Graph, quick: Program, exact: Program, given: tuple[str, str], *, tie: float
) -> list[Tensor]:
    """Go through the rows in blocks of equal size; return the tensors of what comes out."""
    z, n_rows = given
    width = quick.n_classes
    block = FastGraph(graph, "block", tie=tie)
    logits = Tensor(f"{block.prefix}logits", "FLOAT", width)
    block.write(quick, {"logits": logits.name})
    found = [Tensor(block.name_of(quick.probabilities), "FLOAT", width)]
    if quick.temperature is not None:
        found.append(Tensor(block.per_row(quick.temperature), "DOUBLE", 1))
    found += [Tensor(block.mask(flag), "BOOL", 1) for _, flag in quick.decisions]
    mended = _mended(block, exact, logits.name, found)
    body = block.made("body", mended, [logits])
    shape = graph.node(
        "Concat",
        graph.integers([-1]),
        _block_size(graph, n_rows, width),
        graph.integers([width]),
        axis=0,
    )
    cut = graph.node("Reshape", z, shape)
    names = [f"{graph.prefix}joined_{k}" for k in range(len(mended))]
    graph.several("Scan", [cut], names, body=body, num_scan_inputs=1)
    return [
        each._replace(name=graph.node("Reshape", name, graph.integers([-1, each.width])))
        for each, name in zip(mended, names, strict=True)
    ]


def _block_size(graph: Graph, n_rows: str, width: int) -> str:
    """Return how many rows a block has: all, if none of some round numbers divides them."""
    most = max(BLOCK // width, 1)
    sizes = {2**a * 5**b for a in range(19) for b in range(9)}
    round_sizes = graph.integers(sorted(size for size in sizes if most < 4 * size <= 4 * most))
    whole = graph.node("Equal", graph.node("Mod", n_rows, round_sizes), graph.integers([0]))
    fitting = graph.node("Where", whole, round_sizes, n_rows)
    return graph.node("ReduceMin", fitting, keepdims=1)


def _mended(block: FastGraph, exact: Program, logits: str, found: list[Tensor]) -> list[Tensor]:
    """Compute the rows that are not safe once more, in double, and put them in their place."""
    unsafe = block.node("Squeeze", block.node("Not", block.safe()), block.integers([-1]))
    again, kept = block.inside("again"), block.inside("kept")
    rows = again.node("Transpose", again.node("NonZero", unsafe))
    columns = in_double(again, exact, {"logits": again.node("GatherND", logits, rows)})
    new = [again.cast(columns.probabilities, "FLOAT")]
    new += [] if columns.temperature is None else [columns.temperature]
    new += columns.decisions
    then = []
    for each, name in zip(found, new, strict=True):
        places = again.node("Expand", rows, again.node("Shape", name))
        put = again.node("ScatterElements", each.name, places, name, axis=0)
        then.append(each._replace(name=put))
    same = [kept.node("Identity", each.name) for each in found]
    names = block.either(block.some(unsafe), (again, then), (kept, same))
    return [each._replace(name=name) for each, name in zip(found, names, strict=True)]


def _no_rows(graph: Graph, like: list[Tensor]) -> list[str]:
    kinds = {"FLOAT": np.float32, "DOUBLE": np.float64, "BOOL": np.bool_}
    return [
        graph.node("Identity", graph.kept(np.empty((0, each.width), dtype=kinds[each.kind])))
        for each in like
    ]

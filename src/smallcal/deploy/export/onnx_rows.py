"""All rows of a batch: in single precision where that is enough, else in double."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smallcal.calibrators.program import Program, Value, given
from smallcal.calibrators.program_plain import plain
from smallcal.deploy.export.onnx_fast import FastGraph, NotFastError
from smallcal.deploy.export.onnx_nodes import NUMPY_TYPES, Graph, Tensor

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
    """Tell whether single precision is enough for a program, and has a form of every step."""
    if not program.narrow or program.score is not None:
        return False
    try:
        FastGraph(Graph(onnx, opset=opset), "tried", tie=0.0).write(program, {"logits": "logits"})
    except NotFastError:
        return False
    return True


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
    tensors = [
        each._replace(name=graph.node("Reshape", name, graph.integers([-1, each.width])))
        for each, name in zip(made, names, strict=True)
    ]
    n_asked = 1 + (quick.temperature is not None) + len(quick.decisions)
    (unsafe, *changed), found = tensors[:-n_asked], tensors[-n_asked:]
    probabilities, *columns = _again(graph, exact, z, found, unsafe.name)
    shared = [_shared(graph, z, found[0], each.name) for each in changed]
    put = [
        _put(graph, each.name, parts)
        for each, parts in zip(
            found, [[probabilities, *shared], *([each] for each in columns)], strict=True
        )
    ]
    temperature = put.pop(1) if quick.temperature is not None else None
    return Columns(put[0], temperature, put[1:])


def _in_blocks(graph: Graph, quick: Program, z: str, n_rows: str, *, tie: float) -> list[Tensor]:
    """Go through the rows in blocks of one size.

    Returns tensors with an axis of blocks first: which rows are unsafe, in which others the
    predicted class has yet to share, and then what is asked for.
    """
    width = quick.n_classes
    block = FastGraph(graph, "block", tie=tie)
    logits = Tensor(f"{block.prefix}logits", "FLOAT", width)
    block.write(quick, {"logits": logits.name})
    found = [Tensor(flag, "BOOL", 1) for flag in block.left()]
    found.append(Tensor(block.name_of(quick.probabilities), "FLOAT", width))
    if quick.temperature is not None:
        found.append(Tensor(block.per_row(quick.temperature), "DOUBLE", 1))
    found += [Tensor(block.mask(flag), "BOOL", 1) for _, flag in quick.decisions]
    size, last = _block_size(graph, n_rows, width), graph.integers([width])
    shape = graph.node("Concat", graph.integers([-1]), size, last, axis=0)
    names = [f"{graph.prefix}joined_{k}" for k in range(len(found))]
    body = block.made("body", found, [logits], rows="rows")
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


class _Rows(NamedTuple):
    """Some rows: their places, as a column, and what belongs there."""

    places: str
    numbers: str


def _again(graph: Graph, exact: Program, z: str, like: list[Tensor], flags: str) -> list[_Rows]:
    """Compute the rows that are flagged once more, in double."""
    places = _places(graph, flags)
    again, nothing = graph.inside("again"), graph.inside("none")
    columns = in_double(again, exact, {"logits": again.node("GatherND", z, places)})
    names = [again.cast(columns.probabilities, "FLOAT")]
    names += [] if columns.temperature is None else [columns.temperature]
    names += columns.decisions
    new = [each._replace(name=name) for each, name in zip(like, names, strict=True)]
    none = [_empty(nothing, each) for each in like]
    found = graph.either(graph.some(flags), (again, new), (nothing, none))
    return [_Rows(places, name) for name in found]


def _shared(graph: Graph, z: str, probabilities: Tensor, flags: str) -> _Rows:
    """Let the predicted class share with what overtook it, in the rows that are flagged."""
    width = probabilities.width
    top, given_p = given("logits", width).at_top(), given("features", width)
    shared = Value("held", width, (top, Value("shared", width, (top, given_p))))
    program = plain(Program(shared, None, width, width, "logits"))
    places = _places(graph, flags)
    share, nothing = graph.inside("share", kind="FLOAT"), graph.inside("none_shared")
    rows = [share.node("GatherND", name, places) for name in (z, probabilities.name)]
    share.write(program, dict(zip(("logits", "features"), rows, strict=True)))
    new = probabilities._replace(name=share.name_of(program.probabilities))
    none = _empty(nothing, probabilities)
    (found,) = graph.either(graph.some(flags), (share, [new]), (nothing, [none]))
    return _Rows(places, found)


def _places(graph: Graph, flags: str) -> str:
    """Return the places of the rows that are flagged, as a column."""
    places = graph.node("NonZero", graph.node("Squeeze", flags, graph.integers([-1])))
    return graph.node("Transpose", places)


def _put(graph: Graph, into: str, parts: list[_Rows]) -> str:
    """Put rows in their places."""
    places, numbers = parts[0]
    if len(parts) > 1:
        places, numbers = (graph.node("Concat", *side, axis=0) for side in zip(*parts, strict=True))
    everywhere = graph.node("Expand", places, graph.node("Shape", numbers))
    return graph.node("ScatterElements", into, everywhere, numbers, axis=0)


def _empty(graph: Graph, like: Tensor) -> str:
    return graph.node("Identity", graph.kept(np.empty((0, like.width), NUMPY_TYPES[like.kind])))

"""All rows of a batch: in single precision where that is enough, else in double."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from smallcal.calibrators.program import Program, Value, given
from smallcal.calibrators.program_plain import plain
from smallcal.deploy.export.onnx_fast import FastGraph, NotFastError
from smallcal.deploy.export.onnx_last import Last
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
    made, last = _in_blocks(blocks, quick, z, n_rows, tie=tie)
    # Not all runtimes go through no blocks, or reduce no rows.
    empty = [_empty(nothing, each) for each in made.all()]
    names = graph.either(graph.some(n_rows), (blocks, made.all()), (nothing, empty))
    made = made.named(
        graph.node("Reshape", name, graph.integers([-1, each.width]))
        for each, name in zip(made.all(), names, strict=True)
    )
    matrix = made.matrix[0] if made.matrix else Tensor(z, "FLOAT", quick.n_classes)
    begun = _like(last.begun(graph, matrix, _names(made.columns)), matrix.width)
    unsafe, *changed = _names(made.flags)
    again = _again(graph, exact, z, last, [*begun, *made.results], unsafe)
    parts = [[rows] for rows in again]
    for flags in changed:
        for each, rows in zip(parts, _shared(graph, z, last, begun, flags), strict=False):
            each.append(rows)
    names = [
        _put(graph, each, rows) for each, rows in zip([*begun, *made.results], parts, strict=True)
    ]
    probabilities = last.ended(graph, *names[: len(begun)])
    results = names[len(begun) :]
    temperature = results.pop(0) if quick.temperature is not None else None
    return Columns(probabilities, temperature, results)


class _Made(NamedTuple):
    """What comes of the blocks.

    ``flags`` tell which rows are unsafe, and in which others the predicted class has yet to share;
    ``matrix`` and ``columns`` go through the last step (no matrix: the logits themselves do).
    """

    flags: list[Tensor]
    matrix: list[Tensor]
    columns: list[Tensor]
    results: list[Tensor]

    def all(self) -> list[Tensor]:
        return [each for side in self for each in side]

    def named(self, names: Iterable[str]) -> _Made:
        """Return the same tensors of other names."""
        left = iter(names)
        return _Made(*([each._replace(name=next(left)) for each in side] for side in self))


def _in_blocks(
    graph: Graph, quick: Program, z: str, n_rows: str, *, tie: float
) -> tuple[_Made, Last]:
    """Go through the rows in blocks of one size, up to the last step; blocks are an axis first."""
    width = quick.n_classes
    block = FastGraph(graph, "block", tie=tie)
    logits = Tensor(f"{block.prefix}logits", "FLOAT", width)
    block.write(quick, {"logits": logits.name})
    flags = [Tensor(flag, "BOOL", 1) for flag in block.left()]
    matrix = Tensor(block.name_of(quick.probabilities), "FLOAT", width)
    columns = [Tensor(name, "FLOAT", 1) for name in block.last.columns]
    columns += [Tensor(block.last.place, "INT64", 1)] if block.last.place else []
    results = []
    if quick.temperature is not None:
        results.append(Tensor(block.per_row(quick.temperature), "DOUBLE", 1))
    results += [Tensor(block.mask(flag), "BOOL", 1) for _, flag in quick.decisions]
    made = _Made(flags, [] if matrix == logits else [matrix], columns, results)
    size = _block_size(graph, n_rows, width) if block.writes_matrices else n_rows
    shape = graph.node("Concat", graph.integers([-1]), size, graph.integers([width]), axis=0)
    names = [f"{graph.prefix}joined_{k}" for k in range(len(made.all()))]
    body = block.made("body", made.all(), [logits], rows="rows")
    graph.several("Scan", [graph.node("Reshape", z, shape)], names, body=body, num_scan_inputs=1)
    return made.named(names), block.last


def _like(names: list[str], width: int) -> list[Tensor]:
    """Return the tensors of a matrix, and of columns beside it."""
    matrix, *columns = names
    return [Tensor(matrix, "FLOAT", width), *(Tensor(name, "FLOAT", 1) for name in columns)]


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


def _again(
    graph: Graph, exact: Program, z: str, last: Last, like: list[Tensor], flags: str
) -> list[_Rows]:
    """Compute the rows that are flagged once more, in double."""
    places = _places(graph, flags)
    again, nothing = graph.inside("again"), graph.inside("none")
    columns = in_double(again, exact, {"logits": again.node("GatherND", z, places)})
    names = last.undone(again, columns.probabilities)
    names += [] if columns.temperature is None else [columns.temperature]
    names += columns.decisions
    new = [each._replace(name=name) for each, name in zip(like, names, strict=True)]
    none = [_empty(nothing, each) for each in like]
    found = graph.either(graph.any_in(places), (again, new), (nothing, none))
    return [_Rows(places, name) for name in found]


def _shared(graph: Graph, z: str, last: Last, begun: list[Tensor], flags: str) -> list[_Rows]:
    """Let the predicted class share with what overtook it, in the rows that are flagged."""
    width = begun[0].width
    top, given_p = given("logits", width).at_top(), given("features", width)
    shared = Value("held", width, (top, Value("shared", width, (top, given_p))))
    program = plain(Program(shared, None, width, width, "logits"))
    places = _places(graph, flags)
    share, nothing = graph.inside("share", kind="FLOAT"), graph.inside("none_shared")
    rows, *parts = (share.node("GatherND", name, places) for name in (z, *_names(begun)))
    share.write(program, {"logits": rows, "features": last.ended(share, *parts)})
    names = last.undone(share, share.name_of(program.probabilities))
    new = [each._replace(name=name) for each, name in zip(begun, names, strict=True)]
    none = [_empty(nothing, each) for each in begun]
    found = graph.either(graph.any_in(places), (share, new), (nothing, none))
    return [_Rows(places, name) for name in found]


def _names(tensors: list[Tensor]) -> list[str]:
    return [each.name for each in tensors]


def _places(graph: Graph, flags: str) -> str:
    """Return the places of the rows that are flagged, as a column."""
    places = graph.node("NonZero", graph.node("Squeeze", flags, graph.integers([-1])))
    return graph.node("Transpose", places)


def _put(graph: Graph, into: Tensor, parts: list[_Rows]) -> str:
    """Put rows in their places."""
    places, numbers = parts[0]
    if len(parts) > 1:
        places, numbers = (graph.node("Concat", *side, axis=0) for side in zip(*parts, strict=True))
    return graph.put(into, places, numbers)


def _empty(graph: Graph, like: Tensor) -> str:
    return graph.node("Identity", graph.kept(np.empty((0, like.width), NUMPY_TYPES[like.kind])))

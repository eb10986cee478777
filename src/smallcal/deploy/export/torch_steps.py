"""A program of a calibrator in torch: its steps, one after another. Importing it needs torch."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from smallcal.calibrators.program import INPUTS, Program, Value
from smallcal.calibrators.program_plain import plain
from smallcal.errors import needing

with needing("torch", "torch", "a torch module"):
    import torch
    from torch import Tensor


class Step(NamedTuple):
    """One operation: on which earlier results, with which numbers, and what none needs after it."""

    operation: str
    of: tuple[int, ...]
    start: int
    shape: tuple[int, ...]
    done: tuple[int, ...]


def written(program: Program, values: Sequence[Value]) -> tuple[list[tuple[Step, ...]], Tensor]:
    """Return the steps to each of some values of a program, and every number that they use."""
    asked = plain(replace(program.alone(values[0]), decisions=tuple(("", each) for each in values)))
    arrays = {id(value.numbers): value.numbers for value in asked.values()}
    sizes = [array.size for array in arrays.values()]
    starts = dict(zip(arrays, accumulate(sizes, initial=0), strict=False))
    flat = np.concatenate([array.ravel() for array in arrays.values()])
    steps = [_steps(list(asked.alone(each).values()), starts) for _, each in asked.decisions]
    return steps, torch.from_numpy(flat)


def _steps(values: Sequence[Value], starts: Mapping[int, int]) -> tuple[Step, ...]:
    """Give the values of a program places, and note after which each is needed no more."""
    places = {id(value): place for place, value in enumerate(values)}
    last = {places[id(part)]: place for place, value in enumerate(values) for part in value.of}
    steps = []
    for place, value in enumerate(values):
        of = tuple(places[id(part)] for part in value.of)
        done = tuple(sorted(part for part in set(of) if last[part] == place))
        shape, start = (), 0
        if value.numbers.size:
            shape, start = value.numbers.shape, starts[id(value.numbers)]
        steps.append(Step(value.operation, of, start, shape, done))
    return tuple(steps)


def fingerprint(steps: tuple[Step, ...]) -> int:
    """Return a number that differs between programs of different operations."""
    text = repr([tuple(step) for step in steps])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def run(steps: Sequence[Step], given: Mapping[str, Tensor], numbers: Tensor) -> Tensor:
    """Return what the last step gives."""
    known: dict[int, Tensor] = {}
    for place, step in enumerate(steps):
        if step.operation in INPUTS:
            known[place] = given[step.operation]
        else:
            parts = [known[part] for part in step.of]
            if step.shape:
                size = math.prod(step.shape)
                parts.append(numbers[step.start : step.start + size].view(step.shape))
            known[place] = _OPERATIONS[step.operation](*parts)
        for part in step.done:  # large batches would else hold every step in memory
            del known[part]
    return known[len(steps) - 1]


# The operations of a program.


def _at_top(values: Tensor) -> Tensor:
    columns = torch.arange(values.shape[-1], device=values.device)
    return (columns == values.argmax(dim=-1, keepdim=True)).to(values.dtype)


def _join(first: Tensor, second: Tensor) -> Tensor:
    # A constant has no rows of its own.
    rows = (first if first.ndim >= second.ndim else second).shape[:-1]
    return torch.cat([part.expand(*rows, part.shape[-1]) for part in (first, second)], dim=-1)


def _rank(values: Tensor, ascending: Tensor) -> Tensor:
    return torch.searchsorted(ascending, values.contiguous(), right=True).to(values.dtype)


def _sqrt(values: Tensor) -> Tensor:
    # The slope of a root at 0 is infinite, and would make NaN of a zero row's gradient.
    return values.clamp(min=torch.finfo(values.dtype).tiny).sqrt()


#: Called in torch what they are called here.
_SAME = ("add", "subtract", "multiply", "divide", "minimum", "maximum", "exp", "log", "erf")
_OPERATIONS: Mapping[str, Callable[..., Tensor]] = MappingProxyType(
    {
        "constant": lambda numbers: numbers,
        **{name: getattr(torch, name) for name in _SAME},
        "reached": lambda a, b: (a >= b).to(a.dtype),
        "choose": lambda where, a, b: torch.where(where != 0, a, b),
        "sqrt": _sqrt,
        "sum": lambda a: a.sum(dim=-1, keepdim=True),
        "largest": lambda a: a.amax(dim=-1, keepdim=True),
        "at_top": _at_top,
        "dot": lambda a, matrix: a @ matrix.mT,
        "rank": _rank,
        "join": _join,
    }
)


def rounded(wide: Tensor, dtype: torch.dtype, top: Tensor | None) -> Tensor:
    """Return numbers in a type, at least float32; the predicted class stays first of the largest.

    Where rounding made a tie, rivals in earlier columns move down by about one unit in the last
    place, as in :func:`smallcal.calibrators.softmax.keep_argmax`.
    """
    dtype = torch.promote_types(dtype, torch.float32)
    info = torch.finfo(dtype)
    narrow = wide.clamp(info.min, info.max).to(dtype)
    if top is None:
        return narrow
    best = narrow.gather(-1, top)
    # Three quarters of the spacing: half would round back, and near 0 the spacing is constant.
    step = 0.75 * info.eps * best.to(wide.dtype).abs().clamp(min=info.tiny)
    below = (best.to(wide.dtype) - step).to(dtype)
    earlier = torch.arange(wide.shape[-1], device=wide.device) < top
    limit = torch.where(earlier, below, best).detach()
    return torch.where(narrow > limit, limit, narrow)

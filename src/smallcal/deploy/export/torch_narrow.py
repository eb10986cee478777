"""A narrow program, applied: in blocks that stay in the cache, or row by row where there are few.

Rows that single precision could decide otherwise than double are named, to be done again.
Importing it needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from smallcal.deploy.export import torch_fast, torch_row
from smallcal.deploy.export.torch_steps import Step
from smallcal.errors import needing

with needing("torch", "torch", "a torch module"):
    import torch
    from torch import Tensor, nn

#: A score this near to a threshold, as a share of it, is compared in double.
NEAR = 2e-6
#: So few rows are done one by one.
FEW = 4
#: Numbers of a block: a few such matrices fit in the cache.
BLOCK = 2**18


def folded(steps: Sequence[Step]) -> tuple[Step, ...] | None:
    """Return the steps in fewer, or None where there is one that the tables do not have.

    The softmax of a quotient is one, so is a join of several, and keeping predictions is one with
    holding rivals below them.
    """
    changed = list(steps)
    users = [sum(place in step.of for step in steps) for place in range(len(steps))]
    for place, step in enumerate(changed):
        # A top is the first part of what keeps it, any other chain goes on with its first part.
        part = step.of[-1 if step.operation == "held" else 0] if step.of else place
        inner = changed[part]
        if users[part] != 1:
            continue
        if (step.operation, inner.operation) == ("softmax", "divide"):
            changed[place] = step._replace(operation="softmax_of", of=inner.of)
        elif (step.operation, inner.operation) == ("held", "shared"):
            changed[place] = step._replace(operation="kept", of=inner.of)
        elif step.operation == inner.operation == "join":
            changed[place] = step._replace(of=(*inner.of, *step.of[1:]))
        else:
            continue
        changed[part] = inner._replace(operation="", of=())
    known = {"", "logits", "constant", *torch_fast.BLOCKS}
    return tuple(changed) if known.issuperset(step.operation for step in changed) else None


def _of_classes(steps: Sequence[Step]) -> set[int]:
    """Return the places of values that have a number for each class, or are made of such."""
    found: set[int] = set()
    for place, step in enumerate(steps):
        made = step.width > 1 and any(part in found for part in step.of)
        if step.operation == "logits" or made:
            found.add(place)
    for step in [steps[place] for place in sorted(found)]:
        found.update(part for part in step.of if steps[part].operation == "constant")
    return found


class Narrow:
    """A narrow program with its numbers at hand, for blocks or for one row.

    Parameters
    ----------
    steps : tuple of Step
        As :func:`folded` gives them.
    numbers : ndarray
        Every number of the calibrator.
    rows : bool
        Whether it is for blocks of rows.
    """

    def __init__(self, steps: Sequence[Step], numbers: NDArray[Any], *, rows: bool) -> None:
        table: Mapping[str, Callable[..., Any]]
        table, made = (
            (torch_fast.BLOCKS, torch_fast.made) if rows else (torch_row.ROW, torch_row.made)
        )
        narrow = _of_classes(steps)
        known: dict[str, Any] = {"NEAR": NEAR}
        moves: list[tuple[int, str, list[str]]] = []
        for place, step in enumerate(steps):
            names = [f"v{part}" for part in step.of]
            array = numbers[step.start : step.start + math.prod(step.shape)].reshape(step.shape)
            if step.operation == "constant":
                one = array.item() if step.width == 1 else None
                known[f"v{place}"] = made(array, narrow=place in narrow) if one is None else one
            elif step.operation in table:
                if step.shape:
                    known[f"numbers{place}"] = made(array, narrow=step.of[0] in narrow)
                    names.append(f"numbers{place}")
                known[step.operation] = table[step.operation]
                moves.append((place, step.operation, names))
        logits = next(place for place, step in enumerate(steps) if step.operation == "logits")
        exec(_text(f"v{logits}", moves, known), known)
        self._run: Callable[[Any, list[Any]], Any] = known["run"]
        self.shares = any(step.operation == "kept" for step in steps)

    def __call__(self, logits: Any, near: list[Any]) -> Any:
        """Return the probabilities; ``near`` takes in what is near to a threshold, by row."""
        return self._run(logits, near)


def _text(
    logits: str, moves: Sequence[tuple[int, str, list[str]]], known: Mapping[str, Any]
) -> str:
    """Return the moves as a function in Python: a loop over them takes as long as one row does.

    What none needs any more is let go: large blocks would else hold every step in memory.
    """
    last = {name: place for place, _, names in moves for name in names}
    lines = [f"def run({logits}, near):"]
    for place, operation, names in moves:
        if operation == "reached":
            value, threshold = names
            far = f"NEAR * (1 + abs({threshold}))"
            lines.append(f" near.append(abs({value} - {threshold}) <= {far})")
        lines.append(f" v{place} = {operation}({', '.join(names)})")
        done = sorted(name for name in {*names} - {*known} if last[name] == place)
        lines += [f" {name} = None" for name in done]
    lines.append(f" return v{moves[-1][0]}")
    return "\n".join(lines)


def rows_done(
    blocks: Narrow, logits: Tensor, allowed: tuple[float, float]
) -> tuple[Tensor, list[int]]:
    """Return the probabilities of rows (n, C) of float32, and the rows to be done again."""
    out = torch.empty_like(logits)  # outside of inference mode: the caller may go on with it
    with torch.inference_mode():
        return out, _filled(out, blocks, logits, allowed)


def _filled(out: Tensor, blocks: Narrow, logits: Tensor, allowed: tuple[float, float]) -> list[int]:
    again: list[int] = []
    rows, places = [], []
    step = max(1, BLOCK // logits.shape[1])
    for start in range(0, len(logits), step):
        some, near = _usable(logits[start : start + step], allowed)
        found = blocks(some, near)
        if isinstance(found, torch_fast.Kept):
            found, touched, tops = found
            rows.append(touched + start)
            places.append(tops)
        out[start : start + step] = found
        if near and (doubtful := torch.cat(near, dim=1).any(dim=1)).any():
            again += (doubtful.nonzero()[:, 0] + start).tolist()
    if rows:  # of all blocks at once
        touched = torch.cat(rows)
        out[touched] = torch_fast.keep(out[touched], torch.cat(places), shares=blocks.shares)
    return again


def _usable(logits: Tensor, allowed: tuple[float, float]) -> tuple[Tensor, list[Tensor]]:
    """Return rows without those that can be none, and which those are."""
    low, high = allowed
    smallest, largest = torch.aminmax(logits)
    if low <= smallest.item() and largest.item() <= high:
        return logits, []
    usable = ((logits >= low) & (logits <= high)).all(dim=-1, keepdim=True)
    return torch.where(usable, logits, 0.0), [~usable]


def row_done(
    row: Narrow, logits: NDArray[Any], allowed: tuple[float, float]
) -> NDArray[Any] | None:
    """Return the probabilities of one row (C,), or None where it is to be done again."""
    low, high = allowed
    if not (low <= logits[logits.argmin()] and logits[logits.argmax()] <= high):
        return None
    near: list[bool] = []
    try:
        found: NDArray[Any] = row(logits, near)
    except (ArithmeticError, ValueError):  # what floats raise where arrays give an infinity
        return None
    return None if any(near) else found


def in_parts(logits: Tensor, features: Tensor | None) -> bool:
    """Return whether a call can look at numbers, and write a result part by part.

    It cannot while a graph is made, nor where gradients flow, nor on another device.
    """
    return (
        type(logits) in (Tensor, nn.Parameter)
        and logits.is_cpu
        and not torch.compiler.is_compiling()
        and torch._C._get_tracing_state() is None
        and not torch._C._functorch.is_functorch_wrapped_tensor(logits)
        and not torch._C._len_torch_dispatch_stack()
        and not (torch.is_grad_enabled() and _differentiable(logits, features))
    )


def _differentiable(logits: Tensor, features: Tensor | None) -> bool:
    return logits.requires_grad or (features is not None and features.requires_grad)


def rounded(wide: Tensor, dtype: torch.dtype, top: Tensor | None) -> Tensor:
    """Return numbers in a shorter type, the predicted class still the first of the largest.

    Where rounding made a tie, rivals in earlier columns move down by about one unit in the last
    place, as in :func:`smallcal.calibrators.maps.base.keep_argmax`.
    """
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

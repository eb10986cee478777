"""A program in single precision on a processor: what its operations are for blocks of rows.

A number of a class is float32, a number of a row float64: that is enough where a program says so
(its ``narrow``). Checks look at a row's numbers, not at a matrix, and what guards the prediction
touches only rows that need it. NumPy, which shares the memory of tensors, does what torch is slow
at: the place of a row's largest number, sums of products and comparisons. Importing it needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.once import once
from smallcal.calibrators.program import BELOW, LOWEST
from smallcal.calibrators.softmax import SHARING_ROUNDS
from smallcal.errors import needing

with needing("torch", "torch", "a torch module"):
    import torch
    from torch import Tensor

#: A power of 2 takes half the time of a power of e.
LOG2E = math.log2(math.e)


class _Top:
    """The place of the first of the largest numbers of each row, found when it is asked for."""

    def __init__(self, values: Tensor) -> None:
        self._values = values

    @once
    def places(self) -> Tensor:
        """Of shape (rows, 1)."""
        return torch.from_numpy(self._values.numpy().argmax(axis=1))[:, None]


def made(numbers: NDArray[Any], *, narrow: bool) -> Tensor:
    """Return numbers of the calibrator as the operations take them."""
    return torch.from_numpy(numbers.astype(np.float32 if narrow else np.float64))


def _alike(first: Any, second: Any) -> tuple[Any, Any]:
    """Return two values in one type: where one is a class's, in single precision."""
    tensors = isinstance(first, Tensor) and isinstance(second, Tensor)
    if tensors and first.dtype != second.dtype:
        return first.float(), second.float()
    return first, second


def _pair(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda first, second: function(*_alike(first, second))


def _minimum(first: Any, second: Any) -> Any:
    if not isinstance(first, Tensor):
        first, second = second, first
    return first.clamp(max=second) if isinstance(first, Tensor) else min(first, second)


def _maximum(first: Any, second: Any) -> Any:
    if not isinstance(first, Tensor):
        first, second = second, first
    return first.clamp(min=second) if isinstance(first, Tensor) else max(first, second)


def _choose(where: Tensor, then: Any, otherwise: Any) -> Tensor:
    first, second = (torch.as_tensor(part, dtype=torch.float64) for part in (then, otherwise))
    return torch.where(where, first, second)


def _exp(values: Any) -> Any:
    if not isinstance(values, Tensor):
        return math.exp(values)
    return torch.exp(values) if values.dtype == torch.float64 else torch.exp2(values * LOG2E)


def _inner(first: Tensor, second: Tensor) -> Tensor:
    products = np.einsum("ij,ij->i", first.numpy(), second.numpy())
    return torch.from_numpy(products)[:, None].double()


def _dot(values: Tensor, matrix: Tensor) -> Tensor:
    # Few rows are quicker from the left.
    few = len(matrix) < values.shape[-1]
    product = (matrix @ values.mT).mT if few else values @ matrix.mT
    return product.double() if len(matrix) == 1 else product


def _dot_top(scores: Tensor, top: _Top, matrix: Tensor) -> Tensor:
    n = scores.shape[-1]
    return scores @ matrix[:, :n].mT + matrix[:, n:].mT.index_select(0, top.places[:, 0])


def _join(*parts: Any) -> Tensor:
    return torch.cat(parts, dim=-1)


def _second(top: _Top, values: Tensor) -> Tensor:
    """Take the top away for a moment: a copy would cost more."""
    kept = values.gather(1, top.places)
    values.scatter_(1, top.places, LOWEST)
    found = values.amax(dim=-1, keepdim=True).double()
    values.scatter_(1, top.places, kept)
    return found


def _powers(gaps: Tensor, temperature: Any, *, above: Any = None) -> Tensor:
    """Return exp((gaps - above) / temperature)."""
    factor = LOG2E / temperature
    if above is not None:
        shift = (above * -factor).float()
        factor = factor.float() if isinstance(factor, Tensor) else torch.tensor(factor)
        return torch.addcmul(shift, gaps, factor.float()).exp2_()
    return (gaps * (factor.float() if isinstance(factor, Tensor) else factor)).exp2_()


def _softmax_of(gaps: Tensor, temperature: Any) -> Tensor:
    weight = _powers(gaps, temperature)
    return weight.mul_(1 / weight.sum(dim=-1, keepdim=True))


def _tailed(top: _Top, gaps: Tensor, second: Tensor, temperature: Any, tail: float) -> Tensor:
    routed, own = (
        _powers(gaps, each, above=second).scatter_(1, top.places, 0.0)
        for each in (temperature, tail)
    )
    routed_sum, own_sum = (part.sum(dim=-1, keepdim=True).double() for part in (routed, own))
    rest = routed_sum * torch.exp(second / temperature)
    flatter = own_sum >= routed_sum
    room = torch.where(flatter, 1.0, 1 / own_sum - 1 / routed_sum)
    share = ((1 / rest.clamp(min=1e-300) - 1 / routed_sum) / room).clamp(0.0, 1.0)
    share = torch.where(flatter, 1.0, share)
    doubt = rest / (1 + rest)
    result = own.mul_((doubt * share / own_sum).float())
    if not (share == 1).all():
        result.addcmul_(routed, (doubt * (1 - share) / routed_sum).float())
    return result.scatter_(1, top.places, (1 / (1 + rest)).float())


class Kept(NamedTuple):
    """Probabilities of a block, and the rows in which something comes near the prediction."""

    p: Tensor
    rows: Tensor
    places: Tensor


def _kept(top: _Top, p: Tensor) -> Tensor | Kept:
    """Find the rows that :func:`keep` is for."""
    best = p.gather(1, top.places)
    rows = (_second(top, p) > best * BELOW)[:, 0].nonzero()[:, 0]
    return Kept(p, rows, top.places[rows]) if len(rows) else p


def keep(p: Tensor, places: Tensor, *, shares: bool) -> Tensor:
    """Return rows whose largest number is at the places given, every rival a little below.

    Where ``shares``, the prediction first shares with what overtook it, as
    :func:`smallcal.calibrators.softmax.keep_predictions` does.
    """
    p = p.double()
    level = p.gather(1, places)
    if shares:
        for _ in range(SHARING_ROUNDS):
            sharing = (p >= level).scatter_(1, places, value=True)
            level = (p * sharing).sum(dim=-1, keepdim=True) / sharing.sum(dim=-1, keepdim=True)
        p = torch.minimum(p, level).scatter_(1, places, level)
        total = p.sum(dim=-1, keepdim=True)
        p, level = p / total, level / total
    return torch.minimum(p, level * BELOW).scatter_(1, places, level).float()


#: The operations that a narrow program has; ``softmax_of`` is the softmax of a quotient, ``kept``
#: is ``shared`` and ``held`` at once.
BLOCKS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": _pair(lambda a, b: a + b),
        "subtract": _pair(lambda a, b: a - b),
        "multiply": _pair(lambda a, b: a * b),
        "divide": _pair(lambda a, b: a / b),
        "minimum": _pair(_minimum),
        "maximum": _pair(_maximum),
        "reached": lambda a, b: a >= b,
        "choose": _choose,
        "exp": _exp,
        "log": torch.log,
        "sqrt": torch.sqrt,
        "sum": lambda a: a.sum(dim=-1, keepdim=True, dtype=torch.float64),
        "inner": _inner,
        "largest": lambda a: a.amax(dim=-1, keepdim=True).double(),
        "at_top": _Top,
        "second": _second,
        "dot": _dot,
        "dot_top": _dot_top,
        "join": _join,
        "softmax": lambda gaps: _softmax_of(gaps, 1.0),
        "softmax_of": _softmax_of,
        "tailed": _tailed,
        "held": _kept,
        "kept": _kept,
    }
)

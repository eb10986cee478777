"""A fitted calibrator as a torch module: logits in, calibrated probabilities out.

The module runs the calibrator's program, operation by operation, and knows nothing of its method;
see :mod:`smallcal.calibrators.program`. Importing this module needs torch.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.program import INPUTS, Value
from smallcal.data.masks import MAX_MAGNITUDE
from smallcal.deploy.export.translate import grouped, program_of
from smallcal.errors import InputError, needing

with needing("torch", "torch", "a torch module"):
    import torch
    from torch import Tensor, nn

#: What a module can give.
OUTPUTS = ("probabilities", "logits")

#: The range of numbers that the first input may hold, as the checks on arrays have it.
_LIMITS = {
    "probabilities": (-1e-6, 1 + 1e-3),
    "logits": (-MAX_MAGNITUDE, MAX_MAGNITUDE),
}

#: Devices that cannot hold float64.
_NARROW_DEVICES = {"mps"}


def to_torch(fitted: FittedCalibrator, *, output: str = "probabilities") -> TorchCalibrator:
    """Return a calibrator as a torch module.

    Parameters
    ----------
    fitted : FittedCalibrator
        What ``smallcal.runtime.load`` gives; of an estimator, ``cal.to_torch()`` does the same.
    output : {"probabilities", "logits"}
        "logits" are the logits divided by their temperature, where that is all the calibrator
        does, else log-probabilities; the softmax of either is the probabilities. Of a calibrator
        of scores, the probability of outcome 1 and its log-odds.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> module = to_torch(sc.SRTS().fit(val.logits, val.labels).fitted_)
    >>> module
    TorchCalibrator(srts-bce, n_classes=345, output=probabilities)
    >>> p = module(torch.tensor(val.logits).half())
    >>> p.shape, p.dtype
    (torch.Size([1250, 345]), torch.float16)
    """
    return TorchCalibrator(fitted, output=output)


def require_output(output: str) -> None:
    """Raise :class:`InputError` unless a module can give this."""
    if output not in OUTPUTS:
        raise InputError(f"output must be one of {', '.join(OUTPUTS)}; got {output!r}")


class _Step(NamedTuple):
    """One operation: on which earlier results, with which numbers, and what none needs after it."""

    operation: str
    of: tuple[int, ...]
    start: int
    shape: tuple[int, ...]
    done: tuple[int, ...]


class TorchCalibrator(nn.Module):
    """Logits of any leading shape (..., C) to calibrated probabilities or logits.

    The arithmetic is float64 (float32 on a device that has none), whatever the logits' type; the
    result has the logits' type and device. ``half()`` and the like move the numbers of the
    calibrator but never shorten them. A row with a NaN, an infinity or a number that no model
    gives comes out as NaN in every class.

    A calibrator of scores takes scores of any shape and gives the probability of outcome 1 of
    each, as :func:`torch.sigmoid` would: shape (n,), (n, 1) or any other stays what it is. An
    infinite score is put where the calibration split's would be.

    Parameters
    ----------
    fitted : FittedCalibrator
    output : {"probabilities", "logits"}

    Attributes
    ----------
    numbers : Tensor
        Every number of the calibrator, in the order of its program.
    effects : Tensor
        Of groups, where the calibrator has such.
    group_names : tuple of str
        Their names in order.
    structure : Tensor
        Names the program; a state dict of another program is refused.
    """

    numbers: Tensor
    effects: Tensor
    structure: Tensor

    def __init__(self, fitted: FittedCalibrator, *, output: str = "probabilities") -> None:
        super().__init__()
        require_output(output)
        program, effects = program_of(fitted), grouped(fitted)
        self.method = fitted.method
        self.group_names = () if effects is None else effects.names
        self.output = output
        self.n_classes, self.n_features = program.n_classes, program.n_features
        self.of_scores = program.score is not None
        self.preserves_argmax = fitted.preserves_argmax and not self.of_scores
        self._limits = program.score.allowed if program.score else _LIMITS[program.takes]
        if program.masks:
            self._limits = (-math.inf, MAX_MAGNITUDE)
        # One temperature for the whole row: dividing is all there is to do.
        self._divides = (
            output == "logits"
            and program.temperature is not None
            and fitted.tail_temperature is None
            and fitted.correction is None
            and effects is None
            and program.takes == "logits"
        )
        if self._divides and program.temperature is not None:
            program = replace(program, probabilities=program.temperature)
        values = list(replace(program, temperature=None).values())
        self._steps = _steps(values)
        flat = np.concatenate([value.numbers.ravel() for value in values])
        self.register_buffer("numbers", torch.from_numpy(flat))
        if effects is not None:  # the last one is that of groups that are not known
            self.register_buffer("effects", torch.tensor([*effects.effects, 0.0]).double())
        self._structure = _fingerprint(self._steps)
        self.register_buffer("structure", torch.tensor(self._structure))

    def forward(
        self, logits: Tensor, features: Tensor | None = None, groups: Tensor | None = None
    ) -> Tensor:
        """Return what ``output`` says, of the logits' shape, type and device.

        Parameters
        ----------
        logits : Tensor of shape (..., C)
            Or probabilities, or scores of any shape, for a calibrator that was fitted on those.
        features : Tensor of shape (..., d), optional
            For calibrators that were fitted with features.
        groups : Tensor of shape (...), optional
            For calibrators that were fitted with groups: the place of each row's group among
            ``group_names``; any other number, such as -1, stands for one that is not known.
        """
        if self.of_scores:
            pair = self._calibrated(logits[..., None], features, groups)
            return pair[..., 1] - pair[..., 0] if self.output == "logits" else pair[..., 1]
        return self._calibrated(logits, features, groups)

    def _calibrated(self, logits: Tensor, features: Tensor | None, groups: Tensor | None) -> Tensor:
        self._require_shapes(logits, features)
        self._require_groups(logits, groups)
        numbers = self.numbers.to(logits.device, _widest(logits.device))
        given = {"logits": logits.to(numbers.dtype)}
        low, high = self._limits
        usable = _within(given["logits"], low, high)
        if self.n_features and features is not None:
            given["features"] = features.to(numbers)
            usable = usable & _within(given["features"], -MAX_MAGNITUDE, MAX_MAGNITUDE)
        if self.group_names and groups is not None:
            known = (groups >= 0) & (groups < len(self.group_names))
            places = torch.where(known, groups, len(self.group_names)).to(logits.device)
            given["effect"] = self.effects.to(numbers)[places].unsqueeze(-1)
        result = self._run(given, numbers)
        if self._divides:
            result = given["logits"] / result
        elif self.output == "logits":
            result = result.clamp(min=torch.finfo(result.dtype).tiny).log()
        top = given["logits"].argmax(dim=-1, keepdim=True) if self.preserves_argmax else None
        return _rounded(result, logits.dtype, top).masked_fill(~usable, float("nan"))

    def _run(self, given: Mapping[str, Tensor], numbers: Tensor) -> Tensor:
        known: dict[int, Tensor] = {}
        for place, step in enumerate(self._steps):
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
        return known[len(self._steps) - 1]

    def _require_shapes(self, logits: Tensor, features: Tensor | None) -> None:
        if not logits.is_floating_point():
            what = "scores" if self.of_scores else "logits"
            raise InputError(f"{what} must be floating numbers; got {logits.dtype}")
        if not self.of_scores and (logits.ndim == 0 or logits.shape[-1] != self.n_classes):
            raise InputError(
                f"logits must have the {self.n_classes} columns this calibrator was fitted on; "
                f"got shape {tuple(logits.shape)}"
            )
        if not self.n_features:
            return
        if features is None:
            raise InputError(f"{self.method} needs features as well as logits: pass features=...")
        if features.shape != (*logits.shape[:-1], self.n_features):
            raise InputError(
                f"features must have one row of {self.n_features} for each row of logits; got "
                f"shape {tuple(features.shape)} for logits of shape {tuple(logits.shape)}"
            )

    def _require_groups(self, logits: Tensor, groups: Tensor | None) -> None:
        if not self.group_names:
            return
        if groups is None:
            raise InputError(
                f"{self.method} was fitted with groups: pass groups=, the place of each row's "
                "group among group_names"
            )
        if groups.shape != logits.shape[:-1] or groups.dtype != torch.int64:
            raise InputError(
                f"groups must be one int64 for each row of logits; got {groups.dtype} of shape "
                f"{tuple(groups.shape)} for logits of shape {tuple(logits.shape)}"
            )

    def extra_repr(self) -> str:
        """Return what print shows."""
        return f"{self.method}, n_classes={self.n_classes}, output={self.output}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> TorchCalibrator:  # noqa: FBT001, FBT002 - as torch has it
        """Move as asked, but never shorten the numbers: half a calibrator is none."""

        def moved(tensor: Tensor) -> Tensor:
            try:
                result = fn(tensor)
            except TypeError:  # how a device says that it has no float64
                result = fn(tensor.float())
            if not tensor.is_floating_point() or result.dtype == _widest(result.device):
                return result
            return tensor.to(result.device, _widest(result.device))

        super()._apply(moved, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        theirs = state_dict.get(f"{prefix}structure")
        if theirs is not None and not theirs.is_meta and int(theirs) != self._structure:
            *_, errors = args
            errors.append(
                f"the state is not that of a {self.method} calibrator for {self.n_classes} classes "
                f"with output={self.output!r}"
            )
            return
        super()._load_from_state_dict(state_dict, prefix, *args)


def _steps(values: Sequence[Value]) -> tuple[_Step, ...]:
    """Give the values of a program places, and note after which each is needed no more."""
    places = {id(value): place for place, value in enumerate(values)}
    last = {places[id(part)]: place for place, value in enumerate(values) for part in value.of}
    steps, start = [], 0
    for place, value in enumerate(values):
        of = tuple(places[id(part)] for part in value.of)
        done = tuple(sorted(part for part in set(of) if last[part] == place))
        shape = value.numbers.shape if value.numbers.size else ()
        steps.append(_Step(value.operation, of, start, shape, done))
        start += value.numbers.size
    return tuple(steps)


def _fingerprint(steps: tuple[_Step, ...]) -> int:
    """Return a number that differs between programs of different operations."""
    text = repr([tuple(step) for step in steps])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def _within(values: Tensor, low: float, high: float) -> Tensor:
    """Return whether every number of a row lies in a range, which NaN does not."""
    return ((values >= low) & (values <= high)).all(dim=-1, keepdim=True)


def _widest(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type in _NARROW_DEVICES else torch.float64


def _rounded(wide: Tensor, dtype: torch.dtype, top: Tensor | None) -> Tensor:
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

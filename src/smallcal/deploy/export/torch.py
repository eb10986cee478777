"""A fitted calibrator as a torch module: logits in, calibrated probabilities out.

The module runs the calibrator's program and knows nothing of its method; see
:mod:`smallcal.calibrators.program`. On a processor, where no gradient is asked for and no graph is
made, numbers of classes are float32 if logits and program allow it
(:mod:`smallcal.deploy.export.torch_narrow`); else all arithmetic is float64, one operation after
another. Importing this module needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators import compiled
from smallcal.calibrators.decision import asked, thresholds_of
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.program import Value
from smallcal.data.masks import MAX_MAGNITUDE
from smallcal.deploy.export.decided import named_groups
from smallcal.deploy.export.torch_narrow import (
    FEW,
    Narrow,
    folded,
    in_parts,
    rounded,
    row_done,
    rows_done,
)
from smallcal.deploy.export.torch_steps import Step, fingerprint, run, written
from smallcal.deploy.export.translate import program_of
from smallcal.errors import InputError, needing

with needing("torch", "torch", "a torch module"):
    import torch
    from torch import Tensor, nn

#: What a module can give.
OUTPUTS = ("probabilities", "logits")

#: The range of numbers that the first input may hold, as the checks on arrays have it.
_ALLOWED = {
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
        What ``smallcal.runtime.load`` returns. An estimator has ``cal.to_torch()`` instead.
    output : {"probabilities", "logits"}
        "logits" are the logits divided by their temperature if the calibrator does nothing else,
        otherwise log-probabilities; their softmax is the probabilities either way. For a
        calibrator of scores, the two are the probability of outcome 1 and its log-odds.

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


class _Rows(NamedTuple):
    """What the steps read, by name, and whether each row can be one."""

    given: dict[str, Tensor]
    usable: Tensor


class _Ready(NamedTuple):
    """A narrow program with the numbers that a buffer had; the plan is for the kernel, if any."""

    version: tuple[int, int, bool]
    blocks: Narrow
    row: Narrow
    plan: compiled.Plan | None


class TorchCalibrator(nn.Module):
    """A torch module from logits of shape (..., C) to calibrated probabilities or logits.

    The result has the logits' type and device, and is within 1e-6 of NumPy's. ``half()`` and the
    like do not reduce the precision of the calibrator's own numbers. A row with a NaN, an infinity
    or a number out of range comes out as NaN in every class.

    A calibrator of scores takes scores of any shape and returns the probability of outcome 1 for
    each, in the same shape, as :func:`torch.sigmoid` would. An infinite score is treated as in
    NumPy: it is set to the limit of the calibration split's scores.

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
    decided : Tensor
        Every number of the decisions, where the calibrator has such.
    limits : Tensor
        The thresholds of groups, where a decision has such.
    structure : Tensor
        Names the program; a state dict of another program is refused.
    """

    numbers: Tensor
    effects: Tensor
    decided: Tensor
    limits: Tensor
    structure: Tensor

    def __init__(self, fitted: FittedCalibrator, *, output: str = "probabilities") -> None:
        super().__init__()
        require_output(output)
        program, groups = program_of(fitted), named_groups(fitted)
        self.method = fitted.method
        self.group_names = () if groups is None else groups.names
        self._shifted, self._decisions = program.grouped, fitted.decisions
        self.output = output
        self.n_classes, self.n_features = program.n_classes, program.n_features
        self.of_scores = program.score is not None
        self.preserves_argmax = fitted.preserves_argmax and not self.of_scores
        self._allowed = program.score.allowed if program.score else _ALLOWED[program.takes]
        if program.masks:
            self._allowed = (-math.inf, MAX_MAGNITUDE)
        # One temperature for the whole row: dividing is all there is to do.
        self._divides = (
            output == "logits"
            and program.temperature is not None
            and fitted.tail_temperature is None
            and fitted.correction is None
            and not program.grouped
            and not fitted.later
            and program.takes == "logits"
        )
        main = program
        if self._divides and program.temperature is not None:
            main = replace(program, probabilities=program.temperature)
        self._steps, compound, numbers = written(main)
        narrow = program.narrow and output == "probabilities"
        self._folded = folded(compound) if narrow else None
        self._fitted = fitted if self._folded is not None else None
        self._ready: _Ready | None = None
        self.register_buffer("numbers", numbers)
        if groups is not None and groups.effects:  # the last one is for those that are not known
            self.register_buffer("effects", torch.tensor([*groups.effects, 0.0]).double())
        self._flags: tuple[Step, ...] = ()
        if program.decisions:
            flags = [flag for _, flag in program.decisions]
            self._flags, _, numbers = written(program.alone(reduce(Value.join, flags)))
            self.register_buffer("decided", numbers)
        if groups is not None and groups.limits:
            self.register_buffer("limits", torch.tensor([*groups.limits, groups.unknown]).double())
        self._structure = fingerprint((*self._steps, *self._flags))
        self.register_buffer("structure", torch.tensor(self._structure))

    def forward(
        self, logits: Tensor, features: Tensor | None = None, groups: Tensor | None = None
    ) -> Tensor:
        """Return probabilities or logits (see ``output``), of the logits' shape, type and device.

        Parameters
        ----------
        logits : Tensor of shape (..., C)
            Or probabilities, or scores of any shape, for a calibrator that was fitted on those.
        features : Tensor of shape (..., d), optional
            For calibrators that were fitted with features.
        groups : Tensor of shape (...), optional
            For calibrators that were fitted with groups: the index of each row's group in
            ``group_names``; any other number, such as -1, means an unknown group.
        """
        if self.of_scores:
            pair = self._calibrated(logits[..., None], features, groups)
            return pair[..., 1] - pair[..., 0] if self.output == "logits" else pair[..., 1]
        return self._calibrated(logits, features, groups)

    def accept(
        self,
        logits: Tensor,
        features: Tensor | None = None,
        groups: Tensor | None = None,
        *,
        risk: float | None = None,
    ) -> Tensor:
        """Return which rows a certified threshold accepts; see :func:`smallcal.certify`.

        Parameters
        ----------
        logits, features, groups : Tensor
            As for a call. Thresholds by group need groups too.
        risk : float, optional
            Which threshold is meant, where several were certified.

        Returns
        -------
        Tensor of bool, of shape (...)
            False for a row that is not valid, such as a row with a NaN.
        """
        rule = asked(self._decisions, risk)
        given = logits[..., None] if self.of_scores else logits
        rows = self._given(given, features, groups, ask=rule.by == "group")
        flags = run(self._flags, rows.given, self.decided.to(rows.given["logits"]))
        place = list(thresholds_of(self._decisions).values()).index(rule)
        return (flags[..., place] != 0) & rows.usable[..., 0]

    def _calibrated(self, logits: Tensor, features: Tensor | None, groups: Tensor | None) -> Tensor:
        if not in_parts(logits, features):
            return self._whole(logits, features, groups)
        if self._folded is not None and logits.dtype != torch.float64:
            self._require_shapes(logits, features)
            return self._narrow(logits.detach() if logits.requires_grad else logits)
        return self._whole(logits, features, groups)

    def _narrow(self, logits: Tensor) -> Tensor:
        """Return probabilities, computed in single precision wherever that is enough."""
        ready = self._made_ready()
        if logits.dtype == torch.float32 and ready.plan is not None:
            return self._by_kernel(ready.plan, ready.blocks, logits.numpy())
        if logits.dtype == torch.float32 and logits.numel() <= FEW * self.n_classes:
            return self._row_by_row(ready.row, logits)
        rows = logits.reshape(-1, self.n_classes)
        p, again = rows_done(ready.blocks, rows.float().contiguous(), self._allowed)
        if p.dtype != logits.dtype:
            top = rows.argmax(dim=-1, keepdim=True) if self.preserves_argmax else None
            p = rounded(p, logits.dtype, top)
        if again:
            p[again] = self._whole(rows[again], None, None)
        return p.view(logits.shape)

    def _by_kernel(self, plan: compiled.Plan, blocks: Narrow, logits: NDArray[Any]) -> Tensor:
        """Return probabilities by the compiled kernel; what it leaves goes the usual way."""
        rows = np.ascontiguousarray(logits.reshape(-1, self.n_classes))
        p = np.empty_like(rows)
        left = compiled.run(plan, rows, p)
        if len(left):
            some = torch.from_numpy(rows[left])
            found, again = rows_done(blocks, some, self._allowed)
            if again:
                found[again] = self._whole(some[again], None, None)
            p[left] = found.numpy()
        return torch.from_numpy(p.reshape(logits.shape))

    def _row_by_row(self, row: Narrow, logits: Tensor) -> Tensor:
        out = []
        for each in logits.numpy().reshape(-1, self.n_classes):
            p = row_done(row, each, self._allowed)
            out.append(self._whole(torch.from_numpy(each), None, None).numpy() if p is None else p)
        p = np.asarray(out[0] if len(out) == 1 else out, dtype=np.float32)
        return torch.from_numpy(p.reshape(logits.shape))

    def _made_ready(self) -> _Ready:
        """Return the program with the buffer's numbers, which a state dict may have changed."""
        numbers: Any = self._buffers["numbers"]  # quicker than as an attribute
        changed = 0 if numbers.is_inference() else numbers._version
        version = numbers.data_ptr(), changed, compiled.is_on()
        if self._ready is None or self._ready.version != version:
            array = numbers.detach().cpu().double().numpy()
            blocks, row = (Narrow(self._folded or (), array, rows=rows) for rows in (True, False))
            self._ready = _Ready(version, blocks, row, self._plan(array))
        return self._ready

    def _plan(self, numbers: NDArray[Any]) -> compiled.Plan | None:
        """Return what the kernel takes, if it is on and the numbers are still the calibrator's."""
        if not compiled.is_on() or self._fitted is None:
            return None
        _, _, own = written(program_of(self._fitted))
        single = np.dtype(np.float32)
        same = np.array_equal(own.double().numpy(), numbers)
        return compiled.plan_for(self._fitted, single, single) if same else None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ready": None}

    def _whole(self, logits: Tensor, features: Tensor | None, groups: Tensor | None) -> Tensor:
        """Return what is asked for, in double and without looking at numbers."""
        rows = self._given(logits, features, groups)
        numbers = self.numbers.to(rows.given["logits"])
        result = run(self._steps, rows.given, numbers)
        if self._divides:
            result = rows.given["logits"] / result
        elif self.output == "logits":
            result = result.clamp(min=torch.finfo(result.dtype).tiny).log()
        top = rows.given["logits"].argmax(dim=-1, keepdim=True) if self.preserves_argmax else None
        return rounded(result, logits.dtype, top).masked_fill(~rows.usable, float("nan"))

    def _given(
        self,
        logits: Tensor,
        features: Tensor | None,
        groups: Tensor | None,
        *,
        ask: bool = False,
    ) -> _Rows:
        """Check what came in, and return it as the steps take it."""
        self._require_shapes(logits, features)
        self._require_groups(logits, groups, ask=ask)
        wide = logits.to(_widest(logits.device))
        given = {"logits": wide}
        low, high = self._allowed
        usable = _within(wide, low, high)
        if self.n_features and features is not None:
            given["features"] = features.to(wide)
            usable = usable & _within(given["features"], -MAX_MAGNITUDE, MAX_MAGNITUDE)
        if self.group_names:
            n, rows = len(self.group_names), logits.shape[:-1]
            places = torch.full(rows, n, device=logits.device)
            if groups is not None:
                places = torch.where((groups >= 0) & (groups < n), groups, n).to(logits.device)
            if self._shifted:
                given["effect"] = self.effects.to(wide)[places].unsqueeze(-1)
            if hasattr(self, "limits"):
                given["limits"] = self.limits.to(wide)[places]
        return _Rows(given, usable)

    def _require_shapes(self, logits: Tensor, features: Tensor | None) -> None:
        if not logits.is_floating_point():
            what = "scores" if self.of_scores else "logits"
            raise InputError(f"{what} must be floating-point numbers; got {logits.dtype}")
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

    def _require_groups(self, logits: Tensor, groups: Tensor | None, *, ask: bool) -> None:
        if not self.group_names or not (self._shifted or ask):
            return
        if groups is None:
            why = "was fitted with groups" if self._shifted else "has a threshold for each group"
            raise InputError(
                f"{self.method} {why}: pass groups=, the index of each row's group in group_names"
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


def _within(values: Tensor, low: float, high: float) -> Tensor:
    """Return whether every number of a row lies in a range, which NaN does not."""
    return ((values >= low) & (values <= high)).all(dim=-1, keepdim=True)


def _widest(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type in _NARROW_DEVICES else torch.float64

"""A fitted calibrator as a torch module: logits in, calibrated probabilities out.

The module runs the calibrator's program and knows nothing of its method; see
:mod:`smallcal.calibrators.program`. All arithmetic is float64 where the device has it. Importing
this module needs torch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

from smallcal.calibrators.decision import asked, thresholds_of
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.program import Value
from smallcal.data.masks import FEWEST, MAX_MAGNITUDE
from smallcal.deploy.export.decided import named_groups
from smallcal.deploy.export.torch_steps import Step, fingerprint, rounded, run, written
from smallcal.deploy.export.translate import program_of
from smallcal.errors import InputError, needing

with needing("torch", "torch", "a torch module"):
    import torch
    from torch import Tensor, nn

#: What a module can give.
OUTPUTS = ("probabilities", "logits")

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
    (torch.Size([1250, 345]), torch.float32)
    """
    return TorchCalibrator(fitted, output=output)


def require_output(output: str) -> None:
    """Raise :class:`InputError` unless a module can give this."""
    if output not in OUTPUTS:
        raise InputError(
            f"output must be one of {', '.join(OUTPUTS)}; got {output!r}", code="unknown-choice"
        )


class _Rows(NamedTuple):
    """What the steps read, by name, and whether each row can be one."""

    given: dict[str, Tensor]
    usable: Tensor


class TorchCalibrator(nn.Module):
    """A torch module from logits of shape (..., C) to calibrated probabilities or logits.

    The result has the logits' device and type, or float32 where that is shorter, and is within 1e-6
    of NumPy's. ``half()`` and the like do not reduce the precision of the calibrator's own numbers.
    A row that NumPy would refuse (a NaN, plus infinity, a number out of range, fewer than two
    classes left by masks of minus infinity) comes out as NaN in every class.

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
        self._allowed, self._of_logits = program.allowed, program.takes == "logits"
        # One temperature for the whole row: dividing is all there is to do.
        self._divides = (
            output == "logits"
            and program.temperature is not None
            and not program.grouped
            and not fitted.later
            and program.takes == "logits"
        )
        main = program.probabilities
        if self._divides and program.temperature is not None:
            main = program.temperature
        asked = [main] if program.confidence is None else [main, program.confidence]
        (self._steps, *kept), numbers = written(program, asked)
        #: Steps to the confidence, where it is not the largest probability.
        self._confidence: tuple[Step, ...] = kept[0] if kept else ()
        self.register_buffer("numbers", numbers)
        if groups is not None and groups.effects:  # the last one is for those that are not known
            self.register_buffer("effects", torch.tensor([*groups.effects, 0.0]).double())
        self._flags: tuple[Step, ...] = ()
        if program.decisions:
            flags = [flag for _, flag in program.decisions]
            (self._flags,), numbers = written(program, [reduce(Value.join, flags)])
            self.register_buffer("decided", numbers)
        if groups is not None and groups.limits:
            self.register_buffer("limits", torch.tensor([*groups.limits, groups.unknown]).double())
        self._structure = fingerprint((*self._steps, *self._confidence, *self._flags))
        self.register_buffer("structure", torch.tensor(self._structure))

    def forward(
        self, logits: Tensor, features: Tensor | None = None, groups: Tensor | None = None
    ) -> Tensor:
        """Return probabilities or logits (see ``output``), of the logits' shape and device.

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

    def confidence(
        self, logits: Tensor, features: Tensor | None = None, groups: Tensor | None = None
    ) -> Tensor:
        """Return the probability that each prediction is correct, of shape (...).

        It is the largest probability, or that of the model's own prediction where the calibrator
        was fitted with ``keep_predictions=True``; of scores, that of outcome 1. The arguments are
        those of a call.
        """
        if not self._confidence:
            found: Tensor = self(logits, features, groups)
            if self.of_scores:
                return found.sigmoid() if self.output == "logits" else found
            found = found.softmax(dim=-1) if self.output == "logits" else found
            return found.amax(dim=-1)
        rows = self._given(logits, features, groups)
        found = run(self._confidence, rows.given, self.numbers.to(rows.given["logits"]))
        return rounded(found, logits.dtype, None).masked_fill(~rows.usable, float("nan"))[..., 0]

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
        """Return what is asked for."""
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
        if self._of_logits:
            present = (wide >= -MAX_MAGNITUDE).sum(dim=-1, keepdim=True)
            usable = usable & (present >= FEWEST)
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
            raise InputError(
                f"{what} must be floating-point numbers; got {logits.dtype}", code="array-type"
            )
        if not self.of_scores and (logits.ndim == 0 or logits.shape[-1] != self.n_classes):
            raise InputError(
                f"logits must have the {self.n_classes} columns this calibrator was fitted on; "
                f"got shape {tuple(logits.shape)}",
                code="columns-differ",
            )
        if not self.n_features:
            return
        if features is None:
            raise InputError(
                f"{self.method} needs features as well as logits: pass features=...",
                code="features-missing",
            )
        if features.shape != (*logits.shape[:-1], self.n_features):
            raise InputError(
                f"features must have one row of {self.n_features} for each row of logits; got "
                f"shape {tuple(features.shape)} for logits of shape {tuple(logits.shape)}",
                code="features-missing",
            )

    def _require_groups(self, logits: Tensor, groups: Tensor | None, *, ask: bool) -> None:
        if not self.group_names or not (self._shifted or ask):
            return
        if groups is None:
            why = "was fitted with groups" if self._shifted else "has a threshold for each group"
            raise InputError(
                f"{self.method} {why}: pass groups=, the index of each row's group in group_names",
                code="groups-missing",
            )
        if groups.shape != logits.shape[:-1] or groups.dtype != torch.int64:
            raise InputError(
                f"groups must be one int64 for each row of logits; got {groups.dtype} of shape "
                f"{tuple(groups.shape)} for logits of shape {tuple(logits.shape)}",
                code="array-shape",
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

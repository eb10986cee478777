"""``smallcal evaluate``: how good are these probabilities, and are they good enough."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from smallcal.cli import options
from smallcal.errors import InputError

_CONDITION = re.compile(r"\s*(\w+)\s*(<=|>=|<|>)\s*([-+.\deE]+)\s*(%?)\s*")
_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def evaluate(
    data: options.Data,
    calibrator: Annotated[
        str | None, typer.Option(metavar="CAL", help="Apply this calibrator first.")
    ] = None,
    labels: options.Labels = None,
    input: options.Input = None,
    class_names: options.ClassNames = None,
    metrics: options.Metrics = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help='Exit with 1 if this holds: "ece15>0.03" or "ece15>3%". May be repeated.',
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure the calibration of logits, or of what a calibrator makes of them."""
    from smallcal import runtime
    from smallcal.cli import inputs, terminal
    from smallcal.metrics import METRICS
    from smallcal.metrics import evaluate as measure

    conditions = [Condition.parse(text) for text in fail_if or []]
    shown = inputs.metric_names(metrics, list(METRICS))
    wanted = list(dict.fromkeys([*shown, *(condition.metric for condition in conditions)]))
    fitted = None if calibrator is None else runtime.load(calibrator)
    with terminal.progress("Measuring"):
        loaded = inputs.load(data, labels=labels, input=input, names=class_names)
        codes, proba = inputs.probabilities(loaded, fitted)
        values = measure(codes, proba, metrics=wanted)
    checks = [condition.check(values[condition.metric]) for condition in conditions]
    if as_json:
        terminal.show_json(
            {
                "data": data,
                "calibrator": calibrator,
                "n": len(codes),
                "n_classes": proba.shape[1],
                "metrics": values,
                "checks": checks,
            }
        )
    else:
        what = "as the model gives them" if calibrator is None else f"calibrated by {calibrator}"
        size = f"{terminal.count(len(codes), 'sample')}, {proba.shape[1]:,} classes"
        terminal.say(f"{data}: {size}, {what}")
        _show(values)
    _leave(checks)


def _show(values: dict[str, float]) -> None:
    from smallcal.cli import terminal
    from smallcal.metrics import METRICS

    rows = [
        [name, shown_value(name, value), METRICS[name].summary] for name, value in values.items()
    ]
    terminal.show_table(["metric", "value", "what it measures"], rows, text=(0, 2))


def _leave(checks: list[dict[str, Any]]) -> None:
    from smallcal.cli import terminal

    failed = [check for check in checks if check["failed"]]
    for check in failed:
        terminal.complain(f"check failed: {check['reason']}")
    if failed:
        raise typer.Exit(1)


def shown_value(name: str, value: float, *, signed: bool = False) -> str:
    """Return a metric for people: in percent if that is how it is read.

    Examples
    --------
    >>> shown_value("ece15", 0.0312), shown_value("nll", 0.5), shown_value("auroc", float("nan"))
    ('3.12 %', '0.5000', 'undefined')
    """
    from smallcal.metrics import METRICS

    if math.isnan(value):
        return "undefined"
    sign = "+" if signed else ""
    return f"{100 * value:{sign}.2f} %" if METRICS[name].percent else f"{value:{sign}.4f}"


@dataclass(frozen=True)
class Condition:
    """A condition on a metric that must not hold.

    Examples
    --------
    >>> Condition.parse("ece15 > 3%").check(0.05)["failed"]
    True
    """

    text: str
    metric: str
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read a condition, refusing one that could never mean what it says."""
        from smallcal.metrics import METRICS

        match = _CONDITION.fullmatch(text)
        try:
            bound = float(match[3]) if match else math.nan
        except ValueError:
            bound = math.nan
        if match is None or not math.isfinite(bound):
            raise InputError(
                f"--fail-if must look like ece15>0.03 (a metric, one of < <= > >=, a number); "
                f"got {text!r}"
            )
        name = match[1]
        if name not in METRICS:
            raise InputError(
                f"--fail-if: unknown metric {name!r}; choose from {', '.join(METRICS)}"
            )
        if match[4]:
            bound /= 100
        elif METRICS[name].percent and abs(bound) > 1:
            raise InputError(
                f"--fail-if {text}: {name} is a fraction of 1, so {bound:g} is out of reach; "
                f"write {name}{match[2]}{bound:g}% or {name}{match[2]}{bound / 100:g}"
            )
        return cls(text.strip(), name, match[2], bound)

    def check(self, value: float) -> dict[str, Any]:
        """Return whether the check failed, and why; a value that is undefined fails."""
        from smallcal.metrics import METRICS

        if math.isnan(value):
            why = METRICS[self.metric].undefined or "the data leave it undefined"
            reason = f"{self.text}: {self.metric} is undefined ({why})"
            failed = True
        else:
            failed = bool(_OPERATORS[self.sign](value, self.bound))
            reason = f"{self.metric} is {value:.6g}, {self.text} holds" if failed else ""
        return {
            "condition": self.text,
            "metric": self.metric,
            "value": value,
            "failed": failed,
            "reason": reason,
        }

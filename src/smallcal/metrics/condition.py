"""A condition on a metric that must not hold: ``ece15>0.03``."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from typing import Any

from smallcal.errors import InputError, choose
from smallcal.metrics.table import METRICS

_CONDITION = re.compile(r"\s*(\w+)\s*(<=|>=|<|>)\s*([-+.\deE]+)\s*(%?)\s*")
_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


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
        match = _CONDITION.fullmatch(text)
        try:
            bound = float(match[3]) if match else math.nan
        except ValueError:
            bound = math.nan
        if match is None or not math.isfinite(bound):
            raise _wrong("must look like ece15>0.03 (a metric, one of < <= > >=, a number)", text)
        name = match[1]
        if name not in METRICS:
            raise _wrong(f"unknown metric {name!r}; {choose(name, METRICS)}", text)
        if match[4]:
            bound /= 100
        elif METRICS[name].percent and abs(bound) > 1:
            raise _wrong(
                f"{name} is a fraction of 1, so {bound:g} is out of reach; write "
                f"{name}{match[2]}{bound:g}% or {name}{match[2]}{bound / 100:g}",
                text,
            )
        return cls(text.strip(), name, match[2], bound)

    def check(self, value: float) -> dict[str, Any]:
        """Return whether the check failed, and why; a value that is undefined fails."""
        if math.isnan(value):
            why = METRICS[self.metric].undefined or "these samples do not determine it"
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


def _wrong(what: str, text: str) -> InputError:
    """Build the error for a condition, which is an option on the command line."""
    return InputError(
        python=f"{text!r}: {what}", shell=f"--fail-if {text!r}: {what}", code="condition-invalid"
    )

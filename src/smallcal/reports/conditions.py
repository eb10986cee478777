"""Conditions that must not hold: ``ece15>0.03``, of a method or of the recommended one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from smallcal.calibrators.catalogue import ALIASES
from smallcal.errors import InputError
from smallcal.metrics.condition import Condition


def parse(text: str) -> tuple[str | None, Condition]:
    """Read a condition that may begin with a method and a colon.

    Examples
    --------
    >>> method, condition = parse("probmetrics:svs:ece15>3%")
    >>> method, condition.metric
    ('probmetrics:svs', 'ece15')
    """
    method, colon, rest = text.rpartition(":")
    if not colon:
        return None, Condition.parse(text)
    name = method.strip()
    return ALIASES.get(name, name), Condition.parse(rest)


def require_known(text: str, methods: Iterable[str]) -> None:
    """Raise unless a condition can be read and its method, if it names one, is among these."""
    method, _ = parse(text)
    known = list(methods)
    if method is not None and method not in known:
        wrong = f"{text!r}: no method {method!r} here; there are {', '.join(known)}"
        raise InputError(python=wrong, shell=f"--fail-if {wrong}", code="condition-invalid")


def check(text: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether a condition holds in a report, and why; one that cannot be judged fails."""
    rows = {row["method"]: row["points"] for row in content["metrics"]["rows"]}
    require_known(text, [*rows, *content["failures"]])
    method, condition = parse(text)
    name = content["verdict"]["recommended"] if method is None else method
    value = rows[name][condition.metric] if name in rows else None
    found = condition.check(math.nan if value is None else value)
    reason = f"{name}: {found['reason']}" if found["reason"] else ""
    if name not in rows:
        reason = f"{name}: {condition.text} cannot be checked, as it could not be fitted"
    return {**found, "condition": text.strip(), "method": name, "reason": reason}

"""Programs in the twenty operations alone, for runtimes that know no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from smallcal.calibrators.program import BELOW, LOWEST, Program, Value, choose, exp


def plain(program: Program) -> Program:
    """Return a program that computes the same in the twenty operations.

    Examples
    --------
    >>> from smallcal.calibrators.program import given, softmax
    >>> z = given("logits", 3)
    >>> program = plain(Program(softmax(z - z.largest()), None, 3, 0, "logits"))
    >>> [value.operation for value in program.values()]
    ['logits', 'largest', 'subtract', 'exp', 'sum', 'divide']
    """
    return program.rewritten(_written_out)


def _written_out(value: Value) -> Value:
    if value.operation == "dot_top":
        scores, top = value.of
        return Value("dot", value.width, (scores.join(top),), value.numbers)
    form = _FORMS.get(value.operation)
    return value if form is None else form(*value.of)


def _softmax(gaps: Value) -> Value:
    weight = exp(gaps)
    return weight / weight.sum()


def _inner(first: Value, second: Value) -> Value:
    return (first * second).sum()


def _second(top: Value, values: Value) -> Value:
    return choose(top, LOWEST, values).largest()


def _held(top: Value, probabilities: Value) -> Value:
    """Hold every rival a little below the predicted class, where rounding made a tie."""
    confidence = _inner(top, probabilities)
    return choose(top, probabilities, probabilities.at_most(confidence * BELOW))


_FORMS: Mapping[str, Callable[..., Value]] = MappingProxyType(
    {
        "softmax": _softmax,
        "inner": _inner,
        "second": _second,
        "held": _held,
    }
)

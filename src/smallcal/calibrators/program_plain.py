"""Programs in the twenty operations alone, for runtimes that know no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from smallcal.calibrators.program import BELOW, LOWEST, Program, Value, choose, exp
from smallcal.calibrators.softmax import SHARING_ROUNDS


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


def _tailed(top: Value, gaps: Value, second: Value, temperature: Value, tail: Value) -> Value:
    """Return what :func:`smallcal.calibrators.softmax.tailed_softmax` does."""
    gaps = gaps - second
    routed = choose(top, 0.0, exp(choose(top, 0.0, gaps) / temperature))
    own = choose(top, 0.0, exp(choose(top, 0.0, gaps) / tail))
    routed_sum, own_sum = routed.sum(), own.sum()
    rest = routed_sum * exp(second / temperature)
    flatter = own_sum.reached(routed_sum)
    room = choose(flatter, 1.0, 1 / own_sum - 1 / routed_sum)
    share = (1 / rest.at_least(1e-300) - 1 / routed_sum) / room
    share = choose(flatter, 1.0, share.at_least(0.0).at_most(1.0))
    doubt = rest / (1 + rest)
    others = own * (doubt * share / own_sum) + routed * (doubt * (1 - share) / routed_sum)
    return choose(top, 1 / (1 + rest), others)


def _shared(top: Value, probabilities: Value) -> Value:
    """Return what :func:`smallcal.calibrators.softmax.keep_predictions` does."""
    level = _inner(top, probabilities)
    for _ in range(SHARING_ROUNDS):
        sharing = probabilities.reached(level).at_least(top)
        level = (probabilities * sharing).sum() / sharing.sum()
    kept = choose(top, level, probabilities.at_most(level))
    return kept / kept.sum()


def _held(top: Value, probabilities: Value) -> Value:
    """Hold every rival a little below the predicted class, where rounding made a tie."""
    confidence = _inner(top, probabilities)
    return choose(top, probabilities, probabilities.at_most(confidence * BELOW))


_FORMS: Mapping[str, Callable[..., Value]] = MappingProxyType(
    {
        "softmax": _softmax,
        "inner": _inner,
        "second": _second,
        "tailed": _tailed,
        "shared": _shared,
        "held": _held,
    }
)

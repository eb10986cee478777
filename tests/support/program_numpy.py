"""A plain interpreter of export programs, for tests."""

import numpy as np
from scipy.special import erf

from smallcal.calibrators.program_plain import plain

PAIRS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "reached": lambda a, b: (a >= b).astype(float),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "erf": erf,
    "choose": lambda m, a, b: np.where(m != 0, a, b),
    "sum": lambda a: a.sum(axis=1, keepdims=True),
    "largest": lambda a: a.max(axis=1, keepdims=True),
    "at_top": lambda a: np.eye(a.shape[1])[a.argmax(axis=1)],
    "join": lambda a, b: np.hstack([np.broadcast_to(a, (len(b), a.shape[1])), b]),
}


def run(program, logits, features=None, effects=None):
    """Return (probabilities, temperatures or None)."""
    program = plain(program)
    known = values_of(program, logits, features, effects)
    t = program.temperature
    return known[id(program.probabilities)], None if t is None else known[id(t)][:, 0]


def decide(program, logits, features=None, effects=None, limits=None):
    """Return which rows each decision of a program accepts, by column."""
    program = plain(program)
    known = values_of(program, logits, features, effects, limits)
    return {column: known[id(flag)][:, 0] != 0 for column, flag in program.decisions}


def values_of(program, logits, features=None, effects=None, limits=None):
    """Return every value of a program by its id."""
    known, n = {}, len(logits)
    given = {"logits": logits, "features": features, "effect": effects, "limits": limits}
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        for value in program.values():
            parts = [known[id(part)] for part in value.of]
            if value.operation in given:
                result = np.asarray(given[value.operation], dtype=np.float64)
            elif value.operation == "constant":
                result = np.tile(value.numbers, (n, 1))
            elif value.operation == "dot":
                result = parts[0] @ value.numbers.T
            elif value.operation == "rank":
                result = np.searchsorted(value.numbers, parts[0], side="right").astype(float)
            else:
                result = PAIRS[value.operation](*parts)
            assert result.shape == (n, value.width), value.operation
            known[id(value)] = result
    return known

"""Scores and outcomes of a known relation, and calibrators of them, for tests."""

import functools
import warnings

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.catalogue import METHODS

_CLASSES = ("none", "ts-nll", "matrix-scaling", "smallcal")
_ONE_NUMBER = ("ts-shrunk", "platt", "beta", "spline", "venn-abers")
#: Maps that read one number, and some of classes that take it as two columns.
OF_SCORES = [name for name in (*_CLASSES, *_ONE_NUMBER) if name in METHODS]
KINDS = ("number", "probability")


def drawn(n, *, kind="number", seed=0):
    """Draw scores with ties, and outcomes that are rarer than the scores say."""
    rng = np.random.default_rng(seed)
    x = rng.normal(1, 2, size=n).round(2)
    outcome = (rng.random(n) < 1 / (1 + np.exp(-(0.7 * x - 1)))).astype(int)
    return (10 + 3 * x if kind == "number" else 1 / (1 + np.exp(-x))), outcome


@functools.cache
def scored_once(name, kind="number"):
    """A method, fitted on 300 scores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.Calibrator(method=name, input="score").fit(*drawn(300, kind=kind))


def new_scores(kind, n=60):
    """Return scores to apply to: new ones, the ends, and what lies beyond where that may be."""
    ends = [-np.inf, np.inf, -6e4, 6e4, 0.0] if kind == "number" else [0.0, 1.0, 0.5, 1e-9]
    return np.concatenate([drawn(n, kind=kind, seed=1)[0], ends])


def exportable(name):
    """Skip a method whose numbers cannot be saved."""
    if not METHODS[name].deployable:
        pytest.skip(f"{name} is for comparison only")
    return name

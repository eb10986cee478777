"""The scores of a fitted scikit-learn classifier, one for each class, ready to calibrate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from smallcal.data.checks import PROBABILITY_FLOOR
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError

#: What a classifier may be asked for, best first: a margin has not been rounded to 0 or 1.
RESPONSES = ("decision_function", "predict_proba")


def wrapped_has(name: str) -> Callable[[Any], bool]:
    """Return what tells scikit-learn whether a meta-estimator's model has a method."""

    def check(owner: Any) -> bool:
        getattr(getattr(owner, "estimator_", owner.estimator), name)  # its own reason, if it lacks
        return True

    return check


def response_of(model: Any, X: Any, asked: str) -> str:
    """Return the method of a fitted classifier that gives one score for each class."""
    if asked not in ("auto", *RESPONSES):
        raise InputError(
            f"response must be auto, {' or '.join(RESPONSES)}; got {asked!r}", code="unknown-choice"
        )
    name = type(model).__name__
    if not hasattr(model, "classes_"):
        raise InputError(
            f"{name} has no classes_ after fit: it is not a classifier", code="model-output"
        )
    there = [one for one in RESPONSES if asked in ("auto", one) and hasattr(model, one)]
    fitting = (one for one in there if one != "decision_function" or _per_class(model, X))
    found = next(fitting, None)
    if found is None and there:
        raise InputError(
            f"{name}.decision_function gives a score for each pair of classes, not for each class; "
            "set decision_function_shape='ovr', or give it predict_proba",
            code="model-output",
        )
    if found is None:
        wanted = " and no ".join(RESPONSES) if asked == "auto" else asked
        raise InputError(
            f"{name} has no {wanted}: there is nothing to calibrate", code="model-output"
        )
    return found


def _per_class(model: Any, X: Any) -> bool:
    """Whether decision_function gives a column per class, or one for two classes."""
    options = model.get_params() if hasattr(model, "get_params") else {}
    n_classes = len(model.classes_)
    # With three classes there are three pairs too: the shape alone does not tell.
    pairs = any(
        str(key).endswith("decision_function_shape") and value == "ovo"
        for key, value in options.items()
    )
    if pairs and n_classes > 2:
        return False
    shape = np.shape(model.decision_function(_safe_indexing(X, [0])))
    return shape == (1, n_classes) or (n_classes == 2 and shape in {(1,), (1, 1)})


def scores_of(model: Any, X: Any, response: str) -> FloatArray:
    """Return a fitted classifier's scores as float64, one column per class it knows."""
    raw = np.asarray(getattr(model, response)(X), dtype=np.float64)
    n_classes = len(model.classes_)
    if response == "decision_function" and n_classes == 2 and raw.size == len(raw):
        half = raw.reshape(-1) / 2
        raw = np.column_stack([-half, half])
    if raw.ndim != 2 or raw.shape[1] != n_classes:
        raise InputError(
            f"{type(model).__name__}.{response} gives shape {raw.shape}; with {n_classes} classes "
            f"it must be (n, {n_classes})",
            code="model-output",
        )
    return raw


def aligned(model: Any, scores: FloatArray, classes: NDArray[Any]) -> FloatArray:
    """Return scores with a column for every class; an unknown one gets its row's lowest."""
    if len(model.classes_) == len(classes):
        return scores
    full = np.repeat(scores.min(axis=1, keepdims=True), len(classes), axis=1)
    full[:, np.searchsorted(classes, model.classes_)] = scores
    return full


def floor_of(proba: FloatArray) -> float:
    """Return what a probability of 0 is taken for: half the smallest that is not 0.

    No vote of a hundred trees means less than one vote, not never. Taken as never, a single
    such sample would decide the whole fit.

    Examples
    --------
    >>> floor_of(np.array([[1.0, 0.0], [0.99, 0.01]]))
    0.005
    """
    positive = proba[proba > 0]
    return max(float(positive.min()) / 2, PROBABILITY_FLOOR) if positive.size else PROBABILITY_FLOOR


def floored(proba: FloatArray, floor: float) -> FloatArray:
    """Return probabilities that are nowhere below a floor; rows sum to 1.

    Examples
    --------
    >>> floored(np.array([[1.0, 0.0], [0.5, 0.5]]), 0.25).tolist()
    [[0.8, 0.2], [0.5, 0.5]]
    """
    raised = np.maximum(proba, floor)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))

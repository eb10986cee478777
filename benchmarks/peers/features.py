"""The rows of the tables, and the check that a proof of each must pass, whatever its package.

Checks are about numbers where there are any: calibrated probabilities must be probabilities and
have a lower Brier score on test samples than the model's own, an ECE must be the one that a few
lines of NumPy give, sets must cover what they promise. So a proof can fail.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.claims import feature

INPUT, METHODS, METRICS = "Input", "Methods", "Metrics"
CERTAINTY, DECISIONS, SHIPPING = "How sure one may be", "Decisions", "Shipping and watching"
INTERFACE = "Interface"


def nll(labels: Any, proba: Any) -> float:
    """Return the mean negative log-likelihood."""
    chosen = np.asarray(proba, dtype=float)[np.arange(len(labels)), labels]
    return float(-np.log(np.clip(chosen, 1e-300, None)).mean())


def binary_nll(outcomes: Any, proba: Any) -> float:
    """Return the same of probabilities of outcome 1."""
    chosen = np.asarray(proba, dtype=float).ravel()
    return nll(np.asarray(outcomes).astype(int), np.column_stack((1 - chosen, chosen)))


def ece(labels: Any, proba: Any, bins: int = 15) -> float:
    """Return the expected calibration error in bins of equal width."""
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == labels
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gaps = [abs((right - confidence)[place == each].sum()) for each in range(bins)]
    return float(sum(gaps) / len(labels))


def brier(labels: Any, proba: Any) -> float:
    """Return the Brier score, the sum over classes."""
    hot = np.eye(proba.shape[1])[labels]
    return float(((proba - hot) ** 2).sum(axis=1).mean())


def improves(proba: Any, world: Any) -> bool:
    """Check that these are probabilities of the test samples, better than the model's own.

    By Brier score: maps with steps give zeros, whose log-loss is infinite.
    """
    proba = np.asarray(proba, dtype=float)
    whole = proba.shape == world.p_test.shape and np.allclose(proba.sum(axis=1), 1, atol=1e-4)
    return whole and brier(world.y_test, proba) < brier(world.y_test, world.p_test)


def score_improves(proba: Any, world: Any) -> bool:
    """Check the same of one probability per sample."""
    before = binary_nll(world.right_test, np.clip(world.score_test, 1e-12, 1 - 1e-12))
    proba = np.clip(np.asarray(proba, dtype=float).ravel(), 1e-12, 1 - 1e-12)
    return len(proba) == len(world.right_test) and binary_nll(world.right_test, proba) < before


def both(result: Any, world: Any) -> bool:
    """Check a weighted fit: (weighted, unweighted) both improve and are not the same."""
    weighted, plain = result
    return improves(weighted, world) and not np.allclose(weighted, plain, atol=1e-6)


def is_ece(value: Any, world: Any) -> bool:
    """Check against a few lines of NumPy."""
    return abs(float(value) - ece(world.y_test, world.p_test)) < 1e-4


def between(low: float, high: float) -> Any:
    """Return a check that a number lies between two others."""
    return lambda value, world: low < float(value) < high


def scores_agree(result: Any, world: Any) -> bool:
    """Check log-loss and Brier score, the sum over classes, against a few lines of NumPy."""
    own = brier(world.y_test, world.p_test)
    halves = (own, own / 2, own / world.p_test.shape[1])  # packages divide otherwise
    return abs(float(result[0]) - nll(world.y_test, world.p_test)) < 1e-3 and any(
        abs(float(result[1]) - each) < 1e-3 for each in halves
    )


def interval(result: Any, world: Any) -> bool:
    """Check that (low, high) is an interval that holds ECE of the model, or nearly."""
    low, high = (float(each) for each in result)
    return 0 < high - low < 0.2 and low - 0.05 < ece(world.y_test, world.p_test) < high + 0.05


def below_zero(result: Any, world: Any) -> bool:
    """Check that the interval of a difference says that calibration helps here, as it does."""
    low, high = (float(each) for each in result)
    return low < high < 0


def covers(inside: Any, world: Any) -> bool:
    """Check sets made for 90 %: they cover nearly that, and are not all classes."""
    inside = np.asarray(inside).reshape(len(world.y_test), -1) > 0
    covered = inside[np.arange(len(inside)), world.y_test].mean()
    return bool(0.86 < covered < 0.97 and inside.sum(axis=1).mean() < inside.shape[1] - 0.3)


def few_errors(accepted: Any, world: Any) -> bool:
    """Check a threshold made for at most 30 % errors among the samples accepted."""
    accepted = np.asarray(accepted, dtype=bool)
    return bool(accepted.sum() > 50 and (1 - world.right_test[accepted].mean()) < 0.33)


def same(result: Any, world: Any) -> bool:
    """Check that two ways give the same numbers."""
    first, second = (np.asarray(each, dtype=float) for each in result)
    return first.shape == second.shape and bool(np.allclose(first, second, atol=1e-5))


def succeeded(result: Any, world: Any) -> bool:
    """Check that commands ended without an error."""
    return result["codes"] == [0] * len(result["codes"])


def applied(result: Any, world: Any) -> bool:
    """Check that commands wrote calibrated probabilities."""
    return succeeded(result, world) and improves(np.load(world.folder / "p.npy"), world)


def truly(result: Any, world: Any) -> bool:
    """Check that a result says yes."""
    return result is True or (isinstance(result, np.bool_) and bool(result))


def drawn(figure: Any, world: Any) -> bool:
    """Check that there is a figure with something in it."""
    axes = figure.axes if hasattr(figure, "axes") else [figure]
    return any(each.lines or each.patches or each.collections for each in np.atleast_1d(axes))


feature("logits, as they are", INPUT, improves)
feature("probabilities", INPUT, improves)
feature("saved arrays, no model object", INPUT, improves)
feature("a fitted scikit-learn model", INPUT, improves)
feature("an unfitted one, by cross-validation", INPUT, improves)
feature("a torch model and a DataLoader", INPUT, improves)
feature("one number per item (a score)", INPUT, score_improves)
feature("sample weights in the fit", INPUT, both)
feature("groups of samples", INPUT, improves)
feature("files, from the shell", INPUT, applied)
feature("regression with uncertainty", INPUT, truly)
feature("boxes of object detection", INPUT, truly)

feature("temperature scaling", METHODS, improves)
feature("vector scaling", METHODS, improves)
feature("matrix scaling, penalised", METHODS, improves)
feature("isotonic regression", METHODS, improves)
feature("histogram binning", METHODS, improves)
feature("Platt or beta, class by class", METHODS, improves)
feature("Venn-Abers", METHODS, score_improves)
feature("a temperature for each sample", METHODS, improves)
feature("richer maps that keep predictions", METHODS, truly)
feature("posterior of the parameters", METHODS, truly)
feature("penalties for training a network", METHODS, truly)
feature("ensembles and Bayesian layers", METHODS, truly)

feature("ECE in 15 equal-width bins", METRICS, is_ece)
feature("ECE in bins of equal mass", METRICS, between(0.02, 0.4))
feature("ECE by class", METRICS, between(0.01, 0.4))
feature("smooth ECE", METRICS, between(0.02, 0.4))
feature("log-loss and Brier score", METRICS, scores_agree)
feature("Lp calibration error by a classifier", METRICS, between(0.0, 0.5))
feature("risk-coverage (AURC)", METRICS, between(0.01, 0.6))
feature("tests of calibration with a p-value", METRICS, between(-1e-9, 0.01))
feature("reliability diagram", METRICS, drawn)

feature("interval of a metric", CERTAINTY, interval)
feature("paired interval of a difference", CERTAINTY, below_zero)
feature("ECE of a perfect model (noise floor)", CERTAINTY, between(0.005, 0.08))
feature("choice of a method by cross-validation", CERTAINTY, truly)
feature("how many labels are needed", CERTAINTY, truly)
feature("how far a fit varies", CERTAINTY, truly)

feature("prediction sets, split conformal", DECISIONS, covers)
feature("threshold with a guarantee on errors", DECISIONS, few_errors)
feature("decisions by cost", DECISIONS, truly)
feature("conformal regression", DECISIONS, truly)
feature("guarantees for several labels per row", DECISIONS, truly)

feature("a file of its own, read back", SHIPPING, same)
feature("pickled, read back", SHIPPING, same)
feature("ONNX", SHIPPING, same)
feature("a torch module", SHIPPING, same)
feature("plain Python, SQL", SHIPPING, same)
feature("alarm on drift, error rate held", SHIPPING, truly)
feature("adapts to other class frequencies", SHIPPING, truly)
feature("updated by a few new labels", SHIPPING, truly)

feature("command line for saved logits", INTERFACE, succeeded)
feature("report as one HTML page", INTERFACE, succeeded)
feature("exit code for a pipeline", INTERFACE, lambda result, world: result["codes"][-1] == 1)
feature("sklearn.base.clone", INTERFACE, truly)
feature("any class labels (strings)", INTERFACE, truly)

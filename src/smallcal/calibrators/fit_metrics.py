"""Losses of a fitted calibrator on its calibration set, before and after."""

from __future__ import annotations

from typing import Any

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.given import Given
from smallcal.calibrators.maps import TemperatureMap
from smallcal.calibrators.objectives import Seen, log_odds, losses, sigmoid
from smallcal.data.predictions import FloatArray, IntArray, Predictions

_TINY = np.finfo(np.float64).tiny


def fit_metrics(fitted: FittedCalibrator, seen: Seen, scores: FloatArray) -> dict[str, Any]:
    """Return accuracy, losses before and after calibration, and how many predictions change.

    ``scores`` are those of the signal, which the map turns into temperatures.
    """
    preds = seen.preds
    if isinstance(fitted.map, TemperatureMap) and preds.score is None and preds.groups is None:
        beta = 1 / fitted.map(scores)
        return {
            "accuracy": float(seen.gaps.correct.mean()),
            "before": losses(seen.gaps, 1.0, seen.raw.log_odds),
            "after": losses(seen.gaps, beta, log_odds(seen.gaps, beta)),
            "changed_predictions": 0,
        }
    given = Given(preds.logits.astype(np.float64, copy=False), preds.features, preds.labels)
    if fitted.groups is not None and preds.group_labels is not None:
        given = given._replace(groups=fitted.groups.codes(preds.group_labels))
    proba = fitted.calibrate(given)
    if preds.score is None:
        before = losses(seen.gaps, 1.0, seen.raw.log_odds)
        predicted = fitted.predicted(proba, preds.logits)
        changed = int((predicted != preds.predicted).sum())
    else:  # confidence is that in outcome 1
        predicted, changed = np.ones(preds.n, dtype=np.int64), 0
        odds = preds.logits[:, 1]
        before = losses_of(np.column_stack([sigmoid(-odds), sigmoid(odds)]), preds, predicted)
    return {
        "accuracy": float(preds.came.mean()),
        "before": before,
        "after": losses_of(proba, preds, predicted),
        "changed_predictions": changed,
    }


def losses_of(proba: FloatArray, preds: Predictions, predicted: IntArray) -> dict[str, float]:
    """Return log-loss, top-label log-loss and mean confidence of probabilities."""
    rows = np.arange(preds.n)
    top = proba[rows, predicted]
    bet = np.where(predicted == preds.labels, top, 1 - top)
    return {
        "nll": float(-np.log(np.maximum(proba[rows, preds.labels], _TINY)).mean()),
        "top_label_bce": float(-np.log(np.maximum(bet, _TINY)).mean()),
        "mean_confidence": float(np.clip(top, 0, 1).mean()),
    }

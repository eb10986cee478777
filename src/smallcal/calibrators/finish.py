"""The last step of a fit: how far to go, and whether predictions may change.

What came before has fitted a calibrator on logits that may be corrected already. Here it is weighed
against leaving the model alone, by rows that were corrected out of fold, put together with the
correction, and measured on the split.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.given import Given
from smallcal.calibrators.maps.base import ProbabilityMap, TemperatureMap
from smallcal.calibrators.maps.correction import Correction
from smallcal.calibrators.maps.gate import weight_of_change
from smallcal.calibrators.maps.temperature import ScalarMap
from smallcal.calibrators.objectives import Seen, log_odds, losses, sigmoid, softplus
from smallcal.calibrators.signals import NoSignal
from smallcal.calibrators.softmax import keep_predictions
from smallcal.data.predictions import FloatArray, IntArray, Predictions

#: Below this share of the change, the fit says that it is held back.
HELD_BACK = 0.9
#: Of the normal distribution: 95 % lie within so many standard deviations.
_TWO_SIDED = 1.959964
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Made:
    """What a fit has made, before it is finished.

    Attributes
    ----------
    fitted : FittedCalibrator
        For logits that are corrected already.
    correction : Correction or None
    moved : Seen
        The split as it was fitted on: corrected out of fold, or as it is.
    odds : ndarray of shape (n,)
        Log-odds of the confidences that the fit gives it.
    freedom : float or None
        The effective number of parameters, where the fit is to be weighed against the raw model.
    """

    fitted: FittedCalibrator
    correction: Correction | None
    moved: Seen
    odds: FloatArray
    freedom: float | None

    def finished(self, seen: Seen, *, measure: bool = True) -> FittedCalibrator:
        """Weigh the fit, put it together with its correction, and measure it on the split."""
        fitted, weight = replace(self.fitted, correction=self.correction), 1.0
        if self.freedom is not None:
            # Without an error nothing tells how much confidence is too much.
            faultless = bool(seen.gaps.correct.all())
            weight = 0.0 if faultless else weight_of_change(self._gain(seen), self.freedom)
            fitted = replace(self._at(weight), flags=self._flags(weight))
        told = {"accuracy": float(seen.gaps.correct.mean()), "weight": weight}
        if not measure:
            return replace(fitted, fit_metrics=told)
        proba = fitted.calibrate(_given(seen.preds))
        metrics = {
            "accuracy": told["accuracy"],
            "before": losses(seen.gaps, 1.0, seen.raw.log_odds),
            **outcome_of(proba, seen.preds, proba.argmax(axis=1)),
            "weight": weight,
        }
        return replace(fitted, fit_metrics=metrics)

    def _flags(self, weight: float) -> dict[str, list[int]]:
        """Return the flags of the fit at this share; of what is not applied none is left."""
        if not weight:
            return {"kept_raw": []}
        held: dict[str, list[int]] = {"held_back": []} if weight < HELD_BACK else {}
        return {**self.fitted.flags, **held}

    def _gain(self, seen: Seen) -> float:
        """Return by how much the fit makes it likelier that the model is right where it is.

        It is the model's own predictions that are judged, whatever the fit prefers.
        """
        preds, right = seen.preds, seen.gaps.correct
        own = sigmoid(self.odds)
        other = np.flatnonzero(self.moved.preds.predicted != preds.predicted)
        if len(other):
            proba = self.fitted.calibrate(_given(self.moved.preds.take(other)))
            own[other] = proba[np.arange(len(other)), preds.predicted[other]]
        floor = np.finfo(np.float64).eps
        after = np.log(np.maximum(np.where(right, own, 1 - own), floor))
        before = -softplus(np.where(right, -seen.raw.log_odds, seen.raw.log_odds))
        return float(seen.gaps.weights @ (after - before))

    def _at(self, weight: float) -> FittedCalibrator:
        """Return the calibrator with what the fit changes at this share."""
        if not weight:  # a model that is left alone is left alone altogether
            n = self.moved.gaps.n
            alone = ScalarMap(1.0, fitted=False)
            bare = replace(self.fitted, map=alone, signal=NoSignal(), tail_temperature=None)
            return replace(bare, pooled_temperature=1.0, group_counts=(n,))
        tail, correction = self.fitted.tail_temperature, self.correction
        if weight == 1:
            return replace(self.fitted, correction=correction)
        return replace(
            self.fitted,
            map=self.fitted.map.weakened(weight),
            tail_temperature=None if tail is None else tail**weight,
            correction=None if correction is None else correction.weakened(weight),
        )


def accuracy_if_free(preds: Predictions, logits: FloatArray) -> dict[str, float]:
    """Return the accuracy of out-of-fold predictions with its 95 % interval, and that of the gain.

    ``gain_low`` is the lower end for the difference from the model's own accuracy, from the rows
    where the two differ.

    Examples
    --------
    >>> preds = Predictions.of([[1.0, 0.0]] * 10, [0, 1] * 5)
    >>> found = accuracy_if_free(preds, np.eye(2)[[0, 1] * 5])
    >>> round(found["value"], 2), round(found["low"], 2), round(found["gain_low"], 2)
    (1.0, 0.72, 0.19)
    """
    weight = np.ones(preds.n) if preds.weight is None else preds.weight
    share = weight / weight.sum()
    right = logits.argmax(axis=1) == preds.labels
    value, before = (float(min(share @ each, 1.0)) for each in (right, preds.correct))  # rounding
    n = 1 / float(share @ share)
    gained = right.astype(float) - preds.correct
    gain = float(share @ gained)
    error = _TWO_SIDED * np.sqrt(float(share @ (gained - gain) ** 2) / n)
    # Wilson's interval.
    z2 = _TWO_SIDED**2
    centre = (value + z2 / (2 * n)) / (1 + z2 / n)
    half = _TWO_SIDED * np.sqrt(value * (1 - value) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return {
        "before": before,
        "value": value,
        "low": float(max(centre - half, 0.0)),
        "high": float(min(centre + half, 1.0)),
        "gain_low": float(gain - error),
    }


def metrics_of(fitted: FittedCalibrator, seen: Seen, scores: FloatArray) -> dict[str, Any]:
    """Return the losses before and after calibration, and how many predictions changed."""
    preds, gaps, raw = seen
    before = {
        "accuracy": float(gaps.correct.mean()),
        "before": losses(gaps, 1.0, raw.log_odds),
    }
    if isinstance(fitted.map, TemperatureMap):
        beta = 1 / fitted.map(scores)
        after = losses(gaps, beta, log_odds(gaps, beta))
        return before | {"after": after, "changed_predictions": 0}
    assert isinstance(fitted.map, ProbabilityMap)
    proba = fitted.map.of_options(preds.logits.astype(np.float64), scores)
    predicted = proba.argmax(axis=1)
    if fitted.preserves_argmax:
        predicted = preds.predicted
        keep_predictions(proba, predicted)
    return before | outcome_of(proba, preds, predicted)


def outcome_of(proba: FloatArray, preds: Predictions, predicted: IntArray) -> dict[str, Any]:
    """Return the losses of probabilities, and how many predictions they change."""
    top = proba[np.arange(preds.n), predicted]
    bet = np.where(predicted == preds.labels, top, 1 - top)
    return {
        "after": {
            "nll": float(-log_of_label(proba, preds).mean()),
            "top_label_bce": float(-np.log(np.maximum(bet, _TINY)).mean()),
            "mean_confidence": float(np.clip(top, 0, 1).mean()),
        },
        "changed_predictions": int((predicted != preds.predicted).sum()),
    }


def with_claims(fitted: FittedCalibrator, preds: Predictions) -> FittedCalibrator:
    """Return a calibrator of scores, measured as such: what is claimed is outcome 1, always."""
    claim = np.ones(preds.n, dtype=np.int64)
    raw = np.column_stack([sigmoid(-preds.logits[:, 1]), sigmoid(preds.logits[:, 1])])
    metrics = {
        **fitted.fit_metrics,
        "accuracy": float(preds.labels.mean()),
        "before": outcome_of(raw, preds, claim)["after"],
        "after": outcome_of(fitted.calibrate(_given(preds)), preds, claim)["after"],
        "changed_predictions": 0,
    }
    return replace(fitted, fit_metrics=metrics)


def log_of_label(proba: FloatArray, preds: Predictions) -> FloatArray:
    """Return the logarithm of each label's probability."""
    return np.asarray(np.log(np.maximum(proba[np.arange(preds.n), preds.labels], _TINY)))


def _given(preds: Predictions) -> Given:
    return Given(preds.logits.astype(np.float64, copy=False), preds.features, preds.labels)

"""A fitted calibrator applied to the samples of a split: temperatures, groups and their errors.

A calibrator with groups is described group by group. One whose temperature is a curve or a
regression is described by *bands*: the thirds of the samples with the lowest, the middle and the
highest temperature. Others (a matrix, say) are described by their confidences alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps import UNIFORM, TemperatureMap
from smallcal.calibrators.maps.groups import group_members, group_thresholds
from smallcal.data.predictions import FloatArray, IntArray, Predictions
from smallcal.metrics import Scored

#: Bands of a temperature that is not constant in groups.
N_BANDS = 3

#: Shares of samples with lower temperatures, for temperatures that are not constant in groups.
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class CalibratedSplit:
    """What one fitted calibrator does to the samples of a split.

    Attributes
    ----------
    temperature : ndarray of shape (n,), or None
    band : ndarray of shape (n,), or None
        The group of each sample, or its band of temperature.
    edges : tuple of float
        Where bands begin: scores for groups, temperatures otherwise.
    scored : Scored
        The calibrated probabilities.
    """

    fitted: FittedCalibrator
    temperature: FloatArray | None
    band: IntArray | None
    edges: tuple[float, ...]
    scored: Scored

    @classmethod
    def of(cls, fitted: FittedCalibrator, preds: Predictions) -> CalibratedSplit:
        """Apply a calibrator to a checked split, which holds logits, whatever came in."""
        fitted = replace(fitted, input="logits")
        extra = {"features": preds.features}
        scored = scored_on(fitted, preds)
        if not isinstance(fitted.map, TemperatureMap):
            return cls(fitted, None, None, (), scored)
        scores = fitted.scores(preds.logits, **extra)
        temperature = fitted.map(scores)
        if fitted.map.steps:
            edges = tuple(getattr(fitted.map, "thresholds", ()))
            return cls(fitted, temperature, fitted.map.groups(scores), edges, scored)
        cuts = group_thresholds(temperature, N_BANDS)
        band = group_members(temperature, cuts)
        if len(np.unique(band)) < N_BANDS:  # one temperature for (nearly) all is one band
            cuts, band = np.empty(0), np.zeros_like(band)
        return cls(fitted, temperature, band, tuple(cuts.tolist()), scored)

    @property
    def n_bands(self) -> int:
        """Groups, or bands of temperature; 0 where there is no temperature."""
        return 0 if self.band is None else len(self.edges) + 1

    @property
    def regressed(self) -> bool:
        """Whether there are temperatures without groups."""
        return self.band is not None and not self.fitted.map.steps

    def band_of(self, logits: object, features: object, *, input: str = "logits") -> IntArray:
        """Return the group or band of each of other rows."""
        fitted = replace(self.fitted, input=input)
        if not self.regressed:
            return fitted.group(logits, features=features)
        temperature = fitted.temperature(logits, features=features)
        return group_members(temperature, np.array(self.edges))

    def occupancy(self, logits: object, features: object, *, input: str = "logits") -> FloatArray:
        """Return the share of other rows in each group or band."""
        band = self.band_of(logits, features, input=input)
        return np.asarray(np.bincount(band, minlength=self.n_bands) / len(band))

    def saturated(self) -> bool:
        """Return whether a temperature lies at a bound of the allowed range."""
        if "at_bound" in self.fitted.flags:
            return True
        if self.temperature is None or not self.fitted.n_parameters:
            return False
        low, high = self.fitted.discipline.bounds
        usual = self.temperature[self.temperature != UNIFORM]
        return bool(((usual <= low) | (usual >= high)).any())

    def error_rates(self, weight: FloatArray | None = None) -> FloatArray:
        """Return each band's share of wrong predictions, NaN where it holds no weight."""
        if self.band is None:
            return np.empty(0)
        weight = np.ones(self.scored.n) if weight is None else weight
        sums = partial(np.bincount, self.band, minlength=self.n_bands)
        total, errors = sums(weights=weight), sums(weights=weight * ~self.scored.correct)
        return np.asarray(
            np.divide(errors, total, out=np.full_like(total, np.nan), where=total > 0)
        )

    def risk_direction(self) -> float:
        """Return 1 where errors should grow with the score, -1 where they should fall.

        A risk score says so itself; for others it is what the audited calibrator shows.
        """
        if self.band is None or "risk" in self.fitted.signal.kind:
            return 1.0
        rates = self.error_rates()
        rates = rates[~np.isnan(rates)]
        return -1.0 if rates[-1] < rates[0] else 1.0


def scored_on(fitted: FittedCalibrator, preds: Predictions) -> Scored:
    """Return what metrics are computed from: probabilities, and the confidence of ``predict``.

    With ``keep_predictions`` that is the calibrated probability of the model's own label, whether
    or not it is the largest.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> cal = sc.Calibrator(keep_predictions=True).fit(val.logits, val.labels)
    >>> view = scored_on(cal.fitted_, Predictions.of(val.logits, val.labels))
    >>> bool(np.allclose(view.confidence, cal.confidence(val.logits)))
    True
    """
    free = replace(fitted, keep_predictions=False)
    return as_predicted(fitted, Scored.of(preds.labels, free.on(preds)), preds)


def as_predicted(fitted: FittedCalibrator, view: Scored, preds: Predictions) -> Scored:
    """Return a view of unadjusted probabilities with the labels that a calibrator predicts."""
    if not fitted.keep_predictions or fitted.map.preserves_argmax or view.outcome:
        return view
    rows, predicted = np.arange(view.n), fitted.predicted(view.proba, preds.logits)
    others = view.proba.copy()
    others[rows, predicted] = 0.0
    return replace(
        view,
        confidence=np.minimum(view.proba[rows, predicted], 1.0),
        doubt=np.maximum(others.sum(axis=1), 0.0),
        correct=predicted == view.labels,
    )


def ordered(values: FloatArray, direction: float, *, strict: bool = False) -> bool:
    """Return whether values rise (or fall, with direction -1); undefined ones are left out.

    Examples
    --------
    >>> ordered(np.array([1.0, np.nan, 1.0, 2.0]), 1), ordered(np.array([1.0, 1.0]), 1, strict=True)
    (True, False)
    """
    steps = direction * np.diff(values[~np.isnan(values)])
    return bool((steps > 0).all() if strict else (steps >= 0).all())

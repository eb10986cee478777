"""What a fitted calibrator does, as plain data: groups, temperatures, what each signal adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from smallcal.advice.calibrated_split import LEVELS, CalibratedSplit
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps.multinomial import MultinomialMap
from smallcal.calibrators.maps.regressed import RegressedMap
from smallcal.calibrators.signals import FeatureRisk, LinearScore
from smallcal.calibrators.summary import accuracy_line, effects_of, words_of
from smallcal.data.predictions import IntArray
from smallcal.reports.content.measure import Fit
from smallcal.reports.samples import Samples

#: Classes shown with the strongest effects, of either sign.
_STRONGEST = 5


def weights(fitted: FittedCalibrator) -> list[dict[str, Any]]:
    """Return what each standardised statistic adds to the score, or to the log-temperature.

    ``share`` is the size of a weight among them all, ``factor`` what one standard deviation more
    multiplies the temperature by, where it is a weight of the log-temperature. Statistics go
    together, so this says what the formula uses, not what causes what.
    """
    signal = fitted.signal
    if isinstance(signal, LinearScore):
        names, found = signal.statistics, signal.coef
    elif isinstance(fitted.map, RegressedMap):
        names = getattr(signal, "statistics", ())
        found = tuple(-slope for slope in fitted.map.coefficients)
    else:
        return []
    total = sum(abs(weight) for weight in found) or 1.0
    factors = effects_of(fitted)
    return [
        {
            "statistic": name,
            "weight": weight,
            "share": abs(weight) / total,
            "factor": factors.get(name),
        }
        for name, weight in zip(names, found, strict=True)
    ]


class Bands(NamedTuple):
    """What a method with several temperatures does to the calibration samples, and to others."""

    shown: CalibratedSplit
    #: The group or band of each test sample.
    test: IntArray


def bands_of(fits: Iterable[Fit], calibration: Samples, test: Samples) -> dict[str, Bands]:
    """Return the groups or bands of each method that has more than one, and may be recommended."""
    found = {}
    for fit in fits:
        # What a score is divided by follows the score itself, which its bands show already.
        if fit.deployable and fit.routed and calibration.preds.score is None:
            shown = CalibratedSplit.of(fit.fitted, calibration.preds)
            if shown.n_bands > 1:
                codes = shown.band_of(test.preds.logits, test.preds.features)
                found[fit.name] = Bands(shown, codes)
    return found


def routing(name: str, bands: Bands, test: Samples, class_names: Sequence[str]) -> dict[str, Any]:
    """Return the anatomy of a method that gives samples different temperatures."""
    here, fitted = bands.shown, bands.shown.fitted
    assert here.temperature is not None
    assert here.band is not None
    there = fitted.temperature(test.preds.logits, features=test.preds.features)
    shares = [
        np.bincount(band, minlength=here.n_bands) / len(band) for band in (here.band, bands.test)
    ]
    edges = [None, *here.edges, None]
    rows = [
        {
            "group": i,
            "from": edges[i],
            "to": edges[i + 1],
            "temperature": float(np.median(here.temperature[here.band == i])),
            "calibration_share": float(shares[0][i]),
            "test_share": float(shares[1][i]),
        }
        for i in range(here.n_bands)
    ]
    return {
        "method": name,
        "signal": fitted.signal.kind,
        "map": fitted.map.kind,
        # Thirds by temperature have no thresholds of their own: those are temperatures.
        "banded_by": "temperature" if here.regressed else "score",
        "bands": rows,
        "pooled_temperature": fitted.pooled_temperature,
        "test_temperature": {f"{level:g}": float(np.quantile(there, level)) for level in LEVELS},
        "weights_of": "log-temperature" if isinstance(fitted.map, RegressedMap) else "score",
        "weights": weights(fitted),
        "intercept": _intercept(fitted),
        "class_effects": class_effects(fitted, class_names),
    }


def explained(fit: Fit, calibration: Samples, class_names: Sequence[str]) -> dict[str, Any]:
    """Return what one method does, in its own terms: classes, statistics, temperatures."""
    fitted = fit.fitted
    scale = calibration.preds.score
    what = words_of(fitted, score=scale is not None)
    before = "" if scale is None else f"{scale.words} "
    return {
        "method": fit.name,
        "words": f"{before}{what}." if what else "",
        "n_parameters": fitted.n_parameters,
        "temperature": one_temperature(fitted),
        "accuracy_line": accuracy_line(fitted),
        "score": scale and scale.to_dict(),
        "weights_of": "log-temperature" if isinstance(fitted.map, RegressedMap) else "score",
        "weights": weights(fitted),
        "class_effects": class_effects(fitted, class_names),
    }


def one_temperature(fitted: FittedCalibrator) -> float | None:
    """Return the temperature that all logits are divided by first; None where there is none."""
    if isinstance(fitted.map, MultinomialMap):
        return 1 / fitted.map.inverse_temperature
    return fitted.map.steps[0] if len(fitted.map.steps) == 1 else None


def _intercept(fitted: FittedCalibrator) -> float | None:
    if isinstance(fitted.signal, LinearScore | FeatureRisk):
        return float(fitted.signal.intercept)
    intercept = getattr(fitted.map, "intercept", None)
    return None if intercept is None else -float(intercept)


def class_effects(fitted: FittedCalibrator, names: Sequence[str]) -> dict[str, Any] | None:
    """Return how the predicted class moves the temperature: as factors, the strongest by name."""
    found = np.array(getattr(fitted.map, "effects", ()), dtype=np.float64)
    if not len(found):
        return None
    factors = np.exp(-found)
    order = np.argsort(-np.abs(found), kind="stable")[:_STRONGEST]
    return {
        "n": int(np.count_nonzero(found)),
        "sd": float(found.std()),
        "low": float(factors.min()),
        "high": float(factors.max()),
        "strongest": [
            {"class": names[i], "column": i, "factor": float(factors[i])} for i in order.tolist()
        ],
    }

"""What a fitted calibrator does, as plain data: groups, temperatures, what each signal adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from smallcal.advice.calibrated_split import LEVELS, CalibratedSplit
from smallcal.calibrators.catalogue import method
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps.regressed import RegressedMap
from smallcal.calibrators.signals import FeatureRisk, LinearScore
from smallcal.calibrators.summary import effects_of, words_of
from smallcal.data.predictions import IntArray
from smallcal.reports.content.measure import Fit
from smallcal.reports.samples import Samples

#: Classes shown with the strongest effects, of either sign.
_STRONGEST = 5
#: Classes shown that a correction lifts most, and that it lowers most.
_MOVED = 5


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
        "tail_temperature": fitted.tail_temperature,
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
        "temperature": fitted.map.steps[0] if len(fitted.map.steps) == 1 else None,
        "score": scale and scale.to_dict(),
        "correction": correction(fitted, calibration, class_names),
        "weights_of": "log-temperature" if isinstance(fitted.map, RegressedMap) else "score",
        "weights": weights(fitted),
        "class_effects": class_effects(fitted, class_names),
    }


def correction(
    fitted: FittedCalibrator, calibration: Samples, names: Sequence[str]
) -> dict[str, Any] | None:
    """Return which classes a correction lifts and lowers most; None where there is none.

    A class is moved by its bias and by the directions that classes share, whose part depends on
    the logits: what is told is the mean over the calibration samples, less that of all classes,
    as only differences of logits count.
    """
    if fitted.correction is None:
        return None
    preds = calibration.preds
    given = np.asarray(preds.logits, dtype=np.float64)
    moved = (fitted.correction(given) - given).mean(axis=0)
    moved, bias = moved - moved.mean(), np.array(fitted.correction.bias)
    bias -= bias.mean()
    predicted = np.bincount(given.argmax(axis=1), minlength=len(names))
    true = np.bincount(preds.labels, minlength=len(names))
    # From the most lifted to the most lowered class, each once.
    order = np.argsort(-moved, kind="stable").tolist()
    shown = order if len(order) <= 2 * _MOVED else [*order[:_MOVED], *order[-_MOVED:]]
    return {
        "n": len(names),
        "directions": len(fitted.correction.reads),
        "sd": float(moved.std()),
        "low": float(moved.min()),
        "high": float(moved.max()),
        "strongest": [
            {
                "class": names[i],
                "column": i,
                "moved": float(moved[i]),
                "bias": float(bias[i]),
                "odds": float(np.exp(moved[i])),
                "n_predicted": int(predicted[i]),
                "n_true": int(true[i]),
            }
            for i in shown
        ],
    }


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


def gate(fit: Fit, calibration: Samples) -> dict[str, Any] | None:
    """Return what a method's own gate decided; None where it has no gate."""
    fitted = fit.fitted
    kind = fitted.options.get("gate")
    if not kind:
        return None
    if kind == "weight":
        return {
            "method": fit.name,
            "n": calibration.preds.n,
            "weight": fitted.fit_metrics["weight"],
        }
    care = {"seed": fitted.discipline.seed}
    gained, needed = method(fit.name).with_options(care).weigh(calibration.preds)
    return {
        "method": fit.name,
        "kept_raw": "kept_raw" in fitted.flags,
        "n": calibration.preds.n,
        "gained": gained,
        "needed": needed,
    }

"""What there is to say about a fitted calibrator, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.later import Later
from smallcal.calibrators.maps.regressed import RegressedMap
from smallcal.calibrators.program import HIGHEST_EXPONENT


def summary(fitted: FittedCalibrator) -> dict[str, Any]:
    """Return what there is to say about a calibrator, as plain data."""
    return {
        "method": fitted.method,
        "objective": fitted.objective,
        "signal": fitted.signal.kind,
        "map": fitted.map.kind,
        "options": dict(fitted.options),
        "input": fitted.input,
        **({} if fitted.score is None else {"score": fitted.score.to_dict()}),
        "n": fitted.data.get("n"),
        "n_classes": fitted.n_classes,
        "n_parameters": fitted.n_parameters,
        "preserves_argmax": fitted.preserves_argmax,
        "pooled_temperature": fitted.pooled_temperature,
        "groups": [
            {"from": low, "to": high, "n": n, "temperature": temperature}
            for low, high, n, temperature in groups_of(fitted)
        ],
        "effects": effects_of(fitted),
        "group_effects": None if fitted.groups is None else fitted.groups.summary(),
        "flags": {
            name: {"groups": list(where), "meaning": fitted.flag_text(name)}
            for name, where in fitted.flags.items()
        },
        "fit_metrics": dict(fitted.fit_metrics),
        "later": [_learned(part, fitted.n_classes) for part in fitted.later],
        "decisions": [decision.to_dict() for decision in fitted.decisions],
    }


def _learned(part: Later, n_classes: int) -> dict[str, Any]:
    """Return what a part learned: its numbers, one or one per class, without counts behind them."""
    document = part.to_dict()
    return {
        name: value
        for name, value in document.items()
        if name != "aside" and (not isinstance(value, list) or len(value) == n_classes)
    }


def words_of(fitted: FittedCalibrator, *, score: bool) -> str:
    """Return what a calibrator does to its rows; empty where its map has no words.

    Examples
    --------
    >>> import smallcal as sc
    >>> marks, passed = [1, 2, 3, 4, 5] * 20, [0, 0, 1, 0, 1] * 20
    >>> words_of(sc.Calibrator(input="score").fit(marks, passed).fitted_, score=True)
    'Log-odds are turned into the probability of outcome 1 by a monotone curve'
    """
    if not fitted.map.words:
        return ""
    what = fitted.map.words.format(signal=fitted.signal.words or fitted.signal.name)
    if not score:
        return f"Logits are {what}"
    second = "the second class's probability"
    return f"Log-odds are {what}".replace(second, "the probability of outcome 1")


def accuracy_line(fitted: FittedCalibrator) -> str:
    """Return how many predictions a fit changes and the effect on accuracy, cross-validated.

    Empty where nothing was cross-validated, or where the fit cannot change predictions.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> line = accuracy_line(sc.Calibrator().fit(val.logits, val.labels).fitted_)
    >>> line[:9], "% of predictions; accuracy +" in line, line.endswith(", cross-validated")
    ('changes 1', True, True)
    >>> accuracy_line(sc.TemperatureScaling().fit(val.logits, val.labels).fitted_)
    ''
    """
    found = fitted.fit_metrics.get("cross_validated")
    if not found or fitted.map.preserves_argmax:
        return ""
    said = accuracy_change(found)
    if fitted.keep_predictions:
        return f"keeps the model's predictions; without keep_predictions it {said}"
    return said


def accuracy_change(found: Mapping[str, float]) -> str:
    """Return the same from the numbers of a cross-validation.

    Examples
    --------
    >>> change = {"accuracy_change": 0.024, "accuracy_change_low": 0.011}
    >>> accuracy_change({"changed": 0.03, **change, "accuracy_change_high": 0.037})
    'changes 3 % of predictions; accuracy +2.4 points, 95 % interval 1.1 to 3.7, cross-validated'
    """
    share = 100 * found["changed"]
    if not share:
        return "changes no predictions, cross-validated"
    percent = f"{share:.0f}" if share >= 10 else f"{share:.2g}"
    change, low, high = (
        round(100 * found[f"accuracy_change{end}"], 1) + 0.0 for end in ("", "_low", "_high")
    )
    points = f"{change:+.1f}" if change else "0.0"
    return (
        f"changes {percent} % of predictions; accuracy {points} points, 95 % interval {low:.1f} "
        f"to {high:.1f}, cross-validated"
    )


def groups_of(fitted: FittedCalibrator) -> list[tuple[float | None, float | None, int, float]]:
    """Return, for each group: the scores it runs from and to, its samples, its temperature."""
    steps = fitted.map.steps
    edges = [None, *getattr(fitted.map, "thresholds", ()), None]
    return (
        list(zip(edges[:-1], edges[1:], fitted.group_counts, steps, strict=True)) if steps else []
    )


def effects_of(fitted: FittedCalibrator) -> dict[str, float]:
    """Return the factor on the temperature for a standard deviation more of each statistic."""
    if not isinstance(fitted.map, RegressedMap):
        return {}
    names = getattr(fitted.signal, "statistics", ())
    slopes = fitted.map.coefficients
    most = HIGHEST_EXPONENT  # a factor beyond it would be infinite; the map has bounds anyway
    return {name: math.exp(min(-slope, most)) for name, slope in zip(names, slopes, strict=True)}

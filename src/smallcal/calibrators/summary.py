"""What there is to say about a fitted calibrator, as plain data."""

from __future__ import annotations

import math
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
        "tail_temperature": fitted.tail_temperature,
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
    if fitted.correction is not None:
        what = f"{fitted.correction.words}, then {what}"
    if not score:
        return f"Logits are {what}"
    second = "the second class's probability"
    return f"Log-odds are {what}".replace(second, "the probability of outcome 1")


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

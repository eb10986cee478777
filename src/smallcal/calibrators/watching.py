"""What a monitor watches of a calibrator's rows, and the counts of the split it was fitted on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smallcal.calibrators.given import Given, checked
from smallcal.calibrators.maps import TemperatureMap
from smallcal.calibrators.reference import Reference, Watched, log_odds
from smallcal.data.checks import FloatArray
from smallcal.errors import InputError

if TYPE_CHECKING:
    from smallcal.calibrators.fitted import FittedCalibrator


def watch(fitted: FittedCalibrator, logits: object, features: object = None) -> Watched:
    """Return what a monitor watches of each row.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> seen = watch(sc.SRTS().fit(val.logits, val.labels).fitted_, val.logits[:5])
    >>> [len(column) for column in seen]
    [5, 5, 5]
    """
    if not fitted.deployable:
        raise InputError(f"{fitted.method} is for comparison only; there is nothing to monitor")
    given = checked(fitted, logits, features, None)
    # Of a score it is outcome 1 that is claimed, also where it is the less probable.
    odds = log_odds(given.logits) if fitted.score is None else given.logits[:, 1]
    return _watched(fitted, given, odds)


def watches(fitted: FittedCalibrator) -> tuple[bool, bool]:
    """Return whether a monitor has scores to watch, and whether it has groups."""
    given = fitted.signal.gives(fitted.n_classes)
    if not fitted.signal.rowwise or not given.n:
        return False, False
    if given.columns:  # then the score is the temperature they lead to
        return isinstance(fitted.map, TemperatureMap), False
    return True, len(fitted.map.steps) > 1


def reference_of(fitted: FittedCalibrator, given: Given, odds: FloatArray) -> Reference | None:
    """Return counts of the calibration set, which a monitor compares new samples with.

    ``odds`` are the log-odds of the model's own confidence.
    """
    if not fitted.deployable:
        return None
    return _watched(fitted, given, odds).counted(len(fitted.group_counts))


def _watched(fitted: FittedCalibrator, given: Given, odds: FloatArray) -> Watched:
    scored, grouped = watches(fitted)
    if not scored:
        return Watched(odds, None, None)
    scores = fitted.routed(given)
    if scores.ndim == 1:
        return Watched(odds, scores, fitted.map.groups(scores) if grouped else None)
    assert isinstance(fitted.map, TemperatureMap)
    return Watched(odds, np.log(fitted.map(scores)), None)

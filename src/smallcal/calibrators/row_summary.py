"""What a monitor watches of each row: its confidence, its routing score, its group."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps import TemperatureMap
from smallcal.calibrators.reference import Bins, Reference
from smallcal.calibrators.signals import NoSignal, row_blocks
from smallcal.data.predictions import FloatArray, IntArray, as_scores
from smallcal.errors import InputError


class Watched(NamedTuple):
    """One number per row of each kind; None where a calibrator has no such thing."""

    confidence: FloatArray
    score: FloatArray | None
    groups: IntArray | None


def watch(fitted: FittedCalibrator, logits: object, *, features: object = None) -> Watched:
    """Return what is watched of each row.

    Confidence is the model's own, as log-odds: it never saturates, and the fit had no hand in it.
    The score is the calibrator's; where that is many numbers, the logarithm of the temperature
    they lead to.

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
    array = as_scores(logits, input=fitted.input)
    score = groups = None
    if fitted.signal.rowwise and not isinstance(fitted.signal, NoSignal):
        scores = fitted.scores(logits, features=features)
        if len(fitted.map.steps) > 1:
            groups = fitted.map.groups(scores)
        score = _line(fitted, scores)
    return Watched(log_odds(array), score, groups)


def reference_of(fitted: FittedCalibrator, logits: object, *, features: object = None) -> Reference:
    """Return the counts of a split: the one a calibrator was fitted on."""
    seen = watch(fitted, logits, features=features)
    groups = None
    if seen.groups is not None:
        groups = tuple(np.bincount(seen.groups, minlength=len(fitted.map.steps)).tolist())
    score = None if seen.score is None else Bins.of(seen.score)
    return Reference(Bins.of(seen.confidence), score, groups)


def log_odds(logits: FloatArray) -> FloatArray:
    """Return the log-odds of each row's top probability, at temperature 1.

    Examples
    --------
    >>> log_odds(np.array([[1.0, 0.0], [1000.0, 0.0]])).tolist()
    [1.0, 1000.0]
    """
    result = np.empty(len(logits))
    for block in row_blocks(logits):
        weight = np.subtract(block.gaps, block.second_gap[:, None], out=block.scratch)
        weight[np.arange(len(weight)), block.top_index] = -np.inf
        np.exp(weight, out=weight)
        result[block.rows] = -(block.second_gap + np.log(np.einsum("ij->i", weight)))
    return result


def _line(fitted: FittedCalibrator, scores: FloatArray) -> FloatArray | None:
    if scores.ndim == 1:
        return scores
    return np.log(fitted.map(scores)) if isinstance(fitted.map, TemperatureMap) else None

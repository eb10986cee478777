"""What the kernel is told of a calibrator: its numbers, as arrays of the same shape for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal.calibrators.compiled import Plan
from smallcal.calibrators.compiled import kernel as at
from smallcal.calibrators.maps import FittedMap
from smallcal.calibrators.maps.correction import Correction
from smallcal.calibrators.maps.groups import GroupMap
from smallcal.calibrators.maps.regressed import ClassRegressedMap, RegressedMap
from smallcal.calibrators.maps.temperature import ScalarMap
from smallcal.calibrators.signals import STATISTICS, FittedSignal, NoSignal
from smallcal.calibrators.signals.linear import Residual, Risk
from smallcal.calibrators.signals.statistic import (
    SIGNAL_LIMIT,
    StandardisedStatistics,
    Statistic,
)
from smallcal.calibrators.softmax import WRITABLE
from smallcal.data.checks import FloatArray

if TYPE_CHECKING:
    from smallcal.calibrators.fitted import FittedCalibrator

#: A score this near to a threshold, in units in the last place, is compared by NumPy.
_NEAR = 32
#: Ties are looked for where NumPy does, and some way around.
_AROUND = 4


def plan_of(fitted: FittedCalibrator, work: np.dtype[Any], out: np.dtype[Any]) -> Plan | None:
    """Return the plan for logits computed in one type and written in another, or None.

    None says that the kernel does not have this signal, this map or so large a correction.
    """
    numbers = np.zeros(at.N_NUMBERS)
    numbers[at.INVERSE_SCALES : at.SLOPES] = 1
    numbers[at.LIMIT] = np.inf
    steps = _of_map(fitted.map, numbers)
    correction = fitted.correction
    too_large = correction is not None and len(correction.reads) > at.RANK
    if steps is None or too_large or not _of_signal(fitted.signal, fitted.map, numbers):
        return None
    eps = float(np.finfo(work).eps)
    numbers[at.KEEPS] = fitted.keep_predictions and correction is not None
    numbers[at.EXACT] = work == out
    numbers[at.TAIL] = fitted.tail_temperature or 0
    numbers[at.TIE] = _AROUND * max(WRITABLE[out], WRITABLE[work])
    numbers[at.NEAR] = _NEAR * eps
    lines = np.zeros((1 if correction is None else at.READS + 2 * at.RANK, fitted.n_classes))
    if isinstance(fitted.map, ClassRegressedMap):
        lines[at.EFFECTS] = fitted.map.effects
    if correction is not None:
        numbers[at.SLACK] = eps * _of_correction(correction, lines)
    return Plan(numbers, lines.astype(work), steps)


def _of_map(fitted: FittedMap, numbers: FloatArray) -> FloatArray | None:
    """Return thresholds over temperatures, where the kernel has this map."""
    if type(fitted) is ScalarMap:
        return np.array([[0.0], [fitted.temperature]])
    if type(fitted) is GroupMap:
        return np.array([[0.0, *fitted.thresholds], fitted.temperatures])
    if isinstance(fitted, RegressedMap):
        numbers[at.REGRESSED] = 1
        numbers[[at.OFFSET, at.LOW, at.HIGH]] = fitted.intercept, fitted.low, fitted.high
        return np.ones((2, 1))
    return None


def _of_signal(signal: FittedSignal, fitted: FittedMap, numbers: FloatArray) -> bool:
    """Write how the score is made of statistics, and return whether the kernel has that."""
    slopes = numbers[at.SLOPES : at.N_NUMBERS]
    if type(fitted) is ScalarMap:
        return signal.rowwise and not signal.needs  # whatever it says, the temperature is one
    if isinstance(fitted, RegressedMap):
        if not isinstance(signal, StandardisedStatistics):
            return False
        used = [STATISTICS.index(name) for name in signal.statistics]
        numbers[at.MEANS + np.array(used)] = signal.mean
        numbers[at.INVERSE_SCALES + np.array(used)] = 1 / np.array(signal.scale)
        slopes[used] = fitted.coefficients
        numbers[at.LIMIT] = SIGNAL_LIMIT
    elif type(signal) is Statistic:
        slopes[STATISTICS.index(signal.statistic)] = 1
    elif isinstance(signal, Risk | Residual):
        slopes[:], numbers[at.OFFSET] = signal.folded
        numbers[at.SIGMOID] = isinstance(signal, Risk) and not signal.logit
    else:
        return type(signal) is NoSignal  # every score is 0
    return True


def _of_correction(correction: Correction, lines: FloatArray) -> float:
    """Write a correction, and return how far rounding may move a logit, relative to the norm.

    In units in the last place: logits and products are at most so large, and a sum of so many.
    """
    rank, n_classes = len(correction.reads), correction.n_classes
    lines[at.BIAS] = correction.bias
    if not rank:
        return 16.0
    writes = at.READS + at.RANK
    lines[at.READS : at.READS + rank] = correction.reads
    lines[writes : writes + rank] = correction.writes
    reads = np.linalg.norm(correction.reads, axis=1)
    return float((16 + n_classes / 8) * (1 + (reads @ np.abs(correction.writes)).max()))

"""What a shift does to calibration: each shifted set by how much accuracy it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.metrics import METRICS
from smallcal.metrics.units import PERCENT
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal.statistics.compare import evaluate
from smallcal.statistics.interval import require_options


@dataclass(frozen=True, eq=False)
class ShiftErrors:
    """One method on every shifted set.

    Attributes
    ----------
    sets : tuple of str
    accuracy, error, low, high : ndarray of shape (k,)
        Accuracy, and the calibration error with its interval, as fractions.
    metric : str
    level : float
    """

    sets: tuple[str, ...]
    accuracy: FloatArray
    error: FloatArray
    low: FloatArray
    high: FloatArray
    metric: str
    level: float


def shift_errors_data(
    labels: Mapping[str, object],
    probs: Mapping[str, Mapping[str, object]],
    *,
    metric: str = "ece15",
    level: float = 0.95,
    n_boot: int = 400,
    random_state: int = 0,
) -> dict[str, ShiftErrors]:
    """Return what :func:`shift_errors` draws, by method.

    Parameters
    ----------
    labels : mapping
        True classes (n,) of each set, by its name.
    probs : mapping
        By method, the probabilities (n, C) of each set.
    metric : str
        A calibration error.

    Examples
    --------
    >>> sure, doubt = [[0.9, 0.1]] * 10, [[0.6, 0.4]] * 10
    >>> labels = {"clean": [0] * 9 + [1], "fog 3": [0] * 6 + [1] * 4}
    >>> found = shift_errors_data(labels, {"raw": {"clean": sure, "fog 3": sure}})
    >>> found["raw"].sets, found["raw"].error.round(2).tolist()
    (('clean', 'fog 3'), [0.0, 0.3])
    """
    require_options(n_boot, level)
    if not labels or not probs:
        raise InputError(
            "shift_errors needs at least one set of samples and one method", code="empty"
        )
    found = {}
    for name, sets in probs.items():
        if set(sets) != set(labels):
            raise InputError(
                f"{name} must have probabilities for {', '.join(labels)}, no others",
                code="rows-differ",
            )
        rows = []
        for key, y_true in labels.items():
            table = evaluate(
                y_true,
                sets[key],
                metrics=["accuracy", metric],
                ci=True,
                n_boot=n_boot,
                level=level,
                random_state=random_state,
            )
            error = table[metric]
            rows.append((table["accuracy"].point, error.point, error.low, error.high))
        found[name] = errors_of(list(labels), rows, metric=metric, level=level)
    return found


def errors_of(
    sets: Sequence[str],
    rows: Sequence[tuple[float, float, float, float]],
    *,
    metric: str,
    level: float,
) -> ShiftErrors:
    """Return the record of (accuracy, error, low, high) rows that were measured before."""
    accuracy, error, low, high = np.array(rows, dtype=np.float64).T
    return ShiftErrors(tuple(sets), accuracy, error, low, high, metric, level)


@draws(shift_errors_data)
def shift_errors(ax: style.Axes, found: Mapping[str, ShiftErrors]) -> None:
    """Draw the calibration error on shifted sets against the accuracy that they leave.

    Severities need no order and no numbers: accuracy says how hard a shift is. Bars are bootstrap
    intervals.

    Examples
    --------
    >>> labels, sure = {"fog 3": [0] * 6 + [1] * 4}, [[0.9, 0.1]] * 10
    >>> shift_errors(labels, {"raw": {"fog 3": sure}}).get_ylabel()
    'ECE (%)'
    """
    for name, row, look in style.looks(found):
        x, y, metric = row.accuracy, row.error, METRICS[row.metric]
        unit = metric.unit
        tips = [
            f"{name}, {key}: accuracy {PERCENT.value(a)}, {metric.title} {unit.value(e)} "
            f"({100 * row.level:g} % interval {unit.interval(low, high)})"
            for key, a, e, low, high in zip(row.sets, x, y, row.low, row.high, strict=True)
        ]
        ax.vlines(x, row.low, row.high, color=look.color, linewidth=1.1, alpha=0.6)
        style.dots(ax, x, y, look, s=26, tips=tips, name=f"shift-errors-{name}")
        ax.scatter([], [], s=26, **look.mark, label=style.literal(name))
    ax.set_ylim(bottom=0)
    style.percent(ax)
    style.dress(ax, xlabel="accuracy (%)", ylabel=f"{metric.title} ({unit.sign})")
    style.legend(ax)

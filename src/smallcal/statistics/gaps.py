"""How far confidence lies from accuracy in groups of samples, before and after calibration.

A group may have three samples. A bootstrap of three right predictions would have zero width, so
gaps have exact intervals: that of Clopper and Pearson for the accuracy, less the mean confidence,
which is known. Samples whose chances differ spread less than the binomial law says, so the interval
is on the safe side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from smallcal.data.groups import as_groups, group_codes, group_names
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError
from smallcal.metrics import Scored
from smallcal.metrics.binned import bin_table
from smallcal.statistics.groups import holm
from smallcal.statistics.interval import binomial_interval, require_options


@dataclass(frozen=True)
class Gap:
    """How far confidence lies from accuracy in a group.

    Attributes
    ----------
    group : str
    n, n_correct : int
    accuracy, confidence : float
    gap, low, high : float
        Confidence minus accuracy, positive where the model is overconfident; exact interval.
    p_value : float
        Of "accuracy is what the confidence says", before any correction.
    raw_gap, raw_low, raw_high, raw_p_value : float
        The raw model's, on the same samples.
    """

    group: str
    n: int
    n_correct: int
    accuracy: float
    confidence: float
    gap: float
    low: float
    high: float
    p_value: float
    raw_gap: float
    raw_low: float
    raw_high: float
    raw_p_value: float


class _Side(NamedTuple):
    """Confidence of some groups, its gap with an interval, and p-values."""

    confidence: FloatArray
    gap: FloatArray
    low: FloatArray
    high: FloatArray
    p_value: FloatArray


def gaps_of(
    scored: Scored, raw: Scored, codes: IntArray, names: Sequence[str], *, level: float
) -> list[Gap]:
    """Return the gap of each group that has samples; ``codes`` numbers the names.

    Examples
    --------
    >>> view = Scored.of([0, 0, 1, 1], [[0.9, 0.1]] * 4)
    >>> (row,) = gaps_of(view, view, np.zeros(4, dtype=np.int64), ["all"], level=0.95)
    >>> row.n_correct, round(row.gap, 2), row.low < 0 < row.high
    (2, 0.4, True)
    """
    table = bin_table(scored, codes, bins=len(names))
    full = np.flatnonzero(table.count)
    n, accuracy = table.count[full], table.accuracy[full]
    right = np.rint(n * accuracy)
    after, before = (_side(view, codes, len(names), level=level) for view in (scored, raw))
    columns = (n, right.astype(int), accuracy, *after, *before[1:])
    rows = zip(full, *(column.tolist() for column in columns), strict=True)
    return [Gap(names[code], *numbers) for code, *numbers in rows]


def _side(scored: Scored, codes: IntArray, bins: int, *, level: float) -> _Side:
    table = bin_table(scored, codes, bins=bins)
    full = np.flatnonzero(table.count)
    n, confidence, accuracy = table.count[full], table.confidence[full], table.accuracy[full]
    right = np.rint(n * accuracy)
    low, high = binomial_interval(right, n.astype(float), level=level)
    gaps = (confidence - accuracy, confidence - high, confidence - low)
    return _Side(confidence, *gaps, exact_p_values(right, n, confidence))


def exact_p_values(right: FloatArray, n: IntArray, chance: FloatArray) -> FloatArray:
    """Return twice the smaller tail of the binomial law, the test that the interval inverts."""
    below = scipy.special.bdtr(right, n, chance)
    above = scipy.special.bdtrc(right - 1, n, chance)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(below, above)))


def mark_off(rows: Sequence[dict[str, Any]], *, level: float) -> None:
    """Say of each row whether it is off beyond chance, now (``off``) and before (``raw_off``).

    Holm's correction is for all the rows together.
    """
    for p_value, off in (("p_value", "off"), ("raw_p_value", "raw_off")):
        fallen = set(holm({str(i): row[p_value] for i, row in enumerate(rows)}, 1 - level))
        for i, row in enumerate(rows):
            row[off] = str(i) in fallen


def gaps_by_group(
    y_true: object, y_proba: object, groups: object, *, before: object = None, level: float = 0.95
) -> list[dict[str, Any]]:
    """Return how far confidence lies from accuracy in each group, before and after calibration.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    y_proba : array-like of shape (n, C), or (n,) for outcomes
        Calibrated.
    groups : array-like of shape (n,)
        The group of each sample by name or number; samples without one are left out.
    before : array-like, optional
        The raw probabilities of the same samples; by default ``y_proba``.
    level : float
        Of the intervals, and of what is beyond chance.

    Returns
    -------
    list of dict
        The fields of :class:`Gap`, and ``off`` and ``raw_off``: whether the gap is beyond chance
        after Holm's correction for the number of groups. The least likely by chance comes first.

    Examples
    --------
    >>> y, p = [0] * 60 + [1] * 60, [[0.9, 0.1]] * 120
    >>> [(row["group"], row["off"]) for row in gaps_by_group(y, p, ["a"] * 60 + ["b"] * 60)]
    [('b', True), ('a', True)]
    """
    require_options(1, level)
    scored = Scored.of(y_true, y_proba)
    raw = scored if before is None else Scored.of(y_true, before)
    named = as_groups(groups, n=scored.n)
    return gap_rows(scored, raw, named, level=level)


def gap_rows(
    scored: Scored, raw: Scored, groups: NDArray[np.str_], *, level: float
) -> list[dict[str, Any]]:
    """Return :func:`gaps_by_group` of checked samples."""
    names = group_names(groups)
    if not names:
        raise InputError(
            "groups: no row has a group; every entry is missing or empty", code="groups-invalid"
        )
    codes = group_codes(groups, names)
    known = np.flatnonzero(codes >= 0)
    found = gaps_of(scored.take(known), raw.take(known), codes[known], names, level=level)
    rows = [asdict(row) for row in found]
    mark_off(rows, level=level)
    return sorted(rows, key=lambda row: (row["p_value"], -abs(row["gap"]), row["group"]))

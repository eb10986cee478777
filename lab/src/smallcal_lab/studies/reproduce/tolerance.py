"""How near a reproduced number must be to the printed one.

The paper states tolerances for means, in points of ECE. Other numbers get what follows from them,
from the digits that are printed, or from how the number is made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from smallcal.calibrators.catalogue import ALIASES, METHODS, method
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.reproduce.reference import UNITS, Value

#: The paper's tolerances are for numbers that are printed to a hundredth of a point.
_ROUNDING = 0.005
#: Of a number that a fit holds: a temperature, a threshold, a ratio of variances.
_RELATIVE = 0.01
#: Fits from which on one of them may fall on the other side of yes and no.
_MANY_FITS = 20
#: Pairs of neighbours that may change places in a rank correlation.
_SWAPS, _RANKS = 10, 19
#: Two runs of a method left to chance differ by less than so many standard errors.
_ERRORS = 2.0

#: Signals that are drawn, or come from a network that is.
_CHANCE = ("random", "shuffled", "head_temperature", "logit_head_temperature")

#: Metrics that are numbers of a fit.
_FITTED = ("temperature", "threshold", "signal_to_noise", "mean_risk")


def tolerance_of(value: Value, points: Mapping[str, float], *, n_fits: int = 1) -> float | None:
    """Return by how much a reproduced number may differ, in its unit; None if that is not known.

    A number printed more coarsely than to a hundredth of a point gets its coarser rounding
    on top, or the right number could not pass.

    Parameters
    ----------
    value : Value
    points : dict
        The paper's tolerances: for ``deterministic`` methods, ``smart-bce`` and ``cifar100c``.
    n_fits : int
        How many fits a share of fits is of.

    Examples
    --------
    >>> from smallcal_lab.studies.reproduce.reference import load_reference
    >>> paper = load_reference()
    >>> ece = next(v for v in paper.values if v.metric == "ece15" and v.method == "tva-ts")
    >>> ece.value, ece.unit, tolerance_of(ece, paper.tolerances)
    (1.65, 'percent', 0.011)
    """
    half = 0.5 * 10.0**-value.decimals
    if value.unit == "count":
        return 0.0
    if value.unit == "correlation":
        return half + _SWAPS * 12 / (_RANKS**3 - _RANKS)
    if value.measured.startswith("share_of_fits"):
        one = UNITS[value.unit] / n_fits if n_fits >= _MANY_FITS else 0.0
        return half + one
    if value.measured.startswith(_FITTED):
        return half + _RELATIVE * abs(value.value)
    if value.kind in ("win-share", "share-below-zero"):
        return half  # and what the rows allow: see summaries
    return _stated(value, points, half)


def margin_of(value: Value, points: Mapping[str, float]) -> float:
    """Return by how much a metric itself may differ, rounding left out, as a fraction."""
    return _points(value, points) / 100


def _points(value: Value, points: Mapping[str, float]) -> float:
    """Return the widest of the paper's tolerances that a value falls under."""
    names = {sort_of(name) for name in value.methods} - {"chance"} or {"deterministic"}
    if value.dataset == "cifar100" and value.set != CLEAN:
        names.add("cifar100c")
    return max(points[name] for name in names)


def _stated(value: Value, points: Mapping[str, float], half: float) -> float | None:
    """Return the paper's tolerance, or for a method left to chance what its spread says."""
    to_points = 100 / UNITS[value.unit]
    own = _points(value, points)
    near = max(own, own - _ROUNDING + half * to_points) / to_points
    # Whatever its temperatures, a prediction stays what it is.
    if "chance" in map(sort_of, value.methods) and value.metric != "accuracy":
        n = len(value.seeds_of(value.backbone))
        if value.part != "value" or not value.spread or value.spread_over != "seeds" or n < 2:
            return None
        near = max(near, _ERRORS * math.sqrt(2 / n) * value.spread)
    return round(near, 9)


def sort_of(name: str) -> str:
    """Return which tolerance is for a method: networks drift, and chance has none.

    Examples
    --------
    >>> sort_of("smart-bce"), sort_of("random-k3"), sort_of("the better of two")
    ('smart-bce', 'chance', 'deterministic')
    """
    if name not in METHODS and name not in ALIASES:
        return "deterministic"  # a choice between methods that are
    row = method(name)
    if row.map == "head" or row.signal in _CHANCE:
        return "chance"
    return "smart-bce" if row.map == "smart" else "deterministic"

"""One temperature per group of equally many samples, ordered by their score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.maps.base import MapFit, Split, TemperatureMap, recipe
from smallcal.calibrators.maps.temperature import (
    Prior,
    Temperature,
    fit_temperature,
    require_temperatures,
    temperature_flags,
)
from smallcal.calibrators.parts import ONE_SCORE, Rule, Scores, list_of, rule
from smallcal.calibrators.program import Row, Value
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError

#: The temperature of samples that are rejected: every class looks alike. A logit that lies g
#: above another gets a probability larger by the factor exp(g / 1e6): uniform to about a
#: millionth, yet the argmax survives.
UNIFORM = 1e6

#: Groups in a file: each costs a comparison per row, and every exporter a statement.
MOST_GROUPS = 1000


@dataclass(frozen=True)
class GroupMap(TemperatureMap):
    """T(x) = T_g, where g counts the thresholds that the score of x has reached."""

    thresholds: tuple[float, ...]
    temperatures: tuple[float, ...]
    kind: ClassVar[str] = "groups"
    words: ClassVar[str] = "divided by the temperature of a group by {signal}"
    schema: ClassVar[Mapping[str, Rule]] = {
        "thresholds": list_of(rule("number")),
        "temperatures": list_of(rule("temperature"), least=2, most=MOST_GROUPS),
    }

    def __post_init__(self) -> None:
        require_temperatures(self.temperatures)
        if len(self.thresholds) != len(self.temperatures) - 1:
            raise InputError(
                f"{len(self.temperatures)} groups need {len(self.temperatures) - 1} thresholds; "
                f"got {len(self.thresholds)}"
            )
        steps = zip(self.thresholds, self.thresholds[1:], strict=False)
        if not np.isfinite(self.thresholds).all() or any(a > b for a, b in steps):
            raise InputError(f"thresholds must be finite and ascending; got {self.thresholds}")

    @property
    def n_parameters(self) -> int:
        """The temperatures; thresholds are quantiles of the data, not fitted."""
        return len(self.temperatures)

    @property
    def reads(self) -> tuple[Scores, ...]:
        """One score."""
        return (ONE_SCORE,)

    @property
    def steps(self) -> tuple[float, ...]:
        """The temperatures, lowest scores first."""
        return self.temperatures

    def groups(self, scores: FloatArray, /) -> IntArray:
        """Return the group of each row, 0 for the lowest scores; a tie goes up."""
        reached = np.zeros(len(scores), dtype=np.int64)
        for threshold in self.thresholds:  # a few comparisons beat a binary search per row
            reached += scores >= threshold
        return reached

    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row."""
        result = np.full(len(scores), self.temperatures[0])
        for threshold, temperature in zip(self.thresholds, self.temperatures[1:], strict=True):
            result = np.where(scores >= threshold, temperature, result)
        return result

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the temperature of the group that the score is in."""
        return program.steps(scores, self.thresholds, self.temperatures)


@recipe("groups", care="small groups pooled")
def fit_groups(split: Split, *, n_groups: int = 3, prior_scale: float | None = None) -> MapFit:
    """Cut the scores at their quantiles and fit a temperature in each group.

    A group with fewer than ``discipline.min_group_size`` samples, or none because scores
    coincide, takes the pooled temperature. With ``prior_scale`` each group's log-temperature is
    drawn towards the pooled one by a normal prior of that scale instead: a small group, or one
    without errors, then stays near it.
    """
    prior = None
    if prior_scale is not None:
        if not prior_scale > 0:
            raise InputError(
                f"prior_scale must be positive or None; got {prior_scale}", code="option-range"
            )
        prior = Prior(split.pooled.value, prior_scale)
    fixed = split.thresholds
    thresholds = group_thresholds(split.scores, n_groups) if fixed is None else np.array(fixed)
    n_groups = len(thresholds) + 1
    member = group_members(split.scores, thresholds)
    counts = np.bincount(member, minlength=n_groups)
    temperatures = []
    flags: dict[str, list[int]] = {}
    for group in range(n_groups):
        found = fit_group(split, np.flatnonzero(member == group), prior)
        if found is None:
            flags.setdefault("fallback", []).append(group)
        fitted = found or split.pooled
        temperatures.append(fitted.value)
        for name in temperature_flags(fitted):
            flags.setdefault(name, []).append(group)
    if len(np.unique(thresholds)) < len(thresholds) or counts.min() == 0:
        flags["degenerate"] = [int(group) for group in np.flatnonzero(counts == 0)]
    fitted_map = GroupMap(tuple(thresholds.tolist()), tuple(temperatures))
    return MapFit(fitted_map, tuple(counts.tolist()), flags)


def fit_group(split: Split, rows: IntArray, prior: Prior | None = None) -> Temperature | None:
    """Fit a temperature of some samples, from where the pooled search ended; None if too few."""
    pooled, discipline = split.pooled, split.discipline
    too_few = len(rows) < (discipline.min_group_size if prior is None else 1)
    if too_few:
        return None
    start = None if pooled.last is None else pooled.last.take(rows)
    gaps = split.gaps.take(rows)
    return fit_temperature(split.goal, gaps, bounds=discipline.bounds, start=start, prior=prior)


def group_thresholds(scores: FloatArray, n_groups: int) -> FloatArray:
    """Return where scores are cut into groups of equally many samples.

    Examples
    --------
    >>> group_thresholds(np.array([4.0, 1.0, 2.0, 3.0]), 2).tolist()
    [2.5]
    """
    if np.ptp(scores) <= 1e-9 * np.abs(scores).max():
        return np.full(n_groups - 1, scores.min())  # rounding noise must not make groups
    levels = np.arange(1, n_groups) / n_groups
    # np.quantile's own "linear" rule, at a fifth of its cost.
    n = len(scores)
    return np.interp(levels * (n - 1), np.arange(n), np.sort(scores))


def group_members(scores: FloatArray, thresholds: FloatArray) -> IntArray:
    """Return the group of each score, 0 for the lowest; a tie goes up."""
    return np.asarray(np.searchsorted(thresholds, scores, side="right"), dtype=np.int64)

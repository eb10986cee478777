"""One temperature for every sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators.maps.base import MapFit, Split, TemperatureMap
from smallcal.calibrators.maps.temperature import Temperature
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError


@dataclass(frozen=True)
class ScalarMap(TemperatureMap):
    """T(x) = T. ``fitted=False`` marks the identity, which has no parameter."""

    temperature: float
    fitted: bool = True
    kind: ClassVar[str] = "scalar"

    def __post_init__(self) -> None:
        require_temperatures((self.temperature,))

    @property
    def n_parameters(self) -> int:
        """One, or none for the identity."""
        return int(self.fitted)

    @property
    def steps(self) -> tuple[float, ...]:
        """The one temperature."""
        return (self.temperature,)

    def groups(self, scores: FloatArray, /) -> IntArray:
        """Return group 0 for every row."""
        return np.zeros(len(scores), dtype=np.int64)

    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row."""
        return np.full(len(scores), self.temperature)


def fit_scalar(split: Split) -> MapFit:
    """Use the pooled temperature for all."""
    flags = {name: [0] for name in temperature_flags(split.pooled)}
    return MapFit(ScalarMap(split.pooled.value), (split.gaps.n,), flags)


def scalar_fallback(split: Split, flag: str = "scalar_fallback") -> MapFit:
    """Return one temperature for all, flagged: the split does not bear the map asked for."""
    pooled = fit_scalar(split)
    return MapFit(pooled.map, pooled.counts, {**pooled.flags, flag: []})


def weighted_rows(split: Split) -> IntArray:
    """Return the rows that count: all but those of weight zero."""
    weight = split.gaps.weight
    return np.arange(split.gaps.n) if weight is None else np.flatnonzero(weight)


def one_sided(split: Split) -> bool:
    """Return whether fewer than two predictions are right, or fewer than two wrong."""
    correct = split.gaps.correct[weighted_rows(split)]
    right = int(correct.sum())
    return min(right, len(correct) - right) < 2


def temperature_flags(fitted: Temperature) -> list[str]:
    """Return the names of the flags a temperature carries."""
    return [name for name in ("unidentified", "at_bound") if getattr(fitted, name)]


def require_temperatures(temperatures: tuple[float, ...]) -> None:
    """Raise unless every temperature is finite and positive."""
    if not temperatures or not all(0 < t < float("inf") for t in temperatures):
        raise InputError(f"temperatures must be finite and positive; got {temperatures}")

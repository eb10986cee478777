"""One temperature for every sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from smallcal.data import FloatArray, IntArray
from smallcal.errors import InputError
from smallcal.maps.base import FittedMap
from smallcal.maps.descent import Temperature


@dataclass(frozen=True)
class ScalarMap:
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
    def temperatures(self) -> tuple[float, ...]:
        """The temperature, as a tuple like the other maps'."""
        return (self.temperature,)

    def groups(self, scores: FloatArray, /) -> IntArray:
        """Return group 0 for every row."""
        return np.zeros(len(scores), dtype=np.int64)

    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row."""
        return np.full(len(scores), self.temperature)


@dataclass(frozen=True)
class MapFit:
    """A fitted map, the calibration samples behind each temperature, and what to know of them.

    Flags list the groups they concern.
    """

    map: FittedMap
    counts: tuple[int, ...]
    flags: Mapping[str, list[int]] = field(default_factory=dict)


def scalar_fit(pooled: Temperature, n: int) -> MapFit:
    """Wrap the one temperature of n samples."""
    return MapFit(ScalarMap(pooled.value), (n,), {name: [0] for name in temperature_flags(pooled)})


def temperature_flags(fitted: Temperature) -> list[str]:
    """Return the names of the flags a temperature carries."""
    return [name for name in ("unidentified", "at_bound") if getattr(fitted, name)]


def require_temperatures(temperatures: tuple[float, ...]) -> None:
    """Raise unless every temperature is finite and positive."""
    if not temperatures or not all(0 < t < float("inf") for t in temperatures):
        raise InputError(f"temperatures must be finite and positive; got {temperatures}")

"""How temperature depends on the score: one file per fitting idea, ``MAPS`` lists them by kind."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Protocol

from smallcal.data import FloatArray, IntArray
from smallcal.maps.descent import Temperature, fit_temperature
from smallcal.maps.groups import GroupFit, GroupMap, fit_groups
from smallcal.maps.scalar import ScalarMap

__all__ = [
    "MAPS",
    "FittedMap",
    "GroupFit",
    "GroupMap",
    "ScalarMap",
    "Temperature",
    "fit_groups",
    "fit_temperature",
]


class FittedMap(Protocol):
    """Turns scores into temperatures; JSON by construction (every field is plain data)."""

    kind: ClassVar[str]

    @property
    def n_parameters(self) -> int:
        """Number of fitted scalars."""
        ...

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The fitted temperatures."""
        ...

    def groups(self, scores: FloatArray, /) -> IntArray:
        """Return the group of each row."""
        ...

    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row."""
        ...


MAPS: Mapping[str, type[FittedMap]] = MappingProxyType(
    {part.kind: part for part in (ScalarMap, GroupMap)}
)

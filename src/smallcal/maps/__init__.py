"""How temperature depends on the score: one file per fitting idea, ``MAPS`` lists them by kind."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from smallcal.maps.base import FittedMap
from smallcal.maps.descent import Evaluated, Temperature, fit_temperature
from smallcal.maps.groups import GroupMap, fit_groups
from smallcal.maps.scalar import MapFit, ScalarMap, scalar_fit

__all__ = [
    "MAPS",
    "Evaluated",
    "FittedMap",
    "GroupMap",
    "MapFit",
    "ScalarMap",
    "Temperature",
    "fit_groups",
    "fit_temperature",
    "scalar_fit",
]


MAPS: Mapping[str, type[FittedMap]] = MappingProxyType(
    {part.kind: part for part in (ScalarMap, GroupMap)}
)

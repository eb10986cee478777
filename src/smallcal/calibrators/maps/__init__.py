"""How temperature depends on the score: one file per fitting idea, ``MAPS`` lists them by kind."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from smallcal.calibrators.maps.affine import AffineMap
from smallcal.calibrators.maps.base import (
    FittedMap,
    MapFit,
    ProbabilityMap,
    Split,
    TemperatureMap,
    keep_argmax,
)
from smallcal.calibrators.maps.binning import BinnedMap
from smallcal.calibrators.maps.curves import AnchorMap, LinearMap, SplineMap
from smallcal.calibrators.maps.gate import evidence, evidence_needed
from smallcal.calibrators.maps.groups import UNIFORM, GroupMap, fit_groups
from smallcal.calibrators.maps.mixture import MixtureMap
from smallcal.calibrators.maps.network import NetworkMap
from smallcal.calibrators.maps.regressed import ClassRegressedMap, RegressedMap
from smallcal.calibrators.maps.scalar import ScalarMap, fit_scalar, one_sided
from smallcal.calibrators.maps.semantic import SemanticMap
from smallcal.calibrators.maps.tail import tail_temperature
from smallcal.calibrators.maps.temperature import (
    ANCHOR_SCALE,
    POOLED_SCALE,
    Evaluated,
    Prior,
    Temperature,
    fit_temperature,
)

__all__ = [
    "ANCHOR_SCALE",
    "MAPS",
    "POOLED_SCALE",
    "UNIFORM",
    "Evaluated",
    "FittedMap",
    "GroupMap",
    "MapFit",
    "Prior",
    "ProbabilityMap",
    "ScalarMap",
    "Split",
    "Temperature",
    "TemperatureMap",
    "evidence",
    "evidence_needed",
    "fit_groups",
    "fit_scalar",
    "fit_temperature",
    "keep_argmax",
    "one_sided",
    "tail_temperature",
]


#: Every map that can be saved, by its kind.
MAPS: Mapping[str, type[FittedMap]] = MappingProxyType(
    {
        part.kind: part
        for part in (
            ScalarMap,
            GroupMap,
            LinearMap,
            AnchorMap,
            SplineMap,
            NetworkMap,
            RegressedMap,
            ClassRegressedMap,
            AffineMap,
            MixtureMap,
            BinnedMap,
            SemanticMap,
        )
    }
)

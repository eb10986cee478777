"""How temperature depends on the score: one file per idea, each owning its fit and its fitted map.

Every module here is loaded, so that a new map is a new file and nothing else: its fitted class is
found by its kind (``FittedMap.kinds``), its fit by the name it gives itself (``RECIPES``).
"""

from importlib import import_module
from pkgutil import iter_modules

from smallcal.calibrators.maps.base import (
    RECIPES,
    FittedMap,
    MapFit,
    ProbabilityMap,
    Split,
    TemperatureMap,
    loss_and_slope,
    recipe,
)
from smallcal.calibrators.maps.gate import evidence, evidence_needed, is_worth_it
from smallcal.calibrators.maps.groups import UNIFORM, GroupMap, fit_groups
from smallcal.calibrators.maps.tail import tail_temperature
from smallcal.calibrators.maps.temperature import (
    ANCHOR_SCALE,
    POOLED_SCALE,
    Evaluated,
    Prior,
    ScalarMap,
    Temperature,
    fit_scalar,
    fit_temperature,
    one_sided,
    pooled_prior,
    scalar_fallback,
)

__all__ = [
    "ANCHOR_SCALE",
    "POOLED_SCALE",
    "RECIPES",
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
    "is_worth_it",
    "loss_and_slope",
    "one_sided",
    "pooled_prior",
    "recipe",
    "scalar_fallback",
    "tail_temperature",
]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

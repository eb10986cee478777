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
from smallcal.calibrators.maps.groups import UNIFORM, GroupMap
from smallcal.calibrators.maps.temperature import Prior, ScalarMap, fit_temperature

__all__ = [
    "RECIPES",
    "UNIFORM",
    "FittedMap",
    "GroupMap",
    "MapFit",
    "Prior",
    "ProbabilityMap",
    "ScalarMap",
    "Split",
    "TemperatureMap",
    "fit_temperature",
    "loss_and_slope",
    "recipe",
]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

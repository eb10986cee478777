"""What a temperature may depend on: one file per idea, each owning its fit and its fitted signal.

Every module here is loaded, so that a new signal is a new file and nothing else: its fitted class
is found by its kind (``FittedSignal.kinds``), its fit by the name it gives itself (``ROUTES``).
"""

from importlib import import_module
from pkgutil import iter_modules

from smallcal.calibrators.signals.base import (
    ROUTES,
    FittedSignal,
    NoSignal,
    Observed,
    SignalFit,
    fit_signal,
    no_signal,
    route,
)
from smallcal.calibrators.signals.features import FeatureRisk
from smallcal.calibrators.signals.linear import LinearScore, Risk
from smallcal.calibrators.signals.logit_statistics import (
    STATISTICS,
    RowBlock,
    Rows,
    row_blocks,
    statistics,
)

__all__ = [
    "ROUTES",
    "STATISTICS",
    "FeatureRisk",
    "FittedSignal",
    "LinearScore",
    "NoSignal",
    "Observed",
    "Risk",
    "RowBlock",
    "Rows",
    "SignalFit",
    "fit_signal",
    "no_signal",
    "route",
    "row_blocks",
    "statistics",
]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

"""Calibrate a classifier from a few hundred labelled examples.

>>> import smallcal as sc
>>> val, test = sc.load_demo("cal"), sc.load_demo("test")
>>> cal = sc.SRTS().fit(val.logits, val.labels)
>>> p = cal.predict_proba(test.logits)
>>> p.shape == test.logits.shape
True

Names are loaded when first used, so that ``smallcal.runtime`` can be imported where only NumPy
is installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from smallcal._version import __version__ as __version__

if TYPE_CHECKING:
    from smallcal.adapters import calibrate as calibrate
    from smallcal.adapters.sklearn_model import CalibratedModel as CalibratedModel
    from smallcal.auditing import audit as audit
    from smallcal.datasets import load_demo as load_demo
    from smallcal.errors import ArtefactError as ArtefactError
    from smallcal.errors import FileError as FileError
    from smallcal.errors import FitWarning as FitWarning
    from smallcal.errors import InputError as InputError
    from smallcal.errors import MissingExtraError as MissingExtraError
    from smallcal.errors import SmallcalError as SmallcalError
    from smallcal.estimators import SRTS as SRTS
    from smallcal.estimators import Calibrator as Calibrator
    from smallcal.estimators import Identity as Identity
    from smallcal.estimators import TemperatureScaling as TemperatureScaling
    from smallcal.estimators import load as load
    from smallcal.estimators import make as make
    from smallcal.estimators import methods as methods
    from smallcal.evaluation import compare as compare
    from smallcal.evaluation import evaluate as evaluate
    from smallcal.monitoring import Monitor as Monitor
    from smallcal.planning import plan as plan
    from smallcal.reporting import report as report
    from smallcal.routability import signal_to_noise as signal_to_noise
    from smallcal.selecting import select as select

_HOME = {
    "ArtefactError": "errors",
    "CalibratedModel": "adapters.sklearn_model",
    "Calibrator": "estimators",
    "FileError": "errors",
    "FitWarning": "errors",
    "Identity": "estimators",
    "InputError": "errors",
    "MissingExtraError": "errors",
    "Monitor": "monitoring",
    "SRTS": "estimators",
    "SmallcalError": "errors",
    "TemperatureScaling": "estimators",
    "audit": "auditing",
    "calibrate": "adapters",
    "compare": "evaluation",
    "evaluate": "evaluation",
    "load": "estimators",
    "load_demo": "datasets",
    "make": "estimators",
    "methods": "estimators",
    "signal_to_noise": "routability",
    "plan": "planning",
    "report": "reporting",
    "select": "selecting",
}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'smallcal' has no attribute {name!r}")
    value = getattr(import_module(f"smallcal.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

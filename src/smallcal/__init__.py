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

from typing import TYPE_CHECKING

from smallcal._lazy import attach
from smallcal._version import __version__ as __version__

if TYPE_CHECKING:
    from smallcal.advice.audit import audit as audit
    from smallcal.advice.certify import certify as certify
    from smallcal.advice.cite import cite as cite
    from smallcal.advice.costs import Costs as Costs
    from smallcal.advice.expected_cost import expected_cost as expected_cost
    from smallcal.advice.plan import plan as plan
    from smallcal.advice.prediction_sets import prediction_sets as prediction_sets
    from smallcal.advice.select import select as select
    from smallcal.advice.signal_to_noise import signal_to_noise as signal_to_noise
    from smallcal.calibrators.estimators import SRTS as SRTS
    from smallcal.calibrators.estimators import Calibrator as Calibrator
    from smallcal.calibrators.estimators import Identity as Identity
    from smallcal.calibrators.estimators import TemperatureScaling as TemperatureScaling
    from smallcal.calibrators.estimators import load as load
    from smallcal.calibrators.estimators import make as make
    from smallcal.calibrators.estimators import methods as methods
    from smallcal.data.demo import load_demo as load_demo
    from smallcal.deploy.adapt import adapt as adapt
    from smallcal.deploy.adapters import calibrate as calibrate
    from smallcal.deploy.adapters.sklearn import CalibratedModel as CalibratedModel
    from smallcal.deploy.monitor import Monitor as Monitor
    from smallcal.deploy.refresh import refresh as refresh
    from smallcal.errors import ArtefactError as ArtefactError
    from smallcal.errors import FileError as FileError
    from smallcal.errors import FitWarning as FitWarning
    from smallcal.errors import GroupWarning as GroupWarning
    from smallcal.errors import InputError as InputError
    from smallcal.errors import MissingExtraError as MissingExtraError
    from smallcal.errors import SmallcalError as SmallcalError
    from smallcal.reports import report as report
    from smallcal.statistics.compare import compare as compare
    from smallcal.statistics.compare import evaluate as evaluate
else:  # checkers know the names above, and no others
    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "advice.audit": ["audit"],
            "advice.certify": ["certify"],
            "advice.cite": ["cite"],
            "advice.costs": ["Costs"],
            "advice.expected_cost": ["expected_cost"],
            "advice.plan": ["plan"],
            "advice.prediction_sets": ["prediction_sets"],
            "advice.select": ["select"],
            "advice.signal_to_noise": ["signal_to_noise"],
            "calibrators.estimators": [
                "Calibrator",
                "Identity",
                "SRTS",
                "TemperatureScaling",
                "load",
                "make",
                "methods",
            ],
            "data.demo": ["load_demo"],
            "deploy.adapt": ["adapt"],
            "deploy.adapters.sklearn": ["CalibratedModel"],
            "deploy.monitor": ["Monitor"],
            "deploy.refresh": ["refresh"],
            "errors": [
                "ArtefactError",
                "FileError",
                "FitWarning",
                "GroupWarning",
                "InputError",
                "MissingExtraError",
                "SmallcalError",
            ],
            "reports": ["report"],
            "statistics.compare": ["compare", "evaluate"],
            "deploy.adapters": ["calibrate"],
        },
    )
    __all__ += ["__version__"]

"""An estimator or its numbers: where a function takes either, it begins with :func:`fitted_of`.

No scikit-learn here: the command line, which has numbers alone, does not load estimators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.errors import InputError


class Holder(ABC):
    """What holds a fitted calibrator: every estimator."""

    @abstractmethod
    def _fitted(self) -> FittedCalibrator:
        """Return the numbers, or raise where there are none yet."""


def fitted_of(
    calibrator: object, needed: str = "calibrator must be a fitted calibrator"
) -> FittedCalibrator:
    """Return the numbers of a fitted estimator, or those given themselves.

    Examples
    --------
    >>> import smallcal as sc
    >>> cal = sc.Identity().fit([[2.0, 0.0]] * 10, [0] * 10)
    >>> fitted_of(cal) is fitted_of(cal.fitted_)
    True
    >>> fitted_of("cal.json")
    Traceback (most recent call last):
    smallcal.errors.InputError: calibrator must be a fitted calibrator; got str
    """
    if isinstance(calibrator, Holder):
        return calibrator._fitted()
    if not isinstance(calibrator, FittedCalibrator):
        raise InputError(f"{needed}; got {type(calibrator).__name__}", code="option-type")
    return calibrator

"""What the decisions of a calibrator say of rows whose probabilities are known already."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.decision import thresholds_of
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.data.checks import FloatArray
from smallcal.data.groups import as_groups
from smallcal.errors import InputError


def require_decisions(fitted: FittedCalibrator, source: str) -> None:
    """Raise unless a calibrator carries a decision.

    Examples
    --------
    >>> import smallcal as sc
    >>> cal = sc.Identity().fit([[2.0, 0.0]] * 10, [0] * 10).fitted_
    >>> require_decisions(cal, "cal.json")
    Traceback (most recent call last):
    smallcal.errors.InputError: cal.json has no decision; find one with smallcal certify ...
    """
    if not fitted.decisions:
        raise InputError(
            f"{source} has no decision; find one with ",
            python="smallcal.certify(cal, X, y)",
            shell=f"smallcal certify {source} DATA -o NEW.json",
        )


def asks_for_groups(fitted: FittedCalibrator) -> bool:
    """Return whether some decision has a threshold for each group."""
    return any(each.by == "group" for each in thresholds_of(fitted.decisions).values())


def decided(
    fitted: FittedCalibrator, proba: FloatArray, groups: object = None
) -> dict[str, NDArray[Any]]:
    """Return what each decision says of rows, by the name of its column.

    Parameters
    ----------
    fitted : FittedCalibrator
    proba : ndarray of shape (n, C), or (n,)
        Calibrated, in the order of the calibrator's classes; of scores that of outcome 1 will do.
    groups : array-like of shape (n,), optional
        The group of each row, for thresholds by group.
    """
    both = np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba
    confidence, claimed = fitted.claims(both)
    named = None if groups is None else as_groups(groups, n=len(proba))
    return {
        column: each.accept(confidence, claimed, named)
        for column, each in thresholds_of(fitted.decisions).items()
    }

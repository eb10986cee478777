"""What the decisions of a calibrator say of rows whose probabilities are known already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.advice.cost_table import CostTable
from smallcal.calibrators.decision import thresholds_of
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.prediction_set import sets_of
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


class Known(NamedTuple):
    """What there is of rows beside their probabilities: for thresholds by group, and for sets."""

    logits: object
    features: object = None
    groups: object = None


def decided(fitted: FittedCalibrator, proba: FloatArray, known: Known) -> dict[str, NDArray[Any]]:
    """Return what each decision says of rows, by the name of its column.

    A threshold says which rows it accepts, shape (n,); prediction sets which classes they hold,
    shape (n, C).

    Parameters
    ----------
    fitted : FittedCalibrator
    proba : ndarray of shape (n, C), or (n,)
        Calibrated, in the order of the calibrator's classes; of scores that of outcome 1 will do.
    known : Known
    """
    both = np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba
    confidence, claimed = fitted.claims(both)
    named = None if known.groups is None else as_groups(known.groups, n=len(proba))
    found: dict[str, NDArray[Any]] = {
        column: each.accept(confidence, claimed, named)
        for column, each in thresholds_of(fitted.decisions).items()
    }
    own = {"features": known.features, "groups": known.groups if fitted.groups else None}
    for column, rule in sets_of(fitted.decisions).items():
        found[f"in_{column}"] = fitted.predict_set(known.logits, alpha=rule.alpha, **own)
    return found


def priced(costs: CostTable | None, proba: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the columns of costs: what is best for each row, and what it is expected to cost.

    Probabilities are those of all classes, or of outcome 1 alone; without costs there are none.

    Examples
    --------
    >>> table = CostTable(answers=np.array([[0, 9.0], [1, 0]]), score=True)
    >>> {name: column.tolist() for name, column in priced(table, np.array([0.5])).items()}
    {'decision': ['1'], 'expected_cost': [0.5]}
    """
    if costs is None:
        return {}
    both = np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba
    decisions, expected = costs.choose(both)
    return {"decision": costs.names(decisions), "expected_cost": expected}


def in_order(
    flags: Mapping[str, NDArray[Any]], columns: NDArray[Any] | None
) -> dict[str, NDArray[Any]]:
    """Return what decisions say with classes in another order of columns, if one is given."""
    if columns is None:
        return dict(flags)
    return {name: flag if flag.ndim == 1 else flag[:, columns] for name, flag in flags.items()}

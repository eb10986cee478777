"""Predictions, confidences and decisions of rows whose probabilities are known already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.advice.cost_table import CostTable
from smallcal.calibrators.decision import thresholds_of
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.given import checked, coded
from smallcal.calibrators.prediction_set import sets_of
from smallcal.calibrators.softmax import keep_argmax
from smallcal.data.checks import FloatArray, IntArray
from smallcal.data.groups import as_groups
from smallcal.data.names import read_header
from smallcal.errors import InputError

#: What is written of each row's predictions, the calibrator's and the model's own.
PREDICTIONS = ("prediction", "confidence", "model_prediction", "model_confidence")


class Rows(NamedTuple):
    """Calibrated probabilities, whatever class the model predicts, and the logits behind them.

    Probabilities of scores may be those of outcome 1 alone.
    """

    proba: FloatArray
    logits: FloatArray

    @property
    def model(self) -> tuple[FloatArray, IntArray]:
        """The calibrated probability of each of the model's own predictions, and these.

        Examples
        --------
        >>> sure, label = Rows(np.array([[0.3, 0.7]]), np.array([[2.0, 1.0]])).model
        >>> sure.tolist(), label.tolist()
        ([0.3], [0])
        """
        label = self.logits.argmax(axis=1)
        return self.proba[np.arange(len(label)), label], label

    def adjusted(self, fitted: FittedCalibrator) -> FloatArray:
        """Return the probabilities as ``predict_proba`` does."""
        proba = self.proba.copy() if fitted.keep_predictions else self.proba
        return fitted.with_predictions(proba, self.logits)


def rows_of(
    fitted: FittedCalibrator, logits: object, *, features: object = None, groups: object = None
) -> Rows:
    """Apply a calibrator to rows; parameters are those of ``predict_proba``."""
    given = checked(fitted, logits, features, None)
    codes = coded(fitted.groups, groups, len(given.logits))
    return Rows(fitted.calibrate(given._replace(groups=codes)), given.logits)


def predicted(
    fitted: FittedCalibrator, rows: Rows, names: Sequence[str] | None
) -> dict[str, NDArray[Any]]:
    """Return the columns of predictions and their confidences; scores have none.

    ``names`` are those of the classes in the calibrator's order; without them, predictions are
    column numbers.
    """
    if fitted.score is not None:
        return {}
    sure, label = fitted.claims(*rows)
    own, own_label = rows.model
    found = (_named(label, names), sure, _named(own_label, names), own)
    return dict(zip(PREDICTIONS, found, strict=True))


def _named(codes: NDArray[Any], names: Sequence[str] | None) -> NDArray[Any]:
    """Return classes by name, but for names that tables read back as column numbers."""
    if names is None or read_header([f"prob_{name}" for name in names]).names is None:
        return codes
    return np.asarray(np.array(names)[codes])


def require_decisions(fitted: FittedCalibrator, source: str) -> None:
    """Raise unless a calibrator carries a decision.

    Examples
    --------
    >>> import smallcal as sc
    >>> cal = sc.Identity().fit([[2.0, 0.0]] * 10, [0] * 10).fitted_
    >>> require_decisions(cal, "cal.json")
    Traceback (most recent call last):
    smallcal.errors.InputError: cal.json has no decision; find one with smallcal.certify(cal, X, y)
    """
    if not fitted.decisions:
        raise InputError(
            f"{source} has no decision; find one with ",
            python="smallcal.certify(cal, X, y)",
            shell=f"smallcal certify {source} DATA -o NEW.json",
            code="no-decision",
        )


def asks_for_groups(fitted: FittedCalibrator) -> bool:
    """Return whether some decision has a threshold for each group."""
    return any(each.by == "group" for each in thresholds_of(fitted.decisions).values())


class Known(NamedTuple):
    """What there is of rows beside their probabilities: for thresholds by group, and for sets."""

    logits: object
    features: object = None
    groups: object = None


def decided(fitted: FittedCalibrator, rows: Rows, known: Known) -> dict[str, NDArray[Any]]:
    """Return what each decision says of rows, by the name of its column.

    A threshold says which rows it accepts, shape (n,); prediction sets which classes they hold,
    shape (n, C).

    Parameters
    ----------
    fitted : FittedCalibrator
    rows : Rows
        In the order of the calibrator's classes.
    known : Known
    """
    proba = rows.proba
    both = np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba
    confidence, claimed = fitted.claims(both, rows.logits)
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


def moved(proba: FloatArray, columns: NDArray[Any]) -> FloatArray:
    """Return probabilities in another order of columns; what they predict stays, in ties too.

    Examples
    --------
    >>> moved(np.array([[0.4, 0.4, 0.2]]), np.array([2, 1, 0])).argmax(axis=1).tolist()
    [2]
    """
    found = proba[:, columns]
    keep_argmax(found, np.argsort(columns)[proba.argmax(axis=1)])
    return found


def in_order(
    flags: Mapping[str, NDArray[Any]], columns: NDArray[Any] | None
) -> dict[str, NDArray[Any]]:
    """Return what decisions say with classes in another order of columns, if one is given."""
    if columns is None:
        return dict(flags)
    return {name: flag if flag.ndim == 1 else flag[:, columns] for name, flag in flags.items()}

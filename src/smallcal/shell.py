"""What every estimator does: check the input, fit its method, hold the numbers, apply them."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from smallcal.catalogue import Method
from smallcal.data import FloatArray, IntArray, Predictions, as_class_names
from smallcal.discipline import FLAGS
from smallcal.errors import FitWarning, InputError
from smallcal.maps import GroupMap
from smallcal.runtime import FittedCalibrator
from smallcal.signals import Risk, ShuffledRisk

Self = TypeVar("Self", bound="BaseCalibrator")


class BaseCalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What every calibrator can do; subclasses say which method they are."""

    fitted_: FittedCalibrator
    classes_: Any
    n_features_in_: int

    def _compose(self) -> Method:
        """Return the method that the constructor's options describe."""
        raise TypeError(f"{type(self).__name__} does not say which method it is")

    def fit(self: Self, X: object, y: object, *, sample_weight: object = None) -> Self:
        """Fit on the logits and labels of a held-out split.

        Parameters
        ----------
        X : array-like of shape (n, C)
            Logits (or probabilities, when ``input="probabilities"``), one column per class.
            NumPy arrays, lists, DataFrames and torch tensors are accepted.
        y : array-like of shape (n,)
            Column number of the true class; a class may be missing from ``y``.
        sample_weight : array-like of shape (n,), optional
            Weight of each sample's loss. Groups stay equally large in samples.

        Returns
        -------
        self
        """
        options = self.get_params(deep=False)
        kind = options.get("input", "logits")
        names = options.get("class_names")
        composed = self._compose()
        preds = Predictions.of(X, y, input=kind, class_names=names, weight=sample_weight)
        preds.require_fittable(input=kind)
        fitted = composed.fit(preds)
        if names is not None:
            names = as_class_names(names, n_classes=preds.n_classes)
        self._adopt(replace(fitted, input=kind, class_names=names))
        _warn(fitted)
        return self

    def _adopt(self, fitted: FittedCalibrator) -> None:
        self.fitted_ = fitted
        self.n_features_in_ = fitted.n_classes
        self.classes_ = np.arange(fitted.n_classes)
        if fitted.class_names is not None:
            self.classes_ = np.array(fitted.class_names)

    def predict_proba(self, X: object, *, out: FloatArray | None = None) -> FloatArray:
        """Return calibrated probabilities; rows sum to 1 and the argmax never changes.

        Parameters
        ----------
        X : array-like of shape (n, C)
        out : ndarray of shape (n, C), optional
            Where to write the result, for instance a memory map.

        Returns
        -------
        ndarray of shape (n, C), of the input's floating type
        """
        return self._fitted().predict_proba(X, out=out)

    def predict(self, X: object) -> Any:
        """Return the predicted class of each row, as the uncalibrated model would."""
        return self.classes_[self._fitted().predict_proba(X).argmax(axis=1)]

    def temperature(self, X: object) -> FloatArray:
        """Return the temperature each row of logits is divided by."""
        return self._fitted().temperature(X)

    def group(self, X: object) -> IntArray:
        """Return the group of each row, counted from 0 at the lowest score."""
        return self._fitted().group(X)

    def risk(self, X: object) -> FloatArray:
        """Return each row's estimated probability of being predicted wrong."""
        fitted = self._fitted()
        if not isinstance(fitted.signal, Risk):
            raise InputError(
                f"this calibrator ({fitted.method}) has no risk score; its signal is "
                f"{fitted.signal.kind!r}"
            )
        return fitted.scores(X)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted calibrator as versioned JSON, whole or not at all."""
        self._fitted().save(path)

    def to_dict(self) -> dict[str, Any]:
        """Return what :meth:`save` writes, as plain data."""
        return self._fitted().to_dict()

    def _fitted(self) -> FittedCalibrator:
        try:
            return self.fitted_
        except AttributeError:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet; call fit(logits, labels) first"
            ) from None

    @property
    def temperatures_(self) -> FloatArray:
        """Temperature of each group, lowest scores first."""
        return np.array(self._fitted().map.steps)

    @property
    def thresholds_(self) -> FloatArray:
        """Scores at which the next group begins."""
        fitted_map = self._fitted().map
        return np.array(fitted_map.thresholds if isinstance(fitted_map, GroupMap) else [])

    @property
    def pooled_temperature_(self) -> float:
        """The temperature that one group for all would get."""
        return self._fitted().pooled_temperature

    @property
    def group_counts_(self) -> IntArray:
        """Calibration samples in each group."""
        return np.array(self._fitted().group_counts)

    @property
    def n_parameters_(self) -> int:
        """Number of fitted scalars."""
        return self._fitted().n_parameters

    @property
    def flags_(self) -> dict[str, list[int]]:
        """What to know about the fit: flag name to the groups it concerns."""
        return dict(self._fitted().flags)

    @property
    def method_(self) -> str:
        """The true name of the fitted method."""
        return self._fitted().method

    def _router(self) -> Risk:
        signal = self._fitted().signal
        signal = signal.risk if isinstance(signal, ShuffledRisk) else signal
        if not isinstance(signal, Risk):
            raise AttributeError(f"this calibrator ({self.method_}) has no risk model")
        return signal

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of the risk score, one per standardised statistic."""
        return np.array(self._router().coef)

    @property
    def intercept_(self) -> float:
        """Intercept of the risk score."""
        return self._router().intercept

    @property
    def signal_mean_(self) -> FloatArray:
        """Mean of each statistic on the calibration split."""
        return np.array(self._router().mean)

    @property
    def signal_scale_(self) -> FloatArray:
        """Standard deviation of each statistic on the calibration split."""
        return np.array(self._router().scale)


def _warn(fitted: FittedCalibrator) -> None:
    """Say once, in words, what about this fit rests on thin evidence."""
    for name, groups in fitted.flags.items():
        where = ""
        if groups:
            plural = "s" if len(groups) > 1 else ""
            where = f" in group{plural} {', '.join(map(str, groups))}"
        warnings.warn(f"{name}{where}: {FLAGS[name]}", FitWarning, stacklevel=3)

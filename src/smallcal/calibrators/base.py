"""What every estimator does: check the input, fit its method, hold the numbers, apply them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.holder import Holder
from smallcal.calibrators.maps import GroupMap
from smallcal.calibrators.method import Method, fit_arrays, warn_of_flags
from smallcal.calibrators.objectives import sigmoid
from smallcal.calibrators.signals import FeatureRisk, LinearScore, Risk
from smallcal.data.checks import BoolArray, as_numpy
from smallcal.data.in_notebook import EstimatorInNotebook
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.data.score import ScoreScale
from smallcal.errors import InputError

if TYPE_CHECKING:
    from smallcal.deploy.export.torch import TorchCalibrator

Self = TypeVar("Self", bound="BaseCalibrator")


class BaseCalibrator(Holder, EstimatorInNotebook, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What every calibrator can do; subclasses say which method they are."""

    fitted_: FittedCalibrator
    classes_: Any
    n_features_in_: int

    def _compose(self) -> Method:
        """Return the method that the constructor's options describe."""
        raise TypeError(f"{type(self).__name__} does not say which method it is")

    def fit(
        self: Self,
        X: object,
        y: object,
        *,
        features: object = None,
        sample_weight: object = None,
        groups: object = None,
        clusters: object = None,
    ) -> Self:
        """Fit on the logits and labels of a held-out split.

        Parameters
        ----------
        X : array-like of shape (n, C)
            Logits (or probabilities, when ``input="probabilities"``), one column per class.
            NumPy arrays, lists, DataFrames and torch tensors are accepted. Names of a
            DataFrame's columns are kept as those of the classes: other frames are then taken by
            name, and refused where theirs differ. With ``input="score"`` one number per row,
            shape (n,) or (n, 1), of any range.
        y : array-like of shape (n,)
            Column number of the true class, or its name where columns have names; a class may be
            missing from ``y``. With ``input="score"`` the outcome, 0 or 1.
        features : array-like of shape (n, d), optional
            What else is known of each sample; only some methods ask for it.
        sample_weight : array-like of shape (n,), optional
            Weight of each sample's loss. Groups stay equally large in samples. A sample of
            weight 0 is ignored. Methods with a prior count samples by their weight, so that
            weights which add up to 1 count as one.
        groups : array-like of shape (n,), optional
            The group of each sample by name or number: a kind of question, a site, a language.
            The confidence then gets an effect of each, as far as the split shows that groups
            differ; ``predict_proba`` asks for the groups of its rows.
        clusters : array-like of shape (n,), optional
            Which samples depend on one another, such as those of one patient or prompt: the same
            name or number. Folds then keep them together.

        Returns
        -------
        self
        """
        method, options = self._compose(), self.get_params(deep=False)
        kind, names = options["input"], options["class_names"]
        given = {"input": kind, "class_names": names, "weight": sample_weight, "groups": groups}
        fitted = fit_arrays(method, X, y, features=features, clusters=clusters, **given)
        self._adopt(fitted)
        if names is None and as_numpy(y, name="y").dtype.kind in "iubf":
            self.classes_ = np.arange(fitted.n_classes)  # answer in the words that were asked in
        warn_of_flags(fitted)
        return self

    def _adopt(self, fitted: FittedCalibrator) -> None:
        self.fitted_ = fitted
        self.n_features_in_ = fitted.n_classes if fitted.score is None else 1
        self.classes_ = np.arange(fitted.n_classes)
        if fitted.class_names is not None:
            self.classes_ = np.array(fitted.class_names)

    def predict_proba(
        self,
        X: object,
        *,
        features: object = None,
        y: object = None,
        groups: object = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return calibrated probabilities of every class; rows sum to 1.

        Parameters
        ----------
        X : array-like of shape (n, C)
        features : array-like of shape (n, d), optional
            For calibrators that were fitted with features.
        y : array-like of shape (n,), optional
            Labels, for the diagnostics that read them; other calibrators do not look.
        groups : array-like of shape (n,), optional
            The group of each row, for calibrators that were fitted with groups. One that the fit
            has not seen gets no effect; a ``GroupWarning`` says how many rows those are.
        out : ndarray of shape (n, C), optional
            Where to write the result, for instance a memory map.

        Returns
        -------
        ndarray of shape (n, C), float64, or float32 where the input is that or float16
        """
        fitted = self._fitted()
        return fitted.predict_proba(X, features=features, labels=y, groups=groups, out=out)

    def predict_score(self, X: object, *, groups: object = None) -> FloatArray:
        """Return the probability of outcome 1, shape (n,), of calibrators of scores.

        Examples
        --------
        >>> import smallcal as sc
        >>> marks, passed = [1, 2, 3, 4, 5] * 20, [0, 0, 1, 0, 1] * 20
        >>> p = sc.Calibrator(input="score").fit(marks, passed).predict_score([1, 5])
        >>> bool(p[0] < 0.3 < 0.7 < p[1])
        True
        """
        return self._fitted().predict_score(X, groups=groups)

    def accept(
        self,
        X: object,
        *,
        risk: float | None = None,
        features: object = None,
        groups: object = None,
    ) -> BoolArray:
        """Return which rows the certified threshold accepts, shape (n,).

        Parameters
        ----------
        X : array-like of shape (n, C)
            Or scores, shape (n,).
        risk : float, optional
            Which threshold, where several risks were certified.
        features : array-like of shape (n, d), optional
        groups : array-like of shape (n,), optional
            For calibrators and thresholds that know groups. A row whose group has no threshold is
            not accepted; a ``GroupWarning`` says how many those are.

        Returns
        -------
        ndarray of bool
        """
        return self._fitted().accept(X, risk=risk, features=features, groups=groups)

    def predict_set(
        self,
        X: object,
        *,
        alpha: float | None = None,
        features: object = None,
        groups: object = None,
    ) -> BoolArray:
        """Return which classes are in the set of each row, shape (n, C).

        Parameters
        ----------
        X : array-like of shape (n, C)
            Or scores, shape (n,): then columns are the outcomes 0 and 1.
        alpha : float, optional
            Which sets, of a calibrator with several.
        features : array-like of shape (n, d), optional
        groups : array-like of shape (n,), optional
            For calibrators that were fitted with them.

        Raises
        ------
        InputError
            Unless :func:`smallcal.prediction_sets` was asked for sets.
        """
        return self._fitted().predict_set(X, alpha=alpha, features=features, groups=groups)

    def predict_interval(self, X: object) -> FloatArray:
        """Return two probabilities of the second class or outcome 1, shape (n, 2): Venn-Abers.

        The first is what isotonic regression gives a row that is added without the outcome, the
        second with it. Among rows that are exchangeable one of the two is calibrated.

        Examples
        --------
        >>> import smallcal as sc
        >>> marks, passed = [1, 2, 3, 4, 5] * 20, [0, 0, 1, 0, 1] * 20
        >>> cal = sc.Calibrator(method="venn-abers", input="score").fit(marks, passed)
        >>> cal.predict_interval([3]).round(2).tolist()
        [[0.49, 0.51]]
        """
        return self._fitted().predict_interval(X)

    def predict(
        self, X: object, *, features: object = None, y: object = None, groups: object = None
    ) -> Any:
        """Return the most probable class of each row after calibration."""
        proba = self._fitted().predict_proba(X, features=features, labels=y, groups=groups)
        return self.classes_[proba.argmax(axis=1)]

    def confidence(
        self,
        X: object,
        *,
        predictions: object = None,
        features: object = None,
        groups: object = None,
    ) -> FloatArray:
        """Return the probability that each prediction is correct, shape (n,).

        Parameters
        ----------
        X : array-like of shape (n, C)
        predictions : array-like of shape (n,), optional
            Labels to be judged, for instance the model's own predictions; without them those of
            :meth:`predict`.
        features : array-like of shape (n, d), optional
        groups : array-like of shape (n,), optional
            For calibrators that were fitted with them.

        Examples
        --------
        >>> import smallcal as sc
        >>> val = sc.load_demo("cal")
        >>> cal = sc.Calibrator().fit(val.logits, val.labels)
        >>> p = cal.confidence(val.logits, predictions=val.logits.argmax(axis=1))
        >>> bool((p <= cal.confidence(val.logits)).all())
        True
        """
        fitted = self._fitted()
        known = {"features": features, "groups": groups}
        return fitted.confidence(X, predictions=predictions, **known)

    def temperature(self, X: object, *, features: object = None, y: object = None) -> FloatArray:
        """Return the temperature each row of logits is divided by."""
        return self._fitted().temperature(X, features=features, labels=y)

    def group(self, X: object, *, features: object = None, y: object = None) -> IntArray:
        """Return the group of each row, counted from 0 at the lowest score."""
        return self._fitted().group(X, features=features, labels=y)

    def risk(self, X: object, *, features: object = None) -> FloatArray:
        """Return each row's estimated probability of being predicted wrong."""
        fitted = self._fitted()
        if not isinstance(fitted.signal, Risk | FeatureRisk):
            raise InputError(
                f"this calibrator ({fitted.method}) has no risk score; its signal is "
                f"{fitted.signal.kind!r}",
                code="method-unsuitable",
            )
        scores = fitted.scores(X, features=features)
        return sigmoid(scores) if fitted.signal.logit else scores

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted calibrator as versioned JSON, whole or not at all."""
        self._fitted().save(path)

    def to_dict(self) -> dict[str, Any]:
        """Return what :meth:`save` writes, as plain data."""
        return self._fitted().to_dict()

    def to_torch(self, *, output: str = "probabilities") -> TorchCalibrator:
        """Return a torch module; see :func:`smallcal.deploy.export.to_torch`.

        It maps logits to calibrated probabilities, or with ``output="logits"`` to logits whose
        softmax is those.
        """
        from smallcal.deploy.export.torch import to_torch

        return to_torch(self._fitted(), output=output)

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
        fitted = self._fitted()
        if not fitted.map.steps:
            raise AttributeError(
                f"{fitted.method} has no fixed set of temperatures (its map is {fitted.map.kind!r})"
            )
        return np.array(fitted.map.steps)

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
    def preserves_argmax_(self) -> bool:
        """Whether the predicted class can never change."""
        return self._fitted().preserves_argmax

    @property
    def n_changed_(self) -> int:
        """How many predictions of the calibration split changed."""
        return int(self._fitted().fit_metrics["changed_predictions"])

    @property
    def flags_(self) -> dict[str, list[int]]:
        """What to know about the fit: flag name to the groups it concerns."""
        return dict(self._fitted().flags)

    @property
    def method_(self) -> str:
        """The true name of the fitted method."""
        return self._fitted().method

    @property
    def score_(self) -> ScoreScale:
        """What scores were taken for; only calibrators of scores have it."""
        scale = self._fitted().score
        if scale is None:
            raise AttributeError(f"this calibrator takes {self._fitted().input}, not scores")
        return scale

    def _router(self) -> LinearScore | FeatureRisk:
        signal = self._fitted().signal
        signal = getattr(signal, "risk", signal)  # of a control that shuffles it
        if not isinstance(signal, LinearScore | FeatureRisk):
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

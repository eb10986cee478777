"""A scikit-learn classifier and its calibrator as one scikit-learn classifier."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from smallcal.calibrators.catalogue import RandomState, seed_of, true_name
from smallcal.calibrators.catalogue import method as method_row
from smallcal.calibrators.estimators import Calibrator
from smallcal.data.checks import FloatArray, IntArray, as_features
from smallcal.data.in_notebook import EstimatorInNotebook
from smallcal.deploy.adapters.sklearn_samples import Samples, of_rows, shuffled_folds
from smallcal.deploy.adapters.sklearn_scores import (
    aligned,
    floor_of,
    floored,
    response_of,
    scores_of,
    wrapped_has,
)
from smallcal.errors import FitWarning, InputError

Self = TypeVar("Self", bound="CalibratedModel")


class CalibratedModel(
    EstimatorInNotebook,
    ClassifierMixin,  # type: ignore[misc]
    MetaEstimatorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A scikit-learn classifier whose probabilities are calibrated.

    Parameters
    ----------
    estimator : classifier
        Anything with ``decision_function`` or ``predict_proba``: a pipeline, a grid search, a
        boosted tree.
    method : str
        A name in :func:`smallcal.methods`. Methods that need features are given ``X``. The
        default for two classes is that of scores, ``spline``; ``"smallcal"``, the default for
        more classes, can be used for two as well. Both may change predictions.
    options : mapping, optional
        Options of that method, as for :class:`smallcal.Calibrator`.
    keep_predictions : bool
        Whether :meth:`predict` stays the estimator's own prediction where calibration prefers
        another class. :meth:`confidence` is then its calibrated probability.
    cv : int, splitter, iterable or "prefit"
        An int is the number of stratified, shuffled folds. Each fold is scored by a model that
        was fitted on the others; one calibrator is fitted on all these out-of-fold scores, and
        the estimator is then fitted on all samples. "prefit" takes a fitted estimator as it is:
        ``fit`` must then be given samples that it was not trained on.
    response : {"auto", "decision_function", "predict_proba"}
        Which scores to calibrate. "auto" takes the first of the two that gives one score per
        class.
    random_state : int, Generator, RandomState or None
        Seeds the folds and the calibrator. The estimator keeps its own.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on all samples; with ``cv="prefit"``, the given one.
    calibrator_ : Calibrator
        The fitted calibrator, which takes :meth:`scores`; ``calibrator_.save(path)`` saves it.
    response_ : str
        Which scores are calibrated.
    floor_ : float
        What replaces a probability of 0: half the smallest positive probability in the
        calibration samples. It is 0 where ``decision_function`` is calibrated.
    classes_ : ndarray of shape (C,)
    n_calibration_ : int
        Number of samples that the calibrator was fitted on.
    n_features_in_ : int
        Where the estimator says so.
    feature_names_in_ : ndarray of str
        Where the estimator says so.

    Notes
    -----
    A binary margin d becomes the two columns (-d/2, d/2), whose softmax is the sigmoid of d. A
    temperature divides d, and a method of scores takes d itself.

    A class that is missing from a training fold gets, in each row, the lowest score of the other
    classes. Its samples count as wrong predictions, as they would be with that model.

    Examples
    --------
    >>> import smallcal as sc
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(600, n_redundant=10, random_state=0)
    >>> model = sc.CalibratedModel(GaussianNB(), method="ts-nll").fit(X[:400], y[:400])
    >>> bool(model.calibrator_.temperatures_[0] > 2)   # naive Bayes is very overconfident
    True
    >>> bool((model.predict(X[400:]) == model.estimator_.predict(X[400:])).all())
    True
    """

    estimator_: Any
    calibrator_: Calibrator
    classes_: NDArray[Any]
    response_: str
    floor_: float

    # Groups are for the splitter alone, whatever the signature of fit suggests.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"groups": UNUSED}

    def __init__(
        self,
        estimator: Any,
        *,
        method: str = "default",
        options: Mapping[str, Any] | None = None,
        keep_predictions: bool = False,
        cv: Any = 5,
        response: str = "auto",
        random_state: RandomState = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.options = options
        self.keep_predictions = keep_predictions
        self.cv = cv
        self.response = response
        self.random_state = random_state

    def fit(
        self: Self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the estimator, unless it is prefit, and the calibrator.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame or list
            What the estimator takes.
        y : array-like of shape (n,)
            Labels of any type.
        sample_weight : array-like of shape (n,), optional
            For the calibrator, and for the estimator where its ``fit`` takes it.
        groups : array-like of shape (n,), optional
            For a splitter that reads them, such as ``GroupKFold``.
        **fit_params
            For the estimator's ``fit``; those with one entry per sample are split into folds.

        Returns
        -------
        self
        """
        row = method_row(self.method)
        if "labels" in row.needs:
            raise InputError(
                f"{self.method} reads the labels of the rows it predicts (an oracle); it cannot "
                "be deployed",
                code="method-unsuitable",
            )
        data = Samples.of(X, y, sample_weight)
        for_fit, for_split = self._routed(data.weight, groups, fit_params)
        if self._is_prefit():
            scores, rows = self._score_prefit(data), np.arange(data.n)
        else:
            scores, rows = self._score_out_of_fold(data, for_fit, for_split)
        self._fit_calibrator(data, scores, rows)
        self.n_calibration_ = len(rows)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def scores(self, X: Any) -> FloatArray:
        """Return the scores that the calibrator takes, one per class: shape (n, C)."""
        check_is_fitted(self, "calibrator_")
        raw = scores_of(self.estimator_, X, self.response_)
        return floored(raw, self.floor_) if self.response_ == "predict_proba" else raw

    def predict_proba(self, X: Any) -> FloatArray:
        """Return calibrated probabilities, shape (n, C), columns in the order of ``classes_``."""
        scores = self.scores(X)
        return self.calibrator_.predict_proba(scores, features=self._features(X, len(scores)))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of :meth:`predict_proba`; a probability of 0 stays finite."""
        proba = self.predict_proba(X)
        return np.asarray(np.log(np.maximum(proba, np.finfo(np.float64).tiny)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row after calibration."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def confidence(self, X: Any, *, predictions: Any = None) -> FloatArray:
        """Return the probability that each prediction is correct, shape (n,).

        Parameters
        ----------
        X : array-like
            What the estimator takes.
        predictions : array-like of shape (n,), optional
            Labels in ``classes_`` to be judged, for instance the estimator's own predictions;
            without them those of :meth:`predict`.
        """
        scores, codes = self.scores(X), None
        features = self._features(X, len(scores))
        if predictions is not None:
            judged = Samples(X, np.asarray(predictions))
            judged.require_known(self.classes_, name="predictions")
            codes = judged.codes(self.classes_)
        return self.calibrator_.confidence(scores, predictions=codes, features=features)

    @available_if(wrapped_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> FloatArray:
        """Return calibrated log-odds of two classes, or log-probabilities of more.

        It exists if the estimator has one, but its values are the calibrated ones: a scorer that
        uses it, such as ``roc_auc``, sees the same ranking as in :meth:`predict_proba`, and 0
        separates two classes as 0.5 does there. :meth:`scores` has the estimator's own values.

        Parameters
        ----------
        X : array-like
            What the estimator takes.

        Returns
        -------
        ndarray of shape (n,), above 0 for ``classes_[1]``; or (n, C) for more than two classes
        """
        logs = self.predict_log_proba(X)
        return logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs

    @available_if(wrapped_has("set_output"))  # type: ignore[untyped-decorator]
    def set_output(self: Self, *, transform: str | None = None) -> Self:
        """Set the output type of the transformers inside the estimator, as in a pipeline.

        It exists if the estimator has one. As with scikit-learn's own classifiers,
        :meth:`predict_proba` and the others still return arrays.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            None changes nothing.

        Returns
        -------
        self
        """
        for name in ("estimator", "estimator_"):
            if hasattr(self, name):
                getattr(self, name).set_output(transform=transform)
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Return where metadata goes when scikit-learn's routing is switched on."""
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        router.add(
            estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit")
        )
        return router.add(
            splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split")
        )

    def _is_prefit(self) -> bool:
        if isinstance(self.cv, str) and self.cv != "prefit":
            raise InputError(
                f"cv must be a number of folds, a splitter or 'prefit'; got {self.cv!r}",
                code="options-conflict",
            )
        return isinstance(self.cv, str)

    def __sklearn_clone__(self: Self) -> Self:
        copied: Self = super().__sklearn_clone__()
        if isinstance(self.cv, str):
            # A model that is fitted already is data: a copy without it could not calibrate.
            copied.estimator = self.estimator
        return copied

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        tags.input_tags.string, tags.input_tags.categorical = inner.string, inner.categorical
        return tags

    def _more_tags(self) -> dict[str, Any]:
        """Say the same to scikit-learn before 1.6."""
        from sklearn.utils._tags import _safe_tags

        return {key: _safe_tags(self.estimator, key) for key in ("X_types", "allow_nan")}

    def _routed(
        self, weight: FloatArray | None, groups: Any, fit_params: dict[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Say what of the metadata goes to the estimator's fit and what to the splitter."""
        if self._is_prefit() and (fit_params or groups is not None):
            names = ", ".join([*fit_params, *([] if groups is None else ["groups"])])
            raise InputError(
                f"cv='prefit' fits no estimator and makes no folds: leave out {names}",
                code="options-conflict",
            )
        if sklearn.get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=weight, groups=groups, **fit_params)
            return routed.estimator.fit, routed.splitter.split
        for_fit = dict(fit_params)
        if weight is not None and not self._is_prefit():
            if "sample_weight" in inspect.signature(self.estimator.fit).parameters:
                for_fit["sample_weight"] = weight
            else:
                warnings.warn(
                    f"{type(self.estimator).__name__}.fit takes no sample_weight: only the "
                    "calibrator is weighted",
                    FitWarning,
                    stacklevel=3,
                )
        return for_fit, {} if groups is None else {"groups": groups}

    def _score_prefit(self, data: Samples) -> FloatArray:
        self.estimator_ = self.estimator
        if not hasattr(self.estimator, "classes_"):
            raise InputError(
                f"cv='prefit' needs a fitted classifier; {type(self.estimator).__name__} has no "
                "classes_. Fit it, or let cv=5 do so",
                code="not-fitted",
            )
        self.classes_ = np.asarray(self.estimator.classes_)
        data.require_known(self.classes_)
        self.response_ = response_of(self.estimator, data.X, self.response)
        return scores_of(self.estimator, data.X, self.response_)

    def _score_out_of_fold(
        self, data: Samples, for_fit: Mapping[str, Any], for_split: Mapping[str, Any]
    ) -> tuple[FloatArray, IntArray]:
        """Fit the estimator on each training fold and on everything; return the folds' scores."""
        data.require_two_classes()
        self.classes_ = np.unique(data.y)
        scores = np.empty((data.n, len(self.classes_)))
        tested = np.zeros(data.n, dtype=bool)
        response = self.response
        for train, test in self._folds(data, for_split):
            if bool(tested[test].any()):
                raise InputError(
                    "cv tests some samples more than once, so they would count more than once; "
                    "use a splitter whose test folds do not overlap",
                    code="rows-counted-twice",
                )
            some, given = _safe_indexing(data.X, train), of_rows(for_fit, train, data.n)
            model = clone(self.estimator).fit(some, data.y[train], **given)
            rows = _safe_indexing(data.X, test)
            response = response_of(model, rows, response)
            scores[test] = aligned(model, scores_of(model, rows, response), self.classes_)
            tested[test] = True
        self.response_ = response
        self.estimator_ = clone(self.estimator).fit(data.X, data.y, **for_fit)
        rows_tested = np.flatnonzero(tested)
        return scores[rows_tested], rows_tested

    def _folds(
        self, data: Samples, given: Mapping[str, Any]
    ) -> Iterator[tuple[IntArray, IntArray]]:
        cv = self.cv
        if isinstance(cv, int | np.integer):
            if given:
                raise InputError(
                    f"groups need a splitter that reads them, such as GroupKFold({cv}); cv={cv} "
                    "does not",
                    code="options-conflict",
                )
            cv = shuffled_folds(data, int(cv), seed_of(self.random_state))
        with warnings.catch_warnings():
            # A class with fewer samples than folds is fine here.
            warnings.filterwarnings("ignore", message="The least populated class", append=False)
            splits = list(check_cv(cv, data.y, classifier=True).split(data.X, data.y, **given))
        for train, test in splits:
            seen = np.unique(data.y[train])
            if len(seen) < 2:
                raise InputError(
                    f"a training fold of cv holds one class, {seen.tolist()[0]!r}; use fewer "
                    "folds, or folds that mix the classes",
                    code="labels-one-class",
                )
            yield train, test

    def _fit_calibrator(self, data: Samples, scores: FloatArray, rows: IntArray) -> None:
        self.floor_ = 0.0
        if self.response_ == "predict_proba":
            self.floor_ = floor_of(scores)
            scores = floored(scores, self.floor_)
        plain = np.array_equal(self.classes_, np.arange(len(self.classes_)))
        two = len(self.classes_) == 2
        calibrator = Calibrator(
            # Two columns are one number, their difference. Probabilities come as both all the
            # same: what is rounded to 1 in one of them is known in the other.
            method=true_name(self.method, "score") if two else self.method,
            options=self.options,
            keep_predictions=self.keep_predictions,
            input="logits" if self.response_ == "decision_function" else "probabilities",
            class_names=None if plain else tuple(str(name) for name in self.classes_),
            random_state=self.random_state,
        )
        features = self._features(data.X, data.n)
        self.calibrator_ = calibrator.fit(
            scores,
            data.codes(self.classes_)[rows],
            features=None if features is None else features[rows],
            sample_weight=None if data.weight is None else data.weight[rows],
        )

    def _features(self, X: Any, n: int) -> FloatArray | None:
        if "features" not in method_row(self.method).needs:
            return None
        return as_features(X, n=n, name="X")

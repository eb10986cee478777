"""A scikit-learn classifier and its calibrator as one scikit-learn classifier."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing, column_or_1d, indexable
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from smallcal.adapters.zeros import floor_of, floored
from smallcal.catalogue import method as method_row
from smallcal.data import MIN_FIT_SAMPLES, FloatArray, IntArray, as_features, as_weight
from smallcal.errors import FitWarning, InputError
from smallcal.estimators import Calibrator, RandomState, seed_of

Self = TypeVar("Self", bound="CalibratedModel")

#: What a classifier may be asked for, best first: a margin has not been rounded to 0 or 1.
RESPONSES = ("decision_function", "predict_proba")


class CalibratedModel(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Any scikit-learn classifier with a calibrator behind it.

    Parameters
    ----------
    estimator : classifier
        Anything with ``decision_function`` or ``predict_proba``: a pipeline, a grid search, a
        boosted tree.
    method : str
        A name in :func:`smallcal.methods`. Methods that need features are given ``X``.
    options : mapping, optional
        Options of that method, as for :class:`smallcal.Calibrator`.
    cv : int, splitter, iterable or "prefit"
        An int is the number of stratified, shuffled folds. Each fold's samples are scored by a
        model that has not seen them; all these scores together fit one calibrator, and the
        estimator is then fitted on everything. "prefit" takes the estimator as it is: what
        ``fit`` is given must be new to it.
    response : {"auto", "decision_function", "predict_proba"}
        Which scores to calibrate; "auto" takes the first of the two that gives one score for
        each class.
    random_state : int, Generator, RandomState or None
        Seeds the folds and the calibrator. The estimator keeps its own.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on everything; the one given, where ``cv="prefit"``.
    calibrator_ : Calibrator
        Fitted; ``calibrator_.save(path)`` writes it, and it maps :meth:`scores`.
    response_ : str
        Which scores are calibrated.
    floor_ : float
        What a probability of 0 is taken for: half the smallest that a fold's models gave above
        0. It is 0 where ``decision_function`` is calibrated.
    classes_ : ndarray of shape (C,)
    n_calibration_ : int
        Samples the calibrator was fitted on.
    n_features_in_ : int
        Where the estimator says so.
    feature_names_in_ : ndarray of str
        Where the estimator says so.

    Notes
    -----
    A binary margin d becomes the two columns (-d/2, d/2): their softmax is the sigmoid of d, a
    temperature divides d, and neither class is favoured.

    A class that a fold's model has not seen gets, in each row, the lowest score of those it has:
    its samples count as wrong predictions, which is what they would have been.

    Examples
    --------
    >>> import smallcal as sc
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(600, n_redundant=10, random_state=0)
    >>> model = sc.CalibratedModel(GaussianNB(), method="ts-nll").fit(X[:400], y[:400])
    >>> bool(model.calibrator_.temperatures_[0] > 2)   # naive Bayes is far too sure of itself
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
        cv: Any = 5,
        response: str = "auto",
        random_state: RandomState = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.options = options
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
            For the estimator's ``fit``; those with one entry per sample are cut into folds.

        Returns
        -------
        self
        """
        row = method_row(self.method)
        if "labels" in row.needs:
            raise InputError(f"{self.method} reads the labels of what it predicts; no model can")
        data = _Samples.of(X, y, sample_weight)
        given = self._routed(data.weight, groups, fit_params)
        if self._is_prefit():
            scores, rows = self._score_prefit(data), np.arange(data.n)
        else:
            scores, rows = self._score_out_of_fold(data, given)
        self._fit_calibrator(data, scores, rows)
        self.n_calibration_ = len(rows)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def scores(self, X: Any) -> FloatArray:
        """Return what the calibrator is given: one score of each class, shape (n, C)."""
        check_is_fitted(self, "calibrator_")
        raw = _scores(self.estimator_, X, self.response_)
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
        """Return the class with the highest calibrated probability."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

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
                f"cv must be a number of folds, a splitter or 'prefit'; got {self.cv!r}"
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

    def _routed(self, weight: FloatArray | None, groups: Any, fit_params: dict[str, Any]) -> _Given:
        """Say what of the metadata goes to the estimator and what to the splitter."""
        if sklearn.get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=weight, groups=groups, **fit_params)
            return _Given(routed.estimator.fit, routed.splitter.split)
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
        return _Given(for_fit, {} if groups is None else {"groups": groups})

    def _score_prefit(self, data: _Samples) -> FloatArray:
        self.estimator_ = self.estimator
        if not hasattr(self.estimator, "classes_"):
            raise InputError(
                f"cv='prefit' needs a fitted classifier; {type(self.estimator).__name__} has no "
                "classes_. Fit it, or let cv=5 do so"
            )
        self.classes_ = np.asarray(self.estimator.classes_)
        data.require_known(self.classes_)
        self.response_ = _response(self.estimator, data.X, self.response)
        return _scores(self.estimator, data.X, self.response_)

    def _score_out_of_fold(self, data: _Samples, given: _Given) -> tuple[FloatArray, IntArray]:
        """Fit the estimator on each training fold and on everything; return the folds' scores."""
        self.classes_ = np.unique(data.y)
        if len(self.classes_) < 2:
            raise InputError(
                f"y holds one class, {self.classes_[0]!r}; a classifier needs two or more"
            )
        scores = np.empty((data.n, len(self.classes_)))
        tested = np.zeros(data.n, dtype=bool)
        response = self.response
        for train, test in self._folds(data, given.splitter):
            if bool(tested[test].any()):
                raise InputError(
                    "cv tests some samples twice, which would make few look like many; use a "
                    "splitter whose test folds do not overlap"
                )
            part = data.take(train)
            model = clone(self.estimator).fit(part.X, part.y, **given.of_rows(train, data.n))
            rows = _safe_indexing(data.X, test)
            response = _response(model, rows, response)
            scores[test] = _aligned(model, _scores(model, rows, response), self.classes_)
            tested[test] = True
        self.response_ = response
        self.estimator_ = clone(self.estimator).fit(data.X, data.y, **given.estimator)
        rows_tested = np.flatnonzero(tested)
        return scores[rows_tested], rows_tested

    def _folds(
        self, data: _Samples, given: Mapping[str, Any]
    ) -> Iterator[tuple[IntArray, IntArray]]:
        cv = self.cv
        if isinstance(cv, int | np.integer):
            if given:
                raise InputError(
                    f"groups need a splitter that reads them, such as GroupKFold({cv}); cv={cv} "
                    "does not"
                )
            cv = _shuffled_folds(data, int(cv), seed_of(self.random_state))
        with warnings.catch_warnings():
            # A class with fewer samples than folds is fine here.
            warnings.filterwarnings("ignore", message="The least populated class", append=False)
            splits = list(check_cv(cv, data.y, classifier=True).split(data.X, data.y, **given))
        for train, test in splits:
            seen = np.unique(data.y[train])
            if len(seen) < 2:
                raise InputError(
                    f"a training fold of cv holds one class, {seen[0]!r}; use fewer folds, or "
                    "folds that mix the classes"
                )
            yield train, test

    def _fit_calibrator(self, data: _Samples, scores: FloatArray, rows: IntArray) -> None:
        self.floor_ = 0.0
        if self.response_ == "predict_proba":
            self.floor_ = floor_of(scores)
            scores = floored(scores, self.floor_)
        plain = np.array_equal(self.classes_, np.arange(len(self.classes_)))
        calibrator = Calibrator(
            method=self.method,
            options=self.options,
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


@dataclass(frozen=True)
class _Given:
    """Metadata: what the estimator's fit and the splitter are given."""

    estimator: Mapping[str, Any] = field(default_factory=dict)
    splitter: Mapping[str, Any] = field(default_factory=dict)

    def of_rows(self, rows: IntArray, n: int) -> dict[str, Any]:
        """Return what the estimator is given for some of the n samples."""
        return {
            name: _safe_indexing(value, rows) if _length(value) == n else value
            for name, value in self.estimator.items()
        }


def _length(value: Any) -> int | None:
    if isinstance(value, str | Mapping) or not (
        hasattr(value, "__len__") or hasattr(value, "shape")
    ):
        return None
    shape: Sequence[int] = getattr(value, "shape", None) or (len(value),)
    return int(shape[0])


@dataclass(frozen=True, eq=False)
class _Samples:
    """X as it came, and checked labels and weights."""

    X: Any
    y: NDArray[Any]
    weight: FloatArray | None = None

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any) -> _Samples:
        """Check what the user gave, but for X itself, which is the estimator's affair."""
        if y is None:
            raise InputError(
                "y is None: this classifier requires y to be passed, but the target y is None"
            )
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        try:
            X, _ = indexable(X, labels)
        except (TypeError, ValueError) as error:
            raise InputError(f"X and y do not fit together: {error}") from None
        n = len(labels)
        if n < MIN_FIT_SAMPLES:
            raise InputError(
                f"X has {n} sample{'s' if n != 1 else ''}; calibration needs at least "
                f"{MIN_FIT_SAMPLES} (a few hundred give a useful calibrator)"
            )
        return cls(X, labels, as_weight(weight, n=n))

    @property
    def n(self) -> int:
        return len(self.y)

    def take(self, rows: IntArray) -> _Samples:
        return _Samples(_safe_indexing(self.X, rows), self.y[rows])

    def require_known(self, classes: NDArray[Any]) -> None:
        """Raise when a label is none of the model's classes."""
        strange = self.y[~np.isin(self.y, classes)]
        if len(strange):
            raise InputError(
                f"y holds {strange[0]!r}, which is none of the estimator's {len(classes)} classes"
            )

    def codes(self, classes: NDArray[Any]) -> IntArray:
        """Return the labels as positions in the classes, which need not be sorted."""
        order = np.argsort(classes)
        return np.asarray(order[np.searchsorted(classes[order], self.y)], dtype=np.int64)


def _shuffled_folds(data: _Samples, n_folds: int, seed: int) -> KFold | StratifiedKFold:
    """Return folds with an equal share of each class, as far as its samples go."""
    if not 2 <= n_folds <= data.n:
        raise InputError(f"cv must be 2 to {data.n} folds for {data.n} samples; got {n_folds}")
    largest = np.unique(data.y, return_counts=True)[1].max()
    kind = StratifiedKFold if largest >= n_folds else KFold
    return kind(n_folds, shuffle=True, random_state=seed)


def _response(model: Any, X: Any, asked: str) -> str:
    """Return the method of a fitted classifier that gives one score for each class."""
    if asked not in ("auto", *RESPONSES):
        raise InputError(f"response must be auto, {' or '.join(RESPONSES)}; got {asked!r}")
    name = type(model).__name__
    if not hasattr(model, "classes_"):
        raise InputError(f"{name} has no classes_ after fit: it is no classifier")
    there = [one for one in RESPONSES if asked in ("auto", one) and hasattr(model, one)]
    fitting = (one for one in there if one != "decision_function" or _per_class(model, X))
    found = next(fitting, None)
    if found is None and there:
        raise InputError(
            f"{name}.decision_function gives a score for each pair of classes, not for each class; "
            "set decision_function_shape='ovr', or give it predict_proba"
        )
    if found is None:
        wanted = " and no ".join(RESPONSES) if asked == "auto" else asked
        raise InputError(f"{name} has no {wanted}: there is nothing to calibrate")
    return found


def _per_class(model: Any, X: Any) -> bool:
    """Whether decision_function gives a column per class, or one for two classes."""
    options = model.get_params() if hasattr(model, "get_params") else {}
    n_classes = len(model.classes_)
    # With three classes there are three pairs too: the shape alone does not tell.
    pairs = any(
        str(key).endswith("decision_function_shape") and value == "ovo"
        for key, value in options.items()
    )
    if pairs and n_classes > 2:
        return False
    shape = np.shape(model.decision_function(_safe_indexing(X, [0])))
    return shape == (1, n_classes) or (n_classes == 2 and shape in {(1,), (1, 1)})


def _scores(model: Any, X: Any, response: str) -> FloatArray:
    """Return a fitted classifier's scores as float64, one column per class it knows."""
    raw = np.asarray(getattr(model, response)(X), dtype=np.float64)
    n_classes = len(model.classes_)
    if response == "decision_function" and n_classes == 2 and raw.size == len(raw):
        half = raw.reshape(-1) / 2
        raw = np.column_stack([-half, half])
    if raw.ndim != 2 or raw.shape[1] != n_classes:
        raise InputError(
            f"{type(model).__name__}.{response} gives shape {raw.shape}; with {n_classes} classes "
            f"it must be (n, {n_classes})"
        )
    return raw


def _aligned(model: Any, scores: FloatArray, classes: NDArray[Any]) -> FloatArray:
    """Return scores with a column for every class; an unknown one gets its row's lowest."""
    if len(model.classes_) == len(classes):
        return scores
    full = np.repeat(scores.min(axis=1, keepdims=True), len(classes), axis=1)
    full[:, np.searchsorted(classes, model.classes_)] = scores
    return full

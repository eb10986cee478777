"""The methods as entries of the CalArena benchmark and as calibrators for probmetrics.

Both want an object with ``fit(p, y)`` and ``predict_proba(p)`` on probabilities. In CalArena's
``custom_calibrators.py``::

    from smallcal.deploy.adapters.calarena import entries

    CUSTOM_CALIBRATORS = entries("default", "srts-bce")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from smallcal.calibrators.catalogue import METHODS, RandomState, method
from smallcal.calibrators.estimators import Calibrator
from smallcal.data.checks import FloatArray, as_numpy, as_probabilities
from smallcal.deploy.adapters.sklearn_scores import floor_of, floored
from smallcal.errors import InputError
from smallcal.io.layout import two_columns

Self = TypeVar("Self", bound="Entry")


class Entry(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A method as a calibrator for CalArena and probmetrics: probabilities in and out.

    Parameters
    ----------
    method : str
        A name in :func:`entry_names`.
    options : mapping, optional
        Options of that method, as for :class:`smallcal.Calibrator`.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    calibrator_ : Calibrator
        Fitted; its ``save`` writes the artefact.
    floor_ : float
        What replaces a probability of 0: half the smallest positive one in the fit.
    classes_ : ndarray of shape (C,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(3), size=400)
    >>> y = np.array([rng.choice(3, p=row) for row in p])
    >>> entry = Entry("tva-ts").fit(p, y)
    >>> entry.predict_proba(p).shape
    (400, 3)
    >>> bool(abs(entry.calibrator_.temperatures_[0] - 1) < 0.2)   # the labels follow p: leave it
    True
    """

    calibrator_: Calibrator
    floor_: float
    classes_: Any

    def __init__(
        self,
        method: str = "default",
        *,
        options: Mapping[str, Any] | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.method = method
        self.options = options
        self.random_state = random_state

    def fit(self: Self, X: object, y: object) -> Self:
        """Fit on probabilities and labels.

        Parameters
        ----------
        X : array-like of shape (n, C), or (n,) or (n, 1)
            Probabilities; one column is that of class 1 of two.
        y : array-like of shape (n,)
            Column number of the true class; a class may be missing.
        """
        if needs := method(self.method).needs:
            raise InputError(
                f"{self.method} needs {needs[0]}, which a benchmark entry is not given",
                code="method-unsuitable",
            )
        proba = _both_columns(X)
        self.floor_ = floor_of(proba)
        self.calibrator_ = Calibrator(
            method=self.method,
            options=self.options,
            input="probabilities",
            random_state=self.random_state,
        ).fit(floored(proba, self.floor_), y)
        self.classes_ = self.calibrator_.classes_
        return self

    def predict_proba(self, X: object) -> FloatArray:
        """Return calibrated probabilities, float64 of shape (n, C); two columns for two classes."""
        check_is_fitted(self, "calibrator_")
        return self.calibrator_.predict_proba(floored(_both_columns(X), self.floor_))

    def predict(self, X: object) -> NDArray[Any]:
        """Return the class with the highest calibrated probability."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def fit_torch(self: Self, y_pred: Any, y_true_labels: Any) -> Self:
        """Fit on a ``CategoricalDistribution`` of probmetrics and a tensor of labels."""
        return self.fit(y_pred.get_probs(), y_true_labels)

    def predict_proba_torch(self, y_pred: Any) -> Any:
        """Map a ``CategoricalDistribution`` of probmetrics to another, on its device."""
        before = y_pred.get_probs()
        torch: Any = import_module("torch")
        after = torch.as_tensor(self.predict_proba(before))
        kind = import_module("probmetrics.distributions").CategoricalProbs
        return kind(
            after.to(device=before.device, dtype=torch.promote_types(before.dtype, torch.float32))
        )


def entry_names() -> tuple[str, ...]:
    """Return the methods that can be entries: for any number of classes, from logits alone, saved.

    Examples
    --------
    >>> names = entry_names()
    >>> names[0], "srts-bce" in names, "oracle-risk" in names, "features-k3" in names
    ('default', True, False, False)
    """
    rows = METHODS.items()
    fit_for_it = (n for n, row in rows if row.deployable and not row.needs and not row.binary)
    return ("default", *fit_for_it)


def entries(*names: str) -> dict[str, Callable[[], Entry]]:
    """Return factories by display name, as CalArena's ``CUSTOM_CALIBRATORS`` holds them.

    Parameters
    ----------
    *names : str
        Which methods; without any, all of :func:`entry_names`.

    Examples
    --------
    >>> made = entries("default", "srts-bce")
    >>> list(made), made["smallcal-srts-bce"]()
    (['smallcal-default', 'smallcal-srts-bce'], Entry(method='srts-bce'))
    """
    known = entry_names()
    for name in names:
        if name not in known:
            raise InputError(
                f"{name!r} cannot be an entry; choose from {', '.join(known)}",
                code="method-unsuitable",
            )
    return {f"smallcal-{name}": partial(Entry, name) for name in names or known}


def _both_columns(values: object) -> FloatArray:
    return as_probabilities(two_columns(as_numpy(values, name="p")), name="p")

"""The samples a scikit-learn classifier is fitted on, their metadata and their folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import _safe_indexing, column_or_1d, indexable
from sklearn.utils.multiclass import check_classification_targets

from smallcal.data.checks import FloatArray, IntArray, as_weight
from smallcal.data.predictions import MIN_FIT_SAMPLES
from smallcal.errors import InputError


def of_rows(metadata: Mapping[str, Any], rows: IntArray, n: int) -> dict[str, Any]:
    """Return the metadata of some of n samples: what has an entry for each is cut."""
    return {
        name: _safe_indexing(value, rows) if _length(value) == n else value
        for name, value in metadata.items()
    }


def _length(value: Any) -> int | None:
    if isinstance(value, str | Mapping) or not (
        hasattr(value, "__len__") or hasattr(value, "shape")
    ):
        return None
    shape: Sequence[int] = getattr(value, "shape", None) or (len(value),)
    return int(shape[0])


@dataclass(frozen=True, eq=False)
class Samples:
    """X as it came, and checked labels and weights."""

    X: Any
    y: NDArray[Any]
    weight: FloatArray | None = None

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any) -> Samples:
        """Check what the user gave, but for X itself, which is the estimator's affair."""
        if y is None:
            raise InputError(
                "y is None: this classifier requires y to be passed, but the target y is None",
                code="array-unreadable",
            )
        _refuse_matrix(y)
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        try:
            X, _ = indexable(X, labels)
        except (TypeError, ValueError) as error:
            raise InputError(f"X and y do not fit together: {error}", code="rows-differ") from None
        n = len(labels)
        if n < MIN_FIT_SAMPLES:
            raise InputError(
                f"X has {n} sample{'s' if n != 1 else ''}; calibration needs at least "
                f"{MIN_FIT_SAMPLES} (a few hundred give a useful calibrator)",
                code="too-few-samples",
            )
        return cls(X, labels, None if weight is None else as_weight(weight, n=n))

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.y)

    def require_known(self, classes: NDArray[Any], *, name: str = "y") -> None:
        """Raise when a label is none of the model's classes."""
        strange = self.y[~np.isin(self.y, classes)]
        if len(strange):
            raise InputError(
                f"{name} holds {strange.tolist()[0]!r}, which is not one of the estimator's "
                f"{len(classes)} classes",
                code="labels-unknown",
            )

    def require_two_classes(self) -> None:
        """Raise when there is one class only, or one only that has any weight."""
        known = np.unique(self.y if self.weight is None else self.y[self.weight > 0])
        if len(known) < 2:
            where = " where sample_weight is not 0" if len(np.unique(self.y)) > 1 else ""
            raise InputError(
                f"y holds one class{where}, {known.tolist()[0]!r}; a classifier needs two or more",
                code="labels-one-class",
            )

    def codes(self, classes: NDArray[Any]) -> IntArray:
        """Return the labels as positions in the classes, which need not be sorted."""
        order = np.argsort(classes)
        return np.asarray(order[np.searchsorted(classes[order], self.y)], dtype=np.int64)


def _refuse_matrix(y: Any) -> None:
    """Raise, saying what to do, where y has several columns."""
    try:
        table = np.asarray(y)
    except ValueError:  # ragged; what comes after says so
        return
    shape = table.shape
    if len(shape) != 2 or shape[1] < 2:
        return
    if table.dtype.kind in "fiub" and bool(((table != 0).sum(axis=1) == 1).all()):
        raise InputError(
            f"y is one-hot, of shape {shape}; pass the classes, y.argmax(axis=1)",
            code="labels-not-one-per-row",
        )
    raise InputError(
        f"y is multilabel or multioutput, of shape {shape}; a classifier here has one class per "
        "row. MultiOutputClassifier(CalibratedModel(...)) calibrates each column by itself",
        code="labels-not-one-per-row",
    )


def shuffled_folds(data: Samples, n_folds: int, seed: int) -> KFold | StratifiedKFold:
    """Return folds with an equal share of each class, as far as its samples go."""
    if not 2 <= n_folds <= data.n:
        raise InputError(
            f"cv must be 2 to {data.n} folds for {data.n} samples; got {n_folds}",
            code="option-range",
        )
    largest = np.unique(data.y, return_counts=True)[1].max()
    kind = StratifiedKFold if largest >= n_folds else KFold
    return kind(n_folds, shuffle=True, random_state=seed)

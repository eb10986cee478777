"""The record that travels: predictions and labels, checked once.

Everything below this door trusts its arrays; the checks themselves are in
:mod:`smallcal.data.checks`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    as_class_names,
    as_features,
    as_labels,
    as_scores,
    as_weight,
    refuse_swapped,
    refuse_unfittable,
)
from smallcal.data.groups import as_clusters, as_groups, group_codes, group_names
from smallcal.data.masks import checked_logits, require_present, squared_norms
from smallcal.data.names import frame_names, order_of
from smallcal.data.score import ScoreScale, as_outcomes
from smallcal.errors import InputError

__all__ = ["MIN_FIT_SAMPLES", "BoolArray", "FloatArray", "IntArray", "Predictions"]

#: The fewest samples a calibrator is fitted on: below it not even one temperature means anything.
MIN_FIT_SAMPLES = 5


def _names(
    class_names: Sequence[str] | None, logits: object, *, n_classes: int
) -> tuple[str, ...] | None:
    """Return the names of the classes: those given, or those of a DataFrame's columns."""
    given = None if class_names is None else as_class_names(class_names, n_classes=n_classes)
    own = frame_names(logits)
    if given is None or own is None or not set(given) & set(own):
        return own if given is None else given
    if order_of(own, given, what="class_names and the columns") is not None:
        raise InputError(
            "class_names and the columns are in different orders; pass the frame as "
            "frame[class_names], or leave class_names out",
            code="class-names-invalid",
        )
    return given


def sha256_of(*arrays: NDArray[Any] | None, names: Sequence[str] = ()) -> str:
    """Return the fingerprint of arrays, those that there are, and of the names of groups."""
    digest = hashlib.sha256("\0".join(names).encode())
    for array in (part for part in arrays if part is not None):
        digest.update(str((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _of_scores(
    values: object, labels: object, class_names: Sequence[str] | None, scale: ScoreScale | None
) -> tuple[FloatArray, IntArray, tuple[str, ...] | None, ScoreScale]:
    """Return two columns of scores, the outcomes, their names and the scale of the scores."""
    scale = ScoreScale.of(values) if scale is None else scale
    scores = scale.columns(values)
    names = None if class_names is None else as_class_names(class_names, n_classes=2)
    outcomes = as_outcomes(labels, n=len(scores), scores=values, class_names=names)
    return scores, outcomes, names, scale


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictions:
    """Checked logits, labels and optional weights: the record that travels.

    Build it with :meth:`of`, which accepts what users have. The constructor takes arrays
    that are already checked.

    Attributes
    ----------
    logits : ndarray of shape (n, C)
        float32 or float64, as they came in; the arithmetic of a fit is float64. An option that a
        row does not have is :data:`smallcal.data.masks.MASKED`.
    labels : ndarray of shape (n,), int64
    squared_norms : ndarray of shape (n,), float64
        Squared Euclidean norm of each row, a by-product of the check.
    weight : ndarray of shape (n,), float64, or None
    features : ndarray of shape (n, d), float64, or None
        Whatever else is known of each sample, for methods that ask for it.
    groups : ndarray of shape (n,), int64, or None
        The group of each row as a place among ``group_names``, -1 where it has none.
    group_names : tuple of str
    clusters : ndarray of shape (n,), int64, or None
        Which rows depend on one another: those of the same number.
    class_names : tuple of str, or None
        Of the columns.
    score : ScoreScale or None
        Where a row is one number, and the label an outcome: what the number was taken for. The
        logits then are (0, x), and what is claimed of each row is outcome 1.
    name : str
        What the logits are called in messages.
    n, n_classes : int
        Samples; columns, whether their class was seen or not.
    predicted : ndarray of shape (n,), int64
        Predicted class of each row; ties go to the first column.
    correct : ndarray of bool, shape (n,)
        Whether each prediction equals its label.
    came : ndarray of bool, shape (n,)
        Whether what is claimed of each row is so: the same, but of a score that outcome 1 came.
    kind : {"logits", "score"}
        What rows hold.

    Examples
    --------
    >>> preds = Predictions.of([[2.0, 0.0], [0.0, 1.0]], [0, 0])
    >>> preds.n, preds.n_classes, preds.correct.tolist()
    (2, 2, [True, False])
    """

    logits: FloatArray
    labels: IntArray
    squared_norms: FloatArray
    weight: FloatArray | None = None
    features: FloatArray | None = None
    groups: IntArray | None = None
    group_names: tuple[str, ...] = ()
    clusters: IntArray | None = None
    class_names: tuple[str, ...] | None = None
    score: ScoreScale | None = None
    name: str = "logits"
    n: int = field(init=False)
    n_classes: int = field(init=False)
    predicted: IntArray = field(init=False)
    correct: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        predicted = np.asarray(np.argmax(self.logits, axis=1), dtype=np.int64)
        n, n_classes = self.logits.shape
        known = {"n": n, "n_classes": n_classes, "predicted": predicted}
        for name, value in (known | {"correct": predicted == self.labels}).items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(
        cls,
        logits: object,
        labels: object,
        *,
        input: str | None = None,
        class_names: Sequence[str] | None = None,
        weight: object = None,
        features: object = None,
        groups: object = None,
        clusters: object = None,
        score: ScoreScale | None = None,
        name: str = "logits",
    ) -> Predictions:
        """Check what the user gave and return the record.

        Where ``input`` is not said they are logits, and refused if they look like probabilities.
        With ``input="score"``, ``score`` is the scale of a split that was seen before.
        """
        if input == "score":
            scores, codes, names, score = _of_scores(logits, labels, class_names, score)
            norms, n, name = squared_norms(scores), len(scores), "scores"
        else:
            if getattr(labels, "ndim", 1) == 2:
                refuse_swapped(logits, labels, first=name, second="labels")
            scores = as_scores(logits, input=input, name=name)
            scores, norms = checked_logits(scores, name=name)
            (n, n_classes), names, score = scores.shape, None, None
            if class_names is not None or hasattr(logits, "columns"):
                names = _names(class_names, logits, n_classes=n_classes)
            codes = as_labels(labels, n=n, n_classes=n_classes, class_names=names)
            require_present(scores, codes)
        grouped = None if groups is None else as_groups(groups, n=n)
        known = () if grouped is None else group_names(grouped)
        return cls(
            logits=scores,
            labels=codes,
            squared_norms=norms,
            weight=None if weight is None else as_weight(weight, n=n),
            features=None if features is None else as_features(features, n=n),
            groups=None if grouped is None else group_codes(grouped, known),
            group_names=known,
            clusters=None if clusters is None else as_clusters(clusters, n=n),
            class_names=names,
            score=score,
            name=name,
        )

    def take(self, rows: IntArray, *, weight: FloatArray | None = None) -> Predictions:
        """Return the record of some rows, with their weights unless others are given."""
        if weight is None and self.weight is not None:
            weight = self.weight[rows]
        return replace(
            self,
            logits=self.logits[rows],
            labels=self.labels[rows],
            squared_norms=self.squared_norms[rows],
            weight=weight,
            features=None if self.features is None else self.features[rows],
            groups=None if self.groups is None else self.groups[rows],
            clusters=None if self.clusters is None else self.clusters[rows],
        )

    @property
    def came(self) -> BoolArray:
        """Whether what is claimed of each row is so."""
        return self.correct if self.score is None else self.labels == 1

    @property
    def kind(self) -> str:
        """What rows hold: one number, or logits, whatever came in."""
        return "logits" if self.score is None else "score"

    @property
    def group_labels(self) -> NDArray[np.str_] | None:
        """The name of each row's group, "" where it has none.

        Examples
        --------
        >>> Predictions.of([[2.0, 0.0]] * 2, [0, 0], groups=["b", None]).group_labels.tolist()
        ['b', '']
        """
        return None if self.groups is None else np.array([*self.group_names, ""])[self.groups]

    def measured(self, proba: FloatArray) -> FloatArray:
        """Return probabilities as metrics take them: of a score those of outcome 1 alone.

        Examples
        --------
        >>> preds = Predictions.of([0.8, 0.3], [1, 0], input="score")
        >>> preds.measured(np.array([[0.25, 0.75], [0.5, 0.5]])).tolist()
        [0.75, 0.5]
        """
        return proba if self.score is None else proba[:, 1]

    def counted(self) -> Predictions:
        """Return the record without rows of weight 0: to a fit they are not there.

        Examples
        --------
        >>> Predictions.of([[2.0, 0.0], [0.0, 1.0]], [0, 0], weight=[0.0, 3.0]).counted().n
        1
        """
        if self.weight is None or bool(self.weight.all()):
            return self
        rest = self.take(np.flatnonzero(self.weight))
        return replace(rest, name=f"{self.name} without rows of weight 0")

    def sha256(self) -> str:
        """Fingerprint of logits, labels, features and groups."""
        arrays = (self.logits, self.labels, self.features, self.groups)
        return sha256_of(*arrays, names=self.group_names)

    def require_fittable(self) -> None:
        """Raise :class:`InputError` when no calibrator could be fitted on this record."""
        # One row tells for any sensible model: logits differ. Scores that are all equal get the
        # success rate.
        if self.n < MIN_FIT_SAMPLES or (self.score is None and np.ptp(self.logits[0]) == 0):
            refuse_unfittable(self.logits, least=MIN_FIT_SAMPLES, name=self.name)

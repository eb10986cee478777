"""Isotonic regression and histogram binning: each class against the rest, then rows sum to 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators.maps.base import MapFit, ProbabilityMap, Split, recipe
from smallcal.calibrators.maps.temperature import one_sided
from smallcal.calibrators.parts import Rule, list_of, rule
from smallcal.data.checks import whole_number
from smallcal.data.masks import filled
from smallcal.data.predictions import BoolArray, FloatArray
from smallcal.data.special import softmax
from smallcal.errors import InputError

_LISTS = list_of(list_of(rule("probability")), "A list for each class.", least=2)

#: Points of a function of one probability, and its values there.
Points = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class ClasswiseMap(ProbabilityMap):
    """Passes the probability of each class through a function of its own.

    Attributes
    ----------
    at, values : tuple of tuple of float
        For each class, points in ascending order and the function's values there. A class without
        points keeps its probability; of two classes only the second has points.
    stepped : bool
        Whether the function keeps a value up to the next point, instead of going straight there.

    Examples
    --------
    >>> halved = ClasswiseMap(at=((), (0.0, 1.0)), values=((), (0.0, 0.5)), stepped=False)
    >>> halved.probabilities(np.log([[0.2, 0.8]]), np.zeros(1)).round(3).tolist()
    [[0.6, 0.4]]
    """

    at: tuple[tuple[float, ...], ...]
    values: tuple[tuple[float, ...], ...]
    stepped: bool
    mixes: ClassVar[bool] = True
    kind: ClassVar[str] = "classwise"
    words: ClassVar[str] = "turned into probabilities, each class recalibrated on its own"
    schema: ClassVar[Mapping[str, Rule]] = {
        "at": {**_LISTS, "description": "For each class, where its function has its values."},
        "values": {**_LISTS, "description": "For each class, these values."},
        "stepped": {"type": "boolean"},
    }

    def __post_init__(self) -> None:
        if list(map(len, self.at)) != list(map(len, self.values)):
            raise InputError("at and values must be equally long, for every class")
        for label, points in enumerate(self.at):
            if not (np.diff(points) > 0).all():
                raise InputError(f"the points of class {label} must be ascending")

    @property
    def n_classes(self) -> int:
        """Columns of the logits it is for."""
        return len(self.at)

    @property
    def n_parameters(self) -> int:
        """Distinct values, class by class."""
        return sum(len(set(values)) for values in self.values)

    @property
    def preserves_argmax(self) -> bool:
        """Whether the predicted class can never change: it can."""
        return False

    def probabilities(self, logits: FloatArray, scores: FloatArray, /) -> FloatArray:
        """Return probabilities; where every class gets 0, all get the same."""
        result = np.ascontiguousarray(softmax(logits))
        for label, (at, values) in enumerate(zip(self.at, self.values, strict=True)):
            column = result[:, label]
            if self.stepped and at:
                place = np.searchsorted(at, column, side="right") - 1
                result[:, label] = np.array(values)[np.maximum(place, 0)]
            elif at:
                result[:, label] = np.interp(column, at, values)
        if len(self.at) == 2 and self.at[1]:
            result[:, 0] = 1 - result[:, 1]
        result[~result.any(axis=1)] = 1
        result /= np.einsum("ij->i", result)[:, None]
        return result


@recipe("isotonic", keeps_argmax=False)
def fit_isotonic(split: Split) -> MapFit:
    """Fit an isotonic regression to each class, as scikit-learn's ``CalibratedClassifierCV`` does.

    By hand, because that class fails where the split lacks a class of the model.
    """
    # Imported here: calibrators are applied where scikit-learn is not installed.
    from sklearn.isotonic import IsotonicRegression

    def rising(scores: FloatArray, hit: BoolArray) -> Points:
        found = IsotonicRegression(y_min=0, y_max=1)
        found.fit(scores, hit.astype(np.float64), sample_weight=split.preds.weight)
        return found.X_thresholds_, found.y_thresholds_

    return _fit_classes(split, rising, stepped=False)


@recipe("histogram", keeps_argmax=False)
def fit_histogram(split: Split, *, n_bins: int = 10) -> MapFit:
    """Replace the probability of each class by the share of hits in its bin, of equal width.

    An empty bin gets the middle of its interval.
    """
    whole_number(n_bins, "n_bins", least=1)
    edges = np.linspace(0, 1, n_bins + 1)

    def shares(scores: FloatArray, hit: BoolArray) -> Points:
        place = np.minimum(np.searchsorted(edges, scores, side="right") - 1, n_bins - 1)
        weight = np.ones(len(hit)) if split.preds.weight is None else split.preds.weight
        total = np.bincount(place, weight, minlength=n_bins)
        hits = np.bincount(place, weight * hit, minlength=n_bins)
        middle = (edges[1:] + edges[:-1]) / 2
        return edges[:-1], np.divide(hits, total, out=middle, where=total > 0)

    return _fit_classes(split, shares, stepped=True)


def _fit_classes(
    split: Split, fit_column: Callable[[FloatArray, BoolArray], Points], *, stepped: bool
) -> MapFit:
    """Fit a function per class, but for classes with no sample or all of them."""
    own, labels = softmax(filled(split.preds.logits).astype(np.float64)), split.preds.labels
    n_classes = own.shape[1]
    counts = np.bincount(labels, minlength=n_classes)
    at: list[tuple[float, ...]] = [()] * n_classes
    values = list(at)
    for label in np.flatnonzero((counts > 0) & (counts < len(labels))):
        if n_classes > 2 or label == 1:
            points = fit_column(np.ascontiguousarray(own[:, label]), labels == label)
            at[label], values[label] = (tuple(part.tolist()) for part in points)
    flags: dict[str, list[int]] = {"one_sided": []} if one_sided(split) else {}
    return MapFit(ClasswiseMap(tuple(at), tuple(values), stepped), (split.preds.n,), flags)

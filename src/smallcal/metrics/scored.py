"""The view of a model's predictions that every metric is computed from, checked once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    as_labels,
    as_numpy,
    as_probabilities,
    refuse_swapped,
)
from smallcal.data.groups import as_clusters
from smallcal.data.score import SLACK
from smallcal.data.shapes import listed_rows
from smallcal.errors import InputError

#: Rows are worked on in blocks of about this many numbers (8 MB), so that 50,000 x 1,000
#: probabilities never need a second matrix of their own size.
BLOCK_SIZE = 1 << 20


@dataclass(frozen=True, eq=False, kw_only=True)
class Scored:
    """Probabilities, labels, and what each prediction amounts to.

    Build it with :meth:`of`. The constructor takes arrays that are already checked.

    Attributes
    ----------
    proba : ndarray of shape (n, C), float64
        Class probabilities.
    labels : ndarray of shape (n,), int64
        The column of the true class.
    confidence : ndarray of shape (n,), float64
        c, the largest probability of the row, at most 1.
    doubt : ndarray of shape (n,), float64
        The probability of all other classes together. It keeps its digits where
        1 - c has lost them: 1e-20 stays 1e-20 when c is 1.0.
    correct : ndarray of shape (n,), bool
        Whether the predicted class (the first column with the largest probability) is
        the true one.
    outcome : bool
        Whether probabilities are those of outcome 1 of two. Then that is what is predicted of
        every sample, also where c is below one half, and correct is whether it came.
    clusters : ndarray of shape (n,), int64, or None
        Which samples depend on one another: those of the same number.
    residual : ndarray of shape (n,), float64
        The gap c - b of each sample, b being 1 when it is correct and 0 when not.
    n, n_classes : int
        Samples; columns, whether their class was seen or not.

    Examples
    --------
    >>> scored = Scored.of([0, 1], [[0.75, 0.25], [0.5, 0.5]])
    >>> scored.confidence.tolist(), scored.doubt.tolist(), scored.correct.tolist()
    ([0.75, 0.5], [0.25, 0.5], [True, False])
    """

    proba: FloatArray
    labels: IntArray
    confidence: FloatArray
    doubt: FloatArray
    correct: BoolArray
    outcome: bool = False
    clusters: IntArray | None = None
    residual: FloatArray = field(init=False)
    n: int = field(init=False)
    n_classes: int = field(init=False)

    def __post_init__(self) -> None:
        n, n_classes = self.proba.shape
        known = {"n": n, "n_classes": n_classes, "residual": self.confidence - self.correct}
        for name, value in known.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, y_true: object, y_proba: object, *, clusters: object = None) -> Scored:
        """Check labels and probabilities, and clusters if there are any; return the view of them.

        One-dimensional probabilities are those of outcome 1, and labels the outcomes, 0 or 1.

        Raises
        ------
        InputError
            When the arrays are empty, swapped, of different length, not probabilities, or
            when a label names no column.
        """
        labels = as_numpy(y_true, name="y_true")
        values = as_numpy(y_proba, name="y_proba")
        refuse_swapped(values, labels, first="y_proba", second="y_true")
        if values.ndim == 1 and values.dtype.kind == "f" and len(values):
            return cls._of_outcomes(labels, values.astype(np.float64), clusters)
        proba = as_probabilities(values, name="y_proba")
        n, n_classes = proba.shape
        codes = as_labels(labels, n=n, n_classes=n_classes, name="y_true")
        predicted = proba.argmax(axis=1)
        # Rows may sum to a little more than 1 (see data.require_probabilities); a confidence
        # above 1 would fall outside every bin.
        confidence = np.minimum(proba[np.arange(n), predicted], 1.0)
        return cls(
            proba=proba,
            labels=codes,
            confidence=confidence,
            doubt=_sum_of_others(proba, predicted.astype(np.int64)),
            correct=np.equal(predicted, codes),
            clusters=None if clusters is None else as_clusters(clusters, n=n),
        )

    @classmethod
    def _of_outcomes(cls, labels: NDArray[Any], p: FloatArray, clusters: object) -> Scored:
        """Return the view of probabilities of outcome 1."""
        outside = ~((p >= -SLACK) & (p <= 1 + SLACK))
        if bool(outside.any()):
            row = int(np.argmax(outside))
            raise InputError(
                f"y_proba of one dimension must be the probability of outcome 1; "
                f"{listed_rows(outside)} do not lie in [0, 1] (row {row} is {float(p[row]):g})",
                code="probabilities-range",
            )
        p = np.clip(p, 0.0, 1.0)
        came = as_labels(labels, n=len(p), n_classes=2, name="y_true")
        proba = np.column_stack([1 - p, p])
        return cls(
            proba=proba,
            labels=came,
            confidence=p,
            doubt=proba[:, 0],
            correct=came == 1,
            outcome=True,
            clusters=None if clusters is None else as_clusters(clusters, n=len(p)),
        )

    @property
    def kind(self) -> str:
        """What rows hold, for words: "score" where an outcome is claimed, else "logits"."""
        return "score" if self.outcome else "logits"

    def take(self, rows: IntArray) -> Scored:
        """Return the view of some rows, which may repeat."""
        return Scored(
            proba=self.proba[rows],
            labels=self.labels[rows],
            confidence=self.confidence[rows],
            doubt=self.doubt[rows],
            correct=self.correct[rows],
            outcome=self.outcome,
            clusters=None if self.clusters is None else self.clusters[rows],
        )

    @property
    def unit(self) -> str:
        """What a bootstrap draws."""
        return "test samples" if self.clusters is None else "clusters of test samples"

    @property
    def log_odds(self) -> FloatArray:
        """The log-odds log c - log doubt: the confidence on a scale that does not end at 1.

        It orders samples whose confidences all round to 1.0; it is +inf where the doubt is
        exactly 0.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.confidence) - np.log(self.doubt)


def row_blocks(proba: FloatArray) -> Iterator[slice]:
    """Yield slices that cover all rows, each of about ``BLOCK_SIZE`` numbers."""
    n, n_classes = proba.shape
    height = max(1, BLOCK_SIZE // n_classes)
    for start in range(0, n, height):
        yield slice(start, min(start + height, n))


def _sum_of_others(proba: FloatArray, predicted: IntArray) -> FloatArray:
    total = np.empty(len(proba))
    for rows in row_blocks(proba):
        block = proba[rows].copy()
        block[np.arange(len(block)), predicted[rows]] = 0.0
        total[rows] = block.sum(axis=1)
    # Entries down to -1e-6 pass the check; a doubt below 0 has no logarithm.
    return np.maximum(total, 0.0)

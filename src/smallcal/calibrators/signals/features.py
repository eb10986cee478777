"""Signals beyond the six statistics: features, and the logits themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.objectives import sigmoid
from smallcal.calibrators.parts import Rule, Scores, require_scale, rule
from smallcal.calibrators.program import Row, Value
from smallcal.calibrators.signals.base import FittedSignal
from smallcal.calibrators.signals.logit_statistics import Rows
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError


@dataclass(frozen=True, eq=False)
class FeatureRisk(FittedSignal):
    """Probability of being wrong: a logistic model of features, or of features and logits."""

    coef: FloatArray
    intercept: float
    mean: FloatArray
    scale: FloatArray
    n_logits: int = 0
    logit: bool = False
    kind: ClassVar[str] = "feature_risk"
    words: ClassVar[str] = "a logistic score of its features: the risk of being predicted wrong"
    schema: ClassVar[Mapping[str, Rule]] = {
        "coef": rule("numbers"),
        "intercept": rule("number"),
        "mean": rule("numbers"),
        "scale": rule("numbers"),
        "n_logits": rule("count"),
        "logit": {"type": "boolean"},
    }
    needs: ClassVar[tuple[str, ...]] = ("features",)

    def __post_init__(self) -> None:
        for name in ("coef", "mean", "scale"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        if not self.coef.shape == self.mean.shape == self.scale.shape or self.coef.ndim != 1:
            raise InputError("coef, mean and scale must be equally long lists of numbers")
        require_scale(float(self.scale.min()))
        if not self.n_logits < len(self.coef):
            raise InputError(f"{len(self.coef)} coefficients, {self.n_logits} of them for logits")

    @property
    def n_classes(self) -> int | None:
        """Columns of the logits it is for; any, where it does not read them."""
        return self.n_logits or None

    @property
    def n_parameters(self) -> int:
        """Coefficients and intercept."""
        return len(self.coef) + 1

    @property
    def n_features(self) -> int:
        """Number of features that each row must have."""
        return len(self.coef) - self.n_logits

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the risk of each row."""
        slope = self.coef / self.scale
        columns = rows.features
        if self.n_logits:
            columns = np.hstack([columns, rows.logits.astype(np.float64, copy=False)])
        # einsum, not a matrix product: a row's bits must not depend on its batch.
        linear = np.einsum("ij,j->i", columns, slope) + (self.intercept - slope @ self.mean)
        return linear if self.logit else sigmoid(linear)

    def program(self, row: Row, /) -> Value:
        """Return the risk, or its log-odds."""
        columns = row.features.join(row.filled) if self.n_logits else row.features
        slope = self.coef / self.scale
        linear = columns.dot(slope) + float(self.intercept - slope @ self.mean)
        return linear if self.logit else program.sigmoid(linear)


@dataclass(frozen=True)
class RawLogits(FittedSignal):
    """The logits themselves, for maps that read many numbers."""

    kind: ClassVar[str] = "logits"

    def gives(self, n_classes: int, /) -> Scores:
        """Return that it gives one score per class."""
        return Scores(n_classes)

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the logits."""
        return rows.logits.astype(np.float64, copy=False)

    def program(self, row: Row, /) -> Value:
        """Return the logits."""
        return row.filled


@dataclass(frozen=True)
class RawFeatures(FittedSignal):
    """The features themselves, for maps that read many numbers."""

    width: int
    kind: ClassVar[str] = "features"
    schema: ClassVar[Mapping[str, Rule]] = {"width": rule("width")}
    needs: ClassVar[tuple[str, ...]] = ("features",)

    @property
    def n_features(self) -> int:
        """Number of features that each row must have."""
        return self.width

    def gives(self, n_classes: int, /) -> Scores:
        """Return that it gives one score per feature."""
        return Scores(self.width)

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the features."""
        return rows.features

    def program(self, row: Row, /) -> Value:
        """Return the features."""
        return row.features

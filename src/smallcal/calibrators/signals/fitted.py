"""Fitted signals: each turns what is known of a row into the score its temperature depends on.

Those that are learned are fitted in :mod:`smallcal.calibrators.signals.crossfit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from smallcal.calibrators.signals.base import FittedSignal, Rows
from smallcal.calibrators.signals.logit_statistics import STATISTICS, require_statistics
from smallcal.data.predictions import FloatArray
from smallcal.data.special import sigmoid
from smallcal.errors import InputError

#: An entropy of this share of its maximum, or less, counts as this much: log 0 is no score.
ENTROPY_FLOOR = 1e-12

#: Standardised statistics beyond this are taken as this: an odd sample must not be extrapolated.
SIGNAL_LIMIT = 4.0


#: A spread below this is none: what is divided by it must stay finite.
_LEAST_SCALE = 1e-100


def require_scale(least: float) -> None:
    """Raise unless the smallest spread can be divided by."""
    if not least > 0:
        raise InputError(f"scale must be positive; got {least}")
    if least < _LEAST_SCALE:
        raise InputError(f"scale must be at least {_LEAST_SCALE:g}; got {least:g}")


@dataclass(frozen=True)
class NoSignal(FittedSignal):
    """Every row alike: one temperature for all."""

    kind: ClassVar[str] = "none"

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return zeros."""
        return np.zeros(len(rows))


@dataclass(frozen=True)
class Statistic(FittedSignal):
    """One of the six statistics, as it is."""

    statistic: str
    kind: ClassVar[str] = "statistic"

    def __post_init__(self) -> None:
        require_statistics((self.statistic,))

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return that statistic."""
        return np.asarray(rows.statistics[STATISTICS.index(self.statistic)])


@dataclass(frozen=True)
class Standardised(FittedSignal):
    """One of the six statistics in units of its spread over the calibration split."""

    statistic: str
    mean: float
    scale: float
    kind: ClassVar[str] = "standardised"

    def __post_init__(self) -> None:
        require_statistics((self.statistic,))
        require_scale(self.scale)

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return (statistic - mean) / scale."""
        raw = rows.statistics[STATISTICS.index(self.statistic)]
        return np.asarray((raw - self.mean) / self.scale)


@dataclass(frozen=True)
class StandardisedStatistics(FittedSignal):
    """Several statistics in units of their spread, none further than 4 of them from the mean."""

    statistics: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    kind: ClassVar[str] = "statistics"

    def __post_init__(self) -> None:
        require_statistics(self.statistics)
        if not len(self.statistics) == len(self.mean) == len(self.scale):
            raise InputError("statistics, mean and scale must be equally long")
        require_scale(min(self.scale))

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return (statistic - mean) / scale for each, clipped, shape (m, statistics)."""
        used = [STATISTICS.index(name) for name in self.statistics]
        columns = (rows.statistics[used].T - self.mean) / self.scale
        return np.asarray(np.clip(columns, -SIGNAL_LIMIT, SIGNAL_LIMIT))


@dataclass(frozen=True)
class StatisticsAndClass(StandardisedStatistics):
    """The same statistics, and the predicted class as one more column."""

    kind: ClassVar[str] = "statistics_class"

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the statistics and, last, the number of the predicted class."""
        return np.column_stack([super().scores(rows), rows.predicted])


@dataclass(frozen=True)
class LogEntropy(FittedSignal):
    """Logarithm of the entropy's share of its maximum, log C."""

    n_classes: int
    kind: ClassVar[str] = "log_entropy"

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return log(entropy / log C), at most 0."""
        entropy = rows.statistics[STATISTICS.index("entropy")]
        share = entropy / np.log(self.n_classes)
        return np.asarray(np.log(np.maximum(share, ENTROPY_FLOOR)))


@dataclass(frozen=True, eq=False)
class ConfidenceRank(FittedSignal):
    """Share of the calibration split that the model was more confident about."""

    confidences: tuple[float, ...]
    kind: ClassVar[str] = "confidence_rank"

    def __post_init__(self) -> None:
        if not self.confidences or any(np.diff(self.confidences) < 0):
            raise InputError("confidences must be ascending and at least one")

    @cached_property
    def _ascending(self) -> FloatArray:
        return np.array(self.confidences)

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return 1 - q, with q the empirical distribution function at the row's confidence."""
        confidence = rows.statistics[STATISTICS.index("confidence")]
        below = np.searchsorted(self._ascending, confidence, side="right")
        return np.asarray(1 - below / len(self._ascending))


@dataclass(frozen=True)
class LinearScore(FittedSignal):
    """A linear model of standardised statistics."""

    coef: tuple[float, ...]
    intercept: float
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    statistics: tuple[str, ...] = STATISTICS

    def __post_init__(self) -> None:
        require_statistics(self.statistics)
        sizes = {len(self.coef), len(self.mean), len(self.scale), len(self.statistics)}
        if len(sizes) != 1:
            raise InputError(
                f"coef, mean, scale and statistics must be equally long; got {sorted(sizes)}"
            )
        require_scale(min(self.scale))

    @property
    def n_parameters(self) -> int:
        """Coefficients and intercept; the moments are data, not fitted parameters."""
        return len(self.coef) + 1

    def linear(self, rows: Rows) -> FloatArray:
        """Return intercept + coefficients x standardised statistics."""
        slope, offset = self._folded
        # einsum, not a matrix product: a row's bits must not depend on its batch.
        return np.asarray(np.einsum("i,ij->j", slope, rows.statistics) + offset)

    @cached_property
    def _folded(self) -> tuple[FloatArray, float]:
        """Slope per raw statistic, and offset: the standardisation folded in."""
        slope = np.zeros(len(STATISTICS))
        mean = np.zeros(len(STATISTICS))
        used = [STATISTICS.index(name) for name in self.statistics]
        slope[used] = np.divide(self.coef, self.scale)
        mean[used] = self.mean
        return slope, float(self.intercept - slope @ mean)


@dataclass(frozen=True)
class Risk(LinearScore):
    """Probability of being wrong: a logistic model of standardised statistics.

    With ``logit`` the score is the log-odds of that probability.
    """

    logit: bool = False
    kind: ClassVar[str] = "risk"

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the risk of each row."""
        linear = self.linear(rows)
        return linear if self.logit else sigmoid(linear)


@dataclass(frozen=True)
class Residual(LinearScore):
    """Expected calibration residual (right or not, minus confidence), or its expected size."""

    absolute: bool = False
    kind: ClassVar[str] = "residual"

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the expected residual of each row."""
        return self.linear(rows)


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
    needs: ClassVar[tuple[str, ...]] = ("features",)

    def __post_init__(self) -> None:
        for name in ("coef", "mean", "scale"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        if not self.coef.shape == self.mean.shape == self.scale.shape or self.coef.ndim != 1:
            raise InputError("coef, mean and scale must be equally long lists of numbers")
        require_scale(float(self.scale.min()))

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


@dataclass(frozen=True)
class RawLogits(FittedSignal):
    """The logits themselves, for maps that read many numbers."""

    kind: ClassVar[str] = "logits"

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the logits."""
        return rows.logits.astype(np.float64, copy=False)


@dataclass(frozen=True)
class RawFeatures(FittedSignal):
    """The features themselves, for maps that read many numbers."""

    width: int
    kind: ClassVar[str] = "features"
    needs: ClassVar[tuple[str, ...]] = ("features",)

    @property
    def n_features(self) -> int:
        """Number of features that each row must have."""
        return self.width

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the features."""
        return rows.features

"""Signals that are statistics of the logits: one of the six, several, or a function of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from smallcal.calibrators.once import once
from smallcal.calibrators.parts import Rule, Scores, list_of, require_scale, rule
from smallcal.calibrators.program import Row, Value, constant, log
from smallcal.calibrators.signals.base import FittedSignal, Observed, SignalFit, route
from smallcal.calibrators.signals.logit_statistics import STATISTICS, Rows, require_statistics
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError

#: An entropy of this share of its maximum, or less, counts as this much: log 0 is no score.
ENTROPY_FLOOR = 1e-12

#: Standardised statistics beyond this are taken as this: an odd sample must not be extrapolated.
SIGNAL_LIMIT = 4.0

#: JSON form of a choice among the six.
STATISTICS_RULE: Rule = list_of(rule("statistic"), least=1, most=6)


@dataclass(frozen=True)
class Statistic(FittedSignal):
    """One of the six statistics, as it is."""

    statistic: str
    kind: ClassVar[str] = "statistic"
    schema: ClassVar[Mapping[str, Rule]] = {"statistic": rule("statistic")}

    def __post_init__(self) -> None:
        require_statistics((self.statistic,))

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return that statistic."""
        return np.asarray(rows.statistics[STATISTICS.index(self.statistic)])

    @property
    def name(self) -> str:
        """The statistic's name."""
        return self.statistic.replace("_", " ")

    def program(self, row: Row, /) -> Value:
        """Return that statistic."""
        return row.statistics[self.statistic]


@dataclass(frozen=True)
class Standardised(Statistic):
    """One of the six statistics in units of its spread over the calibration split."""

    mean: float
    scale: float
    kind: ClassVar[str] = "standardised"
    schema: ClassVar[Mapping[str, Rule]] = {
        **Statistic.schema,
        "mean": rule("number"),
        "scale": rule("positive"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require_scale(self.scale)

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return (statistic - mean) / scale."""
        return (super().scores(rows) - self.mean) / self.scale

    def program(self, row: Row, /) -> Value:
        """Return (statistic - mean) / scale."""
        return (super().program(row) - float(self.mean)) / float(self.scale)


@dataclass(frozen=True)
class StandardisedStatistics(FittedSignal):
    """Several statistics in units of their spread, none further than 4 of them from the mean."""

    statistics: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    kind: ClassVar[str] = "statistics"
    words: ClassVar[str] = "statistics of the logits"
    schema: ClassVar[Mapping[str, Rule]] = {
        "statistics": STATISTICS_RULE,
        "mean": rule("numbers"),
        "scale": rule("numbers"),
    }

    def __post_init__(self) -> None:
        require_statistics(self.statistics)
        if not len(self.statistics) == len(self.mean) == len(self.scale):
            raise InputError("statistics, mean and scale must be equally long")
        require_scale(min(self.scale))

    def gives(self, n_classes: int, /) -> Scores:
        """Return that it gives a column per statistic."""
        return Scores(len(self.statistics))

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return (statistic - mean) / scale for each, clipped, shape (m, statistics)."""
        scores = np.empty((len(self.statistics), len(rows)))
        self._write(rows, scores)
        return scores.T

    @once
    def _columns(self) -> tuple[list[int] | slice, FloatArray, FloatArray]:
        """Which of the six, their means and their scales."""
        some = [STATISTICS.index(name) for name in self.statistics]
        used = slice(None) if self.statistics == STATISTICS else some  # all need no copy
        return used, np.array(self.mean)[:, None], np.array(self.scale)[:, None]

    def _write(self, rows: Rows, out: FloatArray) -> None:
        """Write a row for each statistic: so they are made, and quickly scaled."""
        used, mean, scale = self._columns
        np.subtract(rows.statistics[used], mean, out=out)
        out /= scale
        np.maximum(out, -SIGNAL_LIMIT, out=out)
        np.minimum(out, SIGNAL_LIMIT, out=out)

    def program(self, row: Row, /) -> Value:
        """Return the clipped columns side by side."""
        columns = (row.joined(self.statistics) - constant(self.mean)) / constant(self.scale)
        return columns.at_least(-SIGNAL_LIMIT).at_most(SIGNAL_LIMIT)


@dataclass(frozen=True)
class StatisticsAndClass(StandardisedStatistics):
    """The same statistics, and the predicted class as one more column."""

    kind: ClassVar[str] = "statistics_class"
    words: ClassVar[str] = "statistics of the logits, plus an effect of the predicted class"

    def gives(self, n_classes: int, /) -> Scores:
        """Return that it gives the class as well."""
        return Scores(len(self.statistics), classed=True)

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the statistics and, last, the number of the predicted class."""
        scores = np.empty((len(self.statistics) + 1, len(rows)))
        self._write(rows, scores[:-1])
        scores[-1] = rows.predicted
        return scores.T

    def program(self, row: Row, /) -> Value:
        """Return the statistics, and a column for each class that says whether it is predicted."""
        return super().program(row).join(row.top)


@dataclass(frozen=True)
class LogEntropy(FittedSignal):
    """Logarithm of the entropy's share of its maximum, log C."""

    n_classes: int
    kind: ClassVar[str] = "log_entropy"
    schema: ClassVar[Mapping[str, Rule]] = {"n_classes": rule("classes")}

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return log(entropy / log C), at most 0."""
        entropy = rows.statistics[STATISTICS.index("entropy")]
        share = entropy / np.log(self.n_classes)
        return np.asarray(np.log(np.maximum(share, ENTROPY_FLOOR)))

    def program(self, row: Row, /) -> Value:
        """Return log(entropy / log C)."""
        share = row.statistics["entropy"] / math.log(self.n_classes)
        return log(share.at_least(ENTROPY_FLOOR))


@dataclass(frozen=True, eq=False)
class ConfidenceRank(FittedSignal):
    """Share of the calibration split that the model was more confident about."""

    confidences: tuple[float, ...]
    kind: ClassVar[str] = "confidence_rank"
    schema: ClassVar[Mapping[str, Rule]] = {
        "confidences": rule("numbers", "Of the calibration split, ascending.")
    }

    def __post_init__(self) -> None:
        if not self.confidences or any(np.diff(self.confidences) < 0):
            raise InputError("confidences must be ascending and at least one", code="option-range")

    @once
    def _ascending(self) -> FloatArray:
        return np.array(self.confidences)

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return 1 - q, with q the empirical distribution function at the row's confidence."""
        confidence = rows.statistics[STATISTICS.index("confidence")]
        below = np.searchsorted(self._ascending, confidence, side="right")
        return np.asarray(1 - below / len(self._ascending))

    def program(self, row: Row, /) -> Value:
        """Return 1 - q."""
        below = row.statistics["confidence"].rank(self.confidences)
        return 1 - below / float(len(self.confidences))


def fit_of(signal: FittedSignal, seen: Observed) -> SignalFit:
    """Return the fit of a signal that scores the split as it scores new rows."""
    scores = signal.scores(seen.rows)
    return SignalFit(scores, signal, scores)


for _name in STATISTICS:
    route(_name)(partial(fit_of, Statistic(_name)))


@route("statistics")
def fit_statistics(seen: Observed, *, statistics: tuple[str, ...] = STATISTICS) -> SignalFit:
    """Standardise several statistics."""
    return fit_of(_standardised(StandardisedStatistics, seen, statistics), seen)


@route("statistics_class")
def fit_statistics_class(seen: Observed, *, statistics: tuple[str, ...] = STATISTICS) -> SignalFit:
    """Standardise several statistics, and add the predicted class."""
    return fit_of(_standardised(StatisticsAndClass, seen, statistics), seen)


def _standardised(
    kind: type[StandardisedStatistics], seen: Observed, statistics: tuple[str, ...]
) -> StandardisedStatistics:
    columns = seen.rows.columns(statistics)
    scale = columns.std(axis=1)
    scale[scale < 1e-12] = 1
    return kind(statistics, tuple(columns.mean(axis=1).tolist()), tuple(scale.tolist()))

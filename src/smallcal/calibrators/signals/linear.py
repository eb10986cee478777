"""Signals learned from the six statistics: the risk of being wrong, the expected residual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.objectives import sigmoid
from smallcal.calibrators.once import once
from smallcal.calibrators.parts import Rule, list_of, require_scale, rule
from smallcal.calibrators.program import Row, Value
from smallcal.calibrators.signals.base import FittedSignal, Observed, SignalFit, route
from smallcal.calibrators.signals.crossfit import (
    OUT_OF_FOLD,
    cross_fit,
    is_logit,
    logistic_solver,
    ridge_solver,
)
from smallcal.calibrators.signals.logit_statistics import STATISTICS, Rows, require_statistics
from smallcal.calibrators.signals.statistic import STATISTICS_RULE
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError


@dataclass(frozen=True)
class LinearScore(FittedSignal):
    """A linear model of standardised statistics."""

    coef: tuple[float, ...]
    intercept: float
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    statistics: tuple[str, ...] = STATISTICS
    schema: ClassVar[Mapping[str, Rule]] = {
        "coef": rule("numbers"),
        "intercept": rule("number"),
        "mean": rule("numbers"),
        "scale": list_of(rule("positive"), least=1),
        "statistics": STATISTICS_RULE,
    }

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
        slope, offset = self.folded
        # einsum, not a matrix product: a row's bits must not depend on its batch.
        return np.asarray(np.einsum("i,ij->j", slope, rows.statistics) + offset)

    @once
    def folded(self) -> tuple[FloatArray, float]:
        """Slope per raw statistic, and offset: the standardisation folded in."""
        slope = np.zeros(len(STATISTICS))
        mean = np.zeros(len(STATISTICS))
        used = [STATISTICS.index(name) for name in self.statistics]
        slope[used] = np.divide(self.coef, self.scale)
        mean[used] = self.mean
        return slope, float(self.intercept - slope @ mean)

    def program(self, row: Row, /) -> Value:
        """Return the linear score."""
        slope = np.divide(self.coef, self.scale)
        offset = float(self.intercept - slope @ self.mean)
        return row.joined(self.statistics).dot(slope) + offset


@dataclass(frozen=True)
class Risk(LinearScore):
    """Probability of being wrong: a logistic model of standardised statistics.

    With ``logit`` the score is the log-odds of that probability.
    """

    logit: bool = False
    kind: ClassVar[str] = "risk"
    words: ClassVar[str] = "a logistic score of its logits: the risk of being predicted wrong"
    schema: ClassVar[Mapping[str, Rule]] = {
        **LinearScore.schema,
        "logit": {
            "type": "boolean",
            "description": "Whether the score is the log-odds of the risk.",
        },
    }

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the risk of each row."""
        linear = self.linear(rows)
        return linear if self.logit else sigmoid(linear)

    def program(self, row: Row, /) -> Value:
        """Return the risk, or its log-odds."""
        linear = super().program(row)
        return linear if self.logit else program.sigmoid(linear)


@dataclass(frozen=True)
class Residual(LinearScore):
    """Expected calibration residual (right or not, minus confidence), or its expected size."""

    absolute: bool = False
    kind: ClassVar[str] = "residual"
    words: ClassVar[str] = "its expected calibration residual"
    schema: ClassVar[Mapping[str, Rule]] = {**LinearScore.schema, "absolute": {"type": "boolean"}}

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the expected residual of each row."""
        return self.linear(rows)


@route("risk", care=OUT_OF_FOLD)
def fit_risk(
    seen: Observed, *, statistics: tuple[str, ...] = STATISTICS, scale: str = "probability"
) -> SignalFit:
    """Fit the cross-fitted risk of being wrong on statistics of the logits.

    ``scale="logit"`` scores by its log-odds. Where too few predictions are wrong (or right) to
    learn from, the result is :class:`~smallcal.calibrators.signals.NoSignal` with the flag
    ``no_router``.
    """
    logit = is_logit(scale)
    return cross_fit(
        seen,
        seen.rows.columns(statistics),
        logistic_solver(~seen.preds.correct),
        lambda found: Risk(**found.fields(statistics), logit=logit),
        link=np.asarray if logit else sigmoid,
    )


@route("signed_residual", care=OUT_OF_FOLD)
def fit_residual(seen: Observed, *, statistics: tuple[str, ...] = STATISTICS) -> SignalFit:
    """Fit the cross-fitted calibration residual, "right or not" minus the raw confidence."""
    return _fit_residual(seen, statistics, absolute=False)


@route("absolute_residual", care=OUT_OF_FOLD)
def fit_absolute_residual(seen: Observed, *, statistics: tuple[str, ...] = STATISTICS) -> SignalFit:
    """Fit the size of that residual."""
    return _fit_residual(seen, statistics, absolute=True)


def _fit_residual(seen: Observed, statistics: tuple[str, ...], *, absolute: bool) -> SignalFit:
    """Fit a residual by ridge regression.

    The penalty is the risk score's: half the squared coefficients, against C times half the
    squared errors.
    """
    (confidence,) = seen.rows.columns(("confidence",))
    residual = seen.preds.correct - confidence
    target = np.abs(residual) if absolute else residual
    return cross_fit(
        seen,
        seen.rows.columns(statistics),
        ridge_solver(target),
        lambda found: Residual(**found.fields(statistics), absolute=absolute),
    )

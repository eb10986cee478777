"""Signals of methods that exist to be compared: controls, oracles, features, margins, ranks.

The controls know nothing, and the oracles read the answer: neither is for use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from smallcal.calibrators.objectives import sigmoid
from smallcal.calibrators.parts import Rule, rule
from smallcal.calibrators.signals.base import FittedSignal, Observed, SignalFit, route
from smallcal.calibrators.signals.crossfit import (
    OUT_OF_FOLD,
    cross_fit,
    is_logit,
    logistic_solver,
)
from smallcal.calibrators.signals.features import FeatureRisk, RawFeatures, RawLogits
from smallcal.calibrators.signals.linear import Risk, fit_risk
from smallcal.calibrators.signals.logit_statistics import STATISTICS, Rows
from smallcal.calibrators.signals.statistic import ConfidenceRank, LogEntropy, Standardised, fit_of
from smallcal.data.predictions import FloatArray


@dataclass(frozen=True)
class RandomScore(FittedSignal):
    """A control that knows nothing: uniform scores, drawn anew for each batch from the seed."""

    seed: int
    kind: ClassVar[str] = "random"
    words: ClassVar[str] = "random scores: a control, not for use"
    schema: ClassVar[Mapping[str, Rule]] = {"seed": rule("seed")}
    rowwise: ClassVar[bool] = False

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return uniform numbers, the same for the same number of rows."""
        return np.asarray(np.random.default_rng([self.seed, 1]).random(len(rows)))


@dataclass(frozen=True)
class ShuffledRisk(FittedSignal):
    """A control with the right scores on the wrong rows: risk, permuted within the batch."""

    risk: Risk
    seed: int
    kind: ClassVar[str] = "shuffled"
    words: ClassVar[str] = "risk scores shuffled between samples: a control, not for use"
    schema: ClassVar[Mapping[str, Rule]] = {"risk": Risk.json_schema(), "seed": rule("seed")}
    rowwise: ClassVar[bool] = False

    @property
    def n_parameters(self) -> int:
        """As many as the risk score has."""
        return self.risk.n_parameters

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the rows' risks in a seeded random order."""
        return np.random.default_rng([self.seed, 2]).permutation(self.risk.scores(rows))


@dataclass(frozen=True)
class OracleRisk(FittedSignal):
    """A diagnostic that reads the answer: 1 - probability of the true class."""

    kind: ClassVar[str] = "oracle_risk"
    needs: ClassVar[tuple[str, ...]] = ("labels",)
    saved: ClassVar[bool] = False

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return one minus the model's own probability of the label."""
        gap = rows.logits[np.arange(len(rows)), rows.labels].astype(np.float64)
        gap -= rows.logits.max(axis=1)
        return np.asarray(1 - np.exp(gap) * rows.statistics[STATISTICS.index("confidence")])


@dataclass(frozen=True)
class OracleCorrectness(FittedSignal):
    """A diagnostic that reads the answer: 1 where the prediction is wrong."""

    kind: ClassVar[str] = "oracle_correctness"
    needs: ClassVar[tuple[str, ...]] = ("labels",)
    saved: ClassVar[bool] = False

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return 1 for wrong predictions, 0 for right ones."""
        return np.asarray(rows.logits.argmax(axis=1) != rows.labels, dtype=np.float64)


@route("random")
def fit_random(seen: Observed) -> SignalFit:
    """Draw scores; those of new rows are drawn apart."""
    control = RandomScore(seen.discipline.seed)
    scores = np.random.default_rng([control.seed, 0]).random(seen.preds.n)
    return SignalFit(scores, control, control.scores(seen.rows))


@route("shuffled", care=OUT_OF_FOLD)
def fit_shuffled(seen: Observed, *, statistics: tuple[str, ...] = STATISTICS) -> SignalFit:
    """Fit the risk score, and give it to the wrong samples."""
    fit = fit_risk(seen, statistics=statistics)
    if not isinstance(fit.signal, Risk):
        return fit
    signal = ShuffledRisk(fit.signal, seen.discipline.seed)
    shuffled = np.random.default_rng([signal.seed, 0]).permutation(fit.scores)
    return SignalFit(shuffled, signal, signal.scores(seen.rows), fit.flags)


@route("oracle_correctness", needs=("labels",))
def fit_oracle_correctness(seen: Observed) -> SignalFit:
    """Read the labels: right and wrong predictions apart."""
    return replace(fit_of(OracleCorrectness(), seen), thresholds=(0.5,))


@route("feature_risk", needs=("features",), care=OUT_OF_FOLD)
def fit_feature_risk(seen: Observed, *, scale: str = "probability") -> SignalFit:
    """Fit the cross-fitted risk of being wrong on features."""
    return _fit_feature_risk(seen, scale, with_logits=False)


@route("feature_logit_risk", needs=("features",), care=OUT_OF_FOLD)
def fit_feature_logit_risk(seen: Observed, *, scale: str = "probability") -> SignalFit:
    """Fit the cross-fitted risk of being wrong on features and logits."""
    return _fit_feature_risk(seen, scale, with_logits=True)


def _fit_feature_risk(seen: Observed, scale: str, *, with_logits: bool) -> SignalFit:
    logit = is_logit(scale)
    columns, n_logits = seen.rows.features.T, 0
    if with_logits:
        columns = np.vstack([columns, seen.rows.logits.T.astype(np.float64)])
        n_logits = seen.preds.n_classes
    return cross_fit(
        seen,
        columns,
        logistic_solver(~seen.preds.correct),
        lambda found: FeatureRisk(*found, n_logits=n_logits, logit=logit),
        link=np.asarray if logit else sigmoid,
    )


def _standardised_margin(seen: Observed) -> Standardised:
    (margin,) = seen.rows.columns(("logit_margin",))
    scale = max(float(margin.std()), 1e-8)
    return Standardised("logit_margin", float(margin.mean()), scale)


def _confidence_rank(seen: Observed) -> ConfidenceRank:
    (confidence,) = seen.rows.columns(("confidence",))
    return ConfidenceRank(tuple(np.sort(confidence).tolist()))


def _route_of(make: Callable[[Observed], FittedSignal]) -> Callable[[Observed], SignalFit]:
    """Return the fit of a signal that scores the split as it scores new rows."""
    return lambda seen: fit_of(make(seen), seen)


route("oracle_risk", needs=("labels",))(_route_of(lambda seen: OracleRisk()))
route("logits")(_route_of(lambda seen: RawLogits()))
route("features", needs=("features",))(
    _route_of(lambda seen: RawFeatures(seen.rows.features.shape[1]))
)
route("log_entropy")(_route_of(lambda seen: LogEntropy(seen.preds.n_classes)))
route("standardised_margin")(_route_of(_standardised_margin))
route("confidence_rank")(_route_of(_confidence_rank))

"""What a method may route by: each name with how its signal is fitted.

``ROUTES`` is the signal axis. Most signals need no fit; the learned ones are in
:mod:`smallcal.calibrators.signals.crossfit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.objectives import Gaps, Moments
from smallcal.calibrators.signals import (
    STATISTICS,
    ConfidenceRank,
    FittedSignal,
    LogEntropy,
    OracleCorrectness,
    OracleRisk,
    RandomScore,
    RawFeatures,
    RawLogits,
    Risk,
    Rows,
    ShuffledRisk,
    Standardised,
    StandardisedStatistics,
    Statistic,
    StatisticsAndClass,
    require_statistics,
    six_statistics,
)
from smallcal.calibrators.signals.crossfit import (
    Observed,
    SignalFit,
    fit_feature_risk,
    fit_residual,
    fit_risk,
    no_signal,
)
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError


@dataclass(frozen=True)
class Route:
    """How a signal is fitted.

    Attributes
    ----------
    fit : callable
        Takes :class:`~smallcal.calibrators.signals.crossfit.Observed` and the options; gives a
        ``SignalFit``.
    options : dict
        Name and default of each option.
    needs : tuple of str
        What must come with the logits, at fitting and at prediction: "features", "labels".
    """

    fit: Callable[..., SignalFit]
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def observe(preds: Predictions, gaps: Gaps, raw: Moments, discipline: Discipline) -> Observed:
    """Return a calibration split with its statistics.

    The kernel's sums at temperature 1 are those that statistics are made of.
    """
    rest = np.exp(-raw.log_odds)
    top = preds.logits[np.arange(preds.n), preds.predicted].astype(np.float64)
    stats = six_statistics(1 + rest, rest * raw.mean, gaps.best, top, preds.squared_norms)
    rows = Rows(preds.logits, statistics=stats, features=preds.features, labels=preds.labels)
    return Observed(preds, rows, discipline)


def fit_signal(route: str, seen: Observed, **options: Any) -> SignalFit:
    """Fit the signal named by ``route``."""
    if route not in ROUTES:
        raise InputError(f"unknown signal {route!r}; choose from {', '.join(ROUTES)}")
    return ROUTES[route].fit(seen, **options)


def _as_it_is(signal: FittedSignal, seen: Observed) -> SignalFit:
    scores = signal.scores(seen.rows)
    return SignalFit(scores, signal, scores)


def _statistic(seen: Observed, *, statistic: str) -> SignalFit:
    return _as_it_is(Statistic(statistic), seen)


def _standardised_margin(seen: Observed) -> SignalFit:
    margin = seen.rows.statistics[STATISTICS.index("logit_margin")]
    scale = max(float(margin.std()), 1e-8)
    return _as_it_is(Standardised("logit_margin", float(margin.mean()), scale), seen)


def _statistics(
    seen: Observed,
    *,
    statistics: tuple[str, ...],
    kind: type[StandardisedStatistics] = StandardisedStatistics,
) -> SignalFit:
    require_statistics(statistics)
    columns = seen.rows.statistics[[STATISTICS.index(name) for name in statistics]]
    scale = columns.std(axis=1)
    scale[scale < 1e-12] = 1
    signal = kind(statistics, tuple(columns.mean(axis=1).tolist()), tuple(scale.tolist()))
    return _as_it_is(signal, seen)


def _log_entropy(seen: Observed) -> SignalFit:
    return _as_it_is(LogEntropy(seen.preds.n_classes), seen)


def _confidence_rank(seen: Observed) -> SignalFit:
    confidence = seen.rows.statistics[STATISTICS.index("confidence")]
    return _as_it_is(ConfidenceRank(tuple(np.sort(confidence).tolist())), seen)


def _random(seen: Observed) -> SignalFit:
    seed = seen.discipline.seed
    control = RandomScore(seed)
    scores = np.random.default_rng([seed, 0]).random(seen.preds.n)
    return SignalFit(scores, control, control.scores(seen.rows))


def _shuffled(seen: Observed, **options: Any) -> SignalFit:
    fit = fit_risk(seen, **options)
    if not isinstance(fit.signal, Risk):
        return fit
    seed = seen.discipline.seed
    shuffled = np.random.default_rng([seed, 0]).permutation(fit.scores)
    signal = ShuffledRisk(fit.signal, seed)
    return SignalFit(shuffled, signal, signal.scores(seen.rows), fit.flags)


def _raw_features(seen: Observed) -> SignalFit:
    return _as_it_is(RawFeatures(seen.rows.features.shape[1]), seen)


def _oracle_correctness(seen: Observed) -> SignalFit:
    signal = OracleCorrectness()
    scores = signal.scores(seen.rows)
    return SignalFit(scores, signal, scores, thresholds=(0.5,))


_RISK = {"statistics": STATISTICS, "scale": "probability"}
_RESIDUAL = {"statistics": STATISTICS}
_FEATURE_RISK = {"scale": "probability"}

ROUTES: Mapping[str, Route] = MappingProxyType(
    {
        "none": Route(lambda seen: no_signal(seen.preds.n)),
        "risk": Route(fit_risk, _RISK),
        "random": Route(_random),
        "shuffled": Route(_shuffled, {"statistics": STATISTICS}),
        **{name: Route(partial(_statistic, statistic=name)) for name in STATISTICS},
        "log_entropy": Route(_log_entropy),
        "confidence_rank": Route(_confidence_rank),
        "standardised_margin": Route(_standardised_margin),
        "statistics": Route(_statistics, _RESIDUAL),
        "statistics_class": Route(partial(_statistics, kind=StatisticsAndClass), _RESIDUAL),
        "signed_residual": Route(fit_residual, _RESIDUAL),
        "absolute_residual": Route(partial(fit_residual, absolute=True), _RESIDUAL),
        "feature_risk": Route(fit_feature_risk, _FEATURE_RISK, needs=("features",)),
        "feature_logit_risk": Route(
            partial(fit_feature_risk, with_logits=True), _FEATURE_RISK, needs=("features",)
        ),
        "logits": Route(partial(_as_it_is, RawLogits())),
        "features": Route(_raw_features, needs=("features",)),
        "oracle_risk": Route(partial(_as_it_is, OracleRisk()), needs=("labels",)),
        "oracle_correctness": Route(_oracle_correctness, needs=("labels",)),
    }
)

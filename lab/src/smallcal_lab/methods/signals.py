"""Fit signals of methods that exist to be compared: features, margins, ranks, heads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from smallcal.calibrators.maps.base import Split
from smallcal.calibrators.maps.network import NetworkMap
from smallcal.calibrators.maps.temperature import Temperature
from smallcal.calibrators.objectives import Gaps, objective, sigmoid
from smallcal.calibrators.signals.base import Observed, SignalFit, no_signal, route
from smallcal.calibrators.signals.crossfit import (
    OUT_OF_FOLD,
    cross_fit,
    is_logit,
    logistic_solver,
    stratified_folds,
)
from smallcal.calibrators.signals.features import FeatureRisk, RawFeatures, RawLogits
from smallcal.calibrators.signals.heads import HeadTemperature, LogitHeadTemperature
from smallcal.calibrators.signals.statistic import ConfidenceRank, LogEntropy, Standardised, fit_of
from smallcal.data.predictions import FloatArray
from smallcal_lab.methods.heads import fit_head


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


@route("logits")
def fit_logits(seen: Observed) -> SignalFit:
    """Take the logits as they are."""
    return fit_of(RawLogits(), seen)


@route("features", needs=("features",))
def fit_features(seen: Observed) -> SignalFit:
    """Take the features as they are."""
    return fit_of(RawFeatures(seen.rows.features.shape[1]), seen)


@route("standardised_margin")
def fit_standardised_margin(seen: Observed) -> SignalFit:
    """Standardise the logit margin."""
    (margin,) = seen.rows.columns(("logit_margin",))
    scale = max(float(margin.std()), 1e-8)
    return fit_of(Standardised("logit_margin", float(margin.mean()), scale), seen)


@route("log_entropy")
def fit_log_entropy(seen: Observed) -> SignalFit:
    """Take the logarithm of the entropy's share of its maximum."""
    return fit_of(LogEntropy(seen.preds.n_classes), seen)


@route("confidence_rank")
def fit_confidence_rank(seen: Observed) -> SignalFit:
    """Remember the split's confidences."""
    (confidence,) = seen.rows.columns(("confidence",))
    return fit_of(ConfidenceRank(tuple(np.sort(confidence).tolist())), seen)


@route("head_temperature", needs=("features",), care=OUT_OF_FOLD)
def fit_head_temperature(seen: Observed, *, epochs: int = 500, patience: int = 20) -> SignalFit:
    """Fit the temperature head of features, cross-fitted; see :func:`fit_temperatures`."""
    return fit_temperatures(seen, seen.rows.features, HeadTemperature, epochs, patience)


@route("logit_head_temperature", care=OUT_OF_FOLD)
def fit_logit_head_temperature(
    seen: Observed, *, epochs: int = 500, patience: int = 20
) -> SignalFit:
    """Fit the temperature head of logits, cross-fitted; see :func:`fit_temperatures`."""
    return fit_temperatures(seen, seen.rows.logits, LogitHeadTemperature, epochs, patience)


def fit_temperatures(
    seen: Observed,
    inputs: FloatArray,
    kind: type[HeadTemperature],
    epochs: int,
    patience: int,
) -> SignalFit:
    """Score each sample by a head that did not see it; new rows by one that saw all.

    The head is the paper's unrestricted one (the row ``utemphead``): 128 units, by
    log-likelihood. Where there is too little to train one on, the result is no signal, with the
    flag ``no_router``.
    """
    preds, care = seen.preds, seen.discipline
    wrong = ~preds.correct
    n_folds = min(care.n_folds, int(wrong.sum()), int((~wrong).sum()))
    if n_folds < 2:
        return no_signal(preds.n, no_router=[])
    gaps = Gaps.of(preds)
    split = Split(preds, gaps, objective("nll"), Temperature(1.0), inputs, care)
    fold = stratified_folds(wrong, n_folds, care.seed, preds.clusters)
    heads = []
    for left_out in (None, *range(n_folds)):
        weight = gaps.weights * (fold != left_out if left_out is not None else 1.0)
        part = replace(split, gaps=replace(gaps, weight=weight))
        head = fit_head(part, protocol="fixed", epochs=epochs, patience=patience).map
        if not isinstance(head, NetworkMap):
            return no_signal(preds.n, no_router=[])
        heads.append(head)
    whole, *others = heads
    scores = np.empty(preds.n)
    for left_out, head in enumerate(others):
        scores[fold == left_out] = head(inputs[fold == left_out])
    signal = kind(whole.weights, whole.biases)
    flags: dict[str, list[int]] = {"fewer_folds": []} if n_folds < care.n_folds else {}
    return SignalFit(scores, signal, signal.scores(seen.rows), flags)

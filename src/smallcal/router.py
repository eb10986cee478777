"""Learn what a temperature may depend on, without letting a sample vouch for itself.

The risk score is an L2 logistic model of "this prediction is wrong" in the standardised logit
statistics. Each calibration sample is scored by a model that did not see it (out of fold):
those scores make the groups that temperatures are fitted in. For deployment the model is
refitted on the whole split and the thresholds stay frozen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from smallcal.data import BoolArray, FloatArray, Predictions
from smallcal.discipline import Discipline
from smallcal.errors import InputError
from smallcal.signals import (
    STATISTICS,
    FittedSignal,
    NoSignal,
    RandomScore,
    Risk,
    ShuffledRisk,
    Statistic,
    sigmoid,
    statistics,
)

#: The names a method may route by.
ROUTES = ("none", "risk", "random", "shuffled", *STATISTICS)

_MAX_NEWTON_STEPS = 100


@dataclass(frozen=True, eq=False)
class SignalFit:
    """Scores to fit temperatures on, and the signal that scores new rows."""

    scores: FloatArray
    signal: FittedSignal
    flags: dict[str, list[int]] = field(default_factory=dict)


def fit_signal(
    route: str,
    preds: Predictions,
    discipline: Discipline,
    *,
    use: tuple[str, ...] = STATISTICS,
) -> SignalFit:
    """Fit the signal named by ``route``; ``use`` picks the statistics of the risk score.

    Where too few predictions are wrong (or right) to learn a risk score, the result is
    :class:`~smallcal.signals.NoSignal` with the flag ``no_router``.
    """
    if route not in ROUTES:
        raise InputError(f"unknown signal {route!r}; choose from {', '.join(ROUTES)}")
    if route == "none":
        return SignalFit(np.zeros(preds.n), NoSignal())
    if route == "random":
        scores = np.random.default_rng([discipline.seed, 0]).random(preds.n)
        return SignalFit(scores, RandomScore(discipline.seed))
    stats = statistics(preds.logits)
    if route in STATISTICS:
        signal = Statistic(route)
        return SignalFit(signal.scores(stats), signal)
    fit = fit_risk(stats, preds, discipline, use=use)
    if route == "risk" or not isinstance(fit.signal, Risk):
        return fit
    shuffled = np.random.default_rng([discipline.seed, 0]).permutation(fit.scores)
    return SignalFit(shuffled, ShuffledRisk(fit.signal, discipline.seed), fit.flags)


def fit_risk(
    stats: FloatArray,
    preds: Predictions,
    discipline: Discipline,
    *,
    use: tuple[str, ...] = STATISTICS,
) -> SignalFit:
    """Fit the cross-fitted risk score on the statistics of a calibration split."""
    wrong = ~preds.correct
    rarer = int(min(wrong.sum(), (~wrong).sum()))
    if rarer < 2:
        return SignalFit(np.zeros(preds.n), NoSignal(), {"no_router": []})
    n_folds = min(discipline.n_folds, rarer)
    flags: dict[str, list[int]] = {"fewer_folds": []} if n_folds < discipline.n_folds else {}

    columns = stats[:, [STATISTICS.index(name) for name in use]]
    # Standardised once on the whole split: moments of the statistics leak no labels.
    mean, scale = columns.mean(axis=0), columns.std(axis=0)
    scale[scale < 1e-12] = 1
    design = np.column_stack([(columns - mean) / scale, np.ones(preds.n)])

    scores = np.empty(preds.n)
    for train, held_out in _folds(wrong, n_folds, discipline.seed):
        weight = None if preds.weight is None else preds.weight[train]
        theta = fit_logistic(design[train], wrong[train], C=discipline.C, weight=weight)
        scores[held_out] = sigmoid(design[held_out] @ theta)
    theta = fit_logistic(design, wrong, C=discipline.C, weight=preds.weight)
    risk = Risk(
        coef=tuple(theta[:-1].tolist()),
        intercept=float(theta[-1]),
        mean=tuple(mean.tolist()),
        scale=tuple(scale.tolist()),
        statistics=tuple(use),
    )
    return SignalFit(scores, risk, flags)


def _folds(wrong: BoolArray, n_folds: int, seed: int) -> list[tuple[BoolArray, BoolArray]]:
    """Return (train, held out) masks, stratified by correctness, never by class.

    With 250 samples of 100 classes no class could be stratified, and correctness is what the
    router predicts.
    """
    from sklearn.model_selection import StratifiedKFold  # late: NumPy-only imports stay light

    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    masks = []
    for _, test in splitter.split(np.zeros(len(wrong)), wrong):
        held_out = np.zeros(len(wrong), dtype=bool)
        held_out[test] = True
        masks.append((~held_out, held_out))
    return masks


def fit_logistic(
    design: FloatArray, target: BoolArray, *, C: float, weight: FloatArray | None = None
) -> FloatArray:
    """Minimise ½‖w‖² + C Σ logistic loss by Newton; the last column's coefficient is free.

    scikit-learn's ``LogisticRegression(C=C)`` has the same minimum. Seven parameters make
    Newton exact in a handful of steps, where its general solver needs milliseconds.
    """
    penalty = np.full(design.shape[1], 1.0)
    penalty[-1] = 0.0
    weights = np.full(len(design), C) if weight is None else C * weight
    theta = np.zeros(design.shape[1])
    share = float(np.clip(weights @ target / weights.sum(), 1e-6, 1 - 1e-6))
    theta[-1] = np.log(share / (1 - share))
    value = _penalised(theta, design, target, weights, penalty)
    for _ in range(_MAX_NEWTON_STEPS):
        p = sigmoid(design @ theta)
        gradient = design.T @ (weights * (p - target)) + penalty * theta
        hessian = (design.T * (weights * p * (1 - p))) @ design + np.diag(penalty + 1e-12)
        step = np.linalg.solve(hessian, gradient)
        decrement = float(gradient @ step)
        if decrement < 1e-16 * max(1.0, value):
            break
        # Newton on logistic loss overshoots only far from the minimum: halve until it descends.
        size = 1.0
        while size > 1e-10:
            trial = theta - size * step
            trial_value = _penalised(trial, design, target, weights, penalty)
            if trial_value <= value - 1e-4 * size * decrement:
                break
            size /= 2
        else:
            break  # rounding has the last word: no representable descent is left
        theta, value = trial, trial_value
    return theta


def _penalised(
    theta: FloatArray,
    design: FloatArray,
    target: BoolArray,
    weights: FloatArray,
    penalty: FloatArray,
) -> float:
    score = design @ theta
    loss = np.logaddexp(0, np.where(target, -score, score))
    return float(weights @ loss + 0.5 * (penalty * theta) @ theta)

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

    deployed = fit_logistic(design, wrong, C=discipline.C, weight=preds.weight)
    scores = np.empty(preds.n)
    for train, held_out in _folds(wrong, n_folds, discipline.seed):
        weight = None if preds.weight is None else preds.weight[train]
        # The minimum is unique, so starting at the whole split's saves steps and leaks nothing.
        theta = fit_logistic(
            design[train], wrong[train], C=discipline.C, weight=weight, start=deployed
        )
        scores[held_out] = sigmoid(design[held_out] @ theta)
    risk = Risk(
        coef=tuple(deployed[:-1].tolist()),
        intercept=float(deployed[-1]),
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
    design: FloatArray,
    target: BoolArray,
    *,
    C: float,
    weight: FloatArray | None = None,
    start: FloatArray | None = None,
) -> FloatArray:
    """Minimise ½‖w‖² + C Σ logistic loss by Newton; the last column's coefficient is free.

    scikit-learn's ``LogisticRegression(C=C)`` has the same minimum. Seven parameters make
    Newton exact in a handful of steps, where its general solver needs milliseconds.
    """
    penalty = np.ones(design.shape[1])
    penalty[-1] = 0
    weights = np.full(len(design), C) if weight is None else C * weight
    sign = np.where(target, -1.0, 1.0)

    def value_at(theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the penalised loss, and exp(-loss) per sample: the target's probability."""
        loss = np.logaddexp(0, sign * (design @ theta))
        return float(weights @ loss + 0.5 * (penalty * theta) @ theta), np.exp(-loss)

    theta = np.zeros(design.shape[1]) if start is None else start
    value, likelihood = value_at(theta)
    for _ in range(_MAX_NEWTON_STEPS):
        surprise = 1 - likelihood
        gradient = design.T @ (weights * sign * surprise) + penalty * theta
        bend = weights * likelihood * surprise
        hessian = (design.T * bend) @ design + np.diag(penalty + 1e-12)
        step = np.linalg.solve(hessian, gradient)
        decrement = float(gradient @ step)
        if decrement < 1e-14 * max(1.0, value):
            return np.asarray(theta - step)
        # Newton on logistic loss overshoots only far from the minimum: halve until it descends.
        for halving in range(30):
            size = 0.5**halving
            trial = theta - size * step
            trial_value, trial_likelihood = value_at(trial)
            if trial_value <= value - 1e-4 * size * decrement:
                break
        else:
            return theta  # rounding has the last word: no representable descent is left
        theta, value, likelihood = trial, trial_value, trial_likelihood
    return theta

"""Learn what a temperature may depend on, without letting a sample vouch for itself.

The risk score is an L2 logistic model of "this prediction is wrong" in the standardised logit
statistics. Each calibration sample is scored by a model that did not see it (out of fold):
those scores make the groups that temperatures are fitted in. For deployment the model is
refitted on the whole split and the thresholds stay frozen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from smallcal.data import BoolArray, FloatArray, IntArray, Predictions, squared_norms
from smallcal.discipline import Discipline
from smallcal.errors import InputError
from smallcal.objectives import Gaps, Moments
from smallcal.signals import (
    STATISTICS,
    FittedSignal,
    NoSignal,
    RandomScore,
    Risk,
    ShuffledRisk,
    Statistic,
    six_statistics,
)
from smallcal.special import sigmoid

#: The names a method may route by.
ROUTES = ("none", "risk", "random", "shuffled", *STATISTICS)

_MAX_NEWTON_STEPS = 100


@dataclass(frozen=True, eq=False)
class SignalFit:
    """Scores to fit temperatures on, and the signal that scores new rows.

    ``deployed`` are that signal's own scores of the calibration split.
    """

    scores: FloatArray
    signal: FittedSignal
    deployed: FloatArray
    flags: dict[str, list[int]] = field(default_factory=dict)


def split_statistics(preds: Predictions, gaps: Gaps, raw: Moments) -> FloatArray:
    """Return the statistics of a calibration split, shape (6, n).

    The kernel's sums at temperature 1 are those that statistics are made of.
    """
    rest = np.exp(-raw.log_odds)
    top = preds.logits[np.arange(preds.n), preds.predicted].astype(np.float64)
    return six_statistics(1 + rest, rest * raw.mean, gaps.best, top, squared_norms(preds.logits))


def fit_signal(
    route: str,
    preds: Predictions,
    stats: FloatArray,
    discipline: Discipline,
    *,
    use: tuple[str, ...] = STATISTICS,
) -> SignalFit:
    """Fit the signal named by ``route``; ``use`` picks the statistics of the risk score.

    ``stats`` are those of the calibration split, see :func:`split_statistics`. Where too few
    predictions are wrong (or right) to learn a risk score, the result is
    :class:`~smallcal.signals.NoSignal` with the flag ``no_router``.
    """
    if route not in ROUTES:
        raise InputError(f"unknown signal {route!r}; choose from {', '.join(ROUTES)}")
    if route == "none":
        return no_signal(preds)
    if route == "random":
        scores = np.random.default_rng([discipline.seed, 0]).random(preds.n)
        control = RandomScore(discipline.seed)
        return SignalFit(scores, control, control.scores(stats))
    if route in STATISTICS:
        column = Statistic(route).scores(stats)
        return SignalFit(column, Statistic(route), column)
    fit = fit_risk(stats, preds, discipline, use=use)
    if route == "risk" or not isinstance(fit.signal, Risk):
        return fit
    shuffled = np.random.default_rng([discipline.seed, 0]).permutation(fit.scores)
    signal = ShuffledRisk(fit.signal, discipline.seed)
    return SignalFit(shuffled, signal, signal.scores(stats), fit.flags)


def no_signal(preds: Predictions, **flags: list[int]) -> SignalFit:
    """Return the fit of "every row alike"."""
    zeros = np.zeros(preds.n)
    return SignalFit(zeros, NoSignal(), zeros, flags)


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
        return no_signal(preds, no_router=[])
    n_folds = min(discipline.n_folds, rarer)
    flags: dict[str, list[int]] = {"fewer_folds": []} if n_folds < discipline.n_folds else {}

    columns = stats[[STATISTICS.index(name) for name in use]]
    # Standardised once on the whole split: moments of the statistics leak no labels.
    mean, scale = columns.mean(axis=1), columns.std(axis=1)
    scale[scale < 1e-12] = 1
    design = np.vstack([(columns - mean[:, None]) / scale[:, None], np.ones(preds.n)])

    weight = np.full(preds.n, discipline.C)
    if preds.weight is not None:
        weight *= preds.weight
    fold = stratified_folds(wrong, n_folds, discipline.seed)
    training = fold != np.arange(n_folds)[:, None]
    deployed, *held_out = fit_logistic(design, wrong, np.vstack([weight, weight * training]))
    scores = sigmoid((np.array(held_out) @ design)[fold, np.arange(preds.n)])
    risk = Risk(
        coef=tuple(deployed[:-1].tolist()),
        intercept=float(deployed[-1]),
        mean=tuple(mean.tolist()),
        scale=tuple(scale.tolist()),
        statistics=tuple(use),
    )
    return SignalFit(scores, risk, risk.scores(stats), flags)


def stratified_folds(target: BoolArray, n_folds: int, seed: int) -> IntArray:
    """Return each sample's fold: equal shares of both outcomes, shuffled, never by class.

    With 250 samples of 100 classes no class could be stratified, and correctness is what the
    router predicts. The folds are those of scikit-learn's
    ``StratifiedKFold(n_folds, shuffle=True, random_state=seed)``, so that published seeds keep
    their meaning; made here because its checks cost as much as the six fits.
    """
    folds = np.empty(len(target), dtype=np.int64)
    rng = np.random.RandomState(seed)
    # Dealing out the sorted outcomes like cards gives each fold its share of both. Sorted by
    # first appearance, which is the order in which scikit-learn shuffles.
    outcomes = [target[0], not target[0]]
    counts = [int((target == outcome).sum()) for outcome in outcomes]
    dealt = np.arange(len(target)) % n_folds
    shares = np.split(dealt, [counts[0]])
    for outcome, share in zip(outcomes, shares, strict=True):
        assigned = np.sort(share)
        rng.shuffle(assigned)
        folds[target == outcome] = assigned
    return folds


def fit_logistic(design: FloatArray, target: BoolArray, weights: FloatArray) -> FloatArray:
    """Minimise ½‖w‖² + Σ weight x logistic loss by Newton, for several weightings at once.

    Parameters
    ----------
    design : ndarray of shape (p, n)
        A row per coefficient; the last one's coefficient is not penalised.
    target : ndarray of bool, shape (n,)
    weights : ndarray of shape (k, n)
        Each row is a problem of its own. With weights C this is the minimum of scikit-learn's
        ``LogisticRegression(C=C)``; weight 0 leaves a sample out.

    Returns
    -------
    ndarray of shape (k, p)
        Seven parameters make Newton exact in a handful of steps, where a general solver needs
        milliseconds.
    """
    size = len(design)
    penalty = np.ones(size)
    penalty[-1] = 0
    ridge = np.diag(penalty + 1e-12)
    upper = np.triu_indices(size)
    products = (design[upper[0]] * design[upper[1]]).T  # each pair of coefficients once
    hessian = np.empty((len(weights), size, size))
    sign = np.where(target, -1.0, 1.0)
    theta: FloatArray = np.zeros((len(weights), size))
    theta[:, -1] = np.log((target.sum() + 0.5) / ((~target).sum() + 0.5))
    last_theta, last_step, last_decrement = theta, np.zeros_like(theta), np.inf
    for _ in range(_MAX_NEWTON_STEPS):
        surprise = sigmoid(sign * (theta @ design))  # probability of the other outcome
        pull = weights * surprise
        gradient = (sign * pull) @ design.T + penalty * theta
        bend = (pull * (1 - surprise)) @ products
        hessian[:, upper[0], upper[1]] = hessian[:, upper[1], upper[0]] = bend
        step = np.linalg.solve(hessian + ridge, gradient[:, :, None])[:, :, 0]
        decrement = (gradient * step).sum(axis=1)
        # Far from the minimum a Newton step may be too long. Then the decrement, which measures
        # what is left to gain, grows: go half as far.
        too_far = decrement > last_decrement
        if too_far.any():
            last_step[too_far] /= 2
            theta[too_far] = (last_theta - last_step)[too_far]
            continue
        last_theta, last_step, last_decrement = theta, step, decrement
        theta = theta - step
        if decrement.max() < 1e-6:  # the step just taken squared the error
            break
    return np.asarray(theta)

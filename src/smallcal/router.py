"""Learn what a temperature may depend on, without letting a sample vouch for itself.

The risk score is an L2 logistic model of "this prediction is wrong" in the standardised logit
statistics. Each calibration sample is scored by a model that did not see it (out of fold):
those scores make the groups that temperatures are fitted in. For deployment the model is
refitted on the whole split and the thresholds stay frozen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from smallcal.data import BoolArray, FloatArray, IntArray, Predictions
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
    return six_statistics(1 + rest, rest * raw.mean, gaps.best, top, preds.squared_norms)


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
    problem = _Logistic(design, np.where(target, -1.0, 1.0))
    start = np.zeros((1, len(design)))
    start[0, -1] = np.log((target.sum() + 0.5) / ((~target).sum() + 0.5))
    # Each minimum is unique, so where the search starts leaks nothing: all of them begin near
    # the first one's.
    near = problem.newton(start, weights[:1], enough=1e-2)
    return problem.newton(np.tile(near, (len(weights), 1)), weights, enough=1e-6)


class _Logistic:
    """Logistic regressions that share design and target; ``sign`` is -1 where the target is."""

    def __init__(self, design: FloatArray, sign: FloatArray) -> None:
        self.design = design
        self.sign = sign
        size = len(design)
        self.penalty = np.ones(size)
        self.penalty[-1] = 0
        self.ridge = np.diag(self.penalty + 1e-12)
        self.upper = np.triu_indices(size)  # each pair of coefficients once
        self.products = np.empty((len(self.upper[0]), design.shape[1]))
        stop = 0
        for i in range(size):
            start, stop = stop, stop + size - i
            np.multiply(design[i], design[i:], out=self.products[start:stop])

    def step(self, theta: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return Newton's step of each problem, and the decrement: what is left to gain."""
        surprise = sigmoid(self.sign * (theta @ self.design))  # probability of the other outcome
        pull = weights * surprise
        gradient = (self.sign * pull) @ self.design.T + self.penalty * theta
        bend = (pull * (1 - surprise)) @ self.products.T
        hessian = np.empty((len(theta), *self.ridge.shape))
        hessian[:, self.upper[0], self.upper[1]] = bend
        hessian[:, self.upper[1], self.upper[0]] = bend
        step = np.linalg.solve(hessian + self.ridge, gradient[:, :, None])[:, :, 0]
        return step, (gradient * step).sum(axis=1)

    def newton(self, theta: FloatArray, weights: FloatArray, *, enough: float) -> FloatArray:
        """Iterate until a step's decrement is small enough; taking that step squares the error."""
        last_theta, last_step = theta, np.zeros_like(theta)
        last_decrement = np.full(len(theta), np.inf)
        for _ in range(_MAX_NEWTON_STEPS):
            step, decrement = self.step(theta, weights)
            # Far from the minimum a Newton step may be too long. Then the decrement grows: go
            # half as far. At the minimum it may grow by rounding alone, which must not hold up
            # the other problems.
            too_far = (decrement > last_decrement) & (decrement > enough)
            if too_far.any():
                last_step[too_far] /= 2
                theta = np.where(too_far[:, None], last_theta - last_step, theta)
                continue
            last_theta, last_step, last_decrement = theta, step, decrement
            theta = theta - step
            if decrement.max() < enough:
                break
        return theta

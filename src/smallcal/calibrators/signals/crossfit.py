"""Learn what a temperature may depend on, without letting a sample vouch for itself.

The risk score is an L2 logistic model of "this prediction is wrong" in the standardised logit
statistics. Each calibration sample is scored by a model that did not see it (out of fold):
those scores make the groups that temperatures are fitted in. For deployment the model is
refitted on the whole split and the thresholds stay frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from smallcal.calibrators.logistic import Logistic
from smallcal.calibrators.parts import frozen, plain
from smallcal.calibrators.signals.base import FittedSignal, Observed, SignalFit, no_signal
from smallcal.data.predictions import BoolArray, FloatArray, IntArray
from smallcal.errors import InputError

#: What keeps a learned signal honest.
OUT_OF_FOLD = "out-of-fold scores"

#: With more columns than this, the products of all pairs that Newton needs cost more than a
#: general solver's steps.
_MAX_NEWTON_COLUMNS = 24

#: Outcomes whose routers are fitted together: more would not fit into a core's cache.
_DRAWS_AT_ONCE = 16

#: Fits a linear model for each row of weights (k, n); gives coefficients, shape (k, p).
Solver = Callable[[FloatArray, FloatArray], FloatArray]


def is_logit(scale: str) -> bool:
    """Return whether a risk is scored by its log-odds."""
    if scale not in ("probability", "logit"):
        raise InputError(
            f"scale must be probability or logit; got {scale!r}", code="unknown-choice"
        )
    return scale == "logit"


class LinearModel(NamedTuple):
    """A linear model of standardised columns, fitted on the whole split."""

    coef: FloatArray
    intercept: float
    mean: FloatArray
    scale: FloatArray

    def fields(self, statistics: tuple[str, ...]) -> dict[str, Any]:
        """Return the fields of a linear score."""
        model: dict[str, Any] = frozen(plain({**self._asdict(), "statistics": statistics}))
        return model


def cross_fit(
    seen: Observed,
    columns: FloatArray,
    solve: Solver,
    signal_of: Callable[[LinearModel], FittedSignal],
    link: Callable[[FloatArray], FloatArray] = np.asarray,
) -> SignalFit:
    """Score each sample by a model that did not see it; new rows by the signal of one that saw all.

    ``link`` makes the signal's scores of linear ones. Where there is too little to learn the
    result is no signal, with the flag ``no_router``.
    """
    wrong, n = ~seen.preds.correct, seen.preds.n
    rarer = int(min(wrong.sum(), (~wrong).sum()))
    if rarer < 2:
        return no_signal(n, no_router=[])
    n_folds = min(seen.discipline.n_folds, rarer)
    flags: dict[str, list[int]] = {"fewer_folds": []} if n_folds < seen.discipline.n_folds else {}

    design, mean, scale = _standardised(columns)
    fold, weights = _left_out(seen, wrong, n_folds)
    if any(np.bincount(fold, each).max() == each.sum() for each in (wrong, ~wrong)):
        return no_signal(n, no_router=[])  # one outcome is in the clusters of one fold alone
    deployed, *held_out = solve(design, weights)
    scores = link((np.array(held_out) @ design)[fold, np.arange(n)])
    signal = signal_of(LinearModel(deployed[:-1], float(deployed[-1]), mean, scale))
    return SignalFit(scores, signal, signal.scores(seen.rows), flags)


def _standardised(columns: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the design, with ones for an intercept, and the moments of the columns.

    Standardised once on the whole split: moments of the columns leak no labels.
    """
    mean, scale = columns.mean(axis=1), columns.std(axis=1)
    scale[scale < 1e-12] = 1
    ones = np.ones(columns.shape[1])
    return np.vstack([(columns - mean[:, None]) / scale[:, None], ones]), mean, scale


def _left_out(seen: Observed, wrong: BoolArray, n_folds: int) -> tuple[IntArray, FloatArray]:
    """Return each sample's fold, and weights (1 + folds, n): of all, and with each fold at 0."""
    weight = np.full(len(wrong), seen.discipline.C)
    if seen.preds.weight is not None:
        weight *= seen.preds.weight
    fold = stratified_folds(wrong, n_folds, seen.discipline.seed, seen.preds.clusters)
    training = fold != np.arange(n_folds)[:, None]
    return fold, np.vstack([weight, weight * training])


def risks_of_outcomes(seen: Observed, columns: FloatArray, wrong: BoolArray) -> FloatArray:
    """Return the out-of-fold log-odds of being wrong, (m, n), had these been the outcomes (m, n).

    The same as :func:`cross_fit` gives for each of them, but the router's Newton steps are shared.
    NaN where an outcome leaves too little to learn from.
    """
    scores = np.full(wrong.shape, np.nan)
    rarer = np.minimum(wrong.sum(axis=1), (~wrong).sum(axis=1))
    counts = np.minimum(seen.discipline.n_folds, rarer)
    design, *_ = _standardised(columns)
    for n_folds in np.unique(counts[counts >= 2]).tolist():
        alike = np.flatnonzero(counts == n_folds)
        for start in range(0, len(alike), _DRAWS_AT_ONCE):
            draws = alike[start : start + _DRAWS_AT_ONCE]
            cuts = [_left_out(seen, wrong[draw], n_folds) for draw in draws]
            folds, weights = (np.array(part) for part in zip(*cuts, strict=True))
            found = fit_logistic(design, wrong[draws], weights)[:, 1:] @ design
            scores[draws] = np.take_along_axis(found, folds[:, None], axis=1)[:, 0]
    return scores


def logistic_solver(target: BoolArray) -> Solver:
    """Return the fit of L2 logistic regressions of a target."""

    def solve(design: FloatArray, weights: FloatArray) -> FloatArray:
        if len(design) <= _MAX_NEWTON_COLUMNS:
            return fit_logistic(design, target, weights)
        return np.array([_many_columns(design, target, weight) for weight in weights])

    return solve


def _many_columns(design: FloatArray, target: BoolArray, weight: FloatArray) -> FloatArray:
    """Minimise what :func:`fit_logistic` does, by scikit-learn's general solver."""
    from sklearn.linear_model import LogisticRegression

    used = weight > 0
    model = LogisticRegression(C=1.0, tol=1e-6, max_iter=1000)
    model.fit(design[:-1, used].T, target[used], sample_weight=weight[used])
    return np.append(model.coef_[0], model.intercept_[0])


def ridge_solver(target: FloatArray) -> Solver:
    """Return the fit of ridge regressions of a target."""

    def solve(design: FloatArray, weights: FloatArray) -> FloatArray:
        penalty = np.eye(len(design))
        penalty[-1, -1] = 0  # the intercept is free
        return np.array(
            [
                np.linalg.solve((design * weight) @ design.T + penalty, design @ (weight * target))
                for weight in weights
            ]
        )

    return solve


def stratified_folds(
    target: BoolArray, n_folds: int, seed: int, clusters: IntArray | None = None
) -> IntArray:
    """Return each sample's fold: equal shares of both outcomes, shuffled, never by class.

    With 250 samples of 100 classes no class could be stratified, and correctness is what the
    router predicts. The folds are those of scikit-learn's
    ``StratifiedKFold(n_folds, shuffle=True, random_state=seed)``, so that published seeds keep
    their meaning; made here because its checks cost as much as the six fits. Clusters stay whole,
    and those that are wrong more often than usual are shared out equally.
    """
    if clusters is not None:
        _, index, count = np.unique(clusters, return_inverse=True, return_counts=True)
        often = np.bincount(index, weights=target) > target.mean() * count
        return stratified_folds(often, n_folds, seed)[index]
    folds = np.empty(len(target), dtype=np.int64)
    rng = np.random.RandomState(seed)
    # Dealing out the sorted outcomes like cards gives each fold its share of both. Sorted by
    # first appearance, which is the order in which scikit-learn shuffles.
    first = target == target[0]
    shares = np.split(np.arange(len(target)) % n_folds, [int(first.sum())])
    for members, share in zip((first, ~first), shares, strict=True):
        assigned = np.sort(share)
        rng.shuffle(assigned)
        folds[members] = assigned
    return folds


def fit_logistic(design: FloatArray, target: BoolArray, weights: FloatArray) -> FloatArray:
    """Minimise ½‖w‖² + Σ weight x logistic loss by Newton, for several weightings at once.

    Parameters
    ----------
    design : ndarray of shape (p, n)
        A row per coefficient; the last one's coefficient is not penalised.
    target : ndarray of bool, shape (n,) or (m, n)
        One, or several.
    weights : ndarray of shape (k, n) or (m, k, n)
        Each row is a problem of its own. With weights C this is the minimum of scikit-learn's
        ``LogisticRegression(C=C)``; weight 0 leaves a sample out.

    Returns
    -------
    ndarray of shape (k, p) or (m, k, p)
        Seven parameters make Newton exact in a handful of steps, where a general solver needs
        milliseconds.
    """
    penalty = np.ones(len(design))
    penalty[-1] = 0
    k, n = weights.shape[-2:]
    sign = np.where(target, -1.0, 1.0).reshape(-1, n)
    problem = Logistic(design, sign, penalty)
    start = np.zeros((len(sign), len(design)))
    start[:, -1] = np.log(((sign < 0).sum(axis=1) + 0.5) / ((sign > 0).sum(axis=1) + 0.5))
    # Each minimum is unique, so where the search starts leaks nothing: all of them begin near
    # the first one's.
    near = problem.newton(start, weights.reshape(-1, k, n)[:, 0], enough=1e-2)
    every = problem.repeated(k).newton(near.repeat(k, axis=0), weights.reshape(-1, n), enough=1e-6)
    return every.reshape(*weights.shape[:-1], len(design))

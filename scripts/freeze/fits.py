"""Calibrators in the plainest way: what the formulas say, with SciPy's and scikit-learn's solvers.

Definitions are the paper's; where it is silent, the choice that docs/reference/methods.md states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from freeze.formulas import bce_losses, nll_losses
from freeze.logits import Array, Split

Score = Callable[[Array], Array]
#: Each sample's loss, of logits and labels.
Loss = Callable[[Array, Array], Array]

LOSSES: dict[str, Loss] = {"nll": nll_losses, "bce": bce_losses}
#: A group with fewer samples takes the temperature of all.
FEWEST = 50


@dataclass(frozen=True)
class Fit:
    """What logits are divided by, and the numbers behind it.

    ``score``, ``cuts`` and ``steps`` are those of groups: a sample with a score of ``cuts[g]`` or
    more is in group g + 1. ``held_out`` are the scores of the calibration samples.
    """

    temperature: Score
    parameters: int
    steps: Array
    cuts: Array
    score: Score | None = None
    held_out: Array | None = None
    pooled: bool = False

    def groups(self, z: Array) -> Array:
        """Return the group of each sample."""
        assert self.score is not None
        return np.searchsorted(self.cuts, self.score(z), side="right")


def fitted(method: str, cal: Split, seed: int, n_groups: int = 3) -> Fit:
    """Fit a method; folds and first weights are seeded by the model's number."""
    name, _, objective = method.partition("-")
    if method == "none":
        return _same(1.0, parameters=0)
    if method in ("ts-nll", "tva-ts"):
        return _same(scalar(cal, nll_losses if method == "ts-nll" else bce_losses), parameters=1)
    if name == "hts":
        return entropy_based(cal, LOSSES[objective])
    if name == "smart":
        return small_network(cal, seed)
    if method == "margin-k3":
        return grouped(cal, margin(cal.logits), margin, bce_losses, n_groups, parameters=n_groups)
    loss = LOSSES[objective]
    if n_groups == 1:  # the router has nothing to say
        return _same(scalar(cal, loss), parameters=1)
    held_out, score = risk(cal, seed)
    return grouped(cal, held_out, score, loss, n_groups, parameters=n_groups + 7)


def _same(found: float, parameters: int) -> Fit:
    return Fit(lambda z: np.full(len(z), found), parameters, np.array([found]), np.empty(0))


def scalar(cal: Split, loss: Loss) -> float:
    """Return the one temperature that minimises a loss."""
    found = minimize_scalar(
        lambda t: loss(cal.logits / t, cal.labels).mean(),
        bounds=(0.05, 20),
        method="bounded",
        options={"xatol": 1e-10, "maxiter": 500},
    )
    return float(found.x)


def grouped(
    cal: Split, scores: Array, score: Score, loss: Loss, n_groups: int, parameters: int
) -> Fit:
    """Return temperatures by quantiles of a score; a thin group gets the pooled one."""
    cuts = np.quantile(scores, np.arange(1, n_groups) / n_groups)
    groups = np.searchsorted(cuts, scores, side="right")
    sizes = np.bincount(groups, minlength=n_groups)
    wrong = cal.logits.argmax(axis=1) != cal.labels
    steps = np.full(n_groups, scalar(cal, loss))
    for g in np.flatnonzero(sizes >= FEWEST):
        assert wrong[groups == g].any(), "a group without errors has no optimum"
        steps[g] = scalar(cal.take(groups == g), loss)

    def temperature(z: Array) -> Array:
        return steps[np.searchsorted(cuts, score(z), side="right")]

    thin = bool((sizes < FEWEST).any())
    return Fit(temperature, parameters, steps, cuts, score, scores, thin)


def margin(z: Array) -> Array:
    """Return the gap between the two highest logits."""
    ordered = np.sort(z, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def statistics(z: Array) -> Array:
    """Return the six statistics that the router sees."""
    p = softmax(z, axis=1)
    ordered = np.sort(p, axis=1)
    entropy = -(p * np.log(np.maximum(p, 1e-12))).sum(axis=1)
    columns = (
        *(ordered[:, -1], margin(z), ordered[:, -1] - ordered[:, -2]),
        *(entropy, np.linalg.norm(z, axis=1), z.max(axis=1)),
    )
    return np.column_stack(columns)


def risk(cal: Split, seed: int) -> tuple[Array, Score]:
    """Return out-of-fold chances of being wrong, and the score for other samples."""
    scaler = StandardScaler().fit(statistics(cal.logits))
    x = scaler.transform(statistics(cal.logits))
    wrong = (cal.logits.argmax(axis=1) != cal.labels).astype(int)
    held_out = np.empty(len(x))
    for train, rest in StratifiedKFold(5, shuffle=True, random_state=seed).split(x, wrong):
        held_out[rest] = _logistic(x[train], wrong[train]).predict_proba(x[rest])[:, 1]
    final = _logistic(x, wrong)
    return held_out, lambda z: final.predict_proba(scaler.transform(statistics(z)))[:, 1]


def _logistic(x: Array, target: Array) -> LogisticRegression:
    return LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-10).fit(x, target)


def entropy_based(cal: Split, loss: Loss) -> Fit:
    """Fit HTS: T = softplus(w log(H / log C) + b), by Nelder-Mead from one temperature for all."""

    def temperature(z: Array, w: float, b: float) -> Array:
        p = softmax(z, axis=1)
        entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1) / np.log(z.shape[1])
        raw = w * np.log(np.maximum(entropy, 1e-12)) + b
        return np.maximum(np.logaddexp(0, raw), 1e-4)

    def total(parameters: Array) -> float:
        scaled = cal.logits / temperature(cal.logits, *parameters)[:, None]
        return float(loss(scaled, cal.labels).mean())

    pooled = scalar(cal, loss)
    start = [0.0, pooled + np.log(-np.expm1(-pooled))]
    options = {"xatol": 1e-10, "fatol": 1e-15, "maxiter": 5000, "maxfev": 10_000}
    found = minimize(total, start, method="Nelder-Mead", options=options).x
    return Fit(lambda z: temperature(z, *found), 2, np.empty(0), np.empty(0))


def small_network(cal: Split, seed: int, *, hidden: int = 16, epochs: int = 2000) -> Fit:
    """Fit SMART by BCE: T = 0.1 + softplus(network(u)), u the standardised margin, 49 numbers.

    The recipe is the authors' first release: Adam at 0.005 over the whole split, and of all
    weights on the way those with the lowest loss. Layers start as PyTorch's do, uniform up to
    1/sqrt(inputs); the draws are smallcal's, or there would be nothing to agree on but chance:
    of each unit its weight and its bias, then the weights and the bias of the output.
    """
    gaps = margin(cal.logits)
    centre, scale = gaps.mean(), gaps.std()
    rng = np.random.default_rng([seed, 3])
    first = rng.uniform(-1, 1, (hidden, 2))
    second = rng.uniform(-1, 1, hidden + 1) / np.sqrt(hidden)
    weights = [first[:, 0].copy(), first[:, 1].copy(), second[:-1].copy(), second[-1:].copy()]

    def forward(u: Array, parts: list[Array]) -> tuple[Array, Array]:
        height = u[:, None] * parts[0] + parts[1]
        return height, np.maximum(height, 0) @ parts[2] + parts[3]

    u = (gaps - centre) / scale
    others, wrong = gaps_to_others(cal.logits), cal.logits.argmax(axis=1) != cal.labels
    means = [np.zeros_like(part) for part in weights]
    squares = [np.zeros_like(part) for part in weights]
    lowest, best = np.inf, weights
    for step in range(1, epochs + 2):
        height, raw = forward(u, weights)
        losses, slopes = bce_and_slopes(others, wrong, 0.1 + np.logaddexp(0, raw))
        if losses.mean() < lowest:
            lowest, best = losses.mean(), [part.copy() for part in weights]
        pull = slopes * expit(raw) / len(u)
        back = pull[:, None] * (height > 0) * weights[2]
        gradients = [
            (back * u[:, None]).sum(axis=0),
            back.sum(axis=0),
            (pull[:, None] * np.maximum(height, 0)).sum(axis=0),
            pull.sum(keepdims=True),
        ]
        for part, gradient, mean, square in zip(weights, gradients, means, squares, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            shown = np.sqrt(square / (1 - 0.999**step)) + 1e-8
            part -= 0.005 * mean / (1 - 0.9**step) / shown

    def applied(z: Array) -> Array:
        return 0.1 + np.logaddexp(0, forward((margin(z) - centre) / scale, best)[1])

    return Fit(applied, 3 * hidden + 1, np.empty(0), np.empty(0))


def gaps_to_others(z: Array) -> Array:
    """Return by how much the other classes are below the first."""
    return np.sort(z.max(axis=1, keepdims=True) - z, axis=1)[:, 1:]


def bce_and_slopes(gaps: Array, wrong: Array, temperature: Array) -> tuple[Array, Array]:
    """Return each sample's top-label BCE, and its derivative by the sample's temperature."""
    shares = np.exp(-gaps / temperature[:, None])
    rest = shares.sum(axis=1)  # of all other classes, in units of the first
    losses = np.log1p(rest) - wrong * np.log(rest)
    by_odds = rest / (1 + rest) - wrong
    return losses, by_odds * (gaps * shares).sum(axis=1) / rest / temperature**2

"""The fit behind affine maps: multinomial logistic regression, penalised and cross-validated.

The problem is convex and solved by L-BFGS. Penalised fits first *whiten* the variables: they are
stretched so that the loss curves alike in all directions. Otherwise a rare class, or a penalty
that spares some entries, costs thousands of steps in place of dozens.

SciPy is imported where a fit needs it: applying a map needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps.base import minimise
from smallcal.data.predictions import FloatArray, IntArray, Predictions

#: Numbers in the blocks that whiten a full matrix, 256 MB; with more, only their diagonals do.
_MAX_BLOCK_NUMBERS = 2**25


#: When a search ends: after so many steps, by a small gain, or by a small slope. In whitened
#: variables the square of the slope is about what is still to gain.
Stop = Mapping[str, Any]

_FINAL: Stop = {"maxiter": 500, "ftol": 1e-12, "gtol": 1e-7}
#: Held-out losses to about 1e-6. The limit of steps is for parts of the data without a minimum.
_COMPARING: Stop = {"maxiter": 80, "ftol": 1e-11, "gtol": 1e-6}
UNPENALISED: Stop = {"maxiter": 500, "ftol": 1e-9, "gtol": 1e-7}
_STEPS_PER_WHITENING = 40


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows of a split, each as a column: sums over classes are quickest that way.

    ``x`` has shape (C, n), with a row of ones below where there is a bias. Parameters ``theta``
    are one scale per class, or a matrix with a row per class and a column per row of ``x``.
    """

    x: FloatArray
    labels: IntArray
    weight: FloatArray
    clusters: IntArray | None = None

    @classmethod
    def of(cls, preds: Predictions, x: FloatArray, *, bias: bool = False) -> Sample:
        """Take the rows that have weight; ``x`` (n, C) is made from their logits."""
        weight = np.ones(preds.n) if preds.weight is None else preds.weight
        rows = np.flatnonzero(weight)
        columns = np.ascontiguousarray(x[rows].T)
        stacked = np.vstack([columns, np.ones(len(rows))]) if bias else columns
        clusters = None if preds.clusters is None else preds.clusters[rows]
        return cls(stacked, preds.labels[rows], weight[rows], clusters)

    def take(self, rows: IntArray) -> Sample:
        """Return some of the rows."""
        return Sample(self.x[:, rows], self.labels[rows], self.weight[rows])

    def predict(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities (C, n) and each row's NLL."""
        p = theta[:, None] * self.x if theta.ndim == 1 else theta @ self.x
        p -= p.max(axis=0)
        at_label = p[self.labels, np.arange(len(self.labels))]
        np.exp(p, out=p)
        total = p.sum(axis=0)
        p /= total
        return p, np.log(total) - at_label

    def loss_and_slope(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the mean NLL and its derivative in ``theta``."""
        p, loss = self.predict(theta)
        share = self.weight / self.weight.sum()
        p *= share
        p[self.labels, np.arange(len(share))] -= share
        slope = np.einsum("ij,ij->i", p, self.x) if theta.ndim == 1 else p @ self.x.T
        return float(share @ loss), slope

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Return second derivatives of the mean NLL, as blocks (k, q, q) or diagonals (k, q).

        Scales have one block with them all. A matrix has a block per class: what couples the
        classes is left out, so that the true curvature is at most twice this one.
        """
        p, _ = self.predict(theta)
        share = self.weight / self.weight.sum()
        if theta.ndim == 1:
            pull = p * self.x
            own = np.einsum("ij,ij,j->i", pull, self.x, share)
            own *= 1 + 1e-12  # where p is nearly 1 the difference below is all rounding
            return np.asarray(np.diag(own) - (pull * share) @ pull.T)[None]
        spread = p * (1 - p) * share
        if theta.size * theta.shape[1] > _MAX_BLOCK_NUMBERS:
            return np.asarray(spread @ (self.x**2).T)
        return np.stack([(self.x * row) @ self.x.T for row in spread])


@dataclass(frozen=True, eq=False)
class Problem:
    """Mean NLL + Σ strength (theta - centre)²."""

    sample: Sample
    strength: FloatArray
    centre: FloatArray

    def loss_and_slope(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the penalised loss and its derivative."""
        loss, slope = self.sample.loss_and_slope(theta)
        away = theta - self.centre
        pull = self.strength * away
        return loss + float(np.vdot(pull, away)), slope + 2 * pull

    def whitening(self, theta: FloatArray) -> FloatArray:
        """Return what stretches the variables: triangles (k, q, q), or factors (k, q)."""
        curvature = self.sample.curvature(theta)
        diagonal = curvature if curvature.ndim == 2 else np.einsum("kii->ki", curvature)  # a view
        diagonal += 2 * self.strength.reshape(diagonal.shape)
        # So that no factor is singular. No minimum moves by how variables are stretched.
        diagonal += 1e-8 * diagonal + 1e-12 * max(1.0, float(diagonal.max()))
        if curvature.ndim == 2:
            return np.asarray(1 / np.sqrt(curvature))
        return np.linalg.inv(np.linalg.cholesky(curvature)).transpose(0, 2, 1)


def _stretch(whitening: FloatArray, values: FloatArray) -> FloatArray:
    if whitening.ndim == 2:
        return whitening * values
    return np.asarray(np.matmul(whitening, values[:, :, None])[:, :, 0])


def descend(
    problem: Problem, start: FloatArray, whitening: FloatArray, stop: Stop
) -> tuple[FloatArray, int]:
    """Return where L-BFGS ends from ``start``, and after how many steps."""
    shape = whitening.shape[:2]
    back = whitening if whitening.ndim == 2 else whitening.transpose(0, 2, 1)

    def moved(u: FloatArray) -> FloatArray:
        return start + _stretch(whitening, u.reshape(shape)).reshape(start.shape)

    def whitened(u: FloatArray) -> tuple[float, FloatArray]:
        loss, slope = problem.loss_and_slope(moved(u))
        return loss, _stretch(back, slope.reshape(shape)).ravel()

    done = minimise(whitened, np.zeros(start.size), **stop)
    return moved(done.x), done.nit


def _minimise(problem: Problem, theta: FloatArray, stop: Stop) -> FloatArray:
    """Minimise a penalised problem, whitening anew as the search moves on."""
    burst = {**stop, "maxiter": _STEPS_PER_WHITENING}
    for _ in range(stop["maxiter"] // _STEPS_PER_WHITENING):
        theta, steps = descend(problem, theta, problem.whitening(theta), burst)
        if steps < _STEPS_PER_WHITENING:
            break
    return theta


def fit_cross_validated(
    sample: Sample, centre: FloatArray, strengths: list[FloatArray], discipline: Discipline
) -> FloatArray:
    """Fit with the penalty that has the smallest held-out NLL."""
    best = 0
    if len(strengths) > 1:
        fold = class_folds(sample.labels, discipline.n_folds, discipline.seed, sample.clusters)
        best = int(np.argmin(_held_out_losses(sample, centre, strengths, fold)))
    return _minimise(Problem(sample, strengths[best], centre), centre, _FINAL)


def _held_out_losses(
    sample: Sample, centre: FloatArray, strengths: list[FloatArray], fold: IntArray
) -> FloatArray:
    """Return the mean NLL of rows held out, for each penalty.

    Each search begins where that fold's last one ended. One whitening serves all folds: it is
    made from their fits and from ``x`` alone, so that no held-out label has a say.
    """
    every = range(int(fold.max()) + 1)
    training = [sample.take(np.flatnonzero(fold != k)) for k in every]
    held_out = [sample.take(np.flatnonzero(fold == k)) for k in every]
    fitted = [_minimise(Problem(t, strengths[0], centre), centre, _COMPARING) for t in training]
    losses = np.zeros(len(strengths))
    for i, strength in enumerate(strengths):
        whitening = Problem(sample, strength, centre).whitening(np.mean(fitted, axis=0))
        for k in every:
            problem = Problem(training[k], strength, centre)
            fitted[k], _ = descend(problem, fitted[k], whitening, _COMPARING)
            losses[i] += held_out[k].weight @ held_out[k].predict(fitted[k])[1]
    return np.asarray(losses / sample.weight.sum())


def class_folds(
    labels: IntArray, n_folds: int, seed: int, clusters: IntArray | None = None
) -> IntArray:
    """Return each sample's fold: equal shares of every class, as far as its members go.

    Shuffled samples are sorted by class and dealt out like cards, from one class on to the
    next. So folds differ by one sample at most, and a class with two members is in every
    training part, even where no class could be stratified. Classes follow each other by first
    appearance: their numbers do not matter. Clusters stay whole, each by its first label.

    Examples
    --------
    >>> sorted(class_folds(np.array([0, 1, 0, 1]), 2, seed=0)[[0, 2]].tolist())
    [0, 1]
    """
    if clusters is not None:
        _, start, index = np.unique(clusters, return_index=True, return_inverse=True)
        return class_folds(labels[start], n_folds, seed)[index]
    order = np.random.default_rng(seed).permutation(len(labels))
    _, first, member = np.unique(labels[order], return_index=True, return_inverse=True)
    order = order[np.argsort(first[member], kind="stable")]
    folds = np.empty(len(labels), dtype=np.int64)
    folds[order] = np.arange(len(labels)) % min(n_folds, len(labels))
    return folds

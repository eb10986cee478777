"""How a correction of classes is fitted: one penalised likelihood, whose penalties the split sets.

The labels are taken to follow softmax(e^u z + b + V K V' z), with V the leading directions of the
centred logits. Normal priors hold the biases b and the entries of K near 0. Their scales are those
under which the labels are most likely when everything else is integrated out (the Laplace
approximation of the evidence, with a weak prior on the scales themselves), found together with the
fit: the log-likelihood is replaced by its parabola where the search stands, under the parabola
scales and parameters are balanced without looking at the data again, and the search moves there.
Four or five looks at the data are usual.

Each row of the split is corrected by a fit that has not seen it: one Newton step away from the full
fit, with its fold left out of slope and curvature. That is as good as fitting again, and free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from smallcal.calibrators.maps.correction import Correction
from smallcal.calibrators.maps.temperature import ANCHOR_SCALE
from smallcal.data.predictions import FloatArray, IntArray, Predictions

#: Logits are read in at most this many directions: five find what a full matrix finds for ten
#: classes, and cost next to nothing for a thousand.
RANK = 5
N_FOLDS = 20

#: The weak prior on the scales: as if two biases, and two entries of K, of this size had been seen.
_SEEN = 2.0
_BIAS_SEEN, _MIXING_SEEN = 0.1, 0.02
#: Biases have a Student prior of so many degrees: a few large ones do not free all the others.
_DEGREES = 4.0
#: A class counts if it occurs, or should have occurred about this often.
_EXPECTED = 0.5
#: One class in five, it is thought beforehand, does not exist where the labels come from.
_ABSENT = 0.2

_START = (0.3, 0.05)  # scales where the search begins
_MAX_LOOKS = 30
_ROUNDS = 10  # of balancing, for each look
_SMALL = 0.01  # log-likelihood still to gain by the last step; what is left after it is far less
_BLOCK_SIZE = 2**18  # numbers looked at together
#: Where a logit is this far below the top one, no probability is left that could be corrected.
_FARTHEST = 1e4
_FARTHEST_STEP = 2.0  # in u


def fit_correction(preds: Predictions, temperature: float) -> tuple[Correction, FloatArray]:
    """Fit a correction; return it with the split's logits, corrected out of fold.

    Parameters
    ----------
    preds : Predictions
    temperature : float
        One for all that is best by log-likelihood: where the search begins.

    Returns
    -------
    Correction
    ndarray of shape (n, C), float64

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(400, 3)) * 3
    >>> y = (z + [2, 0, 0] + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> correction, _ = fit_correction(Predictions.of(z, y), 1.0)
    >>> (np.array(correction.bias) - correction.bias[2]).round().tolist()
    [2.0, 0.0, 0.0]
    """
    raw = preds.logits.astype(np.float64)
    if np.ptp(raw, axis=1).max() > _FARTHEST:
        return Correction((0.0,) * preds.n_classes), raw
    model = _Model(preds, raw)
    theta, penalty = _search(model, -np.log(temperature))
    folds = _folds(model.z)
    looked = model.look(theta, folds)
    slope, curvature = looked.total()
    out_of_fold = np.empty(model.z.shape)
    absent = model.absent(slope, penalty * theta**2 / 2)
    curvature = curvature + np.diag(penalty)
    slope = slope + penalty * theta
    for rows, part in zip(folds, looked.parts, strict=True):
        step = np.linalg.solve(curvature - part.curvature, slope - part.slope)
        without = model.correction(theta - step + absent)
        out_of_fold[rows] = without(raw[rows])
    return model.correction(theta + absent), out_of_fold


class _Part(NamedTuple):
    """Minus the log-likelihood of some rows, with two derivatives."""

    loss: float
    slope: FloatArray
    curvature: FloatArray


class _Looked(NamedTuple):
    """The parts of all folds at one place."""

    theta: FloatArray
    parts: list[_Part]

    def total(self) -> tuple[FloatArray, FloatArray]:
        slopes, curvatures = zip(
            *((part.slope, part.curvature) for part in self.parts), strict=True
        )
        return np.sum(slopes, axis=0), np.sum(curvatures, axis=0)

    def objective(self, penalty: FloatArray) -> float:
        return sum(part.loss for part in self.parts) + float(penalty @ self.theta**2) / 2


class _Model:
    """The likelihood of a split in theta = (u, biases of the classes that count, K by rows)."""

    def __init__(self, preds: Predictions, raw: FloatArray) -> None:
        self.preds = preds
        # At most 0, so that their exponentials need no care.
        self.z = raw - raw[np.arange(preds.n), preds.predicted][:, None]
        self.weight = np.ones(preds.n) if preds.weight is None else preds.weight
        self.counts, self.rare = _classes_that_count(preds, self.z, self.weight)
        self.directions = _leading_directions(self.z, self.weight)
        self.x = self.z @ self.directions
        rank = self.directions.shape[1]
        self.sizes = 1, len(self.counts), rank * rank
        size = max(1, _BLOCK_SIZE // preds.n_classes)
        self.blocks = [slice(start, start + size) for start in range(0, preds.n, size)]

    def spread(self, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return e^u, the biases of all classes, and K."""
        _, n_biases, _ = self.sizes
        bias = np.zeros(self.z.shape[1])
        bias[self.counts] = theta[1 : 1 + n_biases]
        rank = self.directions.shape[1]
        return float(np.exp(theta[0])), bias, theta[1 + n_biases :].reshape(rank, rank)

    def correction(self, theta: FloatArray) -> Correction:
        """Return what theta does beside scaling the logits."""
        scale, bias, mixing = self.spread(theta)
        writes = (self.directions @ mixing).T / scale
        rows = (tuple(map(tuple, side.tolist())) for side in (self.directions.T, writes))
        return Correction(tuple((bias / scale).tolist()), *rows)

    def absent(self, slope: FloatArray, held: FloatArray) -> FloatArray:
        """Return what is added to biases because some classes may not exist where labels come from.

        A class that never occurs, though expected e times, is missing by chance with probability
        exp(-e), less what its bias costs by its prior (``held``); it is missing for certain if
        there is no such class. How many there are not is found by EM.
        """
        biases = slice(1, 1 + self.sizes[1])
        unseen = np.bincount(self.preds.labels, minlength=self.preds.n_classes)[self.counts] == 0
        # Slopes are expected counts less those that occurred.
        chance = np.exp(-np.maximum(slope[biases] + held[biases], 0)[unseen])
        share, n_classes = _ABSENT, self.preds.n_classes
        for _ in range(100):
            missing = share / (share + (1 - share) * chance)
            share = float(missing.sum()) / (n_classes + 1 / _ABSENT - 2)
        added = np.zeros(sum(self.sizes))
        added[biases][unseen] = np.log1p(-np.minimum(missing, 1 - 1e-9))
        return added

    def look(self, theta: FloatArray, groups: Sequence[IntArray | slice]) -> _Looked:
        """Look at the data, group after group of rows."""
        return _Looked(theta, [self._part(theta, rows) for rows in groups])

    def _part(self, theta: FloatArray, rows: IntArray | slice) -> _Part:
        scale, bias, mixing = self.spread(theta)
        z, x, weight = self.z[rows], self.x[rows], self.weight[rows]
        labels, every = self.preds.labels[rows], np.arange(len(z))
        p = x @ (self.directions @ mixing).T
        p += bias
        p += scale * z
        at_label = p[every, labels]
        with np.errstate(over="ignore"):  # the step was too long, and will be halved
            np.exp(p, out=p)
        total = np.einsum("ij->i", p)
        if not (np.isfinite(total) & (total > 0)).all():
            size = sum(self.sizes)
            return _Part(np.inf, np.zeros(size), np.zeros((size, size)))
        p /= total[:, None]
        loss = float(weight @ (np.log(total) - at_label))
        error = p * weight[:, None]
        weighted = error.copy()
        error[every, labels] -= weight
        return _Part(loss, *self._derivatives(scale, z, x, p, weighted, error))

    def _derivatives(
        self,
        scale: float,
        z: FloatArray,
        x: FloatArray,
        p: FloatArray,
        weighted: FloatArray,
        error: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return slope and curvature: sums of J'(p - y) and J'(diag p - p p')J over rows.

        J, the derivative of a row's logits, is e^u z for u, one at its class for a bias, and a
        product of a direction of the class and the row's reading x for an entry of K.
        """
        v, some = self.directions, self.counts
        one, biases, _ = self.sizes
        u, b, k = slice(0, one), slice(one, one + biases), slice(one + biases, None)
        slope, curvature = np.empty(sum(self.sizes)), np.empty((sum(self.sizes),) * 2)
        few = p[:, some], weighted[:, some]
        pull = float(np.vdot(error, z))
        slope[u], slope[b] = scale * pull, error[:, some].sum(axis=0)
        slope[k] = ((error @ v).T @ x).ravel()
        pz = weighted * z
        mean = np.einsum("ij,ij->i", p, z)
        weighted_mean = pz.sum(axis=1)
        # The second derivative of e^u adds its first; a negative one would bend the wrong way.
        curvature[u, u] = scale**2 * (np.vdot(pz, z) - mean @ weighted_mean) + max(scale * pull, 0)
        curvature[u, b] = scale * (pz[:, some].sum(axis=0) - weighted_mean @ few[0])
        curvature[b, b] = np.diag(few[1].sum(axis=0)) - few[0].T @ few[1]
        pv, wv = p @ v, weighted @ v
        # Of each row: V'(diag p - p p')V.
        pairs = (v[:, :, None] * v[:, None, :]).reshape(len(v), -1)
        inner = weighted @ pairs - (pv[:, :, None] * wv[:, None, :]).reshape(len(x), -1)
        readings = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
        rank = v.shape[1]
        both = (inner.T @ readings).reshape((rank,) * 4)
        curvature[k, k] = both.transpose(0, 2, 1, 3).reshape(rank**2, rank**2)
        curvature[u, k] = scale * ((pz @ v - weighted_mean[:, None] * pv).T @ x).ravel()
        own = v[some][:, :, None] * (few[1].T @ x)[:, None, :]
        crossed = few[1].T @ (pv[:, :, None] * x[:, None, :]).reshape(len(x), -1)
        curvature[b, k] = own.reshape(biases, -1) - crossed
        curvature[b, u], curvature[k, u] = curvature[u, b].T, curvature[u, k].T
        curvature[k, b] = curvature[b, k].T
        return slope, curvature


def _search(model: _Model, u: float) -> tuple[FloatArray, FloatArray]:
    """Return the fit and its penalties."""
    scales = _Scales(model.sizes, model.rare)
    looked = model.look(np.append(u, np.zeros(sum(model.sizes[1:]))), model.blocks)
    for _ in range(_MAX_LOOKS):
        slope, curvature = looked.total()
        theta = scales.balance(curvature, curvature @ looked.theta - slope)
        penalty = scales.penalty()
        step = theta - looked.theta
        if step @ (curvature + np.diag(penalty)) @ step < 2 * _SMALL:
            break
        step = step / max(1.0, abs(step[0]) / _FARTHEST_STEP)
        before = looked.objective(penalty)
        new = model.look(looked.theta + step, model.blocks)
        while not new.objective(penalty) <= before and np.abs(step).max() > 1e-9:
            step = step / 2
            new = model.look(looked.theta + step, model.blocks)
        looked = new
    return theta, penalty


class _Scales:
    """The priors' penalties, and how a parabola of the log-likelihood sets them."""

    def __init__(self, sizes: tuple[int, int, int], rare: FloatArray) -> None:
        self.sizes, self.rare = sizes, rare
        self.bias, self.mixing = (scale**-2 for scale in _START)
        self.each = np.ones(sizes[1])  # what Student's prior makes of each bias

    def penalty(self) -> FloatArray:
        """Return the penalty of each parameter: half of it times the parameter squared."""
        one, _, entries = self.sizes
        parts = np.full(one, ANCHOR_SCALE**-2), self.bias * self.each, np.full(entries, self.mixing)
        return np.concatenate(parts)

    def balance(self, curvature: FloatArray, target: FloatArray) -> FloatArray:
        """Set the scales by the evidence under a parabola; return its penalised minimum.

        Each round is MacKay's: a scale is such that the squares of its parameters, over their
        effective number, agree with it.
        """
        b, k = slice(1, 1 + self.sizes[1]), slice(1 + self.sizes[1], None)
        for _ in range(_ROUNDS):
            covariance = np.linalg.inv(curvature + np.diag(self.penalty()))
            theta, variance = covariance @ target, np.diag(covariance)
            before = self.bias, self.mixing
            # Classes that neither occur nor are expected have biases too, if small ones.
            small = self.rare / (self.rare + self.bias)
            free = len(theta[b]) - (self.bias * self.each) @ variance[b] + small.sum()
            self.bias = _precision(
                float(self.each @ theta[b] ** 2 + small @ small), free, _BIAS_SEEN
            )
            squares = self.bias * (theta[b] ** 2 + variance[b])
            self.each = (_DEGREES + 1) / (_DEGREES + squares)
            free = len(theta[k]) - self.mixing * variance[k].sum()
            self.mixing = _precision(theta[k] @ theta[k], free, _MIXING_SEEN)
            moved = np.log(np.divide((self.bias, self.mixing), before))
            if np.abs(moved).max() < 0.01:
                break
        return np.asarray(np.linalg.solve(curvature + np.diag(self.penalty()), target))


def _precision(squares: float, free: float, seen: float) -> float:
    """Return the precision that agrees with parameters' squares, and with those seen before."""
    return (max(float(free), 0.0) + _SEEN) / (float(squares) + _SEEN * seen**2)


def _folds(z: FloatArray) -> list[IntArray]:
    """Deal rows out by their margin: folds are alike, and rows and classes in any order."""
    margin = -np.partition(z, -2, axis=1)[:, -2]
    order, n_folds = np.argsort(margin, kind="stable"), min(N_FOLDS, len(z))
    return [order[start::n_folds] for start in range(n_folds)]


def _classes_that_count(
    preds: Predictions, z: FloatArray, weight: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return the classes that occur, or that the model expects, and how often it expects others."""
    seen = np.bincount(preds.labels, minlength=preds.n_classes) > 0
    if seen.all():
        return np.arange(preds.n_classes), np.empty(0)
    p = np.exp(z)
    expected = (weight / p.sum(axis=1)) @ p
    seen |= expected >= _EXPECTED
    return np.flatnonzero(seen), expected[~seen]


def _leading_directions(z: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the directions (C, r) in which centred logits vary most; none for two classes."""
    n, n_classes = z.shape
    rank = min(n_classes - 1, RANK, n) if n_classes > 2 else 0
    centred = z - z.mean(axis=1, keepdims=True)
    centred *= np.sqrt(weight)[:, None]
    # The smaller of the two matrices that have the same directions.
    if n < n_classes:
        sizes, vectors = np.linalg.eigh(centred @ centred.T)
        found = centred.T @ vectors[:, ::-1][:, :rank]
        leading = found / np.sqrt(np.maximum(sizes[::-1][:rank], 1e-300))
    else:
        leading = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :rank]
    # A vector's sign is the eigensolver's whim: let its largest entry be positive.
    largest = leading[np.abs(leading).argmax(axis=0), np.arange(rank)]
    return np.asarray(leading * np.where(largest < 0, -1.0, 1.0))

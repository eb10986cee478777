"""How a correction of classes is fitted: one penalised likelihood, whose penalties the split sets.

The labels are taken to follow softmax(e^u z + b + V K V' z), with V the leading directions of the
centred logits. Normal priors hold the biases b and the entries of K near 0. Their scales are those
under which the labels are most likely when everything else is integrated out (the Laplace
approximation of the evidence, with a weak prior on the scales themselves), found together with the
fit: the log-likelihood is replaced by its parabola where the search stands, under the parabola
scales and parameters are balanced without looking at the data again, and the search moves there.
Four or five looks at the data are usual.

Each row of the split is corrected by a fit that has not seen it: one Newton step away from the full
fit, with its fold left out of the slope, and out of the curvature by its size. That is as good as
fitting again, and nearly free.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smallcal.calibrators.maps.correction import LARGEST, Correction
from smallcal.calibrators.maps.correction_scales import Scales
from smallcal.data.masks import filled
from smallcal.data.predictions import BoolArray, FloatArray, IntArray, Predictions
from smallcal.errors import InputError

#: Logits are read in at most this many directions: five find what a full matrix finds for ten
#: classes, and cost next to nothing for a thousand.
RANK = 5
N_FOLDS = 20

#: A class counts if it occurs, or should have occurred about this often.
_EXPECTED = 0.5
#: One class in five, it is thought beforehand, does not exist where the labels come from.
_ABSENT = 0.2

_MAX_LOOKS = 30
_SMALL = 0.01  # log-likelihood still to gain by the last step; what is left after it is far less
_BLOCK_SIZE = 2**19  # numbers looked at together
#: Where a logit is this far below the top one, no probability is left that could be corrected.
_FARTHEST = 1e4
_FARTHEST_STEP = 2.0  # in u
_SMALLEST_STEP = 1e-9


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
    >>> round(correction.bias[0] - correction.bias[1])
    2
    """
    raw = preds.logits.astype(np.float64, copy=False)
    if np.ptp(filled(raw), axis=1).max() <= _FARTHEST:
        try:
            with np.errstate(all="ignore"):
                correction, moved = _fitted(_Model(preds, raw), raw, -np.log(temperature))
            if np.abs(moved - raw).max() < LARGEST:  # and not NaN
                return correction, moved
        except (np.linalg.LinAlgError, InputError):  # nothing to be had of such logits
            pass
    return Correction((0.0,) * preds.n_classes), raw


def _fitted(model: _Model, raw: FloatArray, u: float) -> tuple[Correction, FloatArray]:
    theta, penalty, curvature = _search(model, u)
    slopes = model.slopes_by_fold(theta)
    slope = slopes.sum(axis=0)
    absent = model.absent(slope, penalty * theta**2 / 2)
    # A fold takes its share of the curvature with it.
    rest = (1 - 1 / len(slopes)) * curvature + np.diag(penalty)
    steps = np.linalg.solve(rest, (slope - slopes + penalty * theta).T).T
    steps /= np.maximum(1, np.abs(steps[:, :1]) / _FARTHEST_STEP)
    moved = raw.copy()
    for rows, step in zip(model.folds, steps, strict=True):
        moved[model.order[rows]] += model.moves(theta - step + absent, rows)
    return model.correction(theta + absent), moved


class _Part(NamedTuple):
    """Minus the log-likelihood of some rows, with its slope, and what curvature they add up to."""

    loss: float
    slope: FloatArray
    curvature: FloatArray


class _Looked(NamedTuple):
    """The parts of all blocks at one place."""

    theta: FloatArray
    parts: list[_Part]

    def total(self) -> tuple[FloatArray, FloatArray]:
        slope = np.sum([part.slope for part in self.parts], axis=0)
        curvature = np.sum([part.curvature for part in self.parts], axis=0)
        # The second derivative of e^u adds its first; a negative one would bend the wrong way.
        curvature[0, 0] += max(slope[0], 0)
        return slope, curvature

    def objective(self, penalty: FloatArray) -> float:
        return sum(part.loss for part in self.parts) + float(penalty @ self.theta**2) / 2


class _Rows(NamedTuple):
    """Some rows at one place, until the next ones are looked at.

    Logits, readings, weights, labels, probabilities, and room for another such matrix.
    """

    scale: float
    loss: float
    z: FloatArray
    x: FloatArray
    weight: FloatArray
    labels: IntArray
    p: FloatArray
    room: FloatArray


class _Sums(NamedTuple):
    """What some rows' probabilities p add up to.

    Over classes, for each row: with the logits, with the directions, and with products of two
    directions. Over rows, by weight, for each class: alone, with the mean logits, with the
    readings, and with products of directions and readings.
    """

    mean: FloatArray
    directed: FloatArray
    crossed: FloatArray
    expected: FloatArray
    with_mean: FloatArray
    with_x: FloatArray
    with_both: FloatArray


class _Model:
    """The likelihood of a split in theta = (u, biases of the classes that count, K by rows).

    Rows stand in the order of their folds.
    """

    def __init__(self, preds: Predictions, raw: FloatArray) -> None:
        # At most 0, so that their exponentials need no care.
        z = raw - raw[np.arange(preds.n), preds.predicted][:, None]
        self.order, self.folds = _dealt(z, preds.labels)
        self.z, self.labels = z[self.order], preds.labels[self.order]
        weight = np.ones(preds.n) if preds.weight is None else preds.weight
        self.weight = weight[self.order]
        self.weighted = bool((weight != 1).any())
        self.n_classes = preds.n_classes
        self.occurred = np.bincount(preds.labels, minlength=preds.n_classes) > 0
        self.counts, self.rare = _classes_that_count(self.z, self.weight, self.occurred)
        seen = filled(self.z)
        self.directions = _leading_directions(seen, self.weight)
        self.x = seen @ self.directions
        rank = self.directions.shape[1]
        # One product with these costs little more than one with the directions alone.
        self.directions_and_products = np.hstack(
            [self.directions, _products(self.directions, self.directions)]
        )
        self.sizes = 1, len(self.counts), rank * rank
        size = min(max(len(z[self.folds[0]]), _BLOCK_SIZE // preds.n_classes), preds.n)
        self.blocks = [slice(start, start + size) for start in range(0, preds.n, size)]
        # Fresh memory would cost as much as the arithmetic.
        self.scratch = [np.empty((size, preds.n_classes)) for _ in range(2)]

    def spread(self, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return e^u, the biases of all classes, and K."""
        _, n_biases, _ = self.sizes
        bias = np.zeros(self.n_classes)
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
        unseen = ~self.occurred[self.counts]
        # Slopes are expected counts less those that occurred.
        chance = np.exp(-np.maximum(slope[biases] + held[biases], 0)[unseen])
        share = _ABSENT
        for _ in range(100):
            missing = share / (share + (1 - share) * chance)
            share = float(missing.sum()) / (self.n_classes + 1 / _ABSENT - 2)
        added = np.zeros(sum(self.sizes))
        added[biases][unseen] = np.log1p(-np.minimum(missing, 1 - 1e-9))
        return added

    def moves(self, theta: FloatArray, rows: slice) -> FloatArray:
        """Return what the correction that theta makes adds to the logits of some rows."""
        scale, bias, mixing = self.spread(theta)
        return np.asarray((bias + self.x[rows] @ (self.directions @ mixing).T) / scale)

    def slopes_by_fold(self, theta: FloatArray) -> FloatArray:
        """Return the slope of the loss of each fold's rows."""
        size = max(1, _BLOCK_SIZE // self.z[self.folds[0]].size)  # folds looked at together
        parts = (self.folds[start : start + size] for start in range(0, len(self.folds), size))
        return np.vstack([self._slopes(theta, folds) for folds in parts])

    def _slopes(self, theta: FloatArray, folds: list[slice]) -> FloatArray:
        """Return the slopes of folds that follow one another."""
        first = folds[0].start
        seen = self._rows(theta, slice(first, folds[-1].stop))
        error = seen.p
        if self.weighted:
            error *= seen.weight[:, None]
        error[np.arange(len(error)), seen.labels] -= seen.weight
        starts = [fold.start - first for fold in folds]
        pulls = seen.scale * np.einsum("ij,ij->i", error, seen.z)
        by_row = (pulls[:, None], error, _products(error @ self.directions, seen.x))
        pull, biases, mixing = (np.add.reduceat(part, starts, axis=0) for part in by_row)
        return np.hstack([pull, biases[:, self.counts], mixing])

    def look(self, theta: FloatArray) -> _Looked:
        """Look at the data, block after block of rows."""
        return _Looked(theta, [self._part(self._rows(theta, rows)) for rows in self.blocks])

    def _part(self, seen: _Rows) -> _Part:
        if not np.isfinite(seen.loss):
            size = sum(self.sizes)
            return _Part(np.inf, np.zeros(size), np.zeros((size, size)))
        sums = self._sums(seen)
        return _Part(seen.loss, self._slope(seen, sums), self._curvature(seen, sums))

    def _rows(self, theta: FloatArray, rows: slice) -> _Rows:
        scale, bias, mixing = self.spread(theta)
        z, x, weight = self.z[rows], self.x[rows], self.weight[rows]
        labels = self.labels[rows]
        p, room = (room[: len(z)] for room in self.scratch)
        np.matmul(x, (self.directions @ mixing).T, out=p)
        p += bias
        p += np.multiply(scale, z, out=room)
        label = p[np.arange(len(z)), labels]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            np.exp(p, out=p)
            total = np.einsum("ij->i", p)
            loss = float(weight @ (np.log(total) - label))  # infinite if the step was too long
            p /= total[:, None]
        return _Rows(scale, loss, z, x, weight, labels, p, room)

    def _sums(self, seen: _Rows) -> _Sums:
        """Sum probabilities over classes, and over rows: one product for all there is of each."""
        rank, weight = self.directions.shape[1], seen.weight[:, None]
        directed, crossed = np.split(seen.p @ self.directions_and_products, [rank], axis=1)
        mean = np.einsum("ij,ij->i", seen.p, seen.z)
        beside = np.hstack([np.ones_like(weight), mean[:, None], seen.x])
        beside = np.hstack([beside, _products(directed, seen.x)])
        by_class = seen.p.T @ (weight * beside)
        return _Sums(mean, directed, crossed, *np.split(by_class, [1, 2, 2 + rank], axis=1))

    def _slope(self, seen: _Rows, sums: _Sums) -> FloatArray:
        """Return the sum of J'(p - y) over rows; see :meth:`_curvature`."""
        at_label = seen.z[np.arange(len(seen.z)), seen.labels]
        pull = seen.scale * (seen.weight @ (sums.mean - at_label))
        occurred = np.bincount(seen.labels, seen.weight, minlength=self.n_classes)
        biases = (sums.expected[:, 0] - occurred)[self.counts]
        error = seen.weight[:, None] * (sums.directed - self.directions[seen.labels])
        return np.concatenate([[pull], biases, (error.T @ seen.x).ravel()])

    def _curvature(self, seen: _Rows, sums: _Sums) -> FloatArray:
        """Return the sum of J'(diag p - p p')J over rows, without the second derivative of e^u.

        J, the derivative of a row's logits, is e^u z for u, one at its class for a bias, and a
        product of a direction of the class and the row's reading x for an entry of K.
        """
        scale, z, x, p, room = seen.scale, seen.z, seen.x, seen.p, seen.room
        mean, pv, weight = sums.mean, sums.directed, seen.weight[:, None]
        v, some, rank = self.directions, self.counts, self.directions.shape[1]
        one, biases, _ = self.sizes
        u, b, k = slice(0, one), slice(one, one + biases), slice(one + biases, None)
        curvature = np.empty((sum(self.sizes),) * 2)
        pz = np.multiply(p, z, out=room)
        spread = np.einsum("ij,ij->i", pz, z) - mean**2
        curvature[u, u] = scale**2 * (seen.weight @ spread)
        curvature[u, b] = scale * (seen.weight @ pz - sums.with_mean[:, 0])[some]
        # Of each row: V'(diag p - p p')V.
        inner = weight * (sums.crossed - _products(pv, pv))
        both = (inner.T @ _products(x, x)).reshape((rank,) * 4)
        curvature[k, k] = both.transpose(0, 2, 1, 3).reshape(rank**2, rank**2)
        curvature[u, k] = scale * ((weight * (pz @ v - mean[:, None] * pv)).T @ x).ravel()
        # The product of a matrix with itself costs half of one with another.
        root = np.multiply(p, np.sqrt(weight), out=room) if self.weighted else p
        root = root if biases == self.n_classes else root[:, some]
        curvature[b, b] = -(root.T @ root)
        np.einsum("ii->i", curvature)[b] += sums.expected[some, 0]
        curvature[b, k] = (_products(v, sums.with_x) - sums.with_both)[some]
        curvature[b, u], curvature[k, u] = curvature[u, b].T, curvature[u, k].T
        curvature[k, b] = curvature[b, k].T
        return curvature


def _products(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the products of each row's entries (n, a) and (n, b), shape (n, a b)."""
    return np.asarray((left[:, :, None] * right[:, None, :]).reshape(len(left), -1))


def _search(model: _Model, u: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the fit, its penalties, and the curvature of the log-likelihood beside it."""
    scales = Scales(model.sizes, model.rare)
    looked = model.look(np.append(u, np.zeros(sum(model.sizes[1:]))))
    for _ in range(_MAX_LOOKS):
        slope, curvature = looked.total()
        step = scales.balance(curvature, curvature @ looked.theta - slope) - looked.theta
        penalty = scales.penalty()
        if step @ (curvature + np.diag(penalty)) @ step < 2 * _SMALL:
            break
        step = step / max(1.0, abs(step[0]) / _FARTHEST_STEP)
        before = looked.objective(penalty)
        new = model.look(looked.theta + step)
        while not new.objective(penalty) <= before and np.abs(step).max() > _SMALLEST_STEP:
            step = step / 2
            new = model.look(looked.theta + step)
        looked = new
    return looked.theta + step, penalty, curvature


def _dealt(z: FloatArray, labels: IntArray) -> tuple[IntArray, list[slice]]:
    """Deal rows out to folds by numbers that do not change with the order of rows or classes.

    First by their margin; of two alike by the label's logit, then by all logits together.

    Returns
    -------
    ndarray of shape (n,)
        The rows, fold after fold.
    list of slice
        The folds in that order.
    """
    margin = -np.partition(z, -2, axis=1)[:, -2]
    together = np.round(z.sum(axis=1), 6)  # so that the order of classes leaves it unchanged
    by_margin = np.lexsort((together, z[np.arange(len(z)), labels], margin))
    n_folds = min(N_FOLDS, len(z))
    rows = [by_margin[start::n_folds] for start in range(n_folds)]
    ends = np.cumsum([len(fold) for fold in rows]).tolist()
    return np.concatenate(rows), [
        slice(end - len(fold), end) for fold, end in zip(rows, ends, strict=True)
    ]


def _classes_that_count(
    z: FloatArray, weight: FloatArray, occurred: BoolArray
) -> tuple[IntArray, FloatArray]:
    """Return the classes that occur, or that the model expects, and how often it expects others."""
    if occurred.all():
        return np.arange(len(occurred)), np.empty(0)
    p = np.exp(z)
    expected = (weight / p.sum(axis=1)) @ p
    counts = occurred | (expected >= _EXPECTED)
    return np.flatnonzero(counts), expected[~counts]


def _leading_directions(z: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the directions (C, r) in which centred logits vary most; none for two classes."""
    n, n_classes = z.shape
    rank = min(n_classes - 1, RANK, n) if n_classes > 2 else 0
    centred = z - z.mean(axis=1, keepdims=True)
    if (weight != 1).any():
        centred *= np.sqrt(weight)[:, None]
    # The smaller of the two matrices that have the same directions.
    if n < n_classes:
        sizes, vectors = np.linalg.eigh(centred @ centred.T)
        vectors = centred.T @ (vectors / np.sqrt(np.maximum(sizes, 1e-300)))
    else:
        sizes, vectors = np.linalg.eigh(centred.T @ centred)
    # In a direction without any spread nothing can be read.
    rank = min(rank, int((sizes > 1e-10 * sizes[-1]).sum()))
    leading = vectors[:, ::-1][:, :rank]
    leading = leading - leading.mean(axis=0)
    # A vector's sign is the eigensolver's whim: let its largest entry be positive.
    largest = leading[np.abs(leading).argmax(axis=0), np.arange(rank)]
    return np.asarray(leading * np.where(largest < 0, -1.0, 1.0))

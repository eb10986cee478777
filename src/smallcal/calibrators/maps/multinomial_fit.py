"""Fit the default's map: penalised maximum likelihood, prior scales by evidence, guards.

The parameters are the biases b, the slopes s, the margins a and a matrix K between the leading
directions of the log-probabilities (W = V K R'). Each of five groups has a normal prior around
0, where the map is temperature scaling. For fixed prior scales the penalised log-loss is convex:
Newton's method with a line search finds its minimum. The scales follow MacKay's rule on the exact
Hessian.

A model may prefer some classes whatever the input; its margins and statistics then say little. So
with more than two classes and enough samples the regression is fitted twice: the biases of the
first fit shift the log-probabilities that the second reads.

One pass of cross-validation, with the scales fixed, then measures the log-loss and the change of
accuracy; where it, or the log-loss on the calibration set, is worse than that of temperature
scaling, temperature scaling is what is returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps.base import MapFit, Split, recipe
from smallcal.calibrators.maps.multinomial import MultinomialMap, inputs_of, standardised
from smallcal.calibrators.maps.temperature import (
    Prior,
    ScalarMap,
    Temperature,
    fit_temperature,
    one_sided,
    temperature_flags,
)
from smallcal.calibrators.objectives import OBJECTIVES, Gaps
from smallcal.data.masks import any_masked, filled, is_masked
from smallcal.data.predictions import BoolArray, FloatArray, IntArray, Predictions
from smallcal.data.special import softmax

#: Directions in which log-probabilities are read.
RANK = 5
#: Prior scale of each group of parameters before any sample is seen: biases, slope, its dependence
#: on the statistics, margins, matrix. It counts as one parameter of that size.
SCALES = (0.1, 0.3, 0.05, 0.1, 0.05)
#: Prior variances stay within these.
_VARIANCES = (1e-6, 25.0)
#: The scales are settled when none moves by more than this, relatively.
_SETTLED = 0.05
_MAX_ROUNDS = 30
_MAX_STEPS = 100
#: A Newton search has converged when it can gain no more than this per sample.
_CONVERGED = 1e-9
#: The base temperature lies within this factor of the spread of the logits.
_WIDEST = 1e3
#: So many samples for each bias that they determine: with fewer, a fit that is shifted by biases of
#: its own samples trusts its margins too much.
_PER_BIAS = 50
#: From so many samples on, one Newton step leads from the minimum to that without a fold.
_ONE_STEP = 1000
#: Share of classes that, before any sample is seen, are thought not to occur at all.
_ABSENT = 0.05
#: A class that never occurs in the calibration set loses at most this much in its logit.
MOST_TAKEN = 3.0
#: A direction with less than this share of the leading variance is read with less weight: unseen
#: samples may lie far out in it.
_RIDGE = 0.03
#: Two-sided 95 % of the normal distribution.
_Z = 1.959964
#: Identical logits whose labels always agree are copies, unless chance does that so often.
_BY_CHANCE = 0.01
#: Log-probabilities that differ by less are the same.
_NEAR = 1e-6


class Design(NamedTuple):
    """The samples of a fit as the regression reads them.

    Attributes
    ----------
    x : ndarray of shape (n, C)
        Log-probabilities at the base temperature.
    signals : ndarray of shape (n, q)
        One, and the standardised statistics.
    scores : ndarray of shape (n, k)
        Log-probabilities in the leading directions, unit variance.
    top : ndarray of shape (n,)
        Class that comes first.
    margin : ndarray of shape (n,)
    labels : ndarray of shape (n,)
    weights : ndarray of shape (n,)
    gone : ndarray of bool, shape (n, C), or None
        Classes that a row does not have.
    """

    x: FloatArray
    signals: FloatArray
    scores: FloatArray
    top: IntArray
    margin: FloatArray
    labels: IntArray
    weights: FloatArray
    gone: BoolArray | None

    def take(self, rows: IntArray) -> Design:
        """Return some of the samples."""
        kept = {name: part[rows] for name, part in self._asdict().items() if part is not None}
        return self._replace(**kept)


@dataclass(eq=False)
class Regression:
    """The penalised log-loss of a design, as a function of all parameters.

    They stand in the order biases (C), slopes (q), margins (q), matrix K (k x k).
    """

    design: Design
    write: FloatArray
    precision: FloatArray

    def logits(self, theta: FloatArray) -> FloatArray:
        """Return the regression's logits of the design's samples."""
        x, signals, scores, top, margin, _, _, gone = self.design
        bias, slope, pull, matrix = self.parts(theta)
        moved = x * (1 + signals @ slope)[:, None]
        moved += bias + scores @ matrix.T @ self.write
        moved[np.arange(len(x)), top] += margin * (signals @ pull)
        if gone is not None:
            moved[gone] = -np.inf
        return np.asarray(moved)

    def value(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the penalised log-loss and the probabilities."""
        moved, labels = self.logits(theta), self.design.labels
        moved -= moved.max(axis=1, keepdims=True)
        of_label = moved[np.arange(len(labels)), labels]
        proba = np.exp(moved, out=moved)
        total = np.einsum("ij->i", proba)
        proba /= total[:, None]
        loss = float(self.design.weights @ (np.log(total) - of_label))
        return loss + float(self.precision @ theta**2) / 2, proba

    def derivatives(self, proba: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gradient and Hessian of the log-loss without the prior.

        ``proba`` are the probabilities at the parameters. A row's design has few distinct columns
        over the classes (each class alone, x, the predicted class, the directions), each times
        numbers of the row: the Hessian follows from the covariances of those columns under the
        row's probabilities.
        """
        x, signals, scores, top, margin, labels, weights, _ = self.design
        n, n_classes, q, k = *x.shape, signals.shape[1], len(self.write)
        rows, write, w = np.arange(n), self.write.T, weights[:, None]
        # Means over the classes of a row: of x, of the directions, of the predicted class.
        p_x = proba * x
        mean_x, mean_d = p_x.sum(axis=1), proba @ write
        p_top, x_top = margin * proba[rows, top], x[rows, top]
        is_top = margin * (top == labels)
        by_score = _outer(mean_d, scores)
        gradient = np.concatenate(
            [
                weights @ proba - np.bincount(labels, weights, n_classes),
                signals.T @ (weights * (mean_x - x[rows, labels])),
                signals.T @ (weights * (p_top - is_top)),
                ((w * (mean_d - write[labels])).T @ scores).reshape(-1),
            ]
        )
        # Covariances of those columns within a row.
        xx = np.einsum("ij,ij->i", p_x, x) - mean_x**2
        xt, tt = p_top * (x_top - mean_x), p_top * (margin - p_top)
        xd = p_x @ write - mean_x[:, None] * mean_d
        td = p_top[:, None] * (write[top] - mean_d)
        dd = proba @ _outer(write, write) - _outer(mean_d, mean_d)
        ws = w * signals
        hessian = np.empty((n_classes + 2 * q + k * k,) * 2)
        b, s, a, m = self._slices()
        weighted = proba * w
        hessian[b, b] = -(proba.T @ weighted)
        hessian[b, b][np.diag_indices(n_classes)] += weights @ proba
        mixed = weighted.T @ np.hstack(
            [mean_x[:, None] * signals, p_top[:, None] * signals, scores, by_score]
        )
        at_x, at_top, at_score, at_both = np.split(mixed, np.cumsum([q, q, k]), axis=1)
        tops = np.zeros((n_classes, q))
        np.add.at(tops, top, p_top[:, None] * ws)
        hessian[b, s] = p_x.T @ ws - at_x
        hessian[b, a] = tops - at_top
        hessian[b, m] = _outer(write, at_score) - at_both
        hessian[s, s] = signals.T @ (xx[:, None] * ws)
        hessian[s, a] = signals.T @ (xt[:, None] * ws)
        hessian[a, a] = signals.T @ (tt[:, None] * ws)
        hessian[s, m] = ws.T @ _outer(xd, scores)
        hessian[a, m] = ws.T @ _outer(td, scores)
        square = dd.T @ _outer(w * scores, scores)
        hessian[m, m] = square.reshape(k, k, k, k).transpose(0, 2, 1, 3).reshape(k * k, k * k)
        for first, second in ((b, s), (b, a), (b, m), (s, a), (s, m), (a, m)):
            hessian[second, first] = hessian[first, second].T
        return gradient, hessian

    def minimise(
        self, theta: FloatArray, *, steps: int = _MAX_STEPS, gain: float = _CONVERGED
    ) -> tuple[FloatArray, bool]:
        """Return the minimum, and whether the search converged.

        Newton's method with a line search; the loss is strictly convex. ``gain`` is what is left
        to be gained per sample at the end.
        """
        from scipy.linalg import cho_factor, cho_solve  # not at the top: applying needs no SciPy

        value, proba = self.value(theta)
        for _ in range(steps):
            gradient, hessian = self.derivatives(proba)
            gradient += self.precision * theta
            hessian[np.diag_indices(len(theta))] += self.precision
            step = -cho_solve(cho_factor(hessian, overwrite_a=True), gradient)
            decrease = -float(gradient @ step)
            if decrease / 2 <= gain * self.design.weights.sum():
                return theta, True
            length, value, proba = self.line_search(theta, step, value, decrease)
            if not length:
                break
            theta = theta + length * step
        return theta, False

    def line_search(
        self, theta: FloatArray, step: FloatArray, value: float, decrease: float
    ) -> tuple[float, float, FloatArray]:
        """Return how much of a step to take, 0 if none helps, and the loss and probabilities there.

        ``value`` is the loss at theta, ``decrease`` the slope along the step, positive downhill.
        """
        length = 1.0
        while length > 1e-10:
            nearer, proba = self.value(theta + length * step)
            if nearer <= value - 1e-4 * length * decrease:
                return length, nearer, proba
            length /= 2
        return 0.0, *self.value(theta)

    def parts(self, theta: FloatArray) -> list[FloatArray]:
        """Return biases (C,), slopes (q,), margins (q,) and the matrix K (k, k)."""
        k = len(self.write)
        *vectors, matrix = (theta[part] for part in self._slices())
        return [*vectors, matrix.reshape(k, k)]

    def _slices(self) -> list[slice]:
        n_classes, q, k = self.design.x.shape[1], self.design.signals.shape[1], len(self.write)
        ends = np.cumsum([0, n_classes, q, q, k * k]).tolist()
        return [slice(*ends_of) for ends_of in pairwise(ends)]


def _outer(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the products of each row's numbers in two arrays, shape (n, a·b)."""
    return np.asarray((first[:, :, None] * second[:, None, :]).reshape(len(first), -1))


def fit_scales(design: Design, write: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return the prior precision of each parameter by evidence, and the parameters under it.

    MacKay's rule: a group's variance is the sum of its squared parameters over their effective
    number, with one more of the size in ``SCALES``. It is applied to the quadratic approximation
    of the log-loss at the current parameters until it settles; then the parameters take a Newton
    step. Also returned is how many biases the samples determine, not the prior.
    """
    c, q, before = design.x.shape[1], design.signals.shape[1], np.array(SCALES)
    groups = np.repeat(np.arange(len(before)), (c, 1, q - 1, q, len(write) ** 2))
    precision: FloatArray = before**-2
    free, theta = np.zeros_like(before), np.zeros(len(groups))
    search = Regression(design, write, precision[groups])
    value, proba = search.value(theta)
    for _ in range(_MAX_ROUNDS):
        last = precision
        gradient, hessian = search.derivatives(proba)
        target = hessian @ theta - gradient
        # The biases share one prior: in axes in which their block is diagonal, any scale of it
        # leaves only the small block of the others to invert.
        curvature, axes = np.linalg.eigh(hessian[:c, :c])
        cross, target_b = hessian[c:, :c] @ axes, axes.T @ target[:c]
        for _ in range(_MAX_ROUNDS):
            alone = 1 / (curvature + precision[0])
            reach, own = cross * alone, hessian[c:, c:] + np.diag(precision[groups[c:]])
            inverse = np.linalg.inv(own - reach @ cross.T)
            mode = inverse @ (target[c:] - reach @ target_b)
            mode = np.append(axes @ (alone * target_b - reach.T @ mode), mode)
            variance = np.append(alone + (reach * (inverse @ reach)).sum(axis=0), np.diag(inverse))
            free = np.bincount(groups, 1 - precision[groups] * variance, len(before))
            squares = np.bincount(groups, mode**2, len(before))
            found = 1 / np.clip((squares + before**2) / (np.maximum(free, 0) + 1), *_VARIANCES)
            if np.abs(np.log(found / precision)).max() < _SETTLED:
                break
            precision = found
        value += float((precision - last)[groups] @ theta**2) / 2
        search, step = replace(search, precision=precision[groups]), mode - theta
        decrease = -float((gradient + search.precision * theta) @ step)
        length, value, proba = search.line_search(theta, step, value, decrease)
        theta = theta + length * step
        if np.abs(np.log(precision / last)).max() < _SETTLED:
            break
    return precision[groups], theta, float(free[0])


@recipe("multinomial", keeps_argmax=False, care="prior scales by evidence, cross-validated")
def fit_multinomial(split: Split) -> MapFit:
    """Fit the regression, or return temperature scaling where the regression is no better.

    Examples
    --------
    >>> from smallcal.calibrators.maps.temperature import split_of
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(400, 3)) * 3
    >>> y = (z + [2, 0, 0] + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> found = fit_multinomial(split_of(z, y)).map
    >>> bias = found.offset + found.bias
    >>> bool(bias[0] - bias[1] > 1)
    True
    """
    preds, gaps, n_classes = split.preds, split.gaps, split.preds.n_classes
    z = preds.logits.astype(np.float64)
    base = fit_base(split, spread=float(np.sqrt(filled(z).var(axis=1).mean())))
    flags: dict[str, list[int]] = {name: [0] for name in temperature_flags(base)}
    report: dict[str, Any] = {}
    offset: FloatArray = np.zeros(n_classes)
    share, copy_of = find_copies(preds.labels, inputs_of(z, 1 / base.value, offset).x)

    def temperature_scaling(reason: str) -> MapFit:
        metrics = {"cross_validated": report} if report else {}
        return MapFit(ScalarMap(base.value), (gaps.n,), {**flags, reason: []}, metrics)

    if one_sided(split):  # no errors, or nothing but errors: the data cannot tell more
        return temperature_scaling("one_sided")
    try:
        plain, design, centre = prepare(z, base, offset, preds.labels, gaps.weights * share)
        precision, theta, n_biases = fit_scales(design, plain.write)
        if n_classes > 2 and n_biases * _PER_BIAS <= design.weights.sum():
            offset = theta[:n_classes]
            plain, design, centre = prepare(z, base, offset, preds.labels, gaps.weights * share)
            precision, theta, _ = fit_scales(design, plain.write)
        whole = Regression(design, plain.write, precision)
        theta, converged = whole.minimise(theta)
        if not converged:
            return temperature_scaling("not_converged")
        unchanged = np.concatenate([-offset, np.zeros(len(theta) - n_classes)])
        if split.checked:
            together = copy_of if preds.clusters is None else preds.clusters
            fold = assign_folds(preds.labels, together, split.discipline)
            scaled, held_out = cross_fit(whole, theta, unchanged, base, gaps, fold)
            report, worse = compare(scaled, held_out, preds, gaps.weights)
            if worse:
                return temperature_scaling("no_gain")
    except np.linalg.LinAlgError:
        return temperature_scaling("not_converged")

    proba = whole.value(theta)[1]
    taken, absent = absent_classes(design, proba, offset + theta[:n_classes])
    total = proba @ np.exp(taken)
    mean = partial(np.average, weights=gaps.weights)
    before = mean(_losses(whole.logits(unchanged), preds.labels))
    after = mean(_losses(whole.logits(theta), preds.labels))
    # What absent classes lose can cost more than the regression gains.
    if after + mean(np.log(total)) > before:
        taken, total = np.zeros(n_classes), np.ones(gaps.n)
        if after > before:
            return temperature_scaling("no_gain")
    proba *= np.exp(taken) / total[:, None]
    if len(absent):
        flags["absent_classes"] = absent.tolist()
        terms = whole.value(unchanged)[1] * -np.log(np.maximum(proba, np.finfo(np.float64).tiny))
        report["log_loss_if_present"] = float(mean(terms.sum(axis=1)))
    bias, slope, margin, matrix = whole.parts(theta)
    write = matrix.T @ plain.write
    bias += taken - centre @ write
    fitted_map = replace(plain, slope=slope, margin=margin, bias=bias, write=write)
    return MapFit(fitted_map, (gaps.n,), flags, {"cross_validated": report}, proba)


def prepare(
    z: FloatArray, base: Temperature, offset: FloatArray, labels: IntArray, weights: FloatArray
) -> tuple[MultinomialMap, Design, FloatArray]:
    """Return the map before its regression is fitted, what that reads, and the mean of its scores.

    Its ``write`` are the directions that the matrix K mixes.
    """
    inputs = inputs_of(z, 1 / base.value, offset)
    mean = weights @ inputs.statistics / weights.sum()
    scale = np.sqrt(weights @ (inputs.statistics - mean) ** 2 / weights.sum()) + 1e-3
    signals = standardised(inputs.statistics, mean, scale)
    read, write, centre = directions(inputs.x, weights)
    none = np.zeros(signals.shape[1])
    plain = MultinomialMap(
        1 / base.value, offset, mean, scale, none, none, np.zeros(len(offset)), read, write
    )
    scores, margin = inputs.x @ read.T - centre, inputs.statistics[:, 1]
    gone = is_masked(z) if any_masked(z) else None
    design = Design(inputs.x, signals, scores, inputs.top, margin, labels, weights, gone)
    return plain, design, centre


def fit_base(split: Split, spread: float) -> Temperature:
    """Return the temperature that minimises log-loss, within bounds relative to the logits.

    Where all predictions are right it is 1; where all are wrong, a prior around 1 determines it.
    """
    nll, gaps, pooled, size = OBJECTIVES["nll"], split.gaps, split.pooled, spread or 1.0
    bounds = size / _WIDEST, size * _WIDEST
    if not pooled.unidentified and bounds[0] < pooled.value < bounds[1]:
        return pooled
    found = fit_temperature(nll, gaps, bounds=bounds)
    if not found.unidentified:
        return found
    if gaps.correct.all():  # without an error the data cannot show overconfidence
        return Temperature(1.0)
    near = min(max(1.0, bounds[0]), bounds[1])
    return fit_temperature(nll, gaps, bounds=bounds, prior=Prior(near, 1.0))


def find_copies(labels: IntArray, x: FloatArray) -> tuple[float, IntArray | None]:
    """Return the weight of a sample, below 1 where samples are copies, and which are copies.

    Samples with the same log-probabilities x, to six digits, are copies if their labels always
    agree where chance would make some differ. (A model with few distinct outputs has such samples
    too, but their labels differ.) Copies are no new evidence: together, samples count as many as
    there are distinct ones.
    """
    grid = np.rint(x / _NEAR)
    key = np.einsum("ij,j->i", grid, np.random.default_rng(0).normal(size=grid.shape[1]))
    _, first, index, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    if len(first) == len(key) or (labels != labels[first][index]).any():
        return 1.0, None
    p = softmax(x[first[count > 1]])
    if np.log(np.einsum("ij,ij->i", p, p)).sum() > np.log(_BY_CHANCE):
        return 1.0, None
    return len(first) / len(key), index


def directions(x: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return how the leading directions are read and written, each (k, C), and the mean read.

    They are the principal directions of the log-probabilities, scaled so that what is read has
    unit variance and what is written has unit size per class.
    """
    n_classes = x.shape[1]
    share = weights / weights.sum()
    centred = x - x.mean(axis=1, keepdims=True)
    centred -= share @ centred
    variance, vectors = np.linalg.eigh((centred * share[:, None]).T @ centred)
    variance, vectors = variance[::-1], vectors[:, ::-1]
    k = min(RANK, n_classes - 1, int((variance > 1e-10 * max(variance[0], 1e-12)).sum()))
    read = vectors[:, :k].T / np.sqrt(variance[:k] + _RIDGE * variance[0])[:, None]
    return read, vectors[:, :k].T * np.sqrt(n_classes), share @ x @ read.T


def assign_folds(labels: IntArray, together: IntArray | None, care: Discipline) -> IntArray:
    """Return the fold of each sample, stratified by label; copies, or clusters, share a fold."""
    order = np.random.default_rng(care.seed).permutation(len(labels))
    if together is not None:
        _, first, index = np.unique(together, return_index=True, return_inverse=True)
        return assign_folds(labels[first], None, care)[index]
    order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % care.n_folds
    return fold


def cross_fit(
    whole: Regression,
    theta: FloatArray,
    unchanged: FloatArray,
    base: Temperature,
    gaps: Gaps,
    fold: IntArray,
) -> tuple[FloatArray, FloatArray]:
    """Return each sample's logits by fits without its fold: temperature scaling, the regression.

    The prior scales and the offset stay those of the whole set; with the parameters
    ``unchanged`` the regression is temperature scaling.
    """
    scaled, regressed = np.empty((2, *whole.design.x.shape))
    bounds = base.value / _WIDEST, base.value * _WIDEST
    for each in np.unique(fold):
        inside, outside = np.flatnonzero(fold == each), np.flatnonzero(fold != each)
        one = fit_temperature(OBJECTIVES["nll"], gaps.take(outside), bounds=bounds)
        rest = replace(whole, design=whole.design.take(outside))
        steps = 20 if len(fold) < _ONE_STEP else 1
        found, _ = rest.minimise(theta, steps=steps, gain=1e-5)
        here = replace(whole, design=whole.design.take(inside))
        scaled[inside] = here.logits(unchanged) * (base.value / one.value)
        regressed[inside] = here.logits(found)
    return scaled, regressed


def compare(
    scaled: FloatArray, held_out: FloatArray, preds: Predictions, weights: FloatArray
) -> tuple[dict[str, Any], bool]:
    """Return what cross-validation says of the regression, and if it is significantly worse.

    ``scaled`` are the held-out logits of temperature scaling. The change of accuracy has the
    interval of Agresti and Min (2005) for paired proportions.
    """
    share = weights / weights.sum()
    n = 1 / float(share @ share)
    losses, scaled_losses = (_losses(logits, preds.labels) for logits in (held_out, scaled))
    rise = losses - scaled_losses
    mean = float(share @ rise)
    error = float(np.sqrt(share @ (rise - mean) ** 2 / n))
    predicted = held_out.argmax(axis=1)
    right = predicted == preds.labels
    gained = float(share @ (right & ~preds.correct)) * n
    lost = float(share @ (~right & preds.correct)) * n
    change = (gained - lost) / (n + 2)
    half = _Z * np.sqrt(gained + lost + 1 - (gained - lost) ** 2 / (n + 2)) / (n + 2)
    report = {
        "log_loss": float(share @ losses),
        "temperature_scaling_log_loss": float(share @ scaled_losses),
        "changed": float(share @ (predicted != preds.predicted)),
        "accuracy": float(share @ right),
        "accuracy_change": (gained - lost) / n,
        "accuracy_change_low": float(change - half),
        "accuracy_change_high": float(change + half),
    }
    return report, mean > _Z * error


def absent_classes(
    design: Design, proba: FloatArray, bias: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return what is added to the logits of classes that never occur, and which they are.

    A class that the fitted probabilities ``proba`` expect several times but that never occurs may
    not occur at all. Its logit is lowered by the logarithm of the probability that it does, at most
    by ``MOST_TAKEN`` together with its ``bias``.
    """
    expected = design.weights @ proba
    seen = np.bincount(design.labels, design.weights, len(expected)) > 0
    exists = 1 - _ABSENT / (_ABSENT + (1 - _ABSENT) * np.exp(-expected))
    relative = bias - bias[seen].mean()
    taken = np.maximum(np.log(np.maximum(exists, 1e-4) / (1 - _ABSENT)), -MOST_TAKEN - relative)
    absent = ~seen & (expected > 0)  # a class that is always masked is not missed
    return np.where(seen, 0.0, taken), np.flatnonzero(absent)


def _losses(logits: FloatArray, labels: IntArray) -> FloatArray:
    """Return the log-loss of each sample."""
    top = logits.max(axis=1)
    total = np.einsum("ij->i", np.exp(logits - top[:, None]))
    return np.asarray(np.log(total) + top - logits[np.arange(len(labels)), labels])

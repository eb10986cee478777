"""Fit temperatures that are a smooth function of a score: a line, anchors, a spline, SMART.

A descent through the chain rule fits each of them, the first three from the pooled temperature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from smallcal.calibrators.maps.base import MapFit, Split, loss_and_slope, minimise, recipe
from smallcal.calibrators.maps.curves import LINKS, AnchorMap, Curve, LinearMap, SplineMap
from smallcal.calibrators.maps.network import NetworkMap
from smallcal.calibrators.maps.temperature import one_sided, scalar_fallback
from smallcal.calibrators.objectives import sigmoid, softplus
from smallcal.data.predictions import FloatArray

#: Quantiles of the scores at which the anchors and the knots stand.
ANCHOR_LEVELS = (1 / 6, 1 / 2, 5 / 6)
KNOT_LEVELS = (1 / 4, 1 / 2, 3 / 4)
#: What SMART adds to its softplus: no temperature is lower.
SMART_OFFSET = 0.1


@recipe("linear")
def fit_linear(split: Split) -> MapFit:
    """Fit T = softplus(a + b x score)."""
    return _fit_curve(split, LinearMap, start=(LINKS["softplus"].inverse(split.pooled.value), 0.0))


@recipe("positive_linear")
def fit_positive_linear(split: Split) -> MapFit:
    """Fit T = a + b x score, both positive."""
    low, high = split.discipline.bounds
    line, limits = partial(LinearMap, link="identity"), [(low, high), (1e-6, high)]
    return _fit_curve(split, line, start=(split.pooled.value, 0.01), limits=limits)


@recipe("anchors")
def fit_anchors(split: Split) -> MapFit:
    """Fit the temperatures at the 1/6, 1/2 and 5/6 quantiles of the scores."""
    anchors = _distinct_quantiles(split.scores, ANCHOR_LEVELS)
    if len(anchors) < 2:
        return scalar_fallback(split, "degenerate")
    start, limits = (split.pooled.value,) * len(anchors), [split.discipline.bounds] * len(anchors)
    return _fit_curve(split, partial(AnchorMap, anchors), start=start, limits=limits)


@recipe("spline")
def fit_spline(split: Split) -> MapFit:
    """Fit the spline with knots at the quartiles of the scores."""
    knots = _distinct_quantiles(split.scores, KNOT_LEVELS)
    if len(knots) < len(KNOT_LEVELS):
        return scalar_fallback(split, "degenerate")
    start = (LINKS["softplus"].inverse(split.pooled.value), 0.0, 0.0)
    return _fit_curve(split, partial(SplineMap, knots), start=start)


def _distinct_quantiles(scores: FloatArray, levels: tuple[float, ...]) -> tuple[float, ...]:
    apart = 1e-9 * max(float(np.abs(scores).max()), 1e-300)
    kept: list[float] = []
    for value in np.quantile(scores, levels).tolist():
        if not kept or value - kept[-1] > apart:
            kept.append(value)
    return tuple(kept)


def _fit_curve(
    split: Split,
    make: Callable[[tuple[float, ...]], Curve],
    *,
    start: tuple[float, ...],
    limits: Sequence[tuple[float, float]] = (),
) -> MapFit:
    """Minimise the objective over a curve's coefficients, never ending above the start."""
    if one_sided(split):
        return scalar_fallback(split)
    basis = make(start).basis(split.scores)
    link = LINKS[make(start).link]

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        combined = theta @ basis
        value, slope = loss_and_slope(split.goal, split.gaps, link.value(combined))
        return value, basis @ (slope * link.slope(combined))

    found = minimise(loss, np.array(start), limits or None, ftol=1e-12, gtol=1e-8, maxiter=500)
    better = np.isfinite(found.fun) and found.fun <= loss(np.array(start))[0]
    theta = tuple(found.x.tolist()) if better else start
    at_bound = [i for i, ends in enumerate(limits) if theta[i] in ends]
    return MapFit(make(theta), (split.gaps.n,), {"at_bound": at_bound} if at_bound else {})


@recipe("smart")
def fit_smart(
    split: Split, *, hidden: int = 16, epochs: int = 2000, learning_rate: float = 5e-3
) -> MapFit:
    """Fit SMART: one hidden layer of rectifiers reads T from the standardised logit margin.

    The recipe is that of the authors' first release, the one with 49 parameters: Adam over the
    whole split, and of all weights on the way those with the lowest loss on it are kept. Where
    these are no better than the pooled temperature, that one is used, flag ``scalar_fallback``.
    """
    if one_sided(split):
        return scalar_fallback(split)
    theta = _descend(split, _first_weights(split, hidden), epochs=epochs, rate=learning_rate)
    lines, output, last = _views(theta)
    fitted = NetworkMap(
        (lines[:, :1], output[None]), (lines[:, 1], last), "relu", offset=SMART_OFFSET, floor=0.0
    )
    loss, _ = loss_and_slope(split.goal, split.gaps, fitted(split.scores))
    return MapFit(fitted, (split.gaps.n,)) if loss <= pooled_loss(split) else scalar_fallback(split)


def pooled_loss(split: Split) -> float:
    """Return the loss of the pooled temperature on its split."""
    everywhere = np.full(split.gaps.n, split.pooled.value)
    return loss_and_slope(split.goal, split.gaps, everywhere)[0]


def _first_weights(split: Split, hidden: int) -> FloatArray:
    """Draw all parameters, U(±1/√inputs) in each layer; see :func:`_views` for their order."""
    rng = np.random.default_rng([split.discipline.seed, 3])
    first = rng.uniform(-1, 1, 2 * hidden)
    return np.concatenate([first, rng.uniform(-1, 1, hidden + 1) / math.sqrt(hidden)])


def _views(theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each unit's line (slope, intercept), the output weights, and the output bias."""
    hidden = len(theta) // 3
    return theta[: 2 * hidden].reshape(hidden, 2), theta[2 * hidden : -1], theta[-1:]


def _descend(split: Split, theta: FloatArray, *, epochs: int, rate: float) -> FloatArray:
    """Return the parameters with the lowest loss among those that Adam passes through."""
    lowest, best = math.inf, theta
    mean, square = np.zeros((2, len(theta)))
    for step in range(1, epochs + 2):
        loss, gradient = _loss_and_gradient(split, theta)
        if loss < lowest:
            lowest, best = loss, theta
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        spread = np.sqrt(square / (1 - 0.999**step)) + 1e-8
        theta = theta - rate * mean / (1 - 0.9**step) / spread
    return best


def _loss_and_gradient(split: Split, theta: FloatArray) -> tuple[float, FloatArray]:
    """Return the loss and its gradient in all parameters."""
    lines, output, last = _views(theta)
    height = np.outer(split.scores, lines[:, 0]) + lines[:, 1]
    units = np.maximum(height, 0)
    raw = units @ output + last
    loss, slope = loss_and_slope(split.goal, split.gaps, SMART_OFFSET + softplus(raw))
    pull = slope * sigmoid(raw)
    through = np.outer(pull, output) * (height > 0)
    of_lines = np.stack([split.scores @ through, through.sum(axis=0)], axis=1)
    return loss, np.concatenate([of_lines.ravel(), pull @ units, [pull.sum()]])

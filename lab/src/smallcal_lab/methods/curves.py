"""Fit temperatures that are a smooth function of a score: a line, three anchors, a spline.

One descent through the chain rule fits all of them, from the pooled temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from smallcal.calibrators.maps.base import (
    MapFit,
    Split,
    loss_and_slope,
    minimise,
    recipe,
)
from smallcal.calibrators.maps.curves import LINKS, AnchorMap, Curve, LinearMap, SplineMap
from smallcal.calibrators.maps.temperature import one_sided, scalar_fallback
from smallcal.data.predictions import FloatArray

#: Quantiles of the scores at which the three anchors and the three knots stand.
ANCHOR_LEVELS = (1 / 6, 1 / 2, 5 / 6)


KNOT_LEVELS = (1 / 4, 1 / 2, 3 / 4)


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
    found = np.quantile(scores, levels)
    apart = 1e-9 * max(float(np.abs(scores).max()), 1e-300)
    kept = [float(found[0])]
    for value in found[1:]:
        if value - kept[-1] > apart:
            kept.append(float(value))
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

    bounds = limits or None
    found = minimise(loss, np.array(start), bounds, ftol=1e-12, gtol=1e-8, maxiter=500)
    better = np.isfinite(found.fun) and found.fun <= loss(np.array(start))[0]
    theta = tuple(found.x.tolist()) if better else start
    at_bound = [i for i, ends in enumerate(limits) if theta[i] in ends]
    flags = {"at_bound": at_bound} if at_bound else {}
    return MapFit(make(theta), (split.gaps.n,), flags)

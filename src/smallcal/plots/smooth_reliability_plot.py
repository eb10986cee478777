"""The reliability diagram without bins: residuals smoothed at the width that smECE finds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from smallcal.data.claims import CLAIMS
from smallcal.data.predictions import BoolArray, FloatArray
from smallcal.io.threads import in_order
from smallcal.metrics import Scored
from smallcal.metrics.smooth import reflected_smooth, smece_exact
from smallcal.metrics.smooth_many import ReflectedSmooth
from smallcal.metrics.units import PERCENT
from smallcal.plots import style
from smallcal.plots.series import claim_of, prefix_of, views_of
from smallcal.plots.twins import draws
from smallcal.statistics.bootstrap import counts_of_draws
from smallcal.statistics.interval import binomial_interval, require_options
from smallcal.statistics.threshold_curve import band_of

#: Nodes of the fine grid, and every how many of them the curve has a point.
_NODES, _STRIDE = 8193, 32

#: Resamples at a time.
_AT_ONCE = 50

#: A curve any narrower would only follow single samples.
NARROWEST = 0.005

#: Samples that must lie under the kernel for the curve to be drawn.
LEAST_SAMPLES = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class SmoothCurve:
    """What a smooth reliability diagram shows of one set of probabilities.

    Attributes
    ----------
    confidence : ndarray of shape (m,)
        Where the curve has points: an even grid from the least to the largest confidence, without
        places that have fewer than ``LEAST_SAMPLES`` samples under the kernel.
    accuracy : ndarray of shape (m,)
        Confidence plus the smoothed residual (right or not, minus confidence).
    low, high : ndarray of shape (m,)
        Pointwise band, the wider of resamples of the samples and exact intervals.
    density : ndarray of shape (m,)
        Of the confidences.
    width, smece : float
        The kernel's width, and the smooth calibration error it is taken from.
    level : float
    step : float
        Of the grid.
    kind : {"logits", "score"}
        Whether a class is claimed, or outcome 1, for the words on the axes.
    """

    confidence: FloatArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray
    density: FloatArray
    width: float
    smece: float
    level: float
    step: float = _STRIDE / (_NODES - 1)
    kind: str = "logits"


def smooth_reliability_data(
    y_true: object, probs: object, *, level: float = 0.95, n_boot: int = 400, random_state: int = 0
) -> dict[str, SmoothCurve]:
    """Return what :func:`smooth_reliability` draws, by name of the probabilities.

    Examples
    --------
    >>> row = smooth_reliability_data([0, 1] * 50, [[0.9, 0.1], [0.7, 0.3]] * 50)["probs"]
    >>> round(row.smece, 3), bool((row.low <= row.high).all())
    (0.3, True)
    """
    require_options(n_boot, level, least=2, why="for the band")
    return {
        name: _curve_of(view, level, n_boot, random_state)
        for name, view in views_of(y_true, probs).items()
    }


def _curve_of(view: Scored, level: float, n_boot: int, seed: int) -> SmoothCurve:
    error = smece_exact.of(view)
    width = max(error, NARROWEST)
    residual, density = _smooth(view, -view.residual, width), _smooth(view, np.ones(view.n), width)
    place = np.linspace(0, 1, len(density))
    shown = density * width * np.sqrt(2 * np.pi) >= min(LEAST_SAMPLES, view.n / 2)
    # The kernel reaches beyond the samples; the curve need not.
    step = place[1]
    shown &= (place > view.confidence.min() - step) & (place < view.confidence.max() + step)
    place = place[shown]
    gap = residual[shown] / density[shown]
    low, high = _band(view, width, shown, (level, n_boot, seed))
    exact_low, exact_high = _exact_band(view, width, level)
    return SmoothCurve(
        confidence=place,
        accuracy=np.clip(place + gap, 0, 1),
        low=np.clip(place + np.minimum(low, gap + exact_low[shown]), 0, 1),
        high=np.clip(place + np.maximum(high, gap + exact_high[shown]), 0, 1),
        density=density[shown] / view.n,
        width=width,
        smece=error,
        level=level,
        kind=view.kind,
    )


def _smooth(view: Scored, mass: FloatArray, width: float) -> FloatArray:
    """Smooth what each sample weighs, at the points of the curve."""
    return reflected_smooth(view.confidence, mass, width, nodes=_NODES)[::_STRIDE]


def _band(
    view: Scored, width: float, shown: BoolArray, bootstrap: tuple[float, int, int]
) -> tuple[FloatArray, FloatArray]:
    level, n_boot, seed = bootstrap
    smooth = ReflectedSmooth(view.confidence, nodes=_NODES)

    def gaps(block: FloatArray) -> FloatArray:
        counts = np.asfortranarray(block)
        residual, density = (
            smooth(mass, width)[:, ::_STRIDE][:, shown]
            for mass in (-view.residual * counts, counts)
        )
        # A resample may hold next to nothing where the data hold ten samples.
        return np.asarray(residual / np.maximum(density, 1e-9))

    blocks = counts_of_draws(view.n, n_boot, np.random.default_rng(seed), most=_AT_ONCE)
    drawn = np.concatenate([found for _, found in in_order(gaps, blocks)])
    return band_of(drawn, level=level)


def _exact_band(view: Scored, width: float, level: float) -> tuple[FloatArray, FloatArray]:
    """Return how far the exact interval of the accuracy under the kernel reaches either way.

    As many samples count as equal ones would make the weighted mean as noisy (Kish): the sum of
    weights, squared, over the sum of squared weights.
    """
    kernel, right = np.ones(view.n), view.correct.astype(np.float64)
    weight, hits = (_smooth(view, mass, width) for mass in (kernel, right))
    count = weight**2 / np.maximum(_squared_weights(view, width), 1e-300)
    share = np.clip(hits / np.maximum(weight, 1e-300), 0, 1)
    # The transform leaves 1 - 1e-16 where all are right.
    share[share > 1 - 1e-9], share[share < 1e-9] = 1, 0
    low, high = binomial_interval(share * count, count, level=level)
    return low - share, high - share


def _squared_weights(view: Scored, width: float) -> FloatArray:
    """Return the sum of squared kernels: narrower kernels, and products with the mirror images."""
    narrow = _smooth(view, np.ones(view.n), width / np.sqrt(2))
    place = np.linspace(0, 1, len(narrow))
    squares = np.maximum(narrow, 0) / (2 * width * np.sqrt(np.pi))
    for end in (0.0, 1.0):
        near = np.exp(-(((view.confidence - end) / width) ** 2)).sum()
        squares += np.exp(-(((place - end) / width) ** 2)) * near / (np.pi * width**2)
    return np.asarray(squares)


@draws(smooth_reliability_data, size=(5.2, 5.0))
def smooth_reliability(ax: style.Axes, found: dict[str, SmoothCurve]) -> None:
    """Draw accuracy against confidence as a smooth curve with a band.

    Residuals are smoothed with the reflected Gaussian of smECE, at the width that smECE finds (no
    narrower than 0.005), and added to the confidence: a calibrated model follows the diagonal.
    The curve is left out where fewer than ten samples lie under the kernel. The band is pointwise
    and the wider of two: resamples of the samples with the width kept, and Clopper and Pearson's
    interval of the accuracy for as many samples as the kernel's weights amount to, which is there
    too where every sample is right.

    Examples
    --------
    >>> axes = smooth_reliability([0, 1] * 50, [[0.9, 0.1], [0.7, 0.3]] * 50, n_boot=20)
    >>> axes.get_ylabel()
    'accuracy, smoothed (%)'
    """
    claim = claim_of(found)
    smoothed = f"{claim.accuracy}, smoothed (%)"
    style.frame_reliability(ax, xlabel=f"{claim.confidence} (%)", ylabel=smoothed)
    strip = style.strip_over(ax, ylabel="density")
    for name, row, look in style.looks(found):
        _draw_curve(ax, name, row, look)
        for part in _stretches(row):
            x, y = row.confidence[part], row.density[part]
            strip.plot(x, y, **look.stroke, linewidth=1.2)
            if len(found) == 1:
                strip.fill_between(x, y, color=look.color, alpha=0.4, linewidth=0)
    strip.set_ylim(bottom=0)
    style.legend(ax)


def _draw_curve(ax: style.Axes, name: str, row: SmoothCurve, look: style.Look) -> None:
    x, y, low, high, named = row.confidence, row.accuracy, row.low, row.high, prefix_of(name)
    for part in _stretches(row):
        style.band(ax, x[part], low[part], high[part], look)
        ax.plot(x[part], y[part], **look.stroke, linewidth=1.6, zorder=3)
    claim = CLAIMS[row.kind]
    few = np.linspace(0, len(x) - 1, min(12, len(x))).astype(int)
    tips = [
        f"{named}{claim.confidence} {PERCENT.value(x[i])}: {claim.accuracy} {PERCENT.value(y[i])} "
        f"({100 * row.level:g} % band {PERCENT.interval(low[i], high[i])})"
        for i in few
    ]
    plot = f"smooth-reliability-{name}"
    style.dots(ax, x[few], y[few], look, s=26, zorder=4, tips=tips, name=plot)
    style.name_series(ax, f"{named}smECE {PERCENT.value(row.smece)}", look)


def _stretches(row: SmoothCurve) -> list[slice]:
    """Return the parts of the curve that have no gap in them."""
    cuts = np.flatnonzero(np.diff(row.confidence) > 1.5 * row.step) + 1
    edges = [0, *cuts.tolist(), len(row.confidence)]
    return [slice(a, b) for a, b in pairwise(edges)]

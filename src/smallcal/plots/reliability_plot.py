"""Reliability diagrams: accuracy against confidence in bins, and how confidences are spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError
from smallcal.metrics import Scored
from smallcal.metrics.binned import DEFAULT_BINS, bin_table, equal_mass, equal_width
from smallcal.metrics.units import PERCENT, SHARE
from smallcal.plots import style
from smallcal.plots.series import accuracies, claim_of, prefix_of, views_of
from smallcal.plots.twins import draws
from smallcal.statistics.interval import require_level

Strategy = Literal["width", "mass"]

_CUTS = {"width": equal_width, "mass": equal_mass}


@dataclass(frozen=True, eq=False, kw_only=True)
class ReliabilityBins:
    """What a reliability diagram shows of one set of probabilities; empty bins are left out.

    Attributes
    ----------
    count : ndarray of shape (k,), int64
    confidence, accuracy : ndarray of shape (k,)
        Means in each bin.
    low, high : ndarray of shape (k,)
        Clopper and Pearson's interval of the accuracy.
    ece : float
        Calibration error in these bins.
    level : float
    spread : ndarray of shape (bins,), int64
        Samples by confidence in bins of equal width, whatever the strategy.
    kind : {"logits", "score"}
        Whether a class is claimed, or outcome 1, for the words on the axes.
    """

    count: IntArray
    confidence: FloatArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray
    ece: float
    level: float
    spread: IntArray
    kind: str = "logits"


def reliability_data(
    y_true: object,
    probs: object,
    *,
    bins: int = DEFAULT_BINS,
    strategy: Strategy = "width",
    level: float = 0.95,
) -> dict[str, ReliabilityBins]:
    """Return what :func:`reliability` draws, by name of the probabilities.

    Parameters
    ----------
    bins : int
        How many of them.
    strategy : {"width", "mass"}
        Bins of equal width, or of equally many samples.

    Examples
    --------
    >>> row = reliability_data([0, 1], [[0.9, 0.1], [0.7, 0.3]], bins=2)["probs"]
    >>> row.count.tolist(), row.confidence.tolist(), row.accuracy.tolist()
    ([2], [0.8], [0.5])
    """
    require_level(level)
    if strategy not in _CUTS:
        raise InputError(
            f"strategy must be 'width' or 'mass'; got {strategy!r}", code="unknown-choice"
        )
    views = views_of(y_true, probs)
    return {name: _bins_of(view, bins, strategy, level) for name, view in views.items()}


def _bins_of(view: Scored, bins: int, strategy: Strategy, level: float) -> ReliabilityBins:
    table = bin_table(view, _CUTS[strategy](view.confidence, bins), bins=bins)
    found = accuracies(table, table.count > 0, level=level)
    gaps = np.abs(found["confidence"] - found["accuracy"])
    spread = np.bincount(equal_width(view.confidence, bins), minlength=bins)
    error = float(found["count"] @ gaps / view.n)
    return ReliabilityBins(**found, ece=error, spread=spread, kind=view.kind)


@draws(reliability_data, size=(5.2, 5.0))
def reliability(ax: style.Axes, found: dict[str, ReliabilityBins]) -> None:
    """Draw accuracy against mean confidence, bin by bin, with intervals and counts.

    Bands are Clopper and Pearson's interval of each bin's accuracy, which holds the truth at
    least as often as it says; marks grow with the samples in the bin; the strip on top shows how
    many samples have which confidence. Points below the diagonal are over-confident. Of
    one-dimensional probabilities, those of outcome 1, it is how often outcome 1 comes.

    Examples
    --------
    >>> axes = reliability([0, 1], [[0.9, 0.1], [0.7, 0.3]], bins=2)
    >>> axes.get_xlabel()
    'confidence (%)'
    """
    claim = claim_of(found)
    style.frame_reliability(ax, xlabel=f"{claim.confidence} (%)", ylabel=f"{claim.accuracy} (%)")
    for name, row, look in style.looks(found):
        x, y, named = row.confidence, row.accuracy, prefix_of(name)
        tips = [
            f"{named}{count:,} samples: {claim.confidence} {PERCENT.value(c)}, {claim.accuracy} "
            f"{PERCENT.value(a)} ({100 * row.level:g} % interval {PERCENT.interval(low, high)})"
            for count, c, a, low, high in zip(row.count, x, y, row.low, row.high, strict=True)
        ]
        sizes = 14 + 70 * row.count / row.count.max()
        style.band(ax, x, row.low, row.high, look)
        ax.plot(x, y, **look.stroke, linewidth=1.4, zorder=3)
        style.dots(ax, x, y, look, s=sizes, zorder=4, tips=tips, name=f"reliability-{name}")
        style.name_series(ax, f"{named}ECE {PERCENT.value(row.ece)}", look)
    style.legend(ax)
    strip = style.strip_over(ax, ylabel="samples")
    for _, row, look in style.looks(found):
        edges = np.linspace(0, 1, len(row.spread) + 1)
        if len(found) == 1:
            strip.stairs(row.spread, edges, fill=True, color=look.color, alpha=0.5)
        strip.stairs(row.spread, edges, **look.stroke, linewidth=1.2)
    strip.set_ylim(bottom=0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread:
    """How the confidences of one set of probabilities are spread.

    Attributes
    ----------
    edges : ndarray of shape (bins + 1,)
    count : ndarray of shape (bins,), int64
    share : ndarray of shape (bins,)
        Counts as a share of all samples.
    confidence, accuracy : float
        Means over all samples.
    kind : {"logits", "score"}
        Whether a class is claimed, or outcome 1, for the words on the axes.
    """

    edges: FloatArray
    count: IntArray
    share: FloatArray
    confidence: float
    accuracy: float
    kind: str = "logits"


def confidence_histogram_data(
    y_true: object, probs: object, *, bins: int = 20
) -> dict[str, Spread]:
    """Return what :func:`confidence_histogram` draws, by name of the probabilities.

    Examples
    --------
    >>> row = confidence_histogram_data([0, 1], [[0.9, 0.1], [0.7, 0.3]], bins=2)["probs"]
    >>> row.count.tolist(), round(row.confidence, 3), row.accuracy
    ([0, 2], 0.8, 0.5)
    """
    found = {}
    for name, view in views_of(y_true, probs).items():
        count = np.bincount(equal_width(view.confidence, bins), minlength=bins)
        found[name] = Spread(
            edges=np.linspace(0, 1, bins + 1),
            count=count,
            share=count / view.n,
            confidence=float(view.confidence.mean()),
            accuracy=float(view.correct.mean()),
            kind=view.kind,
        )
    return found


@draws(confidence_histogram_data)
def confidence_histogram(ax: style.Axes, found: dict[str, Spread]) -> None:
    """Draw how many samples have which confidence, with mean confidence and accuracy marked.

    The gap between the two lines is what a model claims too much, or too little, on average.

    Examples
    --------
    >>> axes = confidence_histogram([0, 1], [[0.9, 0.1], [0.7, 0.3]])
    >>> axes.get_ylabel()
    'share of samples (%)'
    """
    claim = claim_of(found)
    for name, row, look in style.looks(found):
        left, right, named = row.edges[:-1], row.edges[1:], prefix_of(name)
        tips = [
            f"{named}{claim.confidence} {100 * a:.0f} to {100 * b:.0f} %: {count:,} samples "
            f"({SHARE.value(share)})"
            for a, b, count, share in zip(left, right, row.count, row.share, strict=True)
        ]
        if len(found) == 1:
            ax.stairs(row.share, row.edges, fill=True, color=look.color, alpha=0.3)
        ax.stairs(row.share, row.edges, **look.stroke, linewidth=1.4)
        ax.axvline(row.confidence, color=look.color, linestyle=(0, (2, 2)), linewidth=1.6)
        x, plot = (left + right) / 2, f"confidence-histogram-{name}"
        style.dots(ax, x, row.share, look, s=18, zorder=4, tips=tips, name=plot)
        mean = f"mean {claim.confidence} {PERCENT.value(row.confidence)}"
        style.name_series(ax, f"{named}{mean}", look)
    for number, value in enumerate(sorted({row.accuracy for row in found.values()})):
        label = f"{claim.accuracy} {PERCENT.value(value)}" if number == 0 else None
        ax.axvline(value, color=style.INK, linewidth=1.6, label=label, zorder=3)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.12 * max(float(row.share.max()) for row in found.values()))
    style.percent(ax)
    style.dress(ax, xlabel=f"{claim.confidence} (%)", ylabel="share of samples (%)")
    # Three lines cross the axes from top to bottom: no place in them is free.
    style.legend(ax, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.3)

"""Selective prediction: the error rate of what is kept, against how much is kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smallcal.data.predictions import FloatArray, IntArray
from smallcal.io.threads import in_order
from smallcal.metrics import Scored
from smallcal.metrics.replicas import Order, resampled_risk
from smallcal.metrics.selective import aurc, selective_risks_of
from smallcal.metrics.units import PERCENT
from smallcal.plots import style
from smallcal.plots.series import claim_of, prefix_of, views_of
from smallcal.plots.twins import draws
from smallcal.statistics.bootstrap import counts_of_draws
from smallcal.statistics.interval import binomial_interval, require_options

#: Points of the curve, evenly spread over coverage.
_POINTS = 50

#: Resamples at a time.
_AT_ONCE = 50


@dataclass(frozen=True, eq=False, kw_only=True)
class RiskCurve:
    """The risk-coverage curve of one set of probabilities.

    Attributes
    ----------
    kept : ndarray of shape (m,), int64
        How many of the most confident samples are kept.
    coverage : ndarray of shape (m,)
        The same as a share of all.
    risk : ndarray of shape (m,)
        Their error rate.
    low, high : ndarray of shape (m,)
        Pointwise band.
    aurc : float
        Area under the whole curve.
    level : float
    kind : {"logits", "score"}
        Whether a class is claimed, or outcome 1, for the words on the axes.
    """

    kept: IntArray
    coverage: FloatArray
    risk: FloatArray
    low: FloatArray
    high: FloatArray
    aurc: float
    level: float
    kind: str = "logits"


def risk_coverage_data(
    y_true: object, probs: object, *, level: float = 0.95, n_boot: int = 400, random_state: int = 0
) -> dict[str, RiskCurve]:
    """Return what :func:`risk_coverage` draws, by name of the probabilities.

    Examples
    --------
    >>> p = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]
    >>> row = risk_coverage_data([0, 0, 1], p, n_boot=50)["probs"]
    >>> row.kept.tolist(), row.risk.round(3).tolist()
    ([1, 2, 3], [0.0, 0.5, 0.333])
    """
    require_options(n_boot, level, least=2, why="for the band")
    return {
        name: _curve_of(view, level, n_boot, random_state)
        for name, view in views_of(y_true, probs).items()
    }


def _curve_of(view: Scored, level: float, n_boot: int, seed: int) -> RiskCurve:
    points = min(_POINTS, view.n)
    kept = np.rint(np.arange(1, points + 1) * view.n / points).astype(np.int64)
    risk = selective_risks_of(view)[kept - 1]
    low, high = binomial_interval(risk * kept, kept.astype(np.float64), level=level)
    drawn = _resampled(view, kept, n_boot, seed)
    tail = (1 - level) / 2
    drawn_low, drawn_high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return RiskCurve(
        kept=kept,
        coverage=kept / view.n,
        risk=risk,
        low=np.minimum(low, drawn_low),
        high=np.maximum(high, drawn_high),
        aurc=aurc.of(view),
        level=level,
        kind=view.kind,
    )


def _resampled(view: Scored, kept: IntArray, n_boot: int, seed: int) -> FloatArray:
    """Return the risk at each number kept in each resample, shape (n_boot, m)."""
    order = Order.of(view)

    def risks(block: FloatArray) -> FloatArray:
        falling = order.fall(np.asfortranarray(block))
        return np.column_stack([resampled_risk(int(number), falling) for number in kept])

    blocks = counts_of_draws(view.n, n_boot, np.random.default_rng(seed), most=_AT_ONCE)
    return np.concatenate([found for _, found in in_order(risks, blocks)])


@draws(risk_coverage_data)
def risk_coverage(ax: style.Axes, found: dict[str, RiskCurve]) -> None:
    """Draw the error rate among the most confident samples against the share that is kept.

    The band is pointwise, and the wider of two: resamples of the samples, which also move the
    confidence at which one stops keeping, and Clopper and Pearson's interval, which knows that
    no error among a few samples is not no error at all.

    Examples
    --------
    >>> p = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]
    >>> risk_coverage([0, 0, 1], p, n_boot=50).get_xlabel()
    'coverage: most confident samples kept (%)'
    """
    claim = claim_of(found)
    for name, row, look in style.looks(found):
        x, y, named = row.coverage, row.risk, prefix_of(name)
        tips = [
            f"{named}the {k:,} most {claim.sure} ({100 * c:.0f} %): {PERCENT.value(r)} "
            f"{claim.failed} "
            f"({100 * row.level:g} % band {PERCENT.interval(low, high)})"
            for k, c, r, low, high in zip(row.kept, x, y, row.low, row.high, strict=True)
        ]
        style.band(ax, x, row.low, row.high, look)
        ax.plot(x, y, **look.stroke, linewidth=1.5, zorder=3)
        style.dots(ax, x, y, look, s=14, zorder=4, tips=tips, name=f"risk-coverage-{name}")
        style.name_series(ax, f"{named}AURC {PERCENT.value(row.aurc)}", look)
    top = max(float(np.median(row.high)) for row in found.values())
    most = max(float(row.risk.max()) for row in found.values())
    # A band over one or two samples reaches to 1 and would squeeze the rest.
    ax.set(xlim=(0, 1), ylim=(0, min(1.0, max(1.15 * most, 1.3 * top, 1e-3))))
    style.percent(ax)
    style.dress(
        ax,
        xlabel=f"coverage: most {claim.sure} samples kept (%)",
        ylabel=f"{claim.rate} of those kept (%)",
    )
    style.legend(ax)

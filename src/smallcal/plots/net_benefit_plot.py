"""Net benefit: what acting on a probability is worth, against the threshold one acts at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.metrics import Scored
from smallcal.metrics.units import PERCENT
from smallcal.plots import style
from smallcal.plots.series import prefix_of, views_of
from smallcal.plots.twins import draws
from smallcal.statistics.interval import require_options
from smallcal.statistics.threshold_curve import Above, band_of, curve_draws

#: Thresholds, in percent: at 100 a false alarm would weigh infinitely.
_PERCENTS = np.arange(1, 100)


@dataclass(frozen=True, eq=False, kw_only=True)
class NetBenefit:
    """The decision curve of one set of probabilities.

    Attributes
    ----------
    threshold : ndarray of shape (m,)
        The probability from which on one acts.
    benefit, low, high : ndarray of shape (m,)
        Net benefit: rows with outcome 1 that are acted on, less those with outcome 0 that are,
        weighed by the odds of the threshold, as a share of all rows; with its pointwise band.
    all : ndarray of shape (m,)
        The same for acting on every row; to act on none is worth 0.
    gain, gain_low, gain_high : ndarray of shape (m,)
        Net benefit minus the better of these two, paired by sample.
    rate : float
        The share of rows with outcome 1.
    level : float
    kind : {"logits", "score"}
    """

    threshold: FloatArray
    benefit: FloatArray
    low: FloatArray
    high: FloatArray
    all: FloatArray
    gain: FloatArray
    gain_low: FloatArray
    gain_high: FloatArray
    rate: float
    level: float
    kind: str = "logits"


def net_benefit_data(
    y_true: object, probs: object, *, level: float = 0.95, n_boot: int = 400, random_state: int = 0
) -> dict[str, NetBenefit]:
    """Return what :func:`net_benefit` draws, by name of the probabilities.

    Parameters
    ----------
    probs : array-like of shape (n,) or (n, 2), or mapping of name to such
        Probability of outcome 1, or of two classes, of which the second is acted on.

    Examples
    --------
    >>> row = net_benefit_data([1, 0, 1, 0], [0.9, 0.6, 0.4, 0.1], n_boot=50)["probs"]
    >>> i = 49
    >>> row.threshold[i].item(), row.benefit[i].item(), row.all[i].item()
    (0.5, 0.0, 0.0)
    """
    require_options(n_boot, level, least=2, why="for the band")
    views = views_of(y_true, probs)
    for view in views.values():
        if view.n_classes != 2:
            raise InputError(
                f"net benefit is of two classes or a score; there are {view.n_classes:,} classes",
                code="method-unsuitable",
            )
    return {name: _curve(view, level, n_boot, random_state) for name, view in views.items()}


def _curve(view: Scored, level: float, n_boot: int, seed: int) -> NetBenefit:
    came = (view.labels == 1).astype(np.float64)
    odds = _PERCENTS / (100 - _PERCENTS)

    def worth(hits: FloatArray, alarms: FloatArray) -> FloatArray:
        return np.asarray((hits - alarms * odds) / view.n)

    def finish(sums: FloatArray, counts: FloatArray) -> FloatArray:
        """Return the benefit, and beside it that of acting on all."""
        hits = (counts @ came)[:, None]
        return np.hstack([worth(sums[:, 0], sums[:, 1]), worth(hits, view.n - hits)])

    grid = _PERCENTS / 100
    above = Above(view.proba[:, 1], grid, np.column_stack([came, 1 - came]))
    both, drawn = curve_draws(above, finish, n=view.n, n_boot=n_boot, random_state=seed)
    m = len(grid)
    better = np.maximum(both[m:], 0.0)
    low, high = band_of(drawn[:, :m], level=level)
    # The rule to beat is that of these samples; in a resample it is the same rule, not a luckier.
    rival = np.where(both[m:] > 0, drawn[:, m:], 0.0)
    gain_low, gain_high = band_of(drawn[:, :m] - rival, level=level)
    return NetBenefit(
        threshold=grid,
        benefit=both[:m],
        low=low,
        high=high,
        all=both[m:],
        gain=both[:m] - better,
        gain_low=gain_low,
        gain_high=gain_high,
        rate=float(came.mean()),
        level=level,
        kind=view.kind,
    )


@draws(net_benefit_data)
def net_benefit(ax: style.Axes, found: dict[str, NetBenefit]) -> None:
    """Draw the decision curve: net benefit of acting from a threshold on, against the threshold.

    ``TP / n - FP / n * t / (1 - t)``: a threshold t says that one false alarm is worth t / (1 - t)
    misses. Where a curve lies below acting on all or on none, the model is of no use at that
    threshold. Bands are pointwise.

    Examples
    --------
    >>> net_benefit([1, 0, 1, 0], [0.9, 0.6, 0.4, 0.1], n_boot=50).get_ylabel()
    'net benefit (% of rows)'
    """
    first = next(iter(found.values()))
    ax.axhline(0, **style.REFERENCE, label="act on none")
    everything = {**style.REFERENCE, "linestyle": (0, (1, 2))}
    ax.plot(first.threshold, first.all, **everything, label="act on all")
    for name, row, look in style.looks(found):
        style.band(ax, row.threshold, row.low, row.high, look)
        ax.plot(row.threshold, row.benefit, **look.stroke, linewidth=1.5, zorder=3)
        tips = [
            f"{prefix_of(name)}acting from {100 * t:.0f} % on: {PERCENT.value(b)}; "
            f"{PERCENT.difference(g)} ({PERCENT.interval(low, high, signed=True)}) against the "
            "better of all and none"
            for t, b, g, low, high in zip(
                row.threshold, row.benefit, row.gain, row.gain_low, row.gain_high, strict=True
            )
        ]
        marked = f"net-benefit-{name}"
        style.dots(ax, row.threshold, row.benefit, look, s=9, zorder=4, tips=tips, name=marked)
        if len(found) > 1:
            style.name_series(ax, name, look)
    top = max(first.rate, *(float(row.benefit.max()) for row in found.values()))
    # To act on all at a high threshold is worth less than anything that is of interest.
    ax.set(xlim=(0, 1), ylim=(-0.25 * max(top, 1e-3), 1.1 * max(top, 1e-3)))
    style.percent(ax)
    style.dress(
        ax,
        xlabel="acted on where the probability is at least (%)",
        ylabel="net benefit (% of rows)",
    )
    style.legend(ax)

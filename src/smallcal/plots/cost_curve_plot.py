"""What decisions by a threshold cost, against the threshold."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from smallcal.advice.cost_curve import CostCurve, cost_curves
from smallcal.advice.costs import Costs
from smallcal.errors import InputError
from smallcal.metrics.units import PERCENT, SHARE, Unit
from smallcal.plots import style
from smallcal.plots.series import prefix_of, views_of
from smallcal.plots.twins import draws
from smallcal.statistics.interval import require_options

#: What a threshold is on: the axis, and how a mark's text begins.
_AXES: Mapping[str, tuple[str, str]] = {
    "confidence": (
        "answered where the answer's probability is at least (%)",
        "answered from {} on",
    ),
    "saving": (
        "answered where that is expected to save at least",
        "answered where that saves {}",
    ),
    "probability": (
        "decided for 1 where its probability is at least (%)",
        "decided for 1 from {} on",
    ),
}


def cost_curve_data(
    y_true: object,
    probs: object,
    *,
    costs: Costs,
    level: float = 0.95,
    n_boot: int = 400,
    random_state: int = 0,
) -> dict[str, CostCurve]:
    """Return what :func:`cost_curve` draws, by name of the probabilities.

    Parameters
    ----------
    costs : Costs
        With a review; of two classes or a score it may do without.

    Examples
    --------
    >>> import smallcal as sc
    >>> row = cost_curve_data(
    ...     [1, 0, 1, 0], [0.9, 0.2, 0.4, 0.1], costs=sc.Costs(miss=4, false_alarm=1), n_boot=50
    ... )["probs"]
    >>> row.axis, row.best, row.best_cost
    ('probability', 0.2, 0.25)
    """
    require_options(n_boot, level, least=2, why="for the band")
    if not isinstance(costs, Costs):
        raise InputError(
            f"costs must be sc.Costs(...); got {type(costs).__name__}", code="costs-invalid"
        )
    views = views_of(y_true, probs)
    kinds = {(view.n_classes, view.outcome) for view in views.values()}
    if len(kinds) > 1:
        raise InputError(
            "probs must all be of the same classes, or all of outcome 1", code="columns-differ"
        )
    n_classes, outcome = kinds.pop()
    table = costs.table(n_classes, score=outcome)
    return cost_curves(views, table, bootstrap=(n_boot, level, random_state))


@draws(cost_curve_data)
def cost_curve(ax: style.Axes, found: dict[str, CostCurve]) -> None:
    """Draw the mean cost of decisions by a threshold, against the threshold.

    The dotted line is the threshold that the costs alone say is best, ``1 - review / wrong`` or
    ``false_alarm / (false_alarm + miss)``; where probabilities are right the curve is lowest there.
    A star is the lowest point on these samples, which was chosen on the labels that judge it.
    Bands are pointwise.

    Examples
    --------
    >>> import smallcal as sc
    >>> y, p = [1, 0, 1, 0], [0.9, 0.2, 0.4, 0.1]
    >>> cost_curve(y, p, costs=sc.Costs(miss=4, false_alarm=1), n_boot=50).get_ylabel()
    'mean cost per row'
    """
    first = next(iter(found.values()))
    unit = Unit("", scale=1.0, digits=first.digits, change="")
    label, begins = _AXES[first.axis]
    at = unit if first.axis == "saving" else PERCENT
    ax.axvline(first.best, **style.REFERENCE, label=f"best by the costs: {at.value(first.best)}")
    for name, row, look in style.looks(found):
        style.band(ax, row.threshold, row.low, row.high, look)
        ax.plot(row.threshold, row.cost, **look.stroke, linewidth=1.5, zorder=3)
        tips = [
            f"{prefix_of(name)}{begins.format(at.value(row.threshold[i]))}: cost "
            f"{unit.number(row.cost[i])}, {SHARE.value(row.share[i])} of rows; "
            f"{unit.number(row.excess[i], signed=True)} "
            f"({unit.interval(row.excess_low[i], row.excess_high[i], signed=True)}) against the "
            "best threshold"
            for i in range(len(row.threshold))
        ]
        marked = f"cost-curve-{name}"
        style.dots(ax, row.threshold, row.cost, look, s=14, zorder=4, tips=tips, name=marked)
        star = ([row.observed], [row.observed_cost])
        ax.scatter(*star, color=look.color, marker="*", s=90, linewidths=0, zorder=5)
        style.name_series(ax, f"{prefix_of(name)}cost {unit.number(row.best_cost)} there", look)
    ax.plot([], [], color=style.GREY, marker="*", linestyle="none", label="lowest on these samples")
    top = max(float(np.median(row.high)) for row in found.values())
    most = max(float(row.cost.max()) for row in found.values())
    ax.set_ylim(0, max(1.05 * most, 1.3 * top, 1e-9))
    if first.axis != "saving":
        style.percent(ax, "x")
    style.dress(ax, xlabel=label, ylabel="mean cost per row")
    style.legend(ax)

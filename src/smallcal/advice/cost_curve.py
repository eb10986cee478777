"""What decisions by a threshold cost, for every threshold, on labelled samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from smallcal.advice.cost_table import CostTable
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.metrics import Scored
from smallcal.statistics.threshold_curve import Above, band_of, curve_draws

#: Evenly spread thresholds, and multiples of the best one's distance from its end of the scale.
_POINTS = 51
_AROUND = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class CostCurve:
    """The mean cost of decisions by a threshold, against the threshold.

    Attributes
    ----------
    axis : {"confidence", "saving", "probability"}
        What the threshold is on, see :attr:`smallcal.advice.cost_table.CostTable.axis`.
    threshold : ndarray of shape (m,)
        A grid that is fixed before labels are seen; the best threshold is in it.
    cost, low, high : ndarray of shape (m,)
        Per row, with its pointwise band.
    excess, excess_low, excess_high : ndarray of shape (m,)
        Cost minus that at the best threshold, paired by sample.
    share : ndarray of shape (m,)
        Of rows at or above the threshold: those that are answered; of "probability", those
        decided for the second class.
    best, best_cost : float
        The threshold that the costs say is best, whatever the labels, and what it did cost.
    observed, observed_cost : float
        The threshold with the least cost on these samples. It was chosen on the labels that
        judge it: on other samples it costs more than this on average.
    digits : int
        Of costs, after the point.
    level : float
    kind : {"logits", "score"}
    """

    axis: str
    threshold: FloatArray
    cost: FloatArray
    low: FloatArray
    high: FloatArray
    excess: FloatArray
    excess_low: FloatArray
    excess_high: FloatArray
    share: FloatArray
    best: float
    best_cost: float
    observed: float
    observed_cost: float
    digits: int
    level: float
    kind: str = "logits"


class _Rows(NamedTuple):
    """Where each row stands, and what it costs at or above a threshold, and below."""

    places: FloatArray
    above: FloatArray
    below: FloatArray


def cost_curves(
    views: Mapping[str, Scored], table: CostTable, *, bootstrap: tuple[int, float, int]
) -> dict[str, CostCurve]:
    """Return the curve of each set of probabilities; ``bootstrap`` is (n_boot, level, seed)."""
    if table.threshold is None:
        raise InputError(
            "costs: of more than two classes nothing depends on one threshold unless rows can be "
            "passed on for review; name review as well"
            if table.n_classes > 2
            else "costs: one answer is never more expensive than the other; no threshold decides",
            code="costs-invalid",
        )
    rows = {name: _rows(view, table) for name, view in views.items()}
    grid = _grid(table, [row.places for row in rows.values()])
    return {
        name: replace(_curve(row, grid, table, bootstrap), kind=views[name].kind)
        for name, row in rows.items()
    }


def _rows(view: Scored, table: CostTable) -> _Rows:
    each = np.arange(view.n)
    if table.review is None:
        return _Rows(view.proba[:, 1], *(table.answers[i][view.labels] for i in (1, 0)))
    answer, expected = table.answer(view.proba)
    paid = table.paid(answer, view.labels), table.review[view.labels]
    if table.axis == "confidence":
        return _Rows(np.minimum(view.proba[each, answer], 1.0), *paid)
    return _Rows(table.expected_review(view.proba) - expected, *paid)


def _grid(table: CostTable, places: list[FloatArray]) -> FloatArray:
    """Return the thresholds, the best among them; labels have no part in it."""
    best = table.threshold
    assert best is not None
    if table.axis == "saving":
        low, high = min(p.min() for p in places), max(p.max() for p in places)
        step = max(high - low, 1e-9 * table.dearest) / (_POINTS - 1)
        return np.unique([*np.linspace(low, high + step, _POINTS), best])
    low = 0.0 if table.axis == "probability" else 1 / table.n_classes
    # Where mistakes are dear the best threshold is close to an end, and so is what is of interest.
    rare = np.multiply(_AROUND, 1 - best)
    near = np.multiply(_AROUND, best)
    several = [*np.linspace(low, 1, _POINTS), *(1 - rare if best > 0.5 else near), best]
    return np.array([t for t in np.unique(several) if low <= t <= 1 or t == best])


def _curve(
    rows: _Rows, grid: FloatArray, table: CostTable, bootstrap: tuple[int, float, int]
) -> CostCurve:
    n, (n_boot, level, seed) = len(rows.places), bootstrap
    assert table.threshold is not None

    def finish(sums: FloatArray, counts: FloatArray) -> FloatArray:
        return np.asarray((sums[:, 0] + (counts @ rows.below)[:, None]) / n)

    more = (rows.above - rows.below)[:, None]
    cost, drawn = curve_draws(
        Above(rows.places, grid, more), finish, n=n, n_boot=n_boot, random_state=seed
    )
    (best,) = np.flatnonzero(grid == table.threshold)
    least = int(cost.argmin())
    low, high = band_of(drawn, level=level)
    excess_low, excess_high = band_of(drawn - drawn[:, [best]], level=level)
    return CostCurve(
        axis=table.axis,
        threshold=grid,
        cost=cost,
        low=low,
        high=high,
        excess=cost - cost[best],
        excess_low=excess_low,
        excess_high=excess_high,
        share=1 - np.searchsorted(np.sort(rows.places), grid, side="left") / n,
        best=float(table.threshold),
        best_cost=float(cost[best]),
        observed=float(grid[least]),
        observed_cost=float(cost[least]),
        digits=table.unit.digits,
        level=level,
    )

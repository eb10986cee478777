"""A metric against the number of calibration samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots.curves import BASELINE, Curves, curves_of, lines_of
from smallcal_lab.plots.panels import PANELS, draw_panels, looks_of
from smallcal_lab.plots.run import RunLike, clean, measured_at_all, open_run
from smallcal_lab.studies.frame import ALL

#: Where the whole split stands on a scale of logarithms: one doubling to the right of the rest.
_STEP = 2.0


def budget_curve_data(
    run: RunLike,
    *,
    metric: str = "ece15",
    baseline: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> Curves:
    """Return a metric at each budget: means, differences from the baseline, wins.

    The numbers are those of the tables ``means``, ``differences`` and ``wins`` of all models
    together, made of the cells that were measured with every method at every budget. Rows alone
    are taken to be of the study ``budget``.

    Parameters
    ----------
    metric : str
        Any that was measured.

    Returns
    -------
    Curves
        Its ``x`` are the budgets.

    Examples
    --------
    >>> rows = [(cell, n, label, error / n) for cell in "ab" for n in (250, 500)
    ...         for label, error in (("tva-ts", 8.0), ("srts-bce", 6.0))]
    >>> cell, budget, label, value = zip(*rows)
    >>> columns = {"cell": cell, "dataset": cell, "backbone": ["mlp"] * 8, "budget": budget,
    ...            "label": label, "metric": ["ece15"] * 8, "value": value}
    >>> found = budget_curve_data(columns)
    >>> found.x.tolist(), found.line("srts-bce").value.round(1).tolist()
    ([250.0, 500.0], [2.4, 1.2])
    >>> found.line("srts-bce").wins.tolist()
    [100.0, 100.0]
    """
    opened = open_run(run, "budget", metric=metric, baseline=baseline, where=where)
    opened, left_out = measured_at_all(clean(opened), "budget")
    budgets = sorted(opened.frame.unique("budget"), key=lambda n: (n == ALL, n))
    parts = [opened.frame.where(budget=n) for n in budgets]
    names = tuple("all" if n == ALL else f"{n:,}" for n in budgets)
    lines = lines_of(opened, parts, wins=True)
    return curves_of(opened, np.array(budgets, dtype=float), names, lines, left_out)


@draws(budget_curve_data, size=PANELS)
def budget_curve(ax: style.Axes, found: Curves) -> None:
    """Draw a metric against the number of calibration samples, and how often each method wins.

    Above: means over cells. In the middle: paired differences from the baseline with their 95 %
    intervals, so that how much models differ does not matter. Marks are hollow where the
    interval holds zero, or there is none. Below: the share of cells and draws in which a method
    is strictly better than the baseline. Rows alone are taken to be of the study ``budget``.
    """
    places = _places(found.x)
    _, strip = draw_panels(ax, found, places, "budget-curve", 0.4)
    _draw_wins(strip, found, places)
    style.dress(strip, xlabel="calibration samples", ylabel="wins %")
    ax.set_xscale("log")
    strip.set_xticks(places, list(map(style.literal, found.names)))
    strip.minorticks_off()


def _places(budgets: FloatArray) -> FloatArray:
    """Return where budgets are drawn; the whole split, whose size differs, to the right of all."""
    known = budgets[budgets != ALL]
    last = _STEP * known.max() if len(known) else 1.0
    return np.where(budgets == ALL, last, budgets)


def _draw_wins(strip: style.Axes, found: Curves, places: FloatArray) -> None:
    strip.axhline(50, **style.REFERENCE)
    for line in found.lines:
        if BASELINE in line.verdict:
            continue
        look = looks_of(found)[line.label]
        tips = [
            f"{line.label}, {name}: better than {found.baseline} in {win:.0f} % of cells and draws"
            for name, win in zip(found.names, line.wins, strict=True)
        ]
        strip.plot(places, line.wins, **look.stroke, linewidth=1)
        plot = f"budget-wins {line.label}"
        style.marks(strip, places, line.wins, look, markersize=4, tips=tips, name=plot)
    strip.set_ylim(-6, 106)
    strip.set_yticks([0, 50, 100])

"""The temperatures of groups, entry by entry."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.advice.refits import Spread
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots.curves import models_in, subject
from smallcal_lab.plots.run import RunLike, clean, one_budget, open_rows
from smallcal_lab.studies.frame import Frame
from smallcal_lab.studies.tables.groups import numbered

#: From the first to the last group of an entry, in places of the horizontal axis.
_WIDTH = 0.6


@dataclass(frozen=True, eq=False)
class GroupTemperatures:
    """Temperatures by entry and group, over all fits.

    Attributes
    ----------
    temperatures : dict of str to ndarray of shape (groups, 3)
        Median and quartiles over fits of each group, lowest scores first, by entry.
    relative : bool
        Whether they are divided by what one temperature for all would be in each fit, without
        which those of several models could not be put together.
    pooled : float
        The median of that temperature; 1 where they are relative.
    about : str
    """

    temperatures: dict[str, FloatArray]
    relative: bool
    pooled: float
    about: str = ""


def group_temperatures_data(
    run: RunLike, *, where: Mapping[str, Any] | None = None
) -> GroupTemperatures:
    """Return the temperatures of every entry's groups: median and quartiles over fits.

    Those of several models are divided by what one temperature for all would be in each fit. Rows
    alone are taken to be of the study ``k-ablation-nll``; ``k-ablation`` and ``audit`` have
    temperatures too.

    Raises
    ------
    InputError
        If the run has no temperatures, or there are several budgets.

    Examples
    --------
    >>> columns = {"cell": ["a"] * 3, "dataset": ["a"] * 3, "backbone": ["b"] * 3,
    ...            "label": ["K=1"] * 3, "value": [0.3, 1.25, 1.25],
    ...            "metric": ["nll", "temperature0", "pooled_temperature"]}
    >>> group_temperatures_data(columns).temperatures["K=1"].tolist()
    [[1.25, 1.25, 1.25]]
    """
    opened = one_budget(clean(open_rows(run, "k-ablation-nll", where=where)))
    relative = len(models_in(opened)) > 1
    found, pooled = {}, list[float]()
    for label in opened.frame.unique("label"):
        rows = opened.frame.where(label=label)
        one = _by_fit(rows, "pooled_temperature")
        pooled += one.values()
        groups = [_by_fit(rows, f"temperature{g}") for g in numbered(rows, r"temperature(\d+)")]
        if relative:
            groups = [{fit: t / one[fit] for fit, t in g.items() if fit in one} for g in groups]
        spreads = [Spread.of(math.nan, list(group.values())) for group in groups if group]
        if spreads:
            found[str(label)] = np.array([[s.median, s.low, s.high] for s in spreads])
    if not found:
        raise InputError("run has no temperatures of groups; the study k-ablation-nll keeps them")
    middle = 1.0 if relative else float(np.median(pooled)) if pooled else math.nan
    return GroupTemperatures(found, relative, middle, subject(opened, "bars: quartiles of fits"))


def _by_fit(rows: Frame, metric: str) -> dict[tuple[str, int], float]:
    """Return a number of each fit, where it is one."""
    some = rows.where(metric=metric)
    columns = (some[name].tolist() for name in ("cell", "draw", "value"))
    return {(cell, draw): v for cell, draw, v in zip(*columns, strict=True) if math.isfinite(v)}


@draws(group_temperatures_data)
def group_temperatures(ax: style.Axes, found: GroupTemperatures) -> None:
    """Draw the temperatures of every entry's groups, the lowest scores at the left of each.

    Marks are medians over fits, bars their quartiles; the dashed line is one temperature for all.
    Those of several models are divided by it. Rows alone are taken to be of the study
    ``k-ablation-nll``.
    """
    if math.isfinite(found.pooled):
        ax.axhline(found.pooled, **style.REFERENCE)
    for place, (label, temperatures) in enumerate(found.temperatures.items()):
        look, n = style.look(0), len(temperatures)
        offsets = np.linspace(-0.5, 0.5, n) * _WIDTH if n > 1 else np.zeros(1)
        x, (middle, low, high) = place + offsets, temperatures.T
        ax.vlines(x, low, high, color=look.color, linewidth=1.4)
        ax.plot(x, middle, color=style.FAINT, linewidth=1, zorder=1)
        tips = [
            f"{label}, group {group}: {t:.3f} ({a:.3f} to {b:.3f})"
            for group, (t, a, b) in enumerate(temperatures)
        ]
        style.marks(ax, x, middle, look, tips=tips, name=f"group-temperatures {label}")
    ax.set_xticks(range(len(found.temperatures)), list(map(style.literal, found.temperatures)))
    style.dress(ax, xlabel="", ylabel="temperature" + " over that of all" * found.relative)
    style.caption(ax, found.about)

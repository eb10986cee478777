"""The temperatures of groups, entry by entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.advice.refits import Spread
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.plots import style
from smallcal.plots.studies.curves import subject
from smallcal.plots.studies.run import RunLike, clean, one_budget, open_run
from smallcal.plots.twins import draws
from smallcal.studies.tables.groups import numbered

#: From the first to the last group of an entry, in places of the horizontal axis.
_WIDTH = 0.6


@dataclass(frozen=True, eq=False)
class GroupTemperatures:
    """Temperatures by entry and group, over all fits.

    Attributes
    ----------
    temperatures : dict of str to ndarray of shape (groups, 3)
        Median and quartiles over fits of each group, lowest scores first, by entry.
    about : str
    """

    temperatures: dict[str, FloatArray]
    about: str = ""


def group_temperatures_data(
    run: RunLike, *, where: Mapping[str, Any] | None = None
) -> GroupTemperatures:
    """Return the temperatures of every entry's groups: median and quartiles over fits.

    Rows alone are taken to be of the study ``k-ablation-nll``; ``k-ablation`` and ``audit`` have
    them too.

    Raises
    ------
    InputError
        If the run has no temperatures, or there are several budgets.

    Examples
    --------
    >>> columns = {"cell": ["a"] * 2, "dataset": ["a"] * 2, "backbone": ["b"] * 2,
    ...            "label": ["K=1"] * 2, "metric": ["nll", "temperature0"], "value": [0.3, 1.25]}
    >>> group_temperatures_data(columns).temperatures["K=1"].tolist()
    [[1.25, 1.25, 1.25]]
    """
    opened = one_budget(clean(open_run(run, "k-ablation-nll", where=where)))
    found = {}
    for label in opened.frame.unique("label"):
        rows = opened.frame.where(label=label)
        groups = numbered(rows, r"temperature(\d+)")
        spreads = [Spread.of(np.nan, _values(rows, f"temperature{g}")) for g in groups]
        if spreads:
            found[str(label)] = np.array([[s.median, s.low, s.high] for s in spreads])
    if not found:
        raise InputError("run has no temperatures of groups; the study k-ablation-nll keeps them")
    return GroupTemperatures(found, subject(opened, "bars: quartiles of fits"))


def _values(rows: Any, metric: str) -> list[float]:
    return [float(value) for value in rows.where(metric=metric)["value"] if np.isfinite(value)]


@draws(group_temperatures_data)
def group_temperatures(ax: style.Axes, found: GroupTemperatures) -> None:
    """Draw the temperatures of every entry's groups, the lowest scores at the left of each.

    Marks are medians over fits, bars their quartiles. Rows alone are taken to be of the study
    ``k-ablation-nll``.
    """
    for place, (label, temperatures) in enumerate(found.temperatures.items()):
        look, n = style.look(0), len(temperatures)
        offsets = np.linspace(-0.5, 0.5, n) * _WIDTH if n > 1 else np.zeros(1)
        x, (middle, low, high) = place + offsets, temperatures.T
        ax.vlines(x, low, high, color=look.color, linewidth=1.4)
        ax.plot(x, middle, color=style.FAINT, linewidth=1, zorder=1)
        tips = [
            f"{label}, group {group}: T = {t:.3f} ({a:.3f} to {b:.3f})"
            for group, (t, a, b) in enumerate(temperatures)
        ]
        style.marks(ax, x, middle, look, tips=tips, name=f"group-temperatures {label}")
    ax.set_xticks(range(len(found.temperatures)), list(map(style.literal, found.temperatures)))
    ax.set_yscale("log")
    from matplotlib.ticker import FuncFormatter, NullFormatter

    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(
        FuncFormatter(lambda value, _: f"{value:g}") if _narrow(ax) else NullFormatter()
    )
    style.dress(ax, xlabel="", ylabel="temperature")
    style.caption(ax, found.about)


def _narrow(ax: style.Axes) -> bool:
    """Whether the scale spans less than a factor of ten, so that powers of ten say nothing."""
    low, high = ax.get_ylim()
    return high < 10 * low

"""Plots of clean samples: a metric against budgets and numbers of groups, and temperatures."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.advice.refits import Spread
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.plots import style
from smallcal.plots.twins import documented, draws
from smallcal_lab.plots.curves import (
    BASELINE,
    PANELS,
    Curves,
    curves_of,
    draw_means,
    draw_panels,
    line_of,
    lines_of,
    looks_of,
    models_in,
    subject,
)
from smallcal_lab.plots.given import (
    Run,
    RunLike,
    Where,
    clean,
    measured_at_all,
    one_budget,
    open_rows,
    open_run,
)
from smallcal_lab.studies.frame import ALL, CLEAN, Frame
from smallcal_lab.studies.tables.clean import difference, is_bare, number_of
from smallcal_lab.studies.tables.groups import numbered
from smallcal_lab.studies.tables.table import unit_of

# --- budgets -------------------------------------------------------------------------------------


def budget_curve_data(
    run: RunLike, *, metric: str = "ece15", baseline: str | None = None, where: Where = None
) -> Curves:
    """Return a metric at each budget: means, differences from the baseline, wins.

    The numbers are those of the tables ``means``, ``differences`` and ``wins`` of all models
    together, made of the cells that were measured with every method at every budget. Rows alone
    are taken to be of the study ``budget``.

    Parameters
    ----------
    metric : str
        Any that was measured.
    """
    opened = open_run(run, "budget", metric=metric, baseline=baseline, where=where)
    opened, left_out = measured_at_all(clean(opened), "budget")
    budgets = sorted(opened.frame.unique("budget"), key=lambda n: (n == ALL, n))
    names = tuple("all" if n == ALL else f"{n:,}" for n in budgets)
    lines = lines_of(opened, [opened.frame.where(budget=n) for n in budgets], wins=True)
    return curves_of(opened, budgets, names, lines, left_out)


@draws(budget_curve_data, size=PANELS)
def budget_curve(ax: style.Axes, found: Curves) -> None:
    """Draw a metric against the number of calibration samples, and how often each method wins.

    Above: means over cells. In the middle: paired differences from the baseline with their 95 %
    intervals, so that how much models differ does not matter. Marks are hollow where the
    interval holds zero, or there is none. Below: the share of cells and draws in which a method
    is strictly better than the baseline. Rows alone are taken to be of the study ``budget``.
    """
    # The whole split, whose size differs, stands one doubling to the right of the rest.
    known = found.x[found.x != ALL]
    places = np.where(found.x == ALL, 2 * known.max() if len(known) else 1.0, found.x)
    _, strip = draw_panels(ax, found, places, "budget-curve", 0.4)
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
    style.dress(strip, xlabel="calibration samples", ylabel="wins %")
    ax.set_xscale("log")
    strip.set_xticks(places, list(map(style.literal, found.names)))
    strip.minorticks_off()


@documented
def difference_rows(
    run: RunLike, *, metric: str | None = None, baseline: str | None = None, where: Where = None
) -> list[dict[str, Any]]:
    """Return paired differences from the baseline as rows for :func:`smallcal.plots.forest`.

    They are those of the table ``differences``: models, seeds in each and draws in each are
    resampled. Rows alone are taken to be of the study ``clean``.

    Returns
    -------
    list of dict
        With ``label``, ``value``, ``low`` and ``high``, in the units of the tables; labels name
        the budget where there are several. A difference of a single fit has no interval and is
        left out.

    Examples
    --------
    >>> columns = {"cell": list("aabb"), "dataset": list("aabb"), "backbone": ["mlp"] * 4,
    ...            "label": ["tva-ts", "none"] * 2, "metric": ["ece15"] * 4,
    ...            "value": [0.02, 0.05, 0.01, 0.06]}
    >>> [(row["label"], round(row["value"], 2)) for row in difference_rows(columns)]
    [('none', 4.0)]
    """
    opened = open_run(run, "clean", metric=metric, baseline=baseline, where=where)
    rows = opened.frame.where(set=CLEAN, metric=opened.metric)
    several = len(rows.unique("budget")) > 1
    scale = unit_of(opened.metric).scale
    found = []
    for _, part in rows.groups("budget"):
        for label in part.unique("label"):
            gap = difference(part, opened.study, opened.metric, label)
            if label == opened.study.baseline or gap is None or is_bare(gap):
                continue
            numbers = {"value": gap.point, "low": gap.low, "high": gap.high}
            name = f"{label}, {part.samples} samples" if several else label
            found.append({"label": name, **{key: scale * one for key, one in numbers.items()}})
    return found


# --- numbers of groups ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GroupCurves:
    """A metric by the number of groups.

    The ``x`` of ``curves`` are the numbers of groups, its only line is of all models together;
    ``by_model`` has the means of each model.
    """

    curves: Curves
    by_model: dict[str, FloatArray]


def k_ablation_data(
    run: RunLike, *, metric: str | None = None, baseline: str | None = None, where: Where = None
) -> GroupCurves:
    """Return a metric for each number of groups, of all models and of each.

    The numbers are those of the tables ``means`` and ``differences``. Rows alone are taken to be
    of the study ``k-ablation``, whose labels are ``K=1``, ``K=2``, ...
    """
    opened = open_run(run, "k-ablation", metric=metric, baseline=baseline, where=where)
    opened = one_budget(clean(opened))
    numbers = _numbers_of_groups(opened)
    if not numbers:
        there = ", ".join(opened.frame.unique("label"))
        raise InputError(f"no label of run says a number of groups, as K=3 does; it has {there}")
    opened, left_out = measured_at_all(opened.only(label=list(numbers)), "label")
    labels = sorted(numbers, key=numbers.__getitem__)
    x = [numbers[label] for label in labels]
    line = line_of(opened, "mean", [(opened.frame, label) for label in labels])
    curves = curves_of(opened, x, tuple(f"K={k:g}" for k in x), (line,), left_out)
    metric = opened.metric
    by_model = {
        f"{dataset} {backbone}": np.array(
            [number_of(rows.values(metric, label), metric).value for label in labels]
        )
        for (dataset, backbone), rows in opened.frame.groups("dataset", "backbone")
    }
    return GroupCurves(curves, by_model)


def _numbers_of_groups(run: Run) -> dict[str, int]:
    """Return the labels that stand for a number of groups, and the number."""
    told = {entry.label: entry.options.get("n_groups") for entry in run.study.entries}
    found = {}
    for label in run.labels:
        written = re.fullmatch(r"K=(\d+)", label)
        if number := told.get(label) or (written and written.group(1)):
            found[label] = int(number)
    return found


@draws(k_ablation_data)
def k_ablation(ax: style.Axes, found: GroupCurves) -> None:
    """Draw a metric against the number of groups: all models together, and each behind.

    The band is the 95 % interval of the paired difference from the baseline (one group), put
    around the line; marks are hollow where it holds zero. Rows alone are taken to be of the study
    ``k-ablation``, whose labels are ``K=1``, ``K=2``, ...
    """
    curves, line = found.curves, found.curves.lines[0]
    if len(found.by_model) > 1:
        for values in found.by_model.values():
            ax.plot(curves.x, values, color=style.FAINT, linewidth=1, zorder=1)
    ax.axhline(float(line.value[line.verdict.index(BASELINE)]), **style.REFERENCE)
    style.band(ax, curves.x, *line.band, style.look(0))
    draw_means(ax, curves, curves.x, "k-ablation")
    style.dress(ax, xlabel="groups", ylabel=curves.unit)
    base = f"Dashed: {curves.baseline}; hollow: tie with it."
    style.caption(ax, curves.about, curves.bars_text("Band, of the difference"), base)
    ax.set_xscale("log")
    ax.set_xticks(curves.x, [f"{k:g}" for k in curves.x])
    ax.minorticks_off()


# --- temperatures --------------------------------------------------------------------------------


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
    about: str


def group_temperatures_data(run: RunLike, *, where: Where = None) -> GroupTemperatures:
    """Return the temperatures of every entry's groups: median and quartiles over fits.

    Those of several models are divided by what one temperature for all would be in each fit. Rows
    alone are taken to be of the study ``k-ablation-nll``; ``k-ablation`` and ``audit`` have
    temperatures too.
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
    look = style.look(0)
    for place, (label, temperatures) in enumerate(found.temperatures.items()):
        n = len(temperatures)
        x = place + (np.linspace(-0.3, 0.3, n) if n > 1 else np.zeros(1))
        middle, low, high = temperatures.T
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

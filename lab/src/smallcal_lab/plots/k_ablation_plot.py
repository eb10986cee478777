"""A metric against the number of groups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots.curves import (
    BASELINE,
    Curves,
    about,
    bars_text,
    curves_of,
    line_of,
    mean_of,
)
from smallcal_lab.plots.panels import draw_lines
from smallcal_lab.plots.run import Run, RunLike, clean, measured_at_all, one_budget, open_run


@dataclass(frozen=True, eq=False)
class GroupCurves:
    """A metric by the number of groups.

    Attributes
    ----------
    curves : Curves
        Its ``x`` are the numbers of groups, its only line is of all models together.
    by_model : dict of str to ndarray
        The means of each model.
    """

    curves: Curves
    by_model: dict[str, FloatArray]


def k_ablation_data(
    run: RunLike,
    *,
    metric: str | None = None,
    baseline: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> GroupCurves:
    """Return a metric for each number of groups, of all models and of each.

    The numbers are those of the tables ``means`` and ``differences``. Rows alone are taken to be
    of the study ``k-ablation``, whose labels are ``K=1``, ``K=2``, ...

    Raises
    ------
    InputError
        If no label says a number of groups, or there are several budgets.
    """
    opened = open_run(run, "k-ablation", metric=metric, baseline=baseline, where=where)
    opened = one_budget(clean(opened))
    numbers = _groups(opened)
    if not numbers:
        there = ", ".join(opened.frame.unique("label"))
        raise InputError(f"no label of run says a number of groups, as K=3 does; it has {there}")
    frame = opened.frame.where(label=list(numbers))
    opened, left_out = measured_at_all(Run(opened.study, frame), "label")
    labels = sorted(numbers, key=numbers.__getitem__)
    x = np.array([numbers[label] for label in labels], dtype=float)
    line = line_of(opened, "mean", [(opened.frame, label) for label in labels])
    curves = curves_of(opened, x, tuple(f"K={k:g}" for k in x), (line,), left_out)
    by_model = {
        f"{dataset} {backbone}": np.array([mean_of(opened, rows, label).value for label in labels])
        for (dataset, backbone), rows in opened.frame.groups("dataset", "backbone")
    }
    return GroupCurves(curves, by_model)


def _groups(run: Run) -> dict[str, int]:
    """Return the labels that stand for a number of groups, and the number."""
    told = {entry.label: entry.options.get("n_groups") for entry in run.study.entries}
    found = {}
    for label in run.labels:
        written = re.fullmatch(r"K=(\d+)", label)
        number = told.get(label) or (written and int(written.group(1)))
        if number:
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
    draw_lines(ax, curves, curves.x, "k-ablation")
    style.dress(ax, xlabel="groups", ylabel=curves.unit)
    base = f"Dashed: {curves.baseline}; hollow: tie with it."
    style.caption(ax, about(curves), bars_text(curves, "Band, of the difference"), base)
    ax.set_xscale("log")
    ax.set_xticks(curves.x, [f"{k:g}" for k in curves.x])
    ax.minorticks_off()

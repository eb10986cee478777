"""A metric against the severity of a shift, and where the samples of each severity go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots.curves import Curves, curves_of, lines_of, models_in
from smallcal_lab.plots.panels import PANELS, draw_panels, head
from smallcal_lab.plots.run import Run, RunLike, measured_at_all, one_budget, open_run
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.tables.shift import at_severity, occupancy, shifted_rows
from smallcal_lab.studies.tables.table import Number

#: Half of the width of a bar, in severities.
_HALF = 0.28


@dataclass(frozen=True, eq=False)
class Occupancy:
    """Percent of the samples in each group, by severity.

    Attributes
    ----------
    label : str
        The method whose groups these are.
    shares : ndarray of shape (severities, groups)
        Clean samples first, if there are any; groups from the lowest scores to the highest.
    """

    label: str
    shares: FloatArray


@dataclass(frozen=True, eq=False)
class SeverityCurves:
    """A metric by severity, and the groups of a grouped method if there is one."""

    curves: Curves
    occupancy: Occupancy | None


def severity_curve_data(
    run: RunLike,
    *,
    metric: str | None = None,
    baseline: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> SeverityCurves:
    """Return a metric on clean samples and at each severity, and the occupancy of groups.

    Means are those of the table ``severity``, shares those of the table ``occupancy``, of all
    models together; differences are paired by set, with models, seeds in each and sets in each
    resampled. Only corruptions that a cell has at every severity count. Rows alone are taken to be
    of the study ``shift``.

    Raises
    ------
    InputError
        If nothing is shifted, or there are several budgets.
    """
    opened = one_budget(open_run(run, "shift", metric=metric, baseline=baseline, where=where))
    rows = shifted_rows(opened.frame.where(metric=opened.metric))
    if not len(rows):
        raise InputError("run has no shifted sets; the study shift measures them")
    opened, left_out = measured_at_all(opened, "severity")
    places = [*[0] * _has_clean(opened), *sorted(rows.unique("severity"))]
    parts = [at_severity(opened.frame, s) if s else opened.frame.where(set=CLEAN) for s in places]
    names = tuple(str(s) if s else CLEAN for s in places)
    lines = lines_of(opened, parts)
    x, units = np.array(places, dtype=float), ("models", "seeds", "sets")
    curves = curves_of(opened, x, names, lines, left_out, units=units)
    return SeverityCurves(curves, _occupancy(opened, places))


def _has_clean(run: Run) -> bool:
    """Whether every method was measured on the clean samples of every cell."""
    rows = run.frame.where(metric=run.metric)
    clean = rows.where(set=CLEAN)
    known = np.isfinite(clean["value"])
    there = set(zip(clean["cell"][known], clean["label"][known], strict=True))
    return len(there) == len(rows.unique("cell")) * len(rows.unique("label"))


def _occupancy(run: Run, severities: list[int]) -> Occupancy | None:
    """Return the groups of the study's own method, or of the first that has groups."""
    names = models_in(run)
    everyone = names[0] if len(names) == 1 else "all"
    by_label: dict[str, dict[str, list[float]]] = {}
    for _, models, label, place, *shares in occupancy(run.study, run.frame).rows:
        if models == everyone:
            numbers = [share.value for share in shares if isinstance(share, Number)]
            by_label.setdefault(str(label), {})[str(place)] = numbers
    if not by_label:
        return None
    ours = [name for name in run.study.settings.get("ours", ()) if name in by_label]
    chosen = [*ours, *by_label][0]
    sets = [f"severity {s}" if s else CLEAN for s in severities]
    if not by_label[chosen].keys() >= set(sets):
        return None
    found = np.array([by_label[chosen][name] for name in sets])
    return Occupancy(chosen, found[:, np.isfinite(found).all(axis=0)])


@draws(severity_curve_data, size=PANELS)
def severity_curve(ax: style.Axes, found: SeverityCurves) -> None:
    """Draw a metric against severity, and below it which groups the samples fall into.

    Means, differences and hollow marks are as in :func:`~smallcal.plots.budget_curve`. The bars
    below show the groups of one method, the lightest with the lowest scores. Rows alone are taken
    to be of the study ``shift``.
    """
    curves = found.curves
    shares = [] if found.occupancy is None else [0.4]
    panels = draw_panels(ax, curves, curves.x, "severity-curve", *shares)
    if found.occupancy is not None:
        _draw_groups(panels[-1], curves, found.occupancy)
    panels[-1].set_xticks(curves.x, list(map(style.literal, curves.names)))
    panels[-1].set_xlabel("severity", color=style.INK)


def _draw_groups(strip: style.Axes, curves: Curves, groups: Occupancy) -> None:
    """Draw a bar for each severity, cut into groups."""
    n_groups = groups.shares.shape[1]
    bottom = np.zeros(len(curves.x))
    for group in range(n_groups):
        share = groups.shares[:, group]
        bars = strip.bar(
            curves.x,
            share,
            2 * _HALF,
            bottom,
            color=style.PALETTE[0],
            alpha=0.15 + 0.75 * group / max(n_groups - 1, 1),
            linewidth=0,
        )
        texts = [
            f"{groups.label}, {name}: {value:.1f} % in group {group}"
            for name, value in zip(curves.names, share, strict=True)
        ]
        style.with_tips(list(bars), texts, name=f"occupancy group {group}")
        bottom = bottom + share
    strip.set_ylim(0, 100)
    style.dress(strip, xlabel="", ylabel="samples %")
    head(strip, f"groups of {groups.label}, 0 to {n_groups - 1}: dark is high risk")

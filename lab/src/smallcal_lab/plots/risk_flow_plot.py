"""Between which groups samples move, from the clean set to a shifted one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.metrics.units import written
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots.curves import mean_at, subject
from smallcal_lab.plots.run import RunLike, one_budget, open_rows, require_one_of
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.tables.groups import numbered
from smallcal_lab.studies.tables.shift import at_severity, shifted_rows

#: Half of the width of the bars at both sides; the ribbons span what is between them.
_BAR = 0.06
#: Empty room between two groups, in percent of the samples.
_GAP = 3.0


@dataclass(frozen=True, eq=False)
class RiskFlow:
    """Percent of all samples that move from a group of the clean set to one of a shifted set.

    Attributes
    ----------
    label : str
        The method whose groups these are.
    severity : int
    shares : ndarray of shape (groups, groups)
        From the group of the row to that of the column; adds up to 100.
    mean_risk : tuple of float
        On clean samples and at the severity; NaN where a method has no risk.
    about : str
    """

    label: str
    severity: int
    shares: FloatArray
    mean_risk: tuple[float, float]
    about: str = ""


def risk_flow_data(
    run: RunLike,
    *,
    severity: int | None = None,
    method: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> RiskFlow:
    """Return how samples move between groups, of paired sets of one severity.

    The numbers are those of the table ``flow`` of all models together. Rows alone are taken to be
    of the study ``risk-flow``.

    Parameters
    ----------
    severity : int, optional
        The highest unless it is given.
    method : str, optional
        Whose groups; the study's first unless it is given.

    Raises
    ------
    InputError
        If no shifted set is paired with the clean one, or there are several budgets.

    Examples
    --------
    >>> shares = {"flow_0_to_0": 0.25, "flow_0_to_1": 0.25, "flow_1_to_0": 0.0, "flow_1_to_1": 0.5}
    >>> columns = {"cell": ["a"] * 4, "dataset": ["a"] * 4, "backbone": ["b"] * 4,
    ...            "label": ["srts-bce"] * 4, "set": ["fog"] * 4, "severity": [5] * 4,
    ...            "metric": list(shares), "value": list(shares.values())}
    >>> risk_flow_data(columns).shares.tolist()
    [[25.0, 25.0], [0.0, 50.0]]
    """
    opened = one_budget(open_rows(run, "risk-flow", where=where))
    rows = shifted_rows(opened.frame.where(metric=_flows(opened.frame.unique("metric"))))
    if not len(rows):
        raise InputError(
            "run has no shifted set that is paired with the clean one; the study risk-flow "
            "measures how samples move between them"
        )
    there = rows.unique("label")
    label = method if method is not None else there[0]
    require_one_of("the flow of", label, there)
    severities = sorted(rows.unique("severity"))
    chosen = severities[-1] if severity is None else severity
    require_one_of("severity", str(chosen), map(str, severities))
    own = at_severity(opened.frame.where(label=label), chosen)
    groups = numbered(own, r"flow_(\d+)_to_\d+")
    shares = [[mean_at(own, f"flow_{i}_to_{j}", label) for j in groups] for i in groups]
    # Of the same cells at both ends: not every one need have this severity.
    cells = rows.where(label=label, severity=chosen).unique("cell")
    both = opened.frame.where(cell=cells)
    sets = (both.where(set=CLEAN), own.where(cell=cells))
    risks = [mean_at(some, "mean_risk", label) for some in sets]
    text = subject(replace(opened, frame=both), f"groups of {label}")
    return RiskFlow(label, chosen, np.array(shares), (risks[0], risks[1]), text)


def _flows(metrics: list[str]) -> list[str]:
    return [metric for metric in metrics if metric.startswith("flow_")]


@draws(risk_flow_data)
def risk_flow(ax: style.Axes, found: RiskFlow) -> None:
    """Draw how samples move from the groups of the clean set to those of a shifted one.

    The bars at both sides are the groups, the darkest with the highest scores; a ribbon is as
    wide as the share of samples that it stands for. It needs sets whose rows are the clean
    samples in the same order, which nobody has in use. Rows alone are taken to be of the study
    ``risk-flow``.
    """
    n = len(found.shares)
    sides = (found.shares.sum(axis=1), found.shares.sum(axis=0))
    bottoms = [np.concatenate([[0.0], np.cumsum(side + _GAP)[:-1]]) for side in sides]
    names = (CLEAN, f"severity {found.severity}")
    for place, (name, side, bottom) in enumerate(zip(names, sides, bottoms, strict=True)):
        for group in range(n):
            bar = ax.bar([place], [side[group]], 2 * _BAR, [bottom[group]], color=style.PALETTE[0])
            bar[0].set(alpha=_shade(group, n), linewidth=0)
            tip = f"{name}: {written(side[group], 1)} % in group {group}"
            style.with_tips(list(bar), [tip], name=f"risk-flow {name} group {group}")
            text = f"{side[group]:.0f} %"
            at = (place + (-0.1 if place == 0 else 0.1), bottom[group] + side[group] / 2)
            ax.annotate(
                style.literal(f"group {group}\n{text}"),
                at,
                ha="right" if place == 0 else "left",
                va="center",
                fontsize=style.SMALL,
                color=style.INK,
            )
    _draw_ribbons(ax, found, bottoms)
    ax.set_xlim(-0.35, 1.35)
    ax.set_xticks([0, 1], [style.literal(_under(name, risk)) for name, risk in _ends(found, names)])
    style.dress(ax, xlabel="", ylabel="")
    ax.set_yticks([])
    for side_of in ("left", "bottom"):
        ax.spines[side_of].set_visible(False)
    ax.tick_params(length=0)
    style.caption(ax, f"{found.about}; dark: highest scores")


def _shade(group: int, n: int) -> float:
    return 0.2 + 0.7 * group / max(n - 1, 1)


def _ends(found: RiskFlow, names: tuple[str, str]) -> list[tuple[str, float]]:
    return list(zip(names, found.mean_risk, strict=True))


def _under(name: str, risk: float) -> str:
    return name if math.isnan(risk) else f"{name}\nmean risk {risk:.3f}"


def _draw_ribbons(ax: style.Axes, found: RiskFlow, bottoms: list[FloatArray]) -> None:
    """Draw a ribbon for every pair of groups that samples move between."""
    n = len(found.shares)
    step = np.linspace(0, 1, 40)
    x, rise = _BAR + (1 - 2 * _BAR) * step, step**2 * (3 - 2 * step)
    left, right = (bottom.copy() for bottom in bottoms)
    for i in range(n):
        for j in range(n):
            share = float(found.shares[i, j])
            if not share > 0:
                continue
            low = left[i] + (right[j] - left[i]) * rise
            ribbon = ax.fill_between(
                x, low, low + share, color=style.PALETTE[0], alpha=0.6 * _shade(i, n), linewidth=0
            )
            tip = f"from group {i} to group {j}: {written(share, 1)} % of the samples"
            style.with_tips(ribbon, [tip], name=f"risk-flow {i} {j}")
            left[i] += share
            right[j] += share

"""How the risk of right predictions is spread, and that of wrong ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.metrics.units import written
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots.curves import mean_at, subject
from smallcal_lab.plots.run import RunLike, clean, one_budget, open_rows
from smallcal_lab.studies.tables.groups import numbered

#: Right predictions and wrong ones.
OUTCOMES = ("right", "wrong")


@dataclass(frozen=True, eq=False)
class RiskDensity:
    """Shares of right and of wrong predictions in bins of risk, in percent.

    Attributes
    ----------
    edges : ndarray of shape (bins + 1,)
    shares : dict of str to dict of str to ndarray of shape (bins,)
        By method, then ``right`` and ``wrong``; means over cells, each adds up to 100.
    auroc : dict of str to float
        Of ranking errors by the risk, in percent, by method.
    about : str
        What the numbers are of.
    """

    edges: FloatArray
    shares: dict[str, dict[str, FloatArray]]
    auroc: dict[str, float]
    about: str = ""


def risk_density_data(run: RunLike, *, where: Mapping[str, Any] | None = None) -> RiskDensity:
    """Return how the out-of-fold risk of right and of wrong predictions is spread.

    Rows alone are taken to be of the study ``risk-score``, which measures it on the calibration
    split.

    Raises
    ------
    InputError
        If the run has no bins of risk, or there are several budgets.

    Examples
    --------
    >>> shares = {"right": (0.9, 0.1), "wrong": (0.25, 0.75)}
    >>> rows = [(f"share_of_{name}_bin0{i}", share) for name, both in shares.items()
    ...         for i, share in enumerate(both)]
    >>> metric, value = zip(*rows)
    >>> columns = {"cell": ["a"] * 4, "dataset": ["a"] * 4, "backbone": ["b"] * 4,
    ...            "label": ["srts-bce"] * 4, "metric": metric, "value": value}
    >>> found = risk_density_data(columns)
    >>> found.edges.tolist(), found.shares["srts-bce"]["wrong"].tolist()
    ([0.0, 0.5, 1.0], [25.0, 75.0])
    """
    opened = one_budget(clean(open_rows(run, "risk-score", where=where)))
    frame = opened.frame
    bins = numbered(frame, r"share_of_right_bin(\d+)")
    if not bins:
        raise InputError("run has no bins of risk; the study risk-score measures them")
    names = [f"share_of_right_bin{i:02d}" for i in bins]
    labels = frame.where(metric=names).unique("label")
    shares = {
        label: {
            outcome: np.array(
                [mean_at(frame, f"share_of_{outcome}_bin{i:02d}", label) for i in bins]
            )
            for outcome in OUTCOMES
        }
        for label in labels
    }
    auroc = {label: mean_at(frame, "auroc_risk", label) for label in labels}
    edges = np.linspace(0.0, 1.0, len(bins) + 1)
    return RiskDensity(edges, shares, auroc, subject(opened, "risk out of fold"))


@draws(risk_density_data)
def risk_density(ax: style.Axes, found: RiskDensity) -> None:
    """Draw the share of right and of wrong predictions in each bin of the out-of-fold risk.

    On a scale of logarithms, because most right predictions have very little risk. Rows alone are
    taken to be of the study ``risk-score``.
    """
    middle = (found.edges[1:] + found.edges[:-1]) / 2
    for dash, (label, both) in enumerate(found.shares.items()):
        for look, outcome in zip((style.look(0), style.look(1)), OUTCOMES, strict=True):
            share = both[outcome]
            some = share > 0
            dashes = style.DASHES[dash % len(style.DASHES)]
            ax.step(
                middle,
                np.where(some, share, np.nan),
                where="mid",
                color=look.color,
                linestyle=dashes,
                linewidth=1.4,
                label=style.literal(_name(found, label, outcome)),
            )
            tips = [
                f"{label}, risk {low:.3f} to {high:.3f}: {written(value)} % of the {outcome} "
                "predictions"
                for low, high, value in zip(
                    found.edges[:-1][some], found.edges[1:][some], share[some], strict=True
                )
            ]
            plot = f"risk-density {label} {outcome}"
            style.marks(ax, middle[some], share[some], look, markersize=3, tips=tips, name=plot)
    ax.set_yscale("log")
    ax.set_xlim(0, 1)
    style.dress(ax, xlabel="risk", ylabel="share of predictions in a bin (%)")
    style.caption(ax, found.about)
    style.legend(ax)


def _name(found: RiskDensity, label: str, outcome: str) -> str:
    text = f"{label}, {outcome}" if len(found.shares) > 1 else outcome
    known = outcome == OUTCOMES[-1] and np.isfinite(found.auroc[label])
    return f"{text} (AUROC {found.auroc[label]:.1f} %)" if known else text

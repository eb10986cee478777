"""Plots of the risk score: how it is spread, what it adds to the confidence, what groups keep."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots import given
from smallcal_lab.plots.curves import head, mean_at, subject
from smallcal_lab.plots.given import Run, RunLike, Where
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.probes import CONFIDENCE_BINS, N_PARTS
from smallcal_lab.studies.tables.groups import numbered
from smallcal_lab.studies.tables.shift import at_severity, shifted_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Of a figure with two panels beside each other, in inches.
_WIDE = (8.6, 4.2)
#: Half of the width of the bars at both sides of a flow, and room between them in percent.
_BAR, _GAP = 0.06, 3.0


def _opened(run: RunLike, where: Where) -> Run:
    return given.one_budget(given.clean(given.open_rows(run, "risk-score", where=where)))


def _means(run: Run, label: str, name: str, numbers: Iterable[int]) -> FloatArray:
    """Return the means of numbered metrics over cells."""
    return np.array([mean_at(run.frame, name.format(i), label) for i in numbers])


def _beside(ax: Axes) -> Axes:
    """Return axes to the right of others, which make room for them; theirs are their own."""
    spec = ax.get_subplotspec()
    if spec is None:  # axes that were put somewhere by hand keep their place
        return ax.inset_axes((1.3, 0, 1, 1))
    grid = spec.subgridspec(1, 2)
    ax.set_subplotspec(grid[0])
    return ax.figure.add_subplot(grid[1])


class RiskDensity(NamedTuple):
    """Percent of the ``right`` and of the ``wrong`` predictions in bins of risk, by method."""

    edges: FloatArray
    shares: dict[str, dict[str, FloatArray]]
    auroc: dict[str, float]
    about: str


def risk_density_data(run: RunLike, *, where: Where = None) -> RiskDensity:
    """Return how the out-of-fold risk of right and of wrong predictions is spread.

    Rows alone are taken to be of the study ``risk-score``, which measures it on the calibration
    split. The AUROC is that of ranking errors by the risk, in percent.
    """
    opened = _opened(run, where)
    bins = numbered(opened.frame, r"share_of_right_bin(\d+)")
    if not bins:
        raise InputError("run has no bins of risk; the study risk-score measures them")
    labels = opened.frame.where(metric=f"share_of_right_bin{bins[0]:02d}").unique("label")
    outcomes = {name: f"share_of_{name}_bin{{:02d}}" for name in ("right", "wrong")}
    shares = {
        label: {name: _means(opened, label, own, bins) for name, own in outcomes.items()}
        for label in labels
    }
    auroc = {label: mean_at(opened.frame, "auroc_risk", label) for label in labels}
    edges = np.linspace(0.0, 1.0, len(bins) + 1)
    return RiskDensity(edges, shares, auroc, subject(opened, "risk out of fold"))


@draws(risk_density_data)
def risk_density(ax: Axes, found: RiskDensity) -> None:
    """Draw the share of right and of wrong predictions in each bin of the out-of-fold risk."""
    low, high = found.edges[:-1], found.edges[1:]
    for dash, (label, both) in enumerate(found.shares.items()):
        for i, (outcome, share) in enumerate(both.items()):
            look, some = style.look(i), share > 0
            name = f"{label}, {outcome}" if len(found.shares) > 1 else outcome
            if outcome == "wrong" and np.isfinite(found.auroc[label]):
                name += f" (AUROC {found.auroc[label]:.1f} %)"
            how: dict[str, Any] = {"linewidth": 1.4, "label": style.literal(name)}
            how |= {"color": look.color, "linestyle": style.DASHES[dash % len(style.DASHES)]}
            how |= {"marker": look.marker, "markersize": 3}
            ax.step((low + high) / 2, np.where(some, share, np.nan), where="mid", **how)
    ax.set_yscale("log")
    ax.set_xlim(0, 1)
    style.dress(ax, xlabel="risk", ylabel="share of predictions in a bin (%)")
    style.caption(ax, found.about)
    style.legend(ax)


class RiskConfidence(NamedTuple):
    """The risk of samples in tenths by confidence, and errors in tenths by either, in percent.

    Quartiles of the out-of-fold risk of the method ``label`` in tenths, the most confident first;
    error rates in tenths by ``risk`` and by ``confidence``, the safest first, and their AUROC.
    """

    label: str
    confidence: FloatArray
    low: FloatArray
    middle: FloatArray
    high: FloatArray
    errors: dict[str, FloatArray]
    auroc: dict[str, float]
    about: str


def risk_confidence_data(
    run: RunLike, *, method: str | None = None, where: Where = None
) -> RiskConfidence:
    """Return the risk by confidence, and the errors by risk and by confidence: means over cells.

    Rows alone are taken to be of the study ``risk-score``, which measures them on the calibration
    split.

    Parameters
    ----------
    method : str, optional
        Whose risk; the study's first unless it is given.
    """
    opened = _opened(run, where)
    label = given.label_with(opened, "error_by_risk0", method, of="the risk of")

    tenths = partial(_means, opened, label, numbers=range(N_PARTS))
    signals = ("risk", "confidence")
    return RiskConfidence(
        label,
        100 * tenths("confidence_by_confidence{}"),
        tenths("risk_low_by_confidence{}"),
        tenths("risk_middle_by_confidence{}"),
        tenths("risk_high_by_confidence{}"),
        errors={name: tenths(f"error_by_{name}{{}}") for name in signals},
        auroc={name: mean_at(opened.frame, f"auroc_{name}", label) for name in signals},
        about=subject(opened, f"risk of {label} out of fold"),
    )


@draws(risk_confidence_data, size=_WIDE)
def risk_confidence(ax: Axes, found: RiskConfidence) -> None:
    """Draw the risk against the confidence, and beside it the errors in tenths by either.

    Left, the median risk in tenths by raw confidence, with quartiles; on the dashed line the risk
    is one minus the confidence. Right, whose errors rise more steeply ranks errors better.
    """
    right = _beside(ax)
    look, x, high = style.look(0), found.confidence, found.high
    ax.plot([0, 100], [100, 0], **style.REFERENCE)
    ax.vlines(x, found.low, high, color=look.color, linewidth=1.4)
    ax.plot(x, found.middle, **look.mark, linestyle="none")
    ax.set_xlim(max(0.0, float(np.nanmin(x, initial=100.0)) - 5), 101)
    ax.set_ylim(0, 1.1 * float(np.nanmax(high, initial=1.0)))
    style.dress(ax, xlabel="raw confidence (%)", ylabel="risk (%)")
    style.caption(ax, found.about)
    for i, (name, errors) in enumerate(found.errors.items()):
        label = style.literal(f"by {name}: AUROC {found.auroc[name]:.1f} %")
        how = {**style.look(i)._asdict(), "linewidth": 1.4, "label": label}
        right.plot(np.arange(1, N_PARTS + 1), errors, **how)
    right.set_xticks(range(1, N_PARTS + 1))
    style.dress(right, xlabel="tenth of the samples, the safest first", ylabel="errors (%)")
    head(right, "errors by risk and by raw confidence")
    style.legend(right)


class GroupGaps(NamedTuple):
    """Groups of the method ``label`` on the test split, in percent.

    By group: its temperature, and confidence minus accuracy at one temperature for all and at its
    own. By group and bin of the confidence that one temperature gives: confidence, accuracy and
    share of the samples, NaN where there are none.
    """

    label: str
    temperature: FloatArray
    gap_at_one: FloatArray
    gap: FloatArray
    confidence: FloatArray
    accuracy: FloatArray
    share: FloatArray
    about: str


def group_gaps_data(run: RunLike, *, method: str | None = None, where: Where = None) -> GroupGaps:
    """Return what one temperature leaves in groups of risk, alone and at equal confidence.

    The gaps are those of the table ``group-gaps`` of all models together. Rows alone are taken to
    be of the study ``risk-score``.

    Parameters
    ----------
    method : str, optional
        Whose groups; the study's first unless it is given.
    """
    opened = _opened(run, where)
    label = given.label_with(opened, "gap_group0", method, of="groups of")
    groups = numbered(opened.frame.where(label=label), r"accuracy_group(\d+)")

    by_group = partial(_means, opened, label, numbers=groups)

    def by_bin(name: str) -> FloatArray:
        rows = [f"{name}_group{group}_bin{{}}" for group in groups]
        return np.array([_means(opened, label, row, range(CONFIDENCE_BINS)) for row in rows])

    return GroupGaps(
        label,
        by_group("temperature{}"),
        by_group("gap_one_group{}"),
        by_group("gap_group{}"),
        confidence=100 * by_bin("confidence"),
        accuracy=by_bin("accuracy"),
        share=by_bin("share_of"),
        about=subject(opened, f"groups of {label}"),
    )


@draws(group_gaps_data, size=_WIDE)
def group_gaps(ax: Axes, found: GroupGaps) -> None:
    """Draw the accuracy of groups at equal confidence, and beside it their gaps.

    Left: if the confidence of one temperature for all were enough, groups would not differ where
    they meet. Right, confidence minus accuracy, at one temperature and at the group's own.
    """
    right = _beside(ax)
    ax.plot([0, 100], [0, 100], **style.REFERENCE)
    groups = range(len(found.temperature))
    for group in groups:
        look, some = style.look(group), np.isfinite(found.accuracy[group])
        x, y = found.confidence[group][some], found.accuracy[group][some]
        label = style.literal(f"group {group}, T = {found.temperature[group]:.3g}")
        ax.plot(x, y, **look._asdict(), linewidth=1.4, label=label)
    ax.set(xlim=(0, 100), ylim=(0, 100))
    style.dress(ax, xlabel="confidence at one temperature (%)", ylabel="accuracy (%)")
    style.caption(ax, found.about)
    style.legend(ax)
    right.axhline(0, **style.REFERENCE)
    stages = {"one temperature": found.gap_at_one, found.label: found.gap}
    for i, (name, gaps) in enumerate(stages.items()):
        x = np.arange(len(gaps)) + (i - 0.5) * 0.3
        right.bar(x, gaps, 0.28, color=style.look(i).color, label=style.literal(name))
    right.set_xticks(groups, list(map(str, groups)))
    style.dress(right, xlabel="group, lowest risk first", ylabel="confidence - accuracy (points)")
    head(right, "what is left in each group")
    style.legend(right)


class RiskFlow(NamedTuple):
    """Percent of all samples that move from a group of the clean set, a row, to a shifted one.

    ``mean_risk`` is that on both; NaN where a method has no risk.
    """

    label: str
    severity: int
    shares: FloatArray
    mean_risk: tuple[float, float]
    about: str


def risk_flow_data(
    run: RunLike, *, severity: int | None = None, method: str | None = None, where: Where = None
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
    """
    opened = given.one_budget(given.open_rows(run, "risk-flow", where=where))
    flows = [metric for metric in opened.frame.unique("metric") if metric.startswith("flow_")]
    rows = shifted_rows(opened.frame.where(metric=flows))
    if not len(rows):
        raise InputError(
            "run has no shifted set that is paired with the clean one; the study risk-flow "
            "measures how samples move between them"
        )
    label = given.label_with(replace(opened, frame=rows), flows, method, of="the flow of")
    severities = sorted(rows.unique("severity"))
    chosen = severities[-1] if severity is None else severity
    given.require_one_of("severity", chosen, severities)
    # Of the same cells at both ends: not every one need have this severity.
    both = opened.only(cell=rows.where(label=label, severity=chosen).unique("cell"))
    own = at_severity(both.frame.where(label=label), chosen)
    groups = numbered(own, r"flow_(\d+)_to_\d+")
    shares = [[mean_at(own, f"flow_{i}_to_{j}", label) for j in groups] for i in groups]
    ends = (both.frame.where(set=CLEAN), own)
    before, after = (mean_at(some, "mean_risk", label) for some in ends)
    text = subject(both, f"groups of {label}")
    return RiskFlow(label, chosen, np.array(shares), (before, after), text)


@draws(risk_flow_data)
def risk_flow(ax: Axes, found: RiskFlow) -> None:
    """Draw how samples move from the groups of the clean set to those of a shifted one.

    The bars at both sides are the groups, the darkest with the highest scores. It needs sets whose
    rows are the clean samples in the same order, which nobody has in use.
    """
    shade = 0.2 + 0.7 * np.linspace(0, 1, len(found.shares))
    sides = (found.shares.sum(axis=1), found.shares.sum(axis=0))
    bottoms = [np.concatenate([[0.0], np.cumsum(side + _GAP)[:-1]]) for side in sides]
    names = (CLEAN, f"severity {found.severity}")
    for place, (side, bottom) in enumerate(zip(sides, bottoms, strict=True)):
        beside, align = (place + 0.1, "left") if place else (place - 0.1, "right")
        for group, share in enumerate(side):
            bar: dict[str, Any] = {"color": style.PALETTE[0], "alpha": shade[group], "linewidth": 0}
            ax.bar([place], [share], 2 * _BAR, [bottom[group]], **bar)
            text = style.literal(f"group {group}\n{share:.0f} %")
            look: dict[str, Any] = {"va": "center", "fontsize": style.SMALL, "color": style.INK}
            ax.annotate(text, (beside, bottom[group] + share / 2), ha=align, **look)
    step = np.linspace(0, 1, 40)
    x, rise = _BAR + (1 - 2 * _BAR) * step, step**2 * (3 - 2 * step)
    left, right = (bottom.copy() for bottom in bottoms)
    for i, j in zip(*np.nonzero(found.shares > 0), strict=True):
        share = float(found.shares[i, j])
        low = left[i] + (right[j] - left[i]) * rise
        look = {"color": style.PALETTE[0], "alpha": 0.6 * shade[i], "linewidth": 0}
        ax.fill_between(x, low, low + share, **look)
        left[i] += share
        right[j] += share
    ax.set_xlim(-0.35, 1.35)
    style.dress(ax, xlabel="", ylabel="")
    risks = ["" if math.isnan(risk) else f"\nmean risk {risk:.3f}" for risk in found.mean_risk]
    under = [style.literal(name + risk) for name, risk in zip(names, risks, strict=True)]
    ax.set_xticks([0, 1], under)
    ax.set_yticks([])
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    style.caption(ax, f"{found.about}; dark: highest scores")

"""Plots of the risk score: how it is spread, what it adds to the confidence, what groups keep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.metrics.units import written
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots.curves import beside, head, mean_at, subject
from smallcal_lab.plots.given import Run, RunLike, Where, clean, label_with, one_budget, open_rows
from smallcal_lab.studies.probes import CONFIDENCE_BINS, N_PARTS
from smallcal_lab.studies.tables.groups import numbered

#: Of a figure with two panels beside each other, in inches.
_WIDE = (8.6, 4.2)


def _opened(run: RunLike, where: Where) -> Run:
    return one_budget(clean(open_rows(run, "risk-score", where=where)))


def _means(run: Run, metrics: Iterable[str], label: str) -> FloatArray:
    return np.array([mean_at(run.frame, metric, label) for metric in metrics])


# --- how the risk is spread ----------------------------------------------------------------------


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
    """

    edges: FloatArray
    shares: dict[str, dict[str, FloatArray]]
    auroc: dict[str, float]
    about: str


def risk_density_data(run: RunLike, *, where: Where = None) -> RiskDensity:
    """Return how the out-of-fold risk of right and of wrong predictions is spread.

    Rows alone are taken to be of the study ``risk-score``, which measures it on the calibration
    split.
    """
    opened = _opened(run, where)
    bins = [f"bin{i:02d}" for i in numbered(opened.frame, r"share_of_right_bin(\d+)")]
    if not bins:
        raise InputError("run has no bins of risk; the study risk-score measures them")
    labels = opened.frame.where(metric=f"share_of_right_{bins[0]}").unique("label")
    shares = {
        label: {
            outcome: _means(opened, [f"share_of_{outcome}_{name}" for name in bins], label)
            for outcome in ("right", "wrong")
        }
        for label in labels
    }
    auroc = {label: mean_at(opened.frame, "auroc_risk", label) for label in labels}
    edges = np.linspace(0.0, 1.0, len(bins) + 1)
    return RiskDensity(edges, shares, auroc, subject(opened, "risk out of fold"))


@draws(risk_density_data)
def risk_density(ax: style.Axes, found: RiskDensity) -> None:
    """Draw the share of right and of wrong predictions in each bin of the out-of-fold risk.

    On a scale of logarithms, because most right predictions have very little risk. Rows alone are
    taken to be of the study ``risk-score``.
    """
    low, high = found.edges[:-1], found.edges[1:]
    for dash, (label, both) in enumerate(found.shares.items()):
        for i, (outcome, share) in enumerate(both.items()):
            look, some = style.look(i), share > 0
            name = f"{label}, {outcome}" if len(found.shares) > 1 else outcome
            if outcome == "wrong" and np.isfinite(found.auroc[label]):
                name += f" (AUROC {found.auroc[label]:.1f} %)"
            ax.step(
                (low + high) / 2,
                np.where(some, share, np.nan),
                where="mid",
                color=look.color,
                linestyle=style.DASHES[dash % len(style.DASHES)],
                linewidth=1.4,
                label=style.literal(name),
            )
            tips = [
                f"{label}, risk {a:.3f} to {b:.3f}: {written(value)} % of the {outcome} predictions"
                for a, b, value in zip(low[some], high[some], share[some], strict=True)
            ]
            how: dict[str, Any] = {"markersize": 3, "name": f"risk-density {label} {outcome}"}
            style.marks(ax, ((low + high) / 2)[some], share[some], look, tips=tips, **how)
    ax.set_yscale("log")
    ax.set_xlim(0, 1)
    style.dress(ax, xlabel="risk", ylabel="share of predictions in a bin (%)")
    style.caption(ax, found.about)
    style.legend(ax)


# --- what it adds to the confidence --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RiskConfidence:
    """The risk of samples in tenths by confidence, and errors in tenths by either, in percent.

    Attributes
    ----------
    label : str
        The method whose risk it is.
    confidence : ndarray of shape (10,)
        Mean raw confidence of each tenth, the most confident first.
    low, middle, high : ndarray of shape (10,)
        Quartiles of the out-of-fold risk there.
    errors : dict of str to ndarray of shape (10,)
        Error rate in tenths by ``risk`` and by ``confidence``, the safest first.
    auroc : dict of str to float
        Of ranking errors by either.
    about : str
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
    """Return the risk by confidence, and the errors by risk and by confidence.

    Means over cells. Rows alone are taken to be of the study ``risk-score``, which measures them on
    the calibration split.

    Parameters
    ----------
    method : str, optional
        Whose risk; the study's first unless it is given.
    """
    opened = _opened(run, where)
    label = label_with(opened, "error_by_risk0", method, of="the risk of")

    def tenths(name: str) -> FloatArray:
        return _means(opened, [f"{name}{i}" for i in range(N_PARTS)], label)

    signals = ("risk", "confidence")
    return RiskConfidence(
        label,
        100 * tenths("confidence_by_confidence"),
        tenths("risk_low_by_confidence"),
        tenths("risk_middle_by_confidence"),
        tenths("risk_high_by_confidence"),
        errors={name: tenths(f"error_by_{name}") for name in signals},
        auroc={name: mean_at(opened.frame, f"auroc_{name}", label) for name in signals},
        about=subject(opened, f"risk of {label} out of fold"),
    )


@draws(risk_confidence_data, size=_WIDE)
def risk_confidence(ax: style.Axes, found: RiskConfidence) -> None:
    """Draw the risk against the confidence, and beside it the errors in tenths by either.

    Left, the median risk in tenths of equally many samples by raw confidence, with quartiles; on
    the dashed line the risk is one minus the confidence. Right, the share of errors in tenths by
    risk and by confidence: whose rises more steeply ranks errors better. Rows alone are taken to
    be of the study ``risk-score``.
    """
    right = beside(ax)
    look, known = style.look(0), np.isfinite(found.middle)
    parts = (found.confidence, found.low, found.middle, found.high)
    x, low, middle, high = (values[known] for values in parts)
    ax.plot([0, 100], [100, 0], **style.REFERENCE)
    ax.vlines(x, low, high, color=look.color, linewidth=1.4)
    tips = [
        f"confidence {written(c)} %: median risk {written(m)} %, quartiles {written(a)} to "
        f"{written(b)} %"
        for c, m, a, b in zip(x, middle, low, high, strict=True)
    ]
    style.marks(ax, x, middle, look, tips=tips, name="risk-confidence")
    ax.set_xlim(max(0.0, float(x.min(initial=100.0)) - 5), 101)
    ax.set_ylim(0, 1.1 * float(high.max(initial=1.0)))
    style.dress(ax, xlabel="raw confidence (%)", ylabel="risk (%)")
    style.caption(ax, found.about)
    for i, (name, errors) in enumerate(found.errors.items()):
        look, some = style.look(i), np.isfinite(errors)
        tenth, y = np.arange(1, N_PARTS + 1)[some], errors[some]
        right.plot(tenth, y, **look.stroke, linewidth=1.4)
        tips = [
            f"tenth {t} by {name}: {written(e)} % errors" for t, e in zip(tenth, y, strict=True)
        ]
        label = style.literal(f"by {name}: AUROC {found.auroc[name]:.1f} %")
        plot = f"risk-confidence errors {name}"
        style.marks(right, tenth, y, look, label=label, tips=tips, name=plot)
    right.set_xticks(range(1, N_PARTS + 1))
    style.dress(right, xlabel="tenth of the samples, the safest first", ylabel="errors (%)")
    head(right, "errors by risk and by raw confidence")
    style.legend(right)


# --- what is left in groups ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GroupGaps:
    """Groups of one method on the test split, in percent.

    Attributes
    ----------
    label : str
    temperature, gap_at_one, gap : ndarray of shape (groups,)
        Confidence minus accuracy at one temperature for all, and at the group's own.
    confidence, accuracy, share : ndarray of shape (groups, bins)
        In bins of the confidence that one temperature gives; NaN where a group has no samples.
    about : str
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
    label = label_with(opened, "gap_group0", method, of="groups of")
    groups = numbered(opened.frame.where(label=label), r"accuracy_group(\d+)")

    def by_group(name: str) -> FloatArray:
        return _means(opened, [f"{name}{group}" for group in groups], label)

    def by_bin(name: str) -> FloatArray:
        rows = [[f"{name}_group{g}_bin{i}" for i in range(CONFIDENCE_BINS)] for g in groups]
        return np.array([_means(opened, row, label) for row in rows])

    return GroupGaps(
        label,
        by_group("temperature"),
        by_group("gap_one_group"),
        by_group("gap_group"),
        100 * by_bin("confidence"),
        by_bin("accuracy"),
        by_bin("share_of"),
        subject(opened, f"groups of {label}"),
    )


@draws(group_gaps_data, size=_WIDE)
def group_gaps(ax: style.Axes, found: GroupGaps) -> None:
    """Draw the accuracy of groups at equal confidence, and beside it their gaps.

    Left, group by group, how accurate predictions of the same confidence are, where the
    confidence is that of one temperature for all: if that were enough, groups would not differ
    where they meet. Right, confidence minus accuracy in each group, at one temperature and at the
    group's own. Rows alone are taken to be of the study ``risk-score``.
    """
    right = beside(ax)
    ax.plot([0, 100], [0, 100], **style.REFERENCE)
    groups = range(len(found.temperature))
    for group in groups:
        look, some = style.look(group), np.isfinite(found.accuracy[group])
        parts = (found.confidence, found.accuracy, found.share)
        x, y, share = (values[group][some] for values in parts)
        ax.plot(x, y, **look.stroke, linewidth=1.4)
        tips = [
            f"group {group}: {written(s)} % of the samples, confidence {written(c)} %, accuracy "
            f"{written(a)} %"
            for s, c, a in zip(share, x, y, strict=True)
        ]
        label = style.literal(f"group {group}, T = {found.temperature[group]:.3g}")
        style.marks(ax, x, y, look, label=label, tips=tips, name=f"group-gaps {group}")
    ax.set(xlim=(0, 100), ylim=(0, 100))
    style.dress(ax, xlabel="confidence at one temperature (%)", ylabel="accuracy (%)")
    style.caption(ax, found.about)
    style.legend(ax)
    right.axhline(0, **style.REFERENCE)
    stages = {"one temperature": found.gap_at_one, found.label: found.gap}
    for i, (name, gaps) in enumerate(stages.items()):
        x = np.arange(len(gaps)) + (i - 0.5) * 0.3
        bars = right.bar(x, gaps, 0.28, color=style.look(i).color, label=style.literal(name))
        tips = [
            f"{name}, group {group}: {written(gap, signed=True)} points"
            for group, gap in enumerate(gaps)
        ]
        style.with_tips(list(bars), tips, name=f"group-gaps {name}")
    right.set_xticks(groups, list(map(str, groups)))
    style.dress(right, xlabel="group, lowest risk first", ylabel="confidence - accuracy (points)")
    head(right, "what is left in each group")
    style.legend(right)

"""Why one temperature is not enough, or is: what is left in groups of risk, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.metrics.units import written
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots.curves import mean_at, subject
from smallcal_lab.plots.panels import beside, head
from smallcal_lab.plots.run import RunLike, clean, label_with, one_budget, open_rows
from smallcal_lab.studies.probes import CONFIDENCE_BINS
from smallcal_lab.studies.tables.groups import numbered


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
    about: str = ""


def group_gaps_data(
    run: RunLike, *, method: str | None = None, where: Mapping[str, Any] | None = None
) -> GroupGaps:
    """Return what one temperature leaves in groups of risk, alone and at equal confidence.

    The gaps are those of the table ``group-gaps`` of all models together. Rows alone are taken to
    be of the study ``risk-score``.

    Parameters
    ----------
    method : str, optional
        Whose groups; the study's first unless it is given.

    Raises
    ------
    InputError
        If the run has no groups, or there are several budgets.
    """
    opened = one_budget(clean(open_rows(run, "risk-score", where=where)))
    frame = opened.frame
    label = label_with(opened, "gap_group0", method, of="groups of")
    groups = numbered(frame.where(label=label), r"accuracy_group(\d+)")

    def by_group(name: str) -> FloatArray:
        return np.array([mean_at(frame, f"{name}{group}", label) for group in groups])

    def by_bin(name: str, scale: float = 1.0) -> FloatArray:
        bins = range(CONFIDENCE_BINS)
        rows = [
            [mean_at(frame, f"{name}_group{group}_bin{i}", label) for i in bins] for group in groups
        ]
        return scale * np.array(rows)

    return GroupGaps(
        label,
        by_group("temperature"),
        by_group("gap_one_group"),
        by_group("gap_group"),
        by_bin("confidence", 100.0),
        by_bin("accuracy"),
        by_bin("share_of"),
        subject(opened, f"groups of {label}"),
    )


@draws(group_gaps_data, size=(8.6, 4.2))
def group_gaps(ax: style.Axes, found: GroupGaps) -> None:
    """Draw the accuracy of groups at equal confidence, and beside it their gaps.

    Left, group by group, how accurate predictions of the same confidence are, where the
    confidence is that of one temperature for all: if that were enough, groups would not differ
    where they meet. Right, confidence minus accuracy in each group, at one temperature and at the
    group's own. Rows alone are taken to be of the study ``risk-score``.
    """
    right = beside(ax)
    ax.plot([0, 100], [0, 100], **style.REFERENCE)
    n = len(found.temperature)
    for group in range(n):
        look, some = style.look(group), np.isfinite(found.accuracy[group])
        x, y, share = (
            values[group][some] for values in (found.confidence, found.accuracy, found.share)
        )
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
    _draw_gaps(right, found)


def _draw_gaps(ax: style.Axes, found: GroupGaps) -> None:
    ax.axhline(0, **style.REFERENCE)
    stages = {"one temperature": found.gap_at_one, found.label: found.gap}
    for i, (name, gaps) in enumerate(stages.items()):
        x = np.arange(len(gaps)) + (i - 0.5) * 0.3
        bars = ax.bar(x, gaps, 0.28, color=style.look(i).color, label=style.literal(name))
        tips = [
            f"{name}, group {group}: {written(gap, signed=True)} points"
            for group, gap in enumerate(gaps)
        ]
        style.with_tips(list(bars), tips, name=f"group-gaps {name}")
    ax.set_xticks(np.arange(len(found.gap)), [str(group) for group in range(len(found.gap))])
    style.dress(ax, xlabel="group, lowest risk first", ylabel="confidence - accuracy (points)")
    head(ax, "what is left in each group")
    style.legend(ax)

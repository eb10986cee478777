"""Differences of a study as rows for :func:`smallcal.plots.forest_plot`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smallcal.plots.twins import documented
from smallcal_lab.plots.run import Run, RunLike, open_run
from smallcal_lab.studies.frame import CLEAN, Frame
from smallcal_lab.studies.tables.clean import difference, is_bare
from smallcal_lab.studies.tables.table import unit_of


@documented
def difference_rows(
    run: RunLike,
    *,
    metric: str | None = None,
    baseline: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return paired differences from the baseline, with the intervals of the tables.

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
    clean = opened.frame.where(set=CLEAN, metric=opened.metric)
    several = len(clean.unique("budget")) > 1
    found = []
    for _, part in clean.groups("budget"):
        for label in part.unique("label"):
            if label == opened.study.baseline:
                continue
            numbers = _numbers(opened, part, label)
            if numbers:
                name = f"{label}, {part.samples} samples" if several else label
                found.append({"label": name, **numbers})
    return found


def _numbers(run: Run, part: Frame, label: str) -> dict[str, float]:
    """Return a difference and its interval; nothing where there is no interval."""
    found = difference(part, run.study, run.metric, label)
    if found is None or is_bare(found):
        return {}
    scale = unit_of(run.metric).scale
    return {"value": scale * found.point, "low": scale * found.low, "high": scale * found.high}

"""Differences of a study as rows for :func:`smallcal.plots.forest_plot`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smallcal.plots.studies.run import Run, RunLike, open_run, true_names
from smallcal.plots.twins import documented
from smallcal.statistics.nested import student
from smallcal.studies.frame import ALL, CLEAN, Frame
from smallcal.studies.tables.clean import difference, is_bare, models_of, paired
from smallcal.studies.tables.table import unit_of


@documented
def difference_rows(
    run: RunLike,
    *,
    metric: str | None = None,
    baseline: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return paired differences from the baseline, with two intervals each.

    ``low`` and ``high`` are those of the table ``differences``: models, seeds in each and draws in
    each are resampled. ``wide_low`` and ``wide_high`` are Student's, of the means of models (of
    seeds where there is one model): few units cannot show how far the next one may lie. Rows alone
    are taken to be of the study ``clean``.

    Returns
    -------
    list of dict
        With ``label``, ``value``, ``low``, ``high`` and, where there is more than one unit,
        ``wide_low`` and ``wide_high``, in the units of the tables; labels name the budget where
        there are several. A difference of a single fit has no interval and is left out.

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
    budgets, true = clean.unique("budget"), true_names(clean)
    found = []
    for (budget,), part in clean.groups("budget"):
        samples = "all" if budget == ALL else f"{budget:,}"
        for label in part.unique("label"):
            if label == opened.study.baseline:
                continue
            numbers = _numbers(opened, part, label)
            if numbers:
                name = f"{label}: {true[label]}" if label in true else label
                name += f", {samples} samples" if len(budgets) > 1 else ""
                found.append({"label": name, **numbers})
    return found


def _numbers(run: Run, part: Frame, label: str) -> dict[str, float]:
    """Return a difference and its intervals; nothing where there is no interval."""
    found = difference(part, run.study, run.metric, label)
    if found is None or is_bare(found):
        return {}
    numbers = {"value": found.point, "low": found.low, "high": found.high}
    models = models_of(part, paired(part, run.metric, label, run.study.baseline))
    units: list[Any] = models if len(models) > 1 else models[0]
    if len(units) > 1:
        wide = student(units)
        numbers |= {"wide_low": wide.low, "wide_high": wide.high}
    scale = unit_of(run.metric).scale
    return {name: scale * value for name, value in numbers.items()}

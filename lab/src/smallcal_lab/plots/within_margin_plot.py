"""A metric within thirds of the logit margin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from smallcal.errors import InputError
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots.curves import Curves, curves_of, lines_of
from smallcal_lab.plots.panels import PANELS, draw_panels
from smallcal_lab.plots.run import RunLike, one_budget, open_run
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.probes import TERTILES
from smallcal_lab.studies.tables.groups import in_margin
from smallcal_lab.studies.tables.shift import shifted_rows


def within_margin_data(
    run: RunLike,
    *,
    metric: str | None = None,
    baseline: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> Curves:
    """Return a metric within thirds of the logit margin, under shift where there is one.

    Means are those of the table ``within-margin`` of all models together; differences are paired
    by set, with models, seeds in each and sets in each resampled. ``where={"set": "clean"}`` takes
    the clean samples of a run that has both. Rows alone are taken to be of the study
    ``within-margin``.

    Returns
    -------
    Curves
        Its places are the thirds: low, mid and high.

    Raises
    ------
    InputError
        If nothing was measured within a margin, or there are several budgets.

    Examples
    --------
    >>> rows = [(label, f"ece15{part}", value * size) for label, value in
    ...         (("tva-ts", 0.02), ("srts-bce", 0.01)) for part, size in
    ...         (("", 1), ("_margin_low", 2), ("_margin_mid", 1), ("_margin_high", 0.5))]
    >>> label, metric, value = zip(*rows)
    >>> columns = {"cell": ["a"] * 8, "dataset": ["a"] * 8, "backbone": ["b"] * 8,
    ...            "label": label, "metric": metric, "value": value}
    >>> found = within_margin_data(columns)
    >>> found.names, found.line("srts-bce").value.tolist()
    (('low', 'mid', 'high'), [2.0, 1.0, 0.5])
    """
    opened = open_run(run, "within-margin", metric=metric, baseline=baseline, where=where)
    opened = one_budget(opened)
    shifted = shifted_rows(opened.frame)
    rows = shifted if len(shifted) else opened.frame.where(set=CLEAN)
    parts = [in_margin(rows, [opened.metric], tertile) for tertile in TERTILES]
    if not all(map(len, parts)):
        raise InputError(
            f"run has no {opened.metric} within thirds of the margin; the study within-margin "
            "measures them"
        )
    opened = replace(opened, frame=rows)
    units = ("models", "seeds", "sets" if len(shifted) else "draws")
    x = np.arange(len(TERTILES), dtype=float)
    found = curves_of(opened, x, TERTILES, lines_of(opened, parts), units=units)
    what = "shifted sets" if len(shifted) else "clean samples"
    return replace(found, fitted="; ".join(filter(None, (found.fitted, what))))


@draws(within_margin_data, size=PANELS)
def within_margin(ax: style.Axes, found: Curves) -> None:
    """Draw a metric within thirds of the logit margin, and differences from the baseline.

    Means, differences and hollow marks are as in :func:`~smallcal.plots.budget_curve`. Rows alone
    are taken to be of the study ``within-margin``.
    """
    panels = draw_panels(ax, found, found.x, "within-margin")
    panels[-1].set_xticks(found.x, list(found.names))
    panels[-1].set_xlabel("third of the calibration split by logit margin", color=style.INK)

"""What an audit says of the groups that the user named: gaps before and after, out of fold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from smallcal.advice.calibrated_split import as_predicted
from smallcal.advice.cross_validate import out_of_fold
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.method import Method
from smallcal.data.predictions import Predictions
from smallcal.data.special import softmax
from smallcal.metrics import Scored
from smallcal.statistics.gaps import gap_rows


def group_rows(
    composed: Method,
    fitted: FittedCalibrator,
    preds: Predictions,
    *,
    foreign: bool,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[dict[str, Any], ...]:
    """Return the gap of each group before and after, and its effect; nothing without groups.

    A calibrator of other samples (``foreign``) is applied as it is. One that was fitted on these
    is fitted again without each of five folds, and measured there: on its own samples, effects of
    groups would look better than they are.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> preds = Predictions.of(val.logits, val.labels, groups=val.labels % 2)
    >>> method = sc.Calibrator(method="ts-nll")._compose()
    >>> rows = group_rows(method, method.fit(preds), preds, foreign=False)
    >>> sorted(row["group"] for row in rows), rows[0]["n"] > 500
    (['0', '1'], True)
    """
    named = preds.group_labels
    if named is None:
        return ()
    after = replace(fitted, keep_predictions=False).on(preds)
    if not foreign:
        after = out_of_fold(composed, preds, seed=seed, instead=after)
    before = preds.measured(softmax(preds.logits.astype(np.float64)))
    now, then = (Scored.of(preds.labels, proba) for proba in (after, before))
    now = as_predicted(fitted, now, preds)
    effects: dict[str, float] = {}
    if fitted.groups is not None:
        effects = dict(zip(fitted.groups.names, fitted.groups.effects, strict=True))
    rows = gap_rows(now, then, named, level=level)
    return tuple({**row, "effect": effects.get(row["group"], 0.0)} for row in rows)

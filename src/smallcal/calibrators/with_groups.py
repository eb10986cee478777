"""A fitted calibrator gets the effects of the groups that its split's rows belong to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.given import Given
from smallcal.calibrators.group_effects import Claims, claims_of, fit_effects
from smallcal.data.predictions import Predictions


def with_groups(fitted: FittedCalibrator, preds: Predictions) -> FittedCalibrator:
    """Return the calibrator with an effect of each group of the calibration set.

    The effects are fitted to the confidences that the calibrator gives its own split. Log-odds out
    of fold were tried in their place, and were no better in log-loss.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z, g = rng.normal(size=(500, 2)) * 2, np.arange(500) % 2
    >>> y = (z[:, 1] - z[:, 0] + rng.logistic(size=500) * (1 + 9 * g) > 0).astype(int)
    >>> import smallcal as sc
    >>> cal = sc.TemperatureScaling().fit(z, y, groups=np.where(g, "noisy", "clean"))
    >>> clean, noisy = cal.fitted_.groups.effects
    >>> clean > 0 > noisy
    True
    """
    assert preds.groups is not None
    proba = fitted.calibrate(Given(preds.logits.astype(np.float64), preds.features, preds.labels))
    odds, holds = claims_of(proba, preds.labels, claim=fitted.claim)
    weight = np.ones(preds.n) if preds.weight is None else preds.weight
    found = fit_effects(Claims(odds, holds, weight, preds.groups), preds.group_names)
    flags: dict[str, list[int]] = {"one_group": []} if len(found.names) == 1 else {}
    if (preds.groups < 0).any():
        flags["without_group"] = []
    return replace(fitted, groups=found, flags={**fitted.flags, **flags})

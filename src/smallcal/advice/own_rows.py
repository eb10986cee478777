"""Whether rows are those that a calibrator learned from, where its results are too good: it is."""

from __future__ import annotations

from dataclasses import replace

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.data.predictions import Predictions


def learned_from(fitted: FittedCalibrator, preds: Predictions, digest: str) -> str:
    """Return what the calibrator was on just these rows, "fitted" or "refreshed"; "" if neither.

    Rows are known by their fingerprint; ``digest`` is that of these. The fit may have known no
    groups where these rows have some.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> fitted = sc.TemperatureScaling().fit(val.logits, val.labels).fitted_
    >>> own, some = (Predictions.of(val.logits[:n], val.labels[:n]) for n in (None, 500))
    >>> learned_from(fitted, own, own.sha256()), learned_from(fitted, some, some.sha256())
    ('fitted', '')
    """
    seen = {digest}
    if preds.groups is not None:
        seen.add(replace(preds, groups=None, group_names=()).sha256())
    if fitted.data.get("sha256") in seen:
        return "fitted"
    known = {each for part in fitted.later for each in getattr(part, "batches", ())}
    return "refreshed" if known & seen else ""

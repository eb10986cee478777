"""A fitted calibrator gets the table of its split's classes, for a monitor."""

from __future__ import annotations

from dataclasses import replace

from smallcal.calibrators.class_table import MAX_CLASSES
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.data.checks import FloatArray

#: Probabilities in memory at once.
_BYTES = 2**23


def with_classes(
    fitted: FittedCalibrator, logits: FloatArray, features: FloatArray | None = None
) -> FittedCalibrator:
    """Return the calibrator with a table of classes beside the counts of its split.

    As it is where it has no counts, where its scores depend on the whole batch, and where there
    are too many classes for a table.

    Examples
    --------
    >>> import smallcal as sc
    >>> rows, labels = [[2.0, 0.0]] * 60 + [[0.0, 1.0]] * 40, [0] * 60 + [1] * 40
    >>> fitted = sc.Identity().fit(rows, labels).fitted_
    >>> fitted.reference.classes.predicted
    (6000, 4000)
    """
    reference = fitted.reference
    if reference is None or not fitted.signal.rowwise or fitted.n_classes > MAX_CLASSES:
        return fitted
    size = max(1, _BYTES // (8 * fitted.n_classes))
    parts = (slice(start, start + size) for start in range(0, len(logits), size))
    proba = (
        fitted.predict_proba(logits[rows], features=None if features is None else features[rows])
        for rows in parts
    )
    seen = fitted.watch(logits, features=features)
    return replace(fitted, reference=reference.with_classes(seen, proba))

"""A fitted calibrator gets the table of its split's classes, for a monitor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.class_table import MAX_CLASSES, ClassTable, LaterTable
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.given import Given
from smallcal.data.checks import FloatArray
from smallcal.data.predictions import IntArray

#: Logits that a table is made of: as many rows as hold so many numbers.
_NUMBERS = 2**20


def with_classes(
    fitted: FittedCalibrator,
    logits: FloatArray,
    features: FloatArray | None = None,
    groups: NDArray[np.str_] | None = None,
) -> FittedCalibrator:
    """Return the calibrator with a table of classes beside the counts of its split.

    The table is made when somebody asks for it, from a copy of the rows: of all of them, or of a
    sample where they hold more than a million numbers. No table where there are no counts, where
    scores depend on the whole batch, and where there are too many classes.

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
    rows = _sample(len(logits), _NUMBERS // fitted.n_classes)
    kept = np.array(logits[rows])
    known = None if features is None else np.array(features[rows])
    given = Given(kept, known, None)
    if fitted.groups is not None and groups is not None:
        given = given._replace(groups=fitted.groups.codes(groups[rows]))

    def make() -> ClassTable:
        proba = fitted.calibrate(given)
        return ClassTable.of(proba, reference.codes(fitted.watch(kept, features=known)))

    return replace(fitted, reference=replace(reference, table=LaterTable(make)))


def _sample(n: int, size: int) -> slice | IntArray:
    """Return all rows, or the same random ones every time."""
    if n <= size:
        return slice(None)
    return np.sort(np.random.default_rng(0).choice(n, size, replace=False, shuffle=False))

"""How frequent the classes of a calibration split were, from what its artefact knows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.class_table import UNIT, ClassTable
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.reference import Bins, Reference
from smallcal.errors import InputError
from smallcal.statistics.class_frequencies import FloatArray
from smallcal.statistics.moved_classes import Split


def split_of(fitted: FittedCalibrator) -> Split:
    """Return what the calibrator knows of the classes of its split.

    Their frequencies are mean calibrated probabilities, not shares of labels: rows that are those
    of the split then lead to no change, exactly, however small it was.
    """
    table = None if fitted.reference is None else fitted.reference.classes
    if table is None:
        raise InputError(
            "this calibrator has no table of the classes of its split, which says how frequent "
            "they were (an older file, or over 1,000 classes); fit it again",
            code="artefact-outdated",
        )
    mean = np.maximum(table.sums("confidence").sum(axis=0), 0.5)
    return Split(mean / mean.sum(), sum(table.predicted) / UNIT, *_typical(table))


def _typical(table: ClassTable) -> tuple[FloatArray, FloatArray]:
    """Return probabilities that stand for those of a split, and the share of each.

    Two rows for each predicted class, so that the confidence has the mean and the spread it had.
    """
    counts = np.array(table.predicted, dtype=np.float64)
    kept = np.flatnonzero(counts)
    n, each = counts[kept], np.arange(len(kept))
    mean = np.minimum(np.array(table.certainty)[kept] / n, 1)
    spread = np.sqrt(np.maximum(np.array(table.squares)[kept] / n - mean**2, 0))
    others = table.joint[kept] + 1e-12
    others[each, kept] = 0
    others /= others.sum(axis=1, keepdims=True)
    rows = []
    for sure in (np.maximum(mean - spread, 0), np.minimum(mean + spread, 1)):
        row = others * (1 - sure)[:, None]
        row[each, kept] = sure
        rows.append(row)
    return np.concatenate(rows), np.tile(n / n.sum() / 2, 2)


def weighed(reference: Reference | None, changes: NDArray[np.floating]) -> Reference | None:
    """Return the counts that the split would have had with classes as frequent as they are now.

    A weighed sample is worth fewer samples. Which class is predicted is not known any more, so
    there is no table of classes, and groups are not counted.
    """
    if reference is None or reference.classes is None:
        return None
    table = reference.classes
    share = table.sums("confidence").sum(axis=0)
    share /= share.sum()
    worth = sum(table.predicted) / UNIT * float(share @ changes) ** 2 / float(share @ changes**2)

    def bins(name: str) -> Bins | None:
        old = getattr(reference, name)
        if old is None:
            return None
        sums = table.sums(name) @ changes
        counts = np.maximum(np.rint(worth * sums / sums.sum()), 1).astype(int)
        return Bins(old.edges, tuple(counts.tolist()))

    confidence = bins("confidence")
    assert confidence is not None
    return Reference(confidence, bins("score"))

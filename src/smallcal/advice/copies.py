"""Samples that are copies of one another, and so are no independent evidence."""

from __future__ import annotations

import numpy as np

from smallcal.data.checks import FloatArray, IntArray

#: So many copies are no matter, or this share of the samples.
_FEW, _FEW_SHARE = 5, 0.01


def copies_note(labels: IntArray, proba: FloatArray) -> str:
    """Return a note if many samples have the probabilities and the label of another, else "".

    Examples
    --------
    >>> p = np.repeat(np.random.default_rng(0).uniform(0.2, 0.8, 30), 5)
    >>> y = np.repeat([0, 1], 75)
    >>> copies_note(y, np.column_stack([1 - p, p])).partition(":")[0]
    'only 30 of 150 samples differ'
    >>> copies_note(y[::5], np.column_stack([1 - p, p])[::5])
    ''
    """
    from smallcal.calibrators.maps.multinomial_fit import find_copies  # slow to load

    _, copy_of = find_copies(labels, np.log(np.maximum(proba, np.finfo(np.float64).tiny)))
    distinct = len(labels) if copy_of is None else int(copy_of.max()) + 1
    if len(labels) - distinct <= max(_FEW, _FEW_SHARE * len(labels)):
        return ""
    return (
        f"only {distinct:,} of {len(labels):,} samples differ: copies are not independent of one "
        "another; say which samples belong together with --cluster (in Python clusters=)"
    )

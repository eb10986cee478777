"""Batches of rows that were counted before: a file that is given again counts once."""

from __future__ import annotations

import numpy as np

from smallcal.calibrators.confidence_shift import BATCHES, ROWS_OF_A_BATCH
from smallcal.data.checks import FloatArray
from smallcal.errors import InputError

#: Rows that are looked at, and bits that they must tell: chance repeats few of these.
_ROWS, _BITS = 1000, 64


def once(before: tuple[str, ...], own: tuple[str, ...], seen: str) -> tuple[str, ...]:
    """Return fingerprints of batches with some more; ``seen`` is the error if one is known.

    Examples
    --------
    >>> once(("a",), ("b",), "these rows were counted before")
    ('a', 'b')
    >>> once(("a",), ("a",), "these rows were counted before")
    Traceback (most recent call last):
    smallcal.errors.InputError: these rows were counted before; they would count twice
    """
    if set(before) & set(own):
        raise InputError(f"{seen}; they would count twice", code="rows-counted-twice")
    return (*before, *own)[-BATCHES:]


def distinctive(logits: FloatArray) -> bool:
    """Whether the same rows again are the same batch, and not others that look alike.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(30, 4))
    >>> distinctive(rows), distinctive(rows[:5]), distinctive(np.ones((500, 4)))
    (True, False, False)
    """
    if len(logits) < ROWS_OF_A_BATCH:
        return False
    counts = np.unique(logits[:_ROWS], axis=0, return_counts=True)[1]
    return bool(-(counts * np.log2(counts / counts.sum())).sum() >= _BITS)

"""One set of probabilities or several by name, which most plots are given; accuracies in bins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from smallcal.data.claims import CLAIMS, Claim
from smallcal.data.predictions import BoolArray, IntArray
from smallcal.errors import InputError
from smallcal.metrics import Scored
from smallcal.metrics.binned import BinTable
from smallcal.statistics.interval import binomial_interval

#: What a series is called where no name was given; it gets no legend.
UNNAMED = "probs"


def views_of(y_true: object, probs: object) -> dict[str, Scored]:
    """Check each set of probabilities against the labels; a lone one is called ``"probs"``.

    One-dimensional ones are the probabilities of outcome 1; a :class:`Scored` is taken as it is.

    Examples
    --------
    >>> list(views_of([0, 1], {"raw": [[0.9, 0.1], [0.7, 0.3]]}))
    ['raw']
    """
    named = probs if isinstance(probs, Mapping) else {UNNAMED: probs}
    if not named:
        raise InputError("probs is empty; pass an (n, C) array or {name: array}", code="empty")
    views = {}
    for name, proba in named.items():
        try:
            views[str(name)] = proba if isinstance(proba, Scored) else Scored.of(y_true, proba)
        except InputError as error:
            if proba is probs:
                raise
            raise error.about(f"probs[{name!r}]") from None
    return views


def claim_of(found: Mapping[str, Any]) -> Claim:
    """Return the words for what the first of some series claims, by its ``kind``."""
    return CLAIMS[next(iter(found.values())).kind]


def prefix_of(name: str) -> str:
    """Return how a text about a series begins: with its name, if it was given one."""
    return "" if name == UNNAMED else f"{name}, "


def accuracies(table: BinTable, bins: IntArray | BoolArray, *, level: float) -> dict[str, Any]:
    """Return what some bins hold, with Clopper and Pearson's interval of the accuracy."""
    count, accuracy = table.count[bins], table.accuracy[bins]
    low, high = binomial_interval(np.rint(accuracy * count), count.astype(float), level=level)
    ends = {"low": low, "high": high, "level": level}
    return {"count": count, "confidence": table.confidence[bins], "accuracy": accuracy, **ends}

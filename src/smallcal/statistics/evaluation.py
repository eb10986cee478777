"""What :func:`smallcal.evaluate` returns: a dictionary that a notebook can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from smallcal.data.in_notebook import InNotebook
from smallcal.metrics import Scored
from smallcal.metrics.binned import DEFAULT_BINS, BinTable, bin_table, equal_width

Value = TypeVar("Value")


class Evaluation(dict[str, Value], InNotebook):
    """Metric name to what was found for it; with groups, group to such a dictionary.

    A dictionary in every respect: equal to one with the same entries, written by ``json`` and
    ``pickle``, shown by ``repr`` as one. What it knows beside its entries is for pictures.

    Attributes
    ----------
    n : int
        Samples that were measured.
    kind : {"logits", "score"}
        Whether a class is claimed, or outcome 1.
    bins : BinTable or None
        Accuracy and confidence in 15 bins, without the bin of each sample.

    Examples
    --------
    >>> Evaluation({"accuracy": 0.5}) == {"accuracy": 0.5}
    True
    >>> Evaluation({"accuracy": 0.5})
    {'accuracy': 0.5}
    """

    n: int = 0
    kind: str = "logits"
    bins: BinTable | None = None

    @classmethod
    def of(cls, found: Mapping[str, Value], view: Scored) -> Evaluation[Value]:
        """Return what was found, with what a picture of these predictions needs.

        Examples
        --------
        >>> view = Scored.of([0, 1], [[0.75, 0.25], [0.5, 0.5]])
        >>> Evaluation.of({"accuracy": 0.5}, view).bins.count.sum().item()
        2
        """
        made = cls(found)
        made.n, made.kind = view.n, view.kind
        table = bin_table(view, equal_width(view.confidence, DEFAULT_BINS))
        made.bins = replace(table, index=np.empty(0, dtype=np.int64))
        return made

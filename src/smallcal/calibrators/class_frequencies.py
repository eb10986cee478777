"""Classes that are more or less frequent than in the calibration split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.later import ASIDE, Later
from smallcal.calibrators.parts import Rule, list_of, rule
from smallcal.calibrators.program import Value
from smallcal.data.checks import FloatArray
from smallcal.errors import InputError

#: Where frequencies are from: estimated from rows without labels, or given.
SOURCES = ("rows", "rates")


@dataclass(frozen=True)
class ClassFrequencies(Later):
    """Probabilities times how much more frequent each class became, normalised.

    Attributes
    ----------
    before, now : tuple of float
        Frequency of each class in the calibration split, and where the model runs.
    low, high : tuple of float
        An interval for each of those now; empty where they were given.
    level : float or None
        Of the intervals.
    p_value : float or None
        Of "nothing has changed", where that was tested.
    rows : int
        Rows they were estimated from; 0 where they were given.
    source : {"rows", "rates"}
        Whether they were estimated from rows or given.

    Examples
    --------
    >>> p = np.array([[0.5, 0.5]])
    >>> ClassFrequencies((0.5, 0.5), (0.8, 0.2)).apply(p, claim=None)
    >>> p.tolist()
    [[0.8, 0.2]]
    """

    before: tuple[float, ...]
    now: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    level: float | None = None
    p_value: float | None = None
    rows: int = 0
    source: str = "rates"
    aside: Mapping[str, Any] = field(default_factory=dict)
    kind: ClassVar[str] = "frequencies"
    words: ClassVar[str] = "classes count by how frequent they became"
    schema: ClassVar[Mapping[str, Rule]] = {
        "before": rule("numbers", "Frequency of each class in the calibration split."),
        "now": rule("numbers", "Frequency of each class where the model runs."),
        "low": list_of(rule("probability"), "Lower ends of intervals; none where it was given."),
        "high": list_of(rule("probability"), "Upper ends."),
        "level": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
        "p_value": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "rows": rule("count", "Rows that frequencies were estimated from."),
        "source": {"type": "string", "enum": list(SOURCES)},
        "aside": ASIDE,
    }

    def __post_init__(self) -> None:
        n = len(self.before)
        if len(self.now) != n:
            raise InputError("frequencies need as many classes before as now")
        for name in ("before", "now"):
            shares = np.array(getattr(self, name))
            if not (shares > 0).all() or not np.isclose(shares.sum(), 1):
                raise InputError(
                    f"frequencies {name} must be above 0 and sum to 1", code="option-range"
                )
        if len(self.low) != len(self.high) or len(self.low) not in (0, n):
            raise InputError("intervals of frequencies need two ends for each class")
        if self.low and not (np.array(self.low) <= np.array(self.high)).all():
            raise InputError("intervals of frequencies must begin before they end")

    @property
    def n_classes(self) -> int | None:
        """Classes it is for."""
        return len(self.before)

    @property
    def factors(self) -> FloatArray:
        """How much more frequent each class became."""
        return np.asarray(np.array(self.now) / np.array(self.before))

    def apply(self, probabilities: FloatArray, *, claim: int | None) -> None:
        """Weigh the probabilities of some rows, in place."""
        weighed = probabilities.astype(np.float64) * self.factors
        weighed /= weighed.sum(axis=1, keepdims=True)
        probabilities[...] = weighed

    def program(self, probabilities: Value, *, claim: int | None) -> Value:
        """Write the weighed probabilities down."""
        weighed = probabilities * program.constant(self.factors)
        return weighed / weighed.sum()

    def preserves_argmax(self, claim: int | None) -> bool:
        """Whether the predicted class can never change: only where nothing became likelier."""
        return len(set(self.factors.tolist())) == 1

"""Classes that are more or less frequent than in the calibration split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.later import ASIDE, Later
from smallcal.calibrators.parts import Rule, rule
from smallcal.calibrators.program import Value
from smallcal.data.checks import FloatArray
from smallcal.errors import InputError


@dataclass(frozen=True)
class ClassFrequencies(Later):
    """Probabilities times how much more frequent each class became, normalised.

    Attributes
    ----------
    before, now : tuple of float
        Frequency of each class in the calibration split, and where the model runs.

    Examples
    --------
    >>> p = np.array([[0.5, 0.5]])
    >>> ClassFrequencies((0.5, 0.5), (0.8, 0.2)).apply(p, claim=None)
    >>> p.tolist()
    [[0.8, 0.2]]
    """

    before: tuple[float, ...]
    now: tuple[float, ...]
    aside: Mapping[str, Any] = field(default_factory=dict)
    kind: ClassVar[str] = "frequencies"
    words: ClassVar[str] = "classes count by how frequent they became"
    schema: ClassVar[Mapping[str, Rule]] = {
        "before": rule("numbers", "Frequency of each class in the calibration split."),
        "now": rule("numbers", "Frequency of each class where the model runs."),
        "aside": ASIDE,
    }

    def __post_init__(self) -> None:
        if len(self.before) != len(self.now):
            raise InputError("frequencies need as many classes before as now")
        for name in ("before", "now"):
            shares = np.array(getattr(self, name))
            if not (shares > 0).all() or not np.isclose(shares.sum(), 1):
                raise InputError(f"frequencies {name} must be above 0 and sum to 1")

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

"""What labels seen after the fit say of a calibrator's confidence: a slope and a bias.

The log-odds l of a claim's confidence become a l + b. The claim is the predicted class, or outcome
1 of a score; other classes keep their proportions, and the prediction never changes. Beyond
``FAR`` log-odds move as they do there. The part keeps the counts that slope and bias were found
from, so that more rows can be added to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.evidence import FARTHEST, MOST_ROWS, STEPS, UNIT, Evidence
from smallcal.calibrators.group_effects import shift_claims, shifted_claims
from smallcal.calibrators.later import ASIDE, Later
from smallcal.calibrators.parts import Rule, list_of, rule
from smallcal.calibrators.program import Value
from smallcal.data.checks import FloatArray
from smallcal.errors import InputError

#: Log-odds beyond this are moved as this is.
FAR = 20.0
#: Slopes and biases: what they shift log-odds by has a finite exponential in every export.
SLOPES, BIASES = (0.05, 3.0), (-10.0, 10.0)
#: Fingerprints of the last batches that are kept, and the rows a batch needs to have one: single
#: rows may well be alike.
BATCHES, ROWS_OF_A_BATCH = 100, 20

#: Probabilities below this have the logarithm of this.
_LEAST = 1e-300

_AMOUNT: Rule = {"type": "integer", "minimum": 0, "maximum": MOST_ROWS * UNIT}


@dataclass(frozen=True)
class ConfidenceShift(Later):
    """Log-odds of the confidence become slope times themselves, plus a bias.

    Attributes
    ----------
    slope, bias : float
        1 and 0 where the new rows were no likelier with others.
    odds, right, wrong, bins : tuple of int
        Counts of the new rows; see :class:`smallcal.calibrators.evidence.Evidence`.
    batches : tuple of str
        Fingerprints of batches that were added.

    Examples
    --------
    >>> p = np.array([[0.8, 0.15, 0.05]])
    >>> ConfidenceShift(slope=0.5, bias=0.0).apply(p, claim=None)
    >>> p.round(3).tolist()
    [[0.667, 0.25, 0.083]]
    """

    slope: float
    bias: float
    odds: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    wrong: tuple[int, ...] = ()
    bins: tuple[int, ...] = ()
    batches: tuple[str, ...] = ()
    aside: Mapping[str, Any] = field(default_factory=dict)
    kind: ClassVar[str] = "shift"
    words: ClassVar[str] = (
        "the log-odds of the confidence are multiplied and shifted, by new labels"
    )
    schema: ClassVar[Mapping[str, Rule]] = {
        "slope": rule("number", "Of the log-odds.", minimum=SLOPES[0], maximum=SLOPES[1]),
        "bias": rule("number", "Added to the log-odds.", minimum=BIASES[0], maximum=BIASES[1]),
        "odds": list_of(
            {"type": "integer", "minimum": -FARTHEST * STEPS, "maximum": FARTHEST * STEPS},
            f"Log-odds of new rows before the shift, in steps of 1/{STEPS}.",
            most=2 * FARTHEST * STEPS + 1,
        ),
        "right": list_of(_AMOUNT, "Rows there whose claim holds, in 1/2^20."),
        "wrong": list_of(_AMOUNT, "Rows there whose claim does not, in 1/2^20."),
        "bins": list_of(_AMOUNT, "New rows in each bin of the model's own confidence."),
        "batches": list_of({"type": "string"}, "Fingerprints of the last batches.", most=BATCHES),
        "aside": ASIDE,
    }

    def __post_init__(self) -> None:
        for name, (low, high) in (("slope", SLOPES), ("bias", BIASES)):
            if not low <= getattr(self, name) <= high:
                raise InputError(f"{name} must lie in {low:g} to {high:g}")
        if len(self.batches) > BATCHES:
            raise InputError(f"at most {BATCHES} batches; got {len(self.batches)}")
        self.evidence  # noqa: B018  checks its counts

    @property
    def evidence(self) -> Evidence:
        """The counts of the new rows."""
        return Evidence(self.odds, self.right, self.wrong, self.bins)

    @property
    def still(self) -> bool:
        """Whether nothing is moved."""
        return self.slope == 1 and self.bias == 0

    def of(self, odds: FloatArray) -> FloatArray:
        """Return log-odds after the shift.

        Examples
        --------
        >>> ConfidenceShift(slope=0.5, bias=1.0).of(np.array([2.0, 100.0])).tolist()
        [2.0, 91.0]
        """
        return np.asarray(odds + (self.slope - 1) * np.clip(odds, -FAR, FAR) + self.bias)

    def apply(self, probabilities: FloatArray, *, claim: int | None) -> None:
        """Shift the confidence of each row, in place."""
        if self.still:
            return
        p, each = np.array(probabilities, dtype=np.float64), np.arange(len(probabilities))
        top = p.argmax(axis=1) if claim is None else np.full(len(p), claim)
        confidence = p[each, top]
        p[each, top] = 0
        odds = np.log(np.maximum(confidence, _LEAST)) - np.log(np.maximum(p.sum(axis=1), _LEAST))
        shift_claims(probabilities, self.of(odds) - odds, claim=claim)

    def program(self, probabilities: Value, *, claim: int | None) -> Value:
        """Write the shifted probabilities down, for exporters."""
        if self.still:
            return probabilities
        if claim is None:
            top = probabilities.at_top()
            confidence = probabilities.largest()
        else:
            top = program.constant(np.eye(probabilities.width)[claim])
            confidence = (probabilities * top).sum()
        rest = program.choose(top, 0.0, probabilities).sum()
        odds = program.log(confidence.at_least(_LEAST)) - program.log(rest.at_least(_LEAST))
        effect = odds.at_least(-FAR).at_most(FAR) * (self.slope - 1) + self.bias
        return shifted_claims(probabilities, effect, claim=claim)

    def preserves_argmax(self, claim: int | None) -> bool:
        """Whether the predicted class can never change: of a score, which outcome is likelier."""
        return claim is None or self.still

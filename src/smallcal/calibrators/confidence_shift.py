"""What labels seen after the fit say of a calibrator's confidence.

The log-odds l of a claim's confidence become a l + b. The claim is the predicted class, or outcome
1 of a score. The proportions of the other classes are raised to a power and normalised. The
prediction never changes. Beyond ``FAR`` log-odds move as they do there. The part keeps the counts
that these three numbers were found from, so that more rows can be added to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.evidence import (
    EXPONENTS,
    FARTHEST,
    LEAST,
    STEPS,
    Evidence,
    others_of,
)
from smallcal.calibrators.later import ASIDE, Later
from smallcal.calibrators.objectives import sigmoid
from smallcal.calibrators.parts import Rule, list_of, rule
from smallcal.calibrators.program import BELOW, Value
from smallcal.calibrators.softmax import keep_argmax
from smallcal.data.checks import FloatArray
from smallcal.errors import InputError

#: Log-odds beyond this are moved as this is.
FAR = 20.0
#: Slopes, biases and exponents lie within these.
SLOPES, BIASES, TAILS = (0.05, 3.0), (-10.0, 10.0), (0.2, 5.0)
#: Fingerprints of the last batches that are kept, and the rows a batch needs to have one: single
#: rows may well be alike.
BATCHES, ROWS_OF_A_BATCH = 100, 20

_AMOUNT: Rule = {"type": "integer", "minimum": 0, "maximum": 2**62}


@dataclass(frozen=True)
class ConfidenceShift(Later):
    """Log-odds of the confidence become slope times themselves, plus a bias; others are tempered.

    Attributes
    ----------
    slope, bias : float
        1 and 0 where the new rows were no likelier with other numbers.
    tail : float
        The power of the other classes' proportions; 1 where the new rows were no likelier with
        another.
    odds, right, wrong, bins, tail_losses, tail_spread : counts
        Of the new rows; see :class:`smallcal.calibrators.evidence.Evidence`.
    batches : tuple of str
        Fingerprints of batches that were added.

    Examples
    --------
    >>> p = np.array([[0.8, 0.15, 0.05]])
    >>> ConfidenceShift(slope=0.5, bias=0.0, tail=0.5).apply(p, claim=None)
    >>> p.round(3).tolist()
    [[0.667, 0.211, 0.122]]
    """

    slope: float
    bias: float
    tail: float = 1.0
    odds: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    wrong: tuple[int, ...] = ()
    bins: tuple[int, ...] = ()
    tail_losses: tuple[int, ...] = ()
    tail_spread: int = 0
    batches: tuple[str, ...] = ()
    aside: Mapping[str, Any] = field(default_factory=dict)
    kind: ClassVar[str] = "shift"
    words: ClassVar[str] = (
        "the log-odds of the confidence are multiplied and shifted, by new labels"
    )
    schema: ClassVar[Mapping[str, Rule]] = {
        "slope": rule("number", "Of the log-odds.", minimum=SLOPES[0], maximum=SLOPES[1]),
        "bias": rule("number", "Added to the log-odds.", minimum=BIASES[0], maximum=BIASES[1]),
        "tail": rule("number", "Power of the other classes.", minimum=TAILS[0], maximum=TAILS[1]),
        "odds": list_of(
            {"type": "integer", "minimum": -FARTHEST * STEPS, "maximum": FARTHEST * STEPS},
            f"Log-odds of new rows before the shift, in steps of 1/{STEPS}.",
            most=2 * FARTHEST * STEPS + 1,
        ),
        "right": list_of(_AMOUNT, "Rows there whose claim holds, in 1/2^20."),
        "wrong": list_of(_AMOUNT, "Rows there whose claim does not, in 1/2^20."),
        "bins": list_of(_AMOUNT, "New rows in each bin of the model's own confidence."),
        "tail_losses": list_of(
            _AMOUNT,
            "Log-loss of the other classes at each power, in 1/2^20; none where there are none.",
            most=len(EXPONENTS),
        ),
        "tail_spread": {**_AMOUNT, "description": "What rows tell of that power, in 1/2^20."},
        "batches": list_of({"type": "string"}, "Fingerprints of the last batches.", most=BATCHES),
        "aside": ASIDE,
    }

    def __post_init__(self) -> None:
        for name, (low, high) in (("slope", SLOPES), ("bias", BIASES), ("tail", TAILS)):
            if not low <= getattr(self, name) <= high:
                raise InputError(f"{name} must lie in {low:g} to {high:g}", code="option-range")
        if len(self.batches) > BATCHES:
            raise InputError(
                f"at most {BATCHES} batches; got {len(self.batches)}", code="option-range"
            )
        self.evidence  # noqa: B018  checks its counts

    @property
    def evidence(self) -> Evidence:
        """The counts of the new rows."""
        counts = self.odds, self.right, self.wrong, self.bins
        return Evidence(*counts, self.tail_losses, self.tail_spread)

    @property
    def still(self) -> bool:
        """Whether nothing is moved."""
        return self.slope == 1 and self.bias == 0 and self.tail == 1

    def of(self, odds: FloatArray) -> FloatArray:
        """Return log-odds after the shift.

        Examples
        --------
        >>> ConfidenceShift(slope=0.5, bias=1.0).of(np.array([2.0, 100.0])).tolist()
        [2.0, 91.0]
        """
        return np.asarray(odds + (self.slope - 1) * np.clip(odds, -FAR, FAR) + self.bias)

    def apply(self, probabilities: FloatArray, *, claim: int | None) -> None:
        """Shift the confidence of each row, in place; one that has no other class stays."""
        if self.still:
            return
        p, each = probabilities.astype(np.float64), np.arange(len(probabilities))
        top = p.argmax(axis=1) if claim is None else np.full(len(p), claim)
        confidence = p[each, top]
        p[each, top] = 0
        rest = p.sum(axis=1)
        odds = self.of(np.log(np.maximum(confidence, LEAST)) - np.log(np.maximum(rest, LEAST)))
        shares, logs = others_of(p, top)
        if self.tail != 1:
            shares = np.where(shares > LEAST, np.exp(self.tail * logs), 0.0)
            shares /= np.maximum(shares.sum(axis=1, keepdims=True), LEAST)
        shares *= sigmoid(-odds)[:, None]
        wanted = sigmoid(odds)
        if claim is None:
            wanted = np.maximum(wanted, shares.max(axis=1))
        shares[each, top] = wanted
        shares /= np.einsum("ij->i", shares)[:, None]
        moved = shares.astype(probabilities.dtype)
        if claim is None:
            keep_argmax(moved, top)
        some = rest > LEAST
        probabilities[some] = moved[some]

    def program(self, probabilities: Value, *, claim: int | None) -> Value:
        """Write the shifted probabilities down, for exporters."""
        if self.still:
            return probabilities
        mask = np.zeros(probabilities.width)
        mask[claim or 0] = 1.0
        top = probabilities.at_top() if claim is None else program.constant(mask)
        confidence = program.choose(top, probabilities, 0.0).sum()
        others = program.choose(top, 0.0, probabilities)
        rest = others.sum()
        held = rest.at_least(LEAST)
        odds = program.log(confidence.at_least(LEAST)) - program.log(held)
        odds = odds + odds.at_least(-FAR).at_most(FAR) * (self.slope - 1) + self.bias
        shares = others / held
        if self.tail != 1:
            powers = program.exp(program.log(shares.at_least(LEAST)) * self.tail)
            shares = program.choose(shares.reached(LEAST), powers, 0.0)
            shares = shares / shares.sum().at_least(LEAST)
        shares = shares * program.sigmoid(0.0 - odds)
        wanted = program.sigmoid(odds)
        if claim is None:
            wanted = wanted.at_least(shares.largest())
            # As far apart as the exporters hold a rival below the top.
            shares = shares.at_most(wanted * BELOW)
        weights = program.choose(top, wanted, shares)
        return program.choose(rest.reached(LEAST), weights / weights.sum(), probabilities)

    def preserves_argmax(self, claim: int | None) -> bool:
        """Whether the predicted class can never change: of a score, which outcome is likelier."""
        return claim is None or self.still

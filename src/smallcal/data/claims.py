"""What is claimed of a row, in words: that a class is the true one, or that outcome 1 comes.

Sentences that are told of both, in an audit, a plan, a report or on a monitor, take their words
from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The words for one kind of row.

    Attributes
    ----------
    raw : str
        What there is before anything is fitted.
    confidence, accuracy : str
        What is claimed, and what it should meet.
    rows, right, wrong : str
        What is counted, and of which of the two kinds it is: "40 predictions are right".
    are_right, are_wrong : str
        The same of samples: "40 samples are predicted right", "40 samples have outcome 1".
    failed, errors, rate : str
        The wrong ones among others: "3 of 60 wrong", "errors among them", and their share.
    hits : str
        The right ones among others: "too few right predictions to tell".
    loss : str
        The metric that decides.
    sure : str
        What rows are that one keeps first.
    over, under : str
        What confidences are that lie above what they should meet, and below.
    """

    raw: str = "the uncalibrated model"
    confidence: str = "confidence"
    accuracy: str = "accuracy"
    rows: str = "predictions"
    right: str = "right"
    wrong: str = "wrong"
    are_right: str = "are predicted right"
    are_wrong: str = "are predicted wrong"
    failed: str = "wrong"
    errors: str = "errors"
    rate: str = "error rate"
    hits: str = "right predictions"
    loss: str = "top_label_bce"
    sure: str = "confident"
    over: str = "overconfident"
    under: str = "underconfident"

    @property
    def confidences(self) -> str:
        """More than one of what is claimed."""
        return "probabilities" if self.confidence == "probability" else f"{self.confidence}s"

    @property
    def row(self) -> str:
        """One of what is counted."""
        return self.rows.removesuffix("s")


#: Of each thing that a row may hold; see ``INPUT_KINDS``.
CLAIMS: Mapping[str, Claim] = MappingProxyType(
    {
        "logits": Claim(),
        "probabilities": Claim(),
        "score": Claim(
            raw="the raw score",
            confidence="probability",
            accuracy="success rate",
            rows="outcomes",
            right="1",
            wrong="0",
            are_right="have outcome 1",
            are_wrong="have outcome 0",
            failed="failed",
            errors="failures",
            rate="failure rate",
            hits="successes",
            # Of one outcome of two, the log-likelihood is the cross-entropy of the probability.
            loss="nll",
            sure="probable",
            over="too high",
            under="too low",
        ),
    }
)

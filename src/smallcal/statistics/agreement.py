"""Whether labels can be those of these predictions: accuracy against what chance would give.

Labels of other rows, or columns in another order, leave a file that looks sound. What they cannot
leave is predictions that agree with the labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy

from smallcal.data.checks import IntArray

#: A stop must never be chance: one in ten thousand; a note may be, once in a thousand.
_STOP_LEVEL = 1e-4
_NOTE_LEVEL = 1e-3


@dataclass
class Agreement:
    """Counts by class: labels, predictions, and predictions that are right.

    Examples
    --------
    >>> y = np.arange(100) % 2
    >>> Agreement(2).add(y, 1 - y).verdict().stop
    True
    >>> Agreement(2).add(y, y).verdict()
    Verdict(stop=False, text='')
    """

    n_classes: int
    labels: IntArray = field(init=False)
    predicted: IntArray = field(init=False)
    hits: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.labels, self.predicted, self.hits = np.zeros((3, self.n_classes), dtype=np.int64)

    def add(self, labels: IntArray, predicted: IntArray) -> Agreement:
        """Count some rows, and return this."""
        right = labels[labels == predicted]
        self.labels += np.bincount(labels, minlength=self.n_classes)
        self.predicted += np.bincount(predicted, minlength=self.n_classes)
        self.hits += np.bincount(right, minlength=self.n_classes)
        return self

    def verdict(self, class_names: Sequence[str] | None = None) -> Verdict:
        """Say whether this is worse than chance allows.

        It stops where fewer predictions are right than both guessing (1 of C) and labels that
        have nothing to do with the predictions would give, beyond doubt. A model that merely
        prefers some classes is not below the latter, however few of its predictions are right.
        It notes where always naming the most frequent class would be right more often.
        """
        n, right = int(self.labels.sum()), int(self.hits.sum())
        if not n:
            return Verdict()
        unrelated = float(self.labels / n @ (self.predicted / n))
        chance = min(1 / self.n_classes, unrelated)
        often = int(self.labels.argmax())
        name = f"class {often}" if class_names is None else repr(str(class_names[often]))
        said = (
            f"only {_percent(right / n)} of predictions are right, where always saying {name} "
            f"would be right in {_percent(self.labels[often] / n)}"
        )
        if right < n * chance and _at_most(right, n, chance) < _STOP_LEVEL:
            return Verdict(stop=True, text=said)
        gained = right - int(self.hits[often])
        lost = int(self.labels[often] - self.hits[often])
        if gained < lost and _at_most(gained, gained + lost, 0.5) < _NOTE_LEVEL:
            return Verdict(text=said)
        return Verdict()


@dataclass(frozen=True)
class Verdict:
    """What to think of an accuracy: nothing, a note, or a reason to stop."""

    stop: bool = False
    text: str = ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _at_most(k: int, n: int, p: float) -> float:
    """Return the probability of at most k successes among n."""
    return float(scipy.special.bdtr(k, n, p))

"""What to use for a split: the one decision that every verb says in its own length.

It is the default, which was measured on every kind of model there is here, and which falls back to
temperature scaling where it is no better. Another method takes its place only on evidence: where
:func:`smallcal.select` compares it with others on held-out samples, and one of them is better by
more than chance explains when so many are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from smallcal.calibrators.catalogue import ALIASES, resolve_method, true_name
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.summary import accuracy_line
from smallcal.data.plain import plain_fields
from smallcal.data.predictions import Predictions

#: The method that is recommended where nothing speaks against it.
DEFAULT = ALIASES["default"]


def default_of(kind: str) -> str:
    """Return the method that is recommended for what rows hold.

    Examples
    --------
    >>> default_of("logits"), default_of("score")
    ('smallcal', 'spline')
    """
    return true_name("default", kind)


#: What is said beside results on test samples.
ON_TEST = (
    "The default was fixed before these test samples were used. Choosing a method by its test "
    "results makes them look too good."
)

#: How sure one must be that another method is better, of all that are looked at together.
_SURE = 0.99

#: Flags of a fit that is not to be relied on: no such method is recommended.
UNSOUND = (
    "at_bound",
    "unidentified",
    "few_samples",
    "fallback",
    "no_router",
    "scalar_fallback",
    "missing_classes",
)


#: Flags of the default that say why it is temperature scaling, or less than it could be.
_FALLBACKS = ("one_sided", "not_converged", "no_gain")


@dataclass(frozen=True)
class Recommendation:
    """What to use.

    Attributes
    ----------
    method : str
        A name in :func:`smallcal.methods`.
    n : int
        Samples of the split.
    why : str
        Why the fit is temperature scaling; empty where it is not.
    keep_predictions : bool
        Whether the model's predictions are kept.
    predictions : str
        How many predictions it changes, or would change if they were not kept, and what that does
        to accuracy, cross-validated; empty where it changes none.
    """

    method: str
    n: int
    why: str = ""
    keep_predictions: bool = False
    predictions: str = ""

    @classmethod
    def of(cls, fitted: FittedCalibrator) -> Recommendation:
        """Return the recommendation of a split that the default was fitted on."""
        flags = [name for name in _FALLBACKS if name in fitted.flags]
        return cls(
            fitted.method.partition("[")[0],
            int(fitted.data["n"]),
            fitted.flag_text(flags[0]) if flags else "",
            fitted.keep_predictions,
            accuracy_line(fitted),
        )

    @property
    def sentence(self) -> str:
        """The recommendation in words.

        Examples
        --------
        >>> Recommendation("smallcal", 300).sentence
        'Use smallcal, the default.'
        >>> Recommendation("smallcal", 20, why="all predictions are right").sentence
        'Use smallcal, the default: all predictions are right.'
        """
        kept = ", with keep_predictions" if self.keep_predictions else ""
        why = self.why or (self.predictions and f"it {self.predictions}")
        return f"Use {self.method}, the default{kept}{why and f': {why}'}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return plain_fields(self) | {"sentence": self.sentence}


def recommend(preds: Predictions, *, keep_predictions: bool = False) -> Recommendation:
    """Return what to use for a split.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> recommend(Predictions.of(val.logits, val.labels)).method
    'smallcal'
    """
    made = resolve_method("default", input=preds.kind, keep_predictions=keep_predictions)
    return Recommendation.of(made.fit(preds))


def errors_needed(n_others: int, n_folds: int) -> float:
    """Return how many standard errors a method must be better by to take the default's place.

    The errors are of gains on held-out samples in folds. Fits for different folds share most of
    their samples, so that what a fit owes to its split hardly averages out over folds: the variance
    is larger by the ratio 1 + n_folds / (n_folds - 1) (Nadeau and Bengio, 2003).

    Examples
    --------
    >>> [round(errors_needed(k, 5), 2) for k in (1, 5)]
    [3.49, 4.32]
    """
    sure = NormalDist().inv_cdf(1 - (1 - _SURE) / max(n_others, 1))
    return float(sure * (1 + n_folds / max(n_folds - 1, 1)) ** 0.5)

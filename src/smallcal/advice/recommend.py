"""What to use for a split: the one decision that every verb says in its own length.

It is the default, which was measured on every kind of model there is here, and which applies of
what it finds only as much as the split supports. Another method takes its place only on evidence:
where :func:`smallcal.select` compares it with others on held-out samples, and one of them is better
by more than chance explains when so many are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from smallcal.calibrators.catalogue import ALIASES, METHODS, true_name
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.data.plain import plain_fields
from smallcal.data.predictions import Predictions

#: The method that is recommended where nothing speaks against it.
DEFAULT = ALIASES["default"]


def default_of(kind: str) -> str:
    """Return the method that is recommended for what rows hold.

    Examples
    --------
    >>> default_of("logits"), default_of("score")
    ('adaptive', 'spline')
    """
    return true_name("default", kind)


def on_test(kind: str = "logits") -> str:
    """Return what is said beside results on test samples."""
    return (
        f"Use {default_of(kind)}, the default: it was fixed before these test samples were used. "
        "Choosing a method by its test results makes them look too good."
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


@dataclass(frozen=True)
class Recommendation:
    """What to use, and how much of it the split supports.

    Attributes
    ----------
    method : str
        A name in :func:`smallcal.methods`.
    n : int
        Samples of the split.
    share : float
        Of what the fit would change, the share that is applied: 1 where the split supports all of
        it, 0 where the model is left alone.
    why : str
        Why less than all of it is applied; empty where all is.
    if_free : str
        What predictions that may change are worth, where that is something; else empty.
    """

    method: str
    n: int
    share: float
    why: str = ""
    if_free: str = ""

    @classmethod
    def of(cls, fitted: FittedCalibrator) -> Recommendation:
        """Return the recommendation of a split that the default was fitted on."""
        flags = [name for name in ("kept_raw", "held_back") if name in fitted.flags]
        return cls(
            fitted.method,
            int(fitted.data["n"]),
            float(fitted.fit_metrics.get("weight", 1.0)),
            fitted.flag_text(flags[0]) if flags else "",
            fitted.flag_text("better_free") if "better_free" in fitted.flags else "",
        )

    @property
    def sentence(self) -> str:
        """The recommendation in words.

        Examples
        --------
        >>> Recommendation("adaptive", 300, 1.0).sentence
        'Use adaptive, the default.'
        >>> Recommendation("adaptive", 60, 0.3).sentence
        'Use adaptive, the default: 60 samples support 30 % of its change, and it applies that.'
        """
        use = f"Use {self.method}, the default"
        if not self.share:
            return f"{use}: {self.why}."
        if self.why or self.share < 0.9:
            share = f"{self.n:,} samples support {100 * self.share:.0f} % of its change,"
            return f"{use}: {share} and it applies that."
        return f"{use}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return plain_fields(self) | {"sentence": self.sentence}


def recommend(preds: Predictions) -> Recommendation:
    """Return what to use for a split.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> recommend(Predictions.of(val.logits, val.labels)).method
    'adaptive'
    """
    return Recommendation.of(METHODS[default_of(preds.kind)].fit(preds, record=False))


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

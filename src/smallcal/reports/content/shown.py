"""Which metrics a report shows, and what it calls those that its verdict rests on."""

from __future__ import annotations

from smallcal.data.claims import CLAIMS
from smallcal.metrics import METRICS

#: What the table shows, with intervals. The smooth errors take seconds each to resample: their
#: values alone are in the document. What matters most comes first: a telephone shows two columns.
SHOWN = (
    "ece15",
    "top_label_bce",
    "nll",
    "brier",
    "accuracy",
    "confidence_gap",
    "adaece15",
    "auroc",
    "aurc",
)
#: What differences are taken of: all of those that are good in one direction.
COMPARED = tuple(name for name in SHOWN if METRICS[name].better != "zero")
#: Not shown of scores: the cross-entropy of the probability is its log-likelihood, and how many
#: outcomes are 1 does not depend on the method.
_NOT_OF_SCORES = ("top_label_bce", "accuracy")


def shown_of(kind: str) -> tuple[str, ...]:
    """Return what the tables show, of what rows hold.

    Examples
    --------
    >>> shown_of("score")[:3]
    ('ece15', 'nll', 'brier')
    """
    return tuple(name for name in SHOWN if kind != "score" or name not in _NOT_OF_SCORES)


def told_of(kind: str) -> dict[str, str]:
    """Return what the outcome rests on, the deciding score second, and what people call it.

    Examples
    --------
    >>> told_of("score")
    {'ece15': 'ECE', 'nll': 'log-loss'}
    """
    return {name: METRICS[name].title for name in ("ece15", CLAIMS[kind].loss, "nll")}

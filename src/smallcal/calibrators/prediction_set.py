"""Prediction sets: the classes that a row may have, so that the true one is among them.

Split conformal prediction. Each class of a row gets a score, the lower the likelier, from the
calibrated probabilities p; a class is in the set where its score is at most a quantile of the
scores that the true classes of other rows had. :func:`smallcal.prediction_sets` finds the quantile;
here it is kept and applied, with NumPy alone.

- ``lac``: 1 - p of the class. The smallest sets on average.
- ``aps``: the sum of p over the classes that are likelier. Sets grow where the model is unsure, and
  the likeliest class is in each. No random number is drawn: the same row always has the same set.
- ``raps``: the same and a penalty for each rank beyond ``k_reg``: few very large sets.

With the p of the class itself in the sum, as others have it where they draw no random number, sets
of an accurate model are large: most rows are such that it is sure of, with scores near 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from smallcal.calibrators import parts
from smallcal.calibrators.decision import Decision, columns_of, picked
from smallcal.calibrators.given import checked, coded, slices
from smallcal.calibrators.parts import Rule, list_of
from smallcal.data.checks import BoolArray, FloatArray
from smallcal.data.masks import checked_logits, is_masked
from smallcal.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smallcal.calibrators.fitted import FittedCalibrator

#: How classes are scored.
SCORES = ("lac", "aps", "raps")

#: Of the spacing of numbers near 1: what two ways to compute the same probability may differ by.
_SLACK = 8

_QUANTILE: Rule = {"type": ["number", "null"], "minimum": 0}


@dataclass(frozen=True, kw_only=True)
class PredictionSet(Decision):
    """Which classes a row may have.

    Attributes
    ----------
    alpha : float
        The true class is missing with at most this chance.
    score : {"lac", "aps", "raps"}
    quantiles : tuple of float or None
        A class is in the set where its score is at most this: one for all, or one for each class.
        None where rows were too few: then the class always is.
    penalty, k_reg : float, int
        Added to the score for each rank beyond ``k_reg``, where the score is "raps".
    empty : bool
        Whether sets may be empty. If not, one that would be holds the likeliest class.
    n : tuple of int
        Rows behind each quantile.

    Examples
    --------
    >>> rule = PredictionSet(
    ...     alpha=0.1, score="lac", quantiles=(0.6,), penalty=0.0, k_reg=0, empty=False, n=(200,),
    ...     sha256="", promise="",
    ... )
    >>> rule.of(np.array([[0.5, 0.4, 0.1], [0.38, 0.32, 0.3]])).tolist()
    [[True, True, False], [True, False, False]]
    """

    alpha: float
    score: str
    quantiles: tuple[float | None, ...]
    penalty: float
    k_reg: int
    empty: bool
    n: tuple[int, ...]
    sha256: str
    promise: str
    kind: ClassVar[str] = "set"
    column: ClassVar[str] = "set"
    words: ClassVar[str] = "a set of classes that holds the true one"
    schema: ClassVar[Mapping[str, Rule]] = {
        "alpha": parts.rule("probability", "Largest probability that a set misses the true class."),
        "score": {"type": "string", "enum": [*SCORES], "description": "How classes are scored."},
        "quantiles": list_of(_QUANTILE, "One, or one for each class; null keeps all.", least=1),
        "penalty": parts.rule("number", "Score for each rank beyond k_reg.", minimum=0),
        "k_reg": parts.rule("count", "Ranks without a penalty."),
        "empty": {"type": "boolean", "description": "Whether sets may be empty."},
        "n": list_of(parts.rule("count"), "Rows behind each quantile.", least=1),
        "sha256": {"type": "string", "description": "Fingerprint of their rows."},
        "promise": {"type": "string", "description": "The guarantee in words."},
    }

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise InputError(f"alpha of a prediction set lies between 0 and 1; got {self.alpha}")
        if len(self.quantiles) != len(self.n) or not self.n:
            raise InputError("a prediction set needs as many counts of rows as quantiles")
        if not 0 <= self.penalty < np.inf or self.k_reg < 0:
            raise InputError("penalty and k_reg of a prediction set must not be below 0")

    @property
    def share(self) -> float:
        """Alpha."""
        return self.alpha

    @property
    def n_classes(self) -> int | None:
        """Classes it is for, where each has a quantile."""
        return len(self.n) if len(self.n) > 1 else None

    def scores(self, proba: FloatArray) -> FloatArray:
        """Return the score of each class, float64; the lower, the likelier."""
        return class_scores(proba, self.score, penalty=self.penalty, k_reg=self.k_reg)

    def of(self, proba: FloatArray) -> BoolArray:
        """Return which classes are in the set of each row of calibrated probabilities."""
        limits = np.array([np.inf if each is None else each for each in self.quantiles])
        result = np.empty(proba.shape, dtype=np.bool_)
        slack = _SLACK * float(np.finfo(proba.dtype).eps)
        for rows in slices(*proba.shape):
            block, inside = proba[rows], result[rows]
            np.less_equal(self.scores(block), limits + slack, out=inside)
            if not self.empty:
                none = np.flatnonzero(~inside.any(axis=1))
                inside[none, block[none].argmax(axis=1)] = True
        return result


def class_scores(
    proba: FloatArray, score: str, *, penalty: float = 0.0, k_reg: int = 0
) -> FloatArray:
    """Return the score of each class of each row; ties of probabilities go to the first column.

    Examples
    --------
    >>> class_scores(np.array([[0.25, 0.5, 0.25]]), "aps").tolist()
    [[0.5, 0.0, 0.75]]
    >>> class_scores(np.array([[0.25, 0.5, 0.25]]), "raps", penalty=0.5, k_reg=1).tolist()
    [[1.0, 0.0, 1.75]]
    """
    p = proba.astype(np.float64)
    if score == "lac":
        return np.asarray(1 - p)
    order = np.argsort(-p, axis=1, kind="stable")
    sums = np.zeros_like(p)
    np.cumsum(np.take_along_axis(p, order[:, :-1], axis=1), axis=1, out=sums[:, 1:])
    if score == "raps":
        sums += penalty * np.maximum(np.arange(1, p.shape[1] + 1) - k_reg, 0)
    result = np.empty_like(sums)
    np.put_along_axis(result, order, sums, axis=1)
    return result


def sets_of(decisions: Sequence[Decision]) -> dict[str, PredictionSet]:
    """Return the prediction sets among decisions by the name of their column in outputs.

    Examples
    --------
    >>> sets_of(())
    {}
    """
    return columns_of(decisions, PredictionSet)


def predicted_sets(
    fitted: FittedCalibrator,
    logits: object,
    *,
    alpha: float | None = None,
    features: object = None,
    groups: object = None,
) -> BoolArray:
    """Return the set of each row, shape (n, C), by the rule that a calibrator carries.

    Probabilities are computed in float64, whatever the logits came in. An option that a row does
    not have is in no set.
    """
    decision = _asked(fitted, alpha)
    given = checked(fitted, logits, features, None)
    logits, _ = checked_logits(given.logits, name=fitted.input)
    given = given._replace(logits=logits, groups=coded(fitted.groups, groups, len(logits)))
    result = np.empty(given.logits.shape, dtype=np.bool_)
    for rows in slices(*given.logits.shape):
        block = given.take(rows)
        exact = block._replace(logits=block.logits.astype(np.float64))
        result[rows] = decision.of(fitted.calibrate(exact)) & ~is_masked(block.logits)
    return result


def _asked(fitted: FittedCalibrator, alpha: float | None) -> PredictionSet:
    """Return the rule of an alpha, or the only one."""
    known = sets_of(fitted.decisions).values()
    if not known:
        raise InputError(
            "this calibrator has no prediction sets; make them with ",
            python="smallcal.prediction_sets(cal, X, y)",
            shell="smallcal certify CALIBRATOR DATA --sets 10% -o NEW",
            code="no-decision",
        )
    return picked(known, alpha, "alpha must be one that sets were made for")

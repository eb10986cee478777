"""Sets of classes that hold the true one as often as asked: split conformal prediction.

The scores of the true classes of n labelled rows are ranked. If a new row is exchangeable with
them, its score is as likely to stand at any of the n + 1 places: at or below the score of rank
k = ceil((n + 1) (1 - alpha)) it stands with a chance of at least 1 - alpha, whatever the model and
however small n. Over draws of the n rows, the share of new rows that are covered is Beta(k, n + 1 -
k), or more where scores are tied.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from smallcal.advice.own_rows import learned_from
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.given import coded, labelled, slices
from smallcal.calibrators.holder import fitted_of
from smallcal.calibrators.prediction_set import SCORES, PredictionSet, class_scores, predicted_sets
from smallcal.data.checks import BoolArray, FloatArray, IntArray, whole_number
from smallcal.data.masks import is_masked
from smallcal.data.plain import plain_fields
from smallcal.data.predictions import Predictions
from smallcal.data.shown import visible
from smallcal.errors import FitWarning, InputError, choose
from smallcal.metrics.units import SHARE

if TYPE_CHECKING:
    from smallcal.calibrators.base import BaseCalibrator

#: Of the bands of coverage.
LEVEL = 0.95

#: What (n + 1) (1 - alpha) may be off by in the last digits.
_ROUNDING = 1e-9

#: Classes that are named in a sentence.
_NAMED = 5


@dataclass(frozen=True)
class Coverage:
    """How often sets hold the true class: a chance over draws of the rows, and their spread.

    Attributes
    ----------
    name : str
        The class; empty where it is about all rows.
    n : int
        Rows behind it.
    expected : float
        The chance that the set of a new row holds its class, over draws of the n rows as well.
    low, high : float
        Given n such rows, the share of new ones that are covered: between these in 95 of 100 draws
        of them, and above ``high`` only where scores are tied or sets would be empty.
    """

    name: str
    n: int
    expected: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return plain_fields(self)


@dataclass(frozen=True, kw_only=True)
class PredictionSets:
    """Prediction sets, ready to use.

    Attributes
    ----------
    calibrator : FittedCalibrator
        The one that was given, with the rule in it: save it, and ``predict_set`` gives the sets.
    rule : PredictionSet
        What was stored.
    coverage : Coverage
        Over all rows. With ``per_class`` its band is approximate; those of ``classes`` are exact.
    classes : tuple of Coverage
        Of each class, with ``per_class``; else empty.
    mean_size, single, filled : float
        Mean number of classes in the sets of these rows, the share of sets with one class, and of
        those that would be empty and hold the likeliest class instead: what they cover comes on
        top of ``coverage``.
    """

    calibrator: FittedCalibrator
    rule: PredictionSet
    coverage: Coverage
    classes: tuple[Coverage, ...]
    mean_size: float
    single: float
    filled: float

    def predict(self, X: object, *, features: object = None, groups: object = None) -> BoolArray:
        """Return which classes are in the set of each row, shape (n, C)."""
        fitted = replace(self.calibrator, decisions=(self.rule,))
        return predicted_sets(fitted, X, features=features, groups=groups)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words."""
        return tuple(_sentences(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        found = plain_fields(self, without="calibrator")
        return {**found, "sentences": list(self.sentences)}


def prediction_sets(
    cal: BaseCalibrator | FittedCalibrator,
    X: object,
    y: object,
    *,
    alpha: float = 0.1,
    score: str = "lac",
    per_class: bool = False,
    penalty: float = 0.01,
    k_reg: int = 5,
    empty: bool = False,
    features: object = None,
    groups: object = None,
) -> PredictionSets:
    """Make sets of classes that hold the true one with a chance of at least 1 - alpha.

    For those who must not abstain: instead of one class and a confidence, a row gets all classes
    that it may have. The promise holds for any model and any number of rows, if new rows come from
    where these came from.

    Parameters
    ----------
    cal : fitted calibrator
    X : array-like of shape (n, C)
        Logits, or what the calibrator takes, of labelled rows that it was not fitted on. Of
        scores, shape (n,), sets are over the outcomes 0 and 1.
    y : array-like of shape (n,)
    alpha : float
        Chance that the true class is missing.
    score : {"lac", "aps", "raps"}
        How classes are scored: by their probability, which gives the smallest sets on average; by
        the sum of the probabilities of likelier ones, whose sets grow where the model is unsure; or
        by that with a penalty for classes of high rank, against very large sets.
    per_class : bool
        Whether the promise is to hold for the rows of each class, not only on average. Needs
        (1 - alpha) / alpha rows of a class; one that has fewer is in every set.
    penalty, k_reg : float, int
        Of "raps": added for each rank beyond ``k_reg``. Choose them on other rows than these.
    empty : bool
        Whether a set may be empty, where by "lac" no class is likely enough. By default it then
        holds the likeliest class: coverage can only grow by that.
    features : array-like of shape (n, d), optional
    groups : array-like of shape (n,), optional
        For calibrators that were fitted with them.

    Returns
    -------
    PredictionSets

    Examples
    --------
    >>> import smallcal as sc
    >>> val, test = sc.load_demo("cal"), sc.load_demo("test")
    >>> cal = sc.TemperatureScaling().fit(val.logits[:900], val.labels[:900])
    >>> sets = sc.prediction_sets(cal, val.logits[900:], val.labels[900:], alpha=0.2)
    >>> inside = sets.predict(test.logits)
    >>> inside.shape == test.logits.shape
    True
    >>> covered = inside[range(len(test.labels)), test.labels].mean()
    >>> bool(sets.coverage.low < covered < sets.coverage.high)
    True
    """
    fitted = fitted_of(cal, "cal must be a fitted calibrator")
    _require_options(alpha, score, penalty, k_reg)
    preds, digest = _rows(fitted, X, y, features=features, groups=groups)
    proba = _exact(fitted, preds)
    if score != "raps":
        penalty, k_reg = 0.0, 0
    true = _true_scores(proba, preds.labels, score, penalty=float(penalty), k_reg=k_reg)
    of = preds.labels if per_class else np.zeros(preds.n, dtype=np.int64)
    members = [true[of == code] for code in range(preds.n_classes if per_class else 1)]
    counts = tuple(map(len, members))
    rule = PredictionSet(
        alpha=float(alpha),
        score=score,
        quantiles=tuple(quantile(each, alpha) for each in members),
        penalty=float(penalty),
        k_reg=k_reg,
        empty=bool(empty),
        n=counts,
        sha256=digest,
        promise=_promise(alpha, counts, _words(fitted)[0]),
    )
    found = _measured(fitted, rule, proba, ~is_masked(preds.logits))
    for line in _short(found):
        warnings.warn(line, FitWarning, stacklevel=2)
    return found


def _true_scores(
    proba: FloatArray, labels: IntArray, score: str, *, penalty: float, k_reg: int
) -> FloatArray:
    """Return the score of each row's true class."""
    result = np.empty(len(labels))
    for rows in slices(*proba.shape):
        each = class_scores(proba[rows], score, penalty=penalty, k_reg=k_reg)
        result[rows] = each[np.arange(len(each)), labels[rows]]
    return result


def quantile(scores: FloatArray, alpha: float) -> float | None:
    """Return the score of rank ceil((n + 1) (1 - alpha)), or None where n is too small for it.

    Examples
    --------
    >>> quantile(np.arange(1.0, 20.0), 0.1), quantile(np.arange(1.0, 9.0), 0.1)
    (18.0, None)
    """
    rank = _rank(len(scores), alpha)
    return float(np.partition(scores, rank - 1)[rank - 1]) if rank <= len(scores) else None


def rows_needed(alpha: float) -> int:
    """Return how many rows a quantile needs at least.

    Examples
    --------
    >>> rows_needed(0.1), rows_needed(0.01)
    (9, 99)
    """
    return math.ceil((1 - alpha) / alpha - _ROUNDING)


def _rank(n: int, alpha: float) -> int:
    return max(1, math.ceil((n + 1) * (1 - alpha) - _ROUNDING))


def coverage_of(n: int, alpha: float, *, name: str = "") -> Coverage:
    """Return what n rows promise, and how far the coverage of one draw of them may be from it.

    Examples
    --------
    >>> found = coverage_of(199, 0.1)
    >>> round(found.expected, 3), round(found.low, 3), round(found.high, 3)
    (0.9, 0.855, 0.938)
    """
    rank = _rank(n, alpha)
    if rank > n:
        return Coverage(name, n, 1.0, 1.0, 1.0)
    tails = np.array([1 - LEVEL, 1 + LEVEL]) / 2
    low, high = scipy.special.betaincinv(rank, n + 1 - rank, tails)
    return Coverage(name, n, rank / (n + 1), float(low), float(high))


def _overall(classes: tuple[Coverage, ...], alpha: float) -> Coverage:
    """Return the coverage of all rows from those of classes: a beta of the same two moments."""
    n = np.array([each.n for each in classes], dtype=np.float64)
    share = n / n.sum()
    mean = np.array([each.expected for each in classes])
    # A beta's variance is m (1 - m) / (a + b + 1), and a + b is n + 1.
    centre, variance = float(share @ mean), float(share**2 @ (mean * (1 - mean) / (n + 2)))
    total = int(n.sum())
    if variance == 0:
        return Coverage("", total, centre, centre, centre)
    worth = centre * (1 - centre) / variance - 1
    tails = np.array([1 - LEVEL, 1 + LEVEL]) / 2
    low, high = scipy.special.betaincinv(centre * worth, (1 - centre) * worth, tails)
    return Coverage("", total, centre, float(low), float(high))


def _measured(
    fitted: FittedCalibrator, rule: PredictionSet, proba: FloatArray, there: BoolArray
) -> PredictionSets:
    """Return the result for the sets of the rows at hand, whose options are not all there."""
    names = fitted.class_names or tuple(map(str, range(fitted.n_classes)))
    classes: tuple[Coverage, ...] = ()
    if len(rule.n) > 1:
        named = zip(rule.n, names, strict=True)
        classes = tuple(coverage_of(n, rule.alpha, name=name) for n, name in named)
    sizes = (rule.of(proba) & there).sum(axis=1)
    bare = replace(rule, empty=True).of(proba).any(axis=1)
    return PredictionSets(
        calibrator=replace(fitted, decisions=(*_others(fitted, rule), rule)),
        rule=rule,
        coverage=_overall(classes, rule.alpha) if classes else coverage_of(rule.n[0], rule.alpha),
        classes=classes,
        mean_size=float(sizes.mean()),
        single=float((sizes == 1).mean()),
        filled=0.0 if rule.empty else float((~bare).mean()),
    )


def _others(fitted: FittedCalibrator, rule: PredictionSet) -> Iterator[Any]:
    """Yield the decisions that stay: all but sets for the same alpha."""
    for each in fitted.decisions:
        if not (isinstance(each, PredictionSet) and math.isclose(each.alpha, rule.alpha)):
            yield each


def _require_options(alpha: float, score: str, penalty: float, k_reg: int) -> None:
    number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
    if not number or not 0 < alpha < 1:
        raise InputError(
            f"alpha must lie between 0 and 1, such as 0.1; got {alpha!r}", code="option-range"
        )
    if score not in SCORES:
        raise InputError(
            f"no score of classes is called {score!r}; {choose(str(score), SCORES)}",
            code="unknown-choice",
        )
    if not 0 <= penalty < math.inf:
        raise InputError(
            f"penalty must be a number of at least 0; got {penalty!r}", code="option-range"
        )
    whole_number(k_reg, "k_reg", least=0)


def _rows(
    fitted: FittedCalibrator, X: object, y: object, *, features: object, groups: object
) -> tuple[Predictions, str]:
    """Return the rows, checked, with their fingerprint; those of the fit are refused."""
    if not fitted.deployable:
        raise InputError(
            f"{fitted.method} is for comparison only; it has no prediction sets",
            code="method-unsuitable",
        )
    preds = labelled(fitted, X, y, features=features, groups=groups)
    if preds.n_classes != fitted.n_classes:
        want = f"the {fitted.n_classes} columns this calibrator was fitted on"
        raise InputError(
            f"{fitted.input} must have {want}; got {preds.n_classes}", code="columns-differ"
        )
    coded(fitted.groups, groups, preds.n)  # which says what is missing, or unknown
    digest = preds.sha256()
    if known := learned_from(fitted, preds, digest):
        raise InputError(
            f"these are the rows that the calibrator was {known} on, where its results are too "
            "good: keep some labelled rows aside for the sets",
            code="rows-of-the-fit",
        )
    return preds, digest


def _exact(fitted: FittedCalibrator, preds: Predictions) -> FloatArray:
    """Return calibrated probabilities in float64, of all classes or both outcomes."""
    free = replace(fitted, keep_predictions=False)
    found = free.on(replace(preds, logits=preds.logits.astype(np.float64)))
    return found if found.ndim == 2 else np.column_stack([1 - found, found])


def _promise(alpha: float, counts: tuple[int, ...], what: str) -> str:
    each = f" of each {what}" if len(counts) > 1 else ""
    held = f"The set of a new row{each} contains the {what} with a probability of at least"
    return f"{held} {_share(1 - alpha)}, if rows come from where these {sum(counts):,} came from."


def _share(value: float) -> str:
    return f"{100 * value:.6g} %"


def _short(found: PredictionSets) -> Iterator[str]:
    """Say which classes are in every set because rows were too few."""
    rule, needed = found.rule, rows_needed(found.rule.alpha)
    why = f"alpha {_share(rule.alpha)} needs {needed:,} rows"
    one, many = _words(found.calibrator)
    if not found.classes:
        if rule.quantiles[0] is None:
            yield f"every set holds all {many}: {why}, and there are {rule.n[0]:,}"
        return
    few = [visible(c.name) for c, q in zip(found.classes, rule.quantiles, strict=True) if q is None]
    if few:
        are = f"{one} is" if len(few) == 1 else f"{many} are"
        named = ", ".join(few[:_NAMED]) + (", ..." if len(few) > _NAMED else "")
        yield f"{len(few):,} {are} in every set ({named}): {why} of each"


def _words(fitted: FittedCalibrator) -> tuple[str, str]:
    """Return what sets hold, one and many."""
    return ("class", "classes") if fitted.score is None else ("outcome", "outcomes")


def _sentences(found: PredictionSets) -> Iterator[str]:
    yield found.rule.promise
    c, (one, many) = found.coverage, _words(found.calibrator)
    if c.low < 1:
        band = SHARE.interval(c.low, c.high)
        given = f"Given these {c.n:,} rows, {band} % of new ones are covered"
        yield f"{given}; more where scores are tied."
    single = SHARE.value(found.single)
    yield f"Sets hold {found.mean_size:.2f} {many} on average; {single} of them hold one."
    if found.filled:
        would = f"{SHARE.value(found.filled)} would be empty and hold the likeliest {one} instead"
        yield f"{would}: so many more rows may be covered."
    for line in _short(found):
        yield f"{line[0].upper()}{line[1:]}."

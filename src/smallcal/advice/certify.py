"""Certify a threshold: accept rows so that errors stay below a risk, with a guarantee."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal import calibrators
from smallcal.advice.certify_walk import (
    GRID,
    Counts,
    Target,
    counts_by,
    interval,
    lowest_risk,
    one_of_each,
    upper_bound,
    walk_each,
)
from smallcal.advice.certify_words import Certificate, Certification, Certified
from smallcal.advice.copies import copies_note
from smallcal.advice.cross_validate import out_of_fold
from smallcal.advice.own_rows import learned_from
from smallcal.calibrators.decision import BY, RULES, Threshold
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.given import checked, coded, labelled
from smallcal.calibrators.holder import fitted_of
from smallcal.data.groups import as_clusters
from smallcal.data.predictions import BoolArray, FloatArray, IntArray, Predictions
from smallcal.errors import FitWarning, GroupWarning, InputError, choose

if TYPE_CHECKING:
    from smallcal.calibrators.base import BaseCalibrator

#: How several classes or groups share the chance that a promise is broken.
CORRECTIONS = ("holm", "bonferroni")


def certify(
    calibrator: BaseCalibrator | FittedCalibrator,
    X: object,
    y: object,
    *,
    risk: float | Iterable[float] = 0.02,
    confidence: float = 0.95,
    rule: str = "accepted",
    by: str = "all",
    correction: str = "holm",
    features: object = None,
    groups: object = None,
    clusters: object = None,
    cross: bool = False,
    random_state: int = 0,
) -> Certification:
    """Find the lowest confidence threshold whose error rate is at most a risk, with a guarantee.

    Parameters
    ----------
    calibrator : fitted estimator or FittedCalibrator
    X : array-like of shape (n, C)
        What the calibrator takes (logits, probabilities, or scores), of rows that it was not fitted
        on.
    y : array-like of shape (n,)
        Labels, or outcomes of scores.
    risk : float or several
        The error rate that is not to be exceeded. Each has its own threshold and its own promise.
    confidence : float
        How sure the promise is: over labelled rows, it is broken with chance 1 - ``confidence`` at
        most.
    rule : {"accepted", "all"}
        What the risk is a share of: errors among accepted rows, or rows that are accepted and wrong
        among all.
    by : {"all", "class", "group"}
        What has its own threshold. Promises of all classes (as predicted) or groups hold together.
    correction : {"holm", "bonferroni"}
        How classes or groups share the chance; by Holm's rule, one all of whose rows are accepted
        hands its share on.
    features : array-like of shape (n, d), optional
    groups : array-like of shape (n,), optional
        The group of each row, for calibrators that know groups, and for ``by="group"``.
    clusters : array-like of shape (n,), optional
        Which rows depend on one another, such as those of one patient or prompt: the same name or
        number. The test then takes at most one row of each, drawn by chance.
    cross : bool
        Rows are those of the fit: confidences come from refits that have not seen the row, and the
        promise is approximate.
    random_state : int
        Of those folds, and of the rows drawn from clusters.

    Returns
    -------
    Certification
        Its ``calibrator`` carries the thresholds: ``calibrator.accept(X)``.

    Examples
    --------
    >>> import smallcal as sc
    >>> val, test = sc.load_demo("cal"), sc.load_demo("test")
    >>> cal = sc.TemperatureScaling().fit(val.logits, val.labels)
    >>> found = sc.certify(cal, test.logits, test.labels, risk=0.2)
    >>> row = found.certificates[0].rows[0]
    >>> row.errors / row.accepted < row.bound <= 0.2
    True
    >>> int(found.calibrator.accept(test.logits).sum()) == row.accepted
    True
    """
    fitted = fitted_of(calibrator, "certify needs a fitted calibrator")
    asked = Asked.of(risk, confidence=confidence, rule=rule, by=by, correction=correction)
    _require_possible(fitted, by, groups)
    preds = labelled(fitted, X, y, features=features, groups=groups)
    if clusters is not None:
        preds = replace(preds, clusters=as_clusters(clusters, n=preds.n))
    digest = preds.sha256()
    known = learned_from(fitted, preds, digest)
    _require_rows(fitted, known, cross=cross)
    given = checked(fitted, X, features, None)
    if cross:
        proba = _refitted(calibrator, fitted, preds, random_state)
    else:
        effects = groups if fitted.groups is not None else None
        proba = fitted.calibrate(given._replace(groups=coded(fitted.groups, effects, preds.n)))
    rows = _Rows.of(fitted.claims(proba, given.logits), fitted, preds, by)
    shared: dict[str, Any] = {"cross": cross, "sha256": digest, "input": preds.kind}
    if preds.clusters is None:
        if note := copies_note(preds.labels, proba):
            warnings.warn(note, FitWarning, stacklevel=2)
    else:
        rows = rows.take(one_of_each(preds.clusters, seed=random_state))
        shared["clusters"] = int(preds.clusters.max()) + 1
    parts = dict(zip(rows.names, rows.counts(), strict=True))
    certificates = tuple(_certificate(parts, asked, each, shared) for each in asked.risks)
    kept = [each for each in fitted.decisions if not isinstance(each, Threshold)]
    new = [each.decision() for each in certificates if each.found]
    return Certification(
        certificates=certificates, calibrator=replace(fitted, decisions=(*new, *kept))
    )


def certificate_of(
    confidence: FloatArray,
    correct: BoolArray,
    *,
    risk: float,
    level: float = 0.95,
    input: str = "logits",
    sha256: str = "",
) -> Certificate:
    """Return what rows of known confidences can promise; :func:`certify` has more to ask.

    Examples
    --------
    >>> sure = np.linspace(0.6, 0.99, 400)
    >>> round(certificate_of(sure, sure > 0.7, risk=0.02).rows[0].threshold, 3)
    0.703
    """
    asked = Asked.of(risk, confidence=level)
    shared = {"cross": False, "sha256": sha256, "input": input}
    return _certificate({"": Counts.of(confidence, correct)}, asked, risk, shared)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be promised, checked."""

    risks: tuple[float, ...]
    confidence: float
    rule: str
    by: str
    correction: str

    @classmethod
    def of(
        cls,
        risk: float | Iterable[float],
        *,
        confidence: float,
        rule: str = "accepted",
        by: str = "all",
        correction: str = "holm",
    ) -> Asked:
        """Return what was asked for.

        Examples
        --------
        >>> Asked.of([0.02, 0.01, 0.02], confidence=0.95).risks
        (0.02, 0.01)
        """
        return cls(
            risks=_risks(risk),
            confidence=_confidence(confidence),
            rule=_one_of("rule", rule, RULES),
            by=_one_of("by", by, BY),
            correction=_one_of("correction", correction, CORRECTIONS),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Rows:
    """Labelled rows as a walk sees them; ``codes`` say whose threshold they fall under."""

    confidence: FloatArray
    correct: BoolArray
    codes: IntArray | None = None
    names: tuple[str, ...] = ("",)

    @classmethod
    def of(
        cls,
        claims: tuple[FloatArray, IntArray],
        fitted: FittedCalibrator,
        preds: Predictions,
        by: str,
    ) -> _Rows:
        sure, claimed = claims
        seen = {"confidence": sure.astype(np.float64), "correct": claimed == preds.labels}
        if by == "all":
            return cls(**seen)
        if by == "class":
            numbers = tuple(map(str, range(fitted.n_classes)))
            return cls(**seen, codes=claimed, names=fitted.class_names or numbers)
        assert preds.groups is not None
        if without := int(np.count_nonzero(preds.groups < 0)):
            told = "have no group: they are in no test, and are never accepted"
            warnings.warn(f"{without:,} of {preds.n:,} rows {told}", GroupWarning, stacklevel=4)
        return cls(**seen, codes=preds.groups, names=preds.group_names)

    def take(self, rows: IntArray) -> _Rows:
        codes = None if self.codes is None else self.codes[rows]
        return replace(
            self, confidence=self.confidence[rows], correct=self.correct[rows], codes=codes
        )

    def counts(self) -> list[Counts]:
        if self.codes is None:
            return [Counts.of(self.confidence, self.correct)]
        return counts_by(self.confidence, self.correct, self.codes, len(self.names))


def _certificate(
    parts: Mapping[str, Counts], asked: Asked, risk: float, shared: dict[str, Any]
) -> Certificate:
    """Return what is found for one risk, of each class or group by its name."""
    target = Target(risk=risk, delta=1 - asked.confidence, rule=asked.rule)
    # One alone has all of the chance.
    walked = walk_each([*parts.values()], target, correction=asked.correction)
    found = [
        _certified(name, counts, place, target.at(share))
        for (name, counts), (place, share) in zip(parts.items(), walked, strict=True)
    ]
    return Certificate(
        risk=risk,
        confidence=asked.confidence,
        rule=asked.rule,
        by=asked.by,
        correction=None if asked.by == "all" else asked.correction,
        rows=tuple(found),
        **shared,
    )


def _certified(name: str, counts: Counts, place: int | None, target: Target) -> Certified:
    """Return what is found for one class or group, or for all rows."""
    if place is None:
        best = lowest_risk(counts, target)
        return Certified(name=name, threshold=None, n=counts.n, best=best, fewest=target.fewest())
    accepted, errors = int(counts.accepted[place]), int(counts.errors[place])
    tried = accepted if target.rule == "accepted" else counts.n
    low, high = interval(accepted, counts.n)
    return Certified(
        name=name,
        threshold=float(GRID[place]),
        n=counts.n,
        accepted=accepted,
        errors=errors,
        # The same test, turned around: it is at most the risk but for rounding.
        bound=min(upper_bound(errors, tried, target.delta), target.risk),
        coverage=accepted / counts.n,
        low=low,
        high=high,
    )


def _one_of(what: str, name: str, known: Sequence[str]) -> str:
    if name not in known:
        raise InputError(f"no {what} {name!r}; {choose(str(name), known)}", code="unknown-choice")
    return name


def _risks(risk: float | Iterable[float]) -> tuple[float, ...]:
    """Return the risks, each once, in the order given."""
    given = [*risk] if isinstance(risk, Iterable) else [risk]
    if not given:
        raise InputError(
            "risk is empty; give at least one share of errors, such as 0.02", code="empty"
        )
    for each in given:
        if isinstance(each, bool) or not isinstance(each, int | float | np.number):
            raise InputError(
                f"risk must be a share of errors, such as 0.02; got {each!r}", code="option-range"
            )
        if each == 0:
            raise InputError(
                "risk 0: no number of samples can show that errors never occur; ask for a small "
                "risk, such as 0.005",
                code="option-range",
            )
        if not 0 < each < 1:
            wanted = f": write {each / 100:g} for {each:g} %" if 1 <= each < 100 else ""
            raise InputError(
                f"risk must lie between 0 and 1{wanted}; got {each:g}", code="option-range"
            )
    return tuple(dict.fromkeys(float(each) for each in given))


def _confidence(confidence: float) -> float:
    number = isinstance(confidence, int | float | np.number) and not isinstance(confidence, bool)
    if not number or not 0.5 <= confidence < 1:
        raise InputError(
            f"confidence must be at least 0.5 and below 1; got {confidence!r}", code="option-range"
        )
    return float(confidence)


def _require_possible(fitted: FittedCalibrator, by: str, groups: object) -> None:
    """Raise where such a calibrator cannot have such thresholds."""
    if not fitted.deployable:
        raise InputError(
            f"{fitted.method} is for comparison only; there is nothing to certify",
            code="method-unsuitable",
        )
    if by == "class" and fitted.score is not None:
        raise InputError(
            "a score predicts outcome 1 for every row, so it has no classes",
            code="method-unsuitable",
        )
    if by == "group" and groups is None:
        raise InputError(
            "a threshold for each group needs the group of each row: ",
            python="pass groups=",
            shell="name their column or array with --by",
            code="groups-missing",
        )


def _require_rows(fitted: FittedCalibrator, known: str, *, cross: bool) -> None:
    """Raise where these rows would say something else of the calibrator than what is true.

    ``known`` is what it learned from them.
    """
    if cross and not known:
        raise InputError(
            "by their fingerprint these are not the rows of the fit: certify on them without ",
            python="cross",
            shell="--cross",
            code="rows-of-the-fit",
        )
    if known and not (cross and known == "fitted"):
        why = (
            f"these are the rows that the calibrator was {known} on, where its results are too "
            "good: certify on other labelled rows"
        )
        if known != "fitted" or fitted.later:
            raise InputError(why)
        raise InputError(
            f"{why}, or with ", python="cross=True", shell="--cross", code="rows-of-the-fit"
        )
    if cross and fitted.later:
        raise InputError(
            "this calibrator was changed after its fit, and refits would not include the change: "
            "certify on other labelled rows",
            code="artefact-outdated",
        )


def _refitted(
    calibrator: BaseCalibrator | FittedCalibrator,
    fitted: FittedCalibrator,
    preds: Predictions,
    seed: int,
) -> FloatArray:
    """Return probabilities of the rows of the fit, each by a fit that has not seen it."""
    from sklearn.base import clone  # not at the top: nothing else here needs scikit-learn

    asked = (
        calibrators.estimator_of(fitted) if isinstance(calibrator, FittedCalibrator) else calibrator
    )
    own = preds if fitted.groups is not None else replace(preds, groups=None, group_names=())
    proba = out_of_fold(clone(asked)._compose(), own, seed=seed)
    return proba if fitted.score is None else np.column_stack([1 - proba, proba])

"""The monitor: takes in rows, some with labels, and reports drift and miscalibration."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.decision import thresholds_of
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.given import Given, checked, coded
from smallcal.calibrators.holder import fitted_of
from smallcal.calibrators.reference import Reference, with_classes
from smallcal.data.checks import BoolArray, FloatArray, IntArray, as_features, as_labels
from smallcal.data.groups import as_groups
from smallcal.data.in_notebook import InNotebook
from smallcal.data.masks import checked_logits
from smallcal.data.predictions import sha256_of
from smallcal.data.score import as_outcomes
from smallcal.deploy.batches import distinctive
from smallcal.deploy.monitor import label_free, labelled, promises
from smallcal.deploy.monitor.class_shift import Seen
from smallcal.deploy.monitor.labelled import UNIT, Gap
from smallcal.deploy.monitor.promises import Counted, Kept
from smallcal.deploy.monitor.report import LabelledGap, Report, Stream
from smallcal.deploy.monitor.state import EVERY, State, Sums, fingerprint, unlike_error
from smallcal.errors import InputError
from smallcal.io.lock import one_at_a_time

if TYPE_CHECKING:
    from smallcal.calibrators.base import BaseCalibrator

#: Rows at a time, so that memory does not grow with them; and starts in a batch of fewer.
_BLOCK, _STARTS = 2**15, 32

Named = NDArray[np.str_] | None


class Monitor(InNotebook):
    """Watch a stream of logits for drift, and labelled rows for confidence that has gone wrong.

    Ask for checks as often as you like: the chance that one of them ever gives a false alarm
    is at most ``alpha``. Thresholds that the calibrator carries are watched as well, each for the
    errors among the rows it accepts. What is kept is counts and sums, of all rows and of those
    before some later starts, so that what begins late is found as well. A batch that was counted
    before is refused.

    Parameters
    ----------
    cal : fitted calibrator
        Of any deployable method.
    alpha : float
        Chance of ever giving a false alarm, of each check.
    tolerance : float
        Gap between accuracy and mean calibrated confidence that is no cause for alarm.
    reference : array-like of shape (n, C), optional
        Logits of the calibration split, for a calibrator that was saved without its counts.
    reference_features : array-like of shape (n, d), optional
    state : mapping, optional
        What :meth:`to_dict` gave, to go on from there; it brings its own reference.

    Examples
    --------
    >>> import smallcal as sc
    >>> val, test = sc.load_demo("cal"), sc.load_demo("test")
    >>> monitor = sc.Monitor(sc.SRTS().fit(val.logits, val.labels))
    >>> report = monitor.update(test.logits)
    >>> report.rows, report.drifted, report.verdict
    (3000, False, 'fine')
    >>> blurred = monitor.update(0.5 * test.logits)
    >>> blurred.drifted, blurred.verdict, blurred.labels_wanted > 0
    (True, 'label', True)
    """

    def __init__(
        self,
        cal: BaseCalibrator | FittedCalibrator,
        *,
        alpha: float = 0.01,
        tolerance: float = 0.02,
        reference: object = None,
        reference_features: object = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        _require_between("alpha", alpha, above=0.0)
        _require_between("tolerance", tolerance)
        self._fitted = fitted_of(cal, "cal must be a fitted calibrator")
        if state is not None:
            self._state = State.from_dict(state)
            if self._state.calibrator != (mine := fingerprint(self._fitted)):
                raise unlike_error("calibrator", mine, self._state.calibrator)
            self._require_entries()
            return
        counted = self._fitted.reference
        if reference is not None:
            counted = self._counted(reference, reference_features)
        if counted is None:
            raise InputError(
                "this calibrator was saved without counts of its calibration split; fit again, or ",
                python="pass the split's logits as reference=...",
                shell="name the split with --reference FILE",
                code="artefact-outdated",
            )
        self._state = State.empty(
            fingerprint(self._fitted), counted, alpha=alpha, tolerance=tolerance
        )

    def _require_entries(self) -> None:
        """Raise where the state counts other entries than a decision has."""
        counted = {each.decision: len(each.tried) for each in self._state.sums.decisions}
        for each in thresholds_of(self._fitted.decisions).values():
            found, known = counted.get(promises.fingerprint(each)), len(each.names)
            if found not in (None, known):
                raise InputError(f"the state counts {found} entries of a decision with {known}")

    def _counted(self, logits: object, features: object) -> Reference | None:
        """Return the counts of a split."""
        fitted, extra = self._fitted, None
        array = fitted.logits_of(logits)
        if features is not None and "features" in fitted.signal.needs:
            extra = as_features(features, n=len(array))
        fitted = replace(fitted, input="logits")  # the logarithm is taken already
        counted = fitted.watch(array, features=extra).counted(len(fitted.group_counts))
        return with_classes(replace(fitted, reference=counted), array, extra).reference

    @property
    def calibrator(self) -> FittedCalibrator:
        """The calibrator that is watched."""
        return self._fitted

    def fresh(self) -> Monitor:
        """Return a monitor with the same settings and reference that has seen nothing."""
        return type(self)(self._fitted, state=self._state.emptied().to_dict())

    def update(
        self,
        logits: object,
        labels: object = None,
        features: object = None,
        *,
        groups: object = None,
        seen: bool = False,
    ) -> Report:
        """Take in rows and return what is known with them.

        Parameters
        ----------
        logits : array-like of shape (n, C)
            Or probabilities, for a calibrator that was fitted on them; or scores, shape (n,).
        labels : array-like of shape (n,), optional
            Of scores the outcomes, 0 or 1.
        features : array-like of shape (n, d), optional
            For calibrators that were fitted with features.
        groups : array-like of shape (n,), optional
            For calibrators that were fitted with groups, or whose thresholds are by group.
        seen : bool
            Whether these rows were taken in before, without their labels: then only labels
            are.

        Returns
        -------
        Report
        """
        if seen and labels is None:
            raise InputError(
                "rows that were added before add nothing without labels", code="no-labels"
            )
        rows = self._read(logits, labels, features, groups)
        empty = self._state.emptied()
        new = sum((replace(empty, sums=self._block(*block, seen=seen)) for block in rows), empty)
        own = self._fingerprints(logits, features, labels=labels is not None, seen=seen)
        self._state = self._state + replace(new, batches=own)
        return self.report()

    def _fingerprints(
        self, logits: object, features: object, *, labels: bool, seen: bool
    ) -> tuple[str, ...]:
        """Return those of a batch: of its rows, and of its labels."""
        array = self._fitted.logits_of(logits)
        if not distinctive(array):
            return ()
        used = "features" in self._fitted.signal.needs
        rows = sha256_of(array, as_features(features, n=len(array)) if used else None)
        return (rows,) * (not seen) + (f"labels of {rows}",) * labels

    def report(self) -> Report:
        """Return what is known so far."""
        state = self._state
        since = [state.sums - start.before for start in state.starts]
        shares = np.array([start.share for start in state.starts])
        evidence = {
            name: label_free.log_evidence(np.array([getattr(sums, name) for sums in since]), prior)
            + np.log(shares)
            for name, (_, prior) in _priors(state.reference).items()
        }
        drift = label_free.pooled(list(evidence.values()))
        gap = np.array([labelled.log_evidence(sums.gap, state.tolerance) for sums in since])
        gap += np.log(shares)
        limit = -math.log(state.alpha)
        changed = int(drift.argmax()) if drift.max() >= limit else 0
        wrong = int(gap.argmax()) if gap.max() >= limit else changed
        recent, told = since[changed], since[wrong]
        alpha = state.alpha * float(shares[wrong])
        return Report(
            method=self._fitted.method,
            alpha=state.alpha,
            tolerance=state.tolerance,
            rows=state.sums.rows,
            labelled=state.sums.gap.n,
            streams=tuple(
                Stream(name, getattr(recent, name), before, float(evidence[name][drift.argmax()]))
                for name, (before, _) in _priors(state.reference).items()
            ),
            drift_log_e=float(drift.max()),
            gap_log_e=float(gap.max()),
            gap=LabelledGap.of(told.gap, alpha, after=state.starts[wrong].before.gap.n),
            gaps=tuple(LabelledGap.of(each, alpha) for each in told.gaps)
            if state.reference.groups
            else (),
            confidence=recent.certainty / UNIT / recent.rows if recent.rows else None,
            reference_confidence=_confidence(self._fitted),
            accuracy=told.correct / told.gap.n if told.gap.n else None,
            classes=_classes(state.reference, recent),
            input=self._fitted.input,
            decisions=tuple(self._kept(since, shares)),
            after=state.starts[changed].before.rows,
            share=float(shares[wrong]),
        )

    def _kept(self, since: list[Sums], shares: FloatArray) -> Iterator[Kept]:
        """Yield whether each threshold keeps its promise."""
        for name, decision in thresholds_of(self._fitted.decisions).items():
            like = Counted(promises.fingerprint(decision), tried=(0,) * len(decision.names))
            counted = [sums.decided(like) for sums in since]
            yield Kept.of(name, decision, counted, shares, self._state.alpha)

    def merge(self, other: Monitor) -> Monitor:
        """Take in what another monitor of the same calibrator has seen, and return this one.

        Its rows count as later ones than those of this monitor.
        """
        self._state = self._state + other._state
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain data: some kilobytes of counts."""
        return self._state.to_dict()

    @classmethod
    def from_dict(
        cls, document: Mapping[str, Any], cal: BaseCalibrator | FittedCalibrator
    ) -> Monitor:
        """Return a monitor that goes on from what :meth:`to_dict` gave."""
        return cls(cal, state=document)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state, whole or not at all; see :meth:`add_to` where several processes do."""
        self._state.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], cal: BaseCalibrator | FittedCalibrator) -> Monitor:
        """Return a monitor that goes on from what :meth:`save` wrote.

        Raises
        ------
        ArtefactError
            If the file is missing, damaged or not the state of a monitor.
        InputError
            If it is of another calibrator.
        """
        return cls(cal, state=State.load(path).to_dict())

    def add_to(self, path: str | os.PathLike[str]) -> Monitor:
        """Merge this monitor into the state in a file, and return the monitor of the sum.

        Other processes may do the same at the same time: one after another, and nothing is lost.
        A file that is not there is begun.
        """
        with one_at_a_time(path):
            known = State.load(path) if os.path.exists(path) else self._state.emptied()
            whole = known + self._state
            whole.save(path)
        return type(self)(self._fitted, state=whole.to_dict())

    def _read(
        self, logits: object, labels: object, features: object, groups: object
    ) -> Iterator[tuple[Given, Named]]:
        """Yield blocks of rows; nothing is counted unless all of them can be."""
        fitted = self._fitted
        array = fitted.logits_of(logits)
        checked_logits(array, name="logits")  # rows are numbered within the whole batch
        n, n_classes = array.shape
        codes, extra = None, None
        if labels is not None:
            names = fitted.class_names
            codes = (
                as_labels(labels, n=n, n_classes=n_classes, class_names=names)
                if fitted.score is None
                else as_outcomes(labels, n=n, scores=logits, class_names=names)
            )
        if features is not None and "features" in fitted.signal.needs:
            extra = as_features(features, n=n)
        named, known = self._named(groups, n), groups
        if named is not None and fitted.groups is None:
            known = None  # they are for thresholds alone
        given = Given(array, extra, codes, coded(fitted.groups, known, n))
        step = min(max(EVERY, math.ceil(n / _STARTS)), _BLOCK)
        for start in range(0, n, step):
            rows = slice(start, start + step)
            yield given.take(rows), None if named is None else named[rows]

    def _named(self, groups: object, n: int) -> Named:
        """Return the groups of rows by name, where a threshold asks for them."""
        asked = groups is not None and promises.by_group(self._fitted)
        return as_groups(groups, n=n) if asked else None

    def _block(self, given: Given, named: Named, *, seen: bool) -> Sums:
        """Return the sums of some rows."""
        logits, features, labels, groups = given
        fitted = replace(self._fitted, input="logits")  # the logarithm is taken already
        watched = fitted.watch(logits, features=features)
        rows = checked(fitted, logits.astype(np.float64), features, None)
        proba = fitted.calibrate(rows._replace(groups=groups))
        confidence, predicted = fitted.claims(proba, rows.logits)
        reference = self._state.reference
        sums, wrong = Sums.zero(reference), None
        if labels is not None:
            correct = predicted == labels
            gaps = _by_group(correct, confidence, watched.groups, len(sums.gaps))
            sums = replace(sums, correct=int(correct.sum()), gaps=gaps)
            wrong = ~correct
        decided = self._decided(promises.Rows(confidence, predicted, named, wrong), seen=seen)
        sums = replace(sums, decisions=decided)
        if seen:
            return sums
        score, routed = (), ()
        if reference.score is not None and watched.score is not None:
            score = tuple(reference.score.count(watched.score).tolist())
        if reference.groups is not None and watched.groups is not None:
            routed = tuple(np.bincount(watched.groups, minlength=len(sums.groups)).tolist())
        # The reference counts the most probable classes, also where predictions are kept.
        top = proba.argmax(axis=1) if fitted.score is None else predicted
        classes = np.bincount(top, minlength=len(sums.classes)) if sums.classes else ()
        return replace(
            sums,
            rows=len(logits),
            classes=tuple(map(int, classes)),
            confidence=tuple(reference.confidence.count(watched.confidence).tolist()),
            score=score,
            groups=routed,
            certainty=int(np.rint(np.minimum(confidence, 1) * UNIT).astype(np.int64).sum()),
        )

    def _decided(self, rows: promises.Rows, *, seen: bool) -> tuple[Counted, ...]:
        """Return what becomes of some rows by each threshold."""
        thresholds = thresholds_of(self._fitted.decisions).values()
        found = (promises.count(each, rows) for each in thresholds)
        return tuple(replace(each, rows=0, accepted=0) if seen else each for each in found)


def _priors(reference: Reference) -> dict[str, tuple[tuple[int, ...], FloatArray]]:
    """Return what is watched: its counts in the split, and what these give the bins."""
    found = {"confidence": (reference.confidence.counts, reference.confidence.spacings)}
    if reference.score is not None:
        found["score"] = (reference.score.counts, reference.score.spacings)
    if reference.groups is not None:
        prior = np.array(reference.groups) + label_free.GROUP_PRIOR
        found["groups"] = (reference.groups, prior)
    return found


def _confidence(fitted: FittedCalibrator) -> float | None:
    """Return the mean calibrated confidence of the rows that are compared with."""
    after: Mapping[str, float] = fitted.fit_metrics.get("after", {})
    if not fitted.later:
        return after.get("mean_confidence")
    table = None if fitted.reference is None else fitted.reference.classes
    if table is None:  # those of the fit had another confidence, before it learned more
        return None
    if fitted.claim is not None:
        return float(table.joint[:, fitted.claim].sum())
    return sum(table.certainty) / sum(table.predicted)


def _classes(reference: Reference, sums: Sums) -> Seen | None:
    """Return what a diagnosis looks at, where the reference has it and rows were seen."""
    if reference.classes is None or not sums.rows:
        return None
    watched = (("confidence", sums.confidence), ("score", sums.score))
    bins = tuple((name, counts) for name, counts in watched if counts)
    return Seen(reference.classes, sums.classes, bins)


def _by_group(
    correct: BoolArray, confidence: FloatArray, groups: IntArray | None, n_groups: int
) -> tuple[Gap, ...]:
    if groups is None or n_groups == 1:  # a reference need not count the groups there are
        return (Gap.of(correct, confidence),)
    return tuple(Gap.of(correct[groups == k], confidence[groups == k]) for k in range(n_groups))


def _require_between(name: str, value: float, *, above: float = -1.0) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not above < value <= 0.5 or value < 0:
        raise InputError(
            f"{name} must be a number up to 0.5, such as 0.01; got {value!r}", code="option-range"
        )

"""What a monitor has found: in numbers, in words, and in Prometheus' text format."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from smallcal.data.claims import CLAIMS
from smallcal.data.in_notebook import InNotebook
from smallcal.data.plain import plain_fields
from smallcal.deploy.monitor import prometheus, promises
from smallcal.deploy.monitor.class_shift import UNKNOWN, ClassShift, Seen, diagnose
from smallcal.deploy.monitor.labelled import (
    Gap,
    confidence_sequence,
    labels_to_bound,
    labels_to_show,
)
from smallcal.deploy.monitor.promises import Kept
from smallcal.metrics.units import PERCENT, SHARE

#: Gaps that labelling should show or bound, where no tolerance says so.
_LARGE_GAP, _SMALL_GAP = 0.03, 0.01

#: What a report begins and ends with as plain data.
_HEAD = (
    *("method", "rows", "labelled", "alpha", "tolerance"),
    *("alarm", "verdict", "labels_wanted"),
)
_LEVELS = ("confidence", "reference_confidence", "accuracy")


@dataclass(frozen=True)
class Stream:
    """One thing that is watched, and how it is distributed now and in the calibration split.

    Attributes
    ----------
    name : {"confidence", "score", "groups"}
    counts, reference : tuple of int
        Rows in each bin: of the stream, and of the split.
    log_e : float
        Evidence of drift: log of the e-value.
    """

    name: str
    counts: tuple[int, ...]
    reference: tuple[int, ...]
    log_e: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "counts": list(self.counts),
            "reference": list(self.reference),
            "p_value": p_value(self.log_e),
        }


@dataclass(frozen=True)
class LabelledGap:
    """Accuracy minus mean calibrated confidence, with an interval for all looks at once.

    ``after`` labelled rows came before those that are counted.
    """

    n: int
    gap: float | None
    low: float
    high: float
    after: int = 0

    @classmethod
    def of(cls, sums: Gap, alpha: float, *, after: int = 0) -> LabelledGap:
        """Summarise residuals."""
        low, high = confidence_sequence(sums, alpha)
        return cls(sums.n, sums.mean if sums.n else None, low, high, after)

    def within(self, tolerance: float) -> bool:
        """Whether the gap is known to lie within the tolerance."""
        return -tolerance <= self.low and self.high <= tolerance

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return plain_fields(self)


@dataclass(frozen=True)
class Report(InNotebook):
    """What a monitor knows so far.

    Attributes
    ----------
    method : str
    alpha, tolerance : float
        Chance of ever giving a false alarm, for each check; the gap that is allowed.
    rows, labelled : int
        Rows seen, and rows seen with labels.
    streams : tuple of Stream
        After drift, of the rows since the start with the most evidence; so are ``confidence`` and
        ``classes``.
    drift_log_e, gap_log_e : float
        Evidence of drift, and of a gap beyond the tolerance, from the start that has the most.
    gap : LabelledGap
        Of all labelled rows; where it is beyond the tolerance, or after drift, of those since the
        start with the most evidence. So are ``gaps`` and ``accuracy``.
    gaps : tuple of LabelledGap
        By group, lowest scores first; empty without groups.
    confidence, accuracy : float or None
        Mean calibrated confidence of rows; accuracy of the labelled ones.
    reference_confidence : float or None
        Mean calibrated confidence of the calibration split.
    classes : Seen or None
        Counts of classes, for ``class_shift``.
    input : str
        What rows hold, for words: of scores, labels are outcomes, the confidence is the
        probability of outcome 1, and accuracy the success rate.
    decisions : tuple of Kept
        Whether each threshold of the calibrator keeps its promise.
    after : int
        Rows before those that drift is counted from.
    share : float
        Of alpha, that the start of ``gap`` has.
    """

    method: str
    alpha: float
    tolerance: float
    rows: int
    labelled: int
    streams: tuple[Stream, ...]
    drift_log_e: float
    gap_log_e: float
    gap: LabelledGap
    gaps: tuple[LabelledGap, ...]
    confidence: float | None
    reference_confidence: float | None
    accuracy: float | None
    classes: Seen | None = None
    input: str = "logits"
    decisions: tuple[Kept, ...] = ()
    after: int = 0
    share: float = 1.0

    @property
    def drifted(self) -> bool:
        """Whether the inputs are not those of the calibration split any more."""
        return self.drift_log_e >= -math.log(self.alpha)

    @property
    def miscalibrated(self) -> bool:
        """Whether confidence and accuracy differ by more than the tolerance."""
        return self.gap_log_e >= -math.log(self.alpha)

    @property
    def broken(self) -> bool:
        """Whether a decision errs more often than it promises."""
        return any(each.broken for each in self.decisions)

    @property
    def alarm(self) -> bool:
        """Whether one of the checks failed."""
        return self.drifted or self.miscalibrated or self.broken

    @property
    def verdict(self) -> str:
        """What to do: "fine", "label" some rows, "certify" again, or "refit"."""
        if self.miscalibrated:
            return "refit"
        if self.broken:
            return "certify"
        if not self.drifted or self.gap.within(self.tolerance):
            return "fine"
        shift = self.class_shift
        return "fine" if shift is not None and shift.within(self.tolerance) else "label"

    @cached_property
    def class_shift(self) -> ClassShift | None:
        """Whether frequencies of classes alone explain the drift; None without drift.

        Labelled rows have the last word: a gap that new frequencies do not explain is more.
        """
        if not self.drifted or self.input == "score":
            return None
        found = UNKNOWN if self.classes is None else diagnose(self.classes)
        if found.kind == "frequencies" and found.low is not None and found.high is not None:
            refuted = found.high < self.gap.low or self.gap.high < found.low
            return replace(found, kind="more") if refuted else found
        return found

    @property
    def labels_wanted(self) -> int:
        """About how many more labelled rows would tell whether refitting is due.

        Enough to show a gap of three times the tolerance; where there are as many already,
        enough to know that the gap lies within it.
        """
        if self.verdict != "label":
            return 0
        level = 0.5 if self.confidence is None else self.confidence
        large = max(3 * self.tolerance, _LARGE_GAP)
        alpha = self.alpha * self.share
        needed = labels_to_show(large, self.tolerance, level, alpha)
        if needed <= self.gap.n:
            needed = labels_to_bound(max(self.tolerance, _SMALL_GAP), level, alpha)
        return max(needed - self.gap.n, 10)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words."""
        return tuple(_sentences(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {
            **{name: getattr(self, name) for name in _HEAD},
            "drift": {
                "alarm": self.drifted,
                "p_value": p_value(self.drift_log_e),
                "after": self.after,
                "streams": {stream.name: stream.to_dict() for stream in self.streams},
                "class_shift": self.class_shift
                and {"sentence": _shift(self), **self.class_shift.to_dict()},
            },
            "calibration": {
                "alarm": self.miscalibrated,
                "p_value": p_value(self.gap_log_e),
                **self.gap.to_dict(),
                "groups": [gap.to_dict() for gap in self.gaps],
            },
            **self._decided(),
            **{name: getattr(self, name) for name in _LEVELS},
            "sentences": list(self.sentences),
        }

    def _decided(self) -> dict[str, Any]:
        """Return what there is of decisions; nothing without any."""
        if not self.decisions:
            return {}
        found = [
            {"alarm": each.broken, "p_value": p_value(each.log_e), **each.to_dict()}
            for each in self.decisions
        ]
        return {"decisions": found}

    def prometheus(self) -> str:
        """Return the findings in Prometheus' text format."""
        return prometheus.text(self)


def p_value(log_e: float) -> float:
    """Return a p-value that holds at every look at once: 1 / e, at most 1.

    Examples
    --------
    >>> p_value(-3.0), round(p_value(math.log(50)), 12)
    (1.0, 0.02)
    """
    return math.exp(-max(log_e, 0.0))


def _sentences(report: Report) -> Iterator[str]:
    yield f"{report.method}: {report.rows:,} rows seen, {report.labelled:,} with labels."
    if report.rows:
        yield _inputs(report)
    if report.gap.n:
        yield _calibration(report)
    for each in report.decisions:
        yield promises.sentence(each, report.input)
    if report.drifted and report.input != "score":
        yield _shift(report)
    yield _advice(report)


def _inputs(report: Report) -> str:
    p = p_value(report.drift_log_e)
    change = ""
    if report.confidence is not None and report.reference_confidence is not None:
        before, now = map(SHARE.value, (report.reference_confidence, report.confidence))
        what = CLAIMS[report.input].confidence
        change = f" Mean calibrated {what} is {now}, was {before}."
    if not report.drifted:
        return f"Inputs: no drift detected (p = {p:.2g}, alarm at {report.alpha:g}).{change}"
    shown = f"= {p:.1g}" if p > 1e-99 else "below 1e-99"
    named = max(report.streams, key=lambda stream: stream.log_e).name
    if named == "confidence":
        named = CLAIMS[report.input].confidence
    since = f" since about row {report.after:,}" if report.after else ""
    return f"Inputs have drifted{since} (p {shown}), most of all in {named}.{change}"


def _calibration(report: Report) -> str:
    gap, limit = report.gap, 100 * report.tolerance
    assert gap.gap is not None  # there are labelled rows
    since = f" since about labelled row {gap.after:,}" if gap.after else ""
    claim = CLAIMS[report.input]
    sure = claim.confidence.capitalize()
    shown = (
        f"{claim.accuracy} minus {claim.confidence} is {PERCENT.difference(gap.gap)} "
        f"({PERCENT.interval(gap.low, gap.high, signed=True)})"
    )
    if report.miscalibrated:
        return f"{sure} does not match {claim.accuracy}{since}: {shown}; {limit:g} are allowed."
    known = "within" if gap.within(report.tolerance) else "not shown to exceed"
    return f"{sure} against {claim.accuracy}{since}: {shown}, {known} the {limit:g} allowed."


_FREQUENCIES = "Only class frequencies changed (label shift, estimated)"
_MORE = "More than class frequencies changed"
_ACT = "recalibrate, or correct for the new frequencies"


def _shift(report: Report) -> str:
    """Say what kind of drift it is, and what that does to confidence."""
    found = report.class_shift or UNKNOWN
    if found.kind not in ("frequencies", "more"):
        why = ": there is no table of classes (an older file, given rates, or over 1,000 classes)"
        if found.kind == "unclear":
            why = " yet: rows or calibration samples are too few"
        return f"Whether only class frequencies changed cannot be determined{why}."
    alone = found.kind == "frequencies"
    said = _FREQUENCIES if alone else _MORE
    if report.miscalibrated:
        return f"{said}, and labels show that calibration got worse{f': {_ACT}' if alone else ''}."
    if report.gap.within(report.tolerance):
        return (
            f"{said}; labels show that calibration still holds{'' if alone else ' all the same'}."
        )
    if not alone:
        return f"{said}: calibration has likely got worse."
    off = (
        f"{said}; confidence is likely miscalibrated by about "
        f"{PERCENT.number(abs(found.gap or 0.0))}"
    )
    return f"{off} points: {'no need to act' if found.within(report.tolerance) else _ACT}."


def _advice(report: Report) -> str:
    if report.verdict == "refit":
        then = ", then certify" if report.decisions else ""
        return f"Refit: collect fresh labelled rows and fit the calibrator again{then}."
    if report.verdict == "certify":
        return "Certify again: on fresh labelled rows, for a threshold that meets the guarantee."
    if report.verdict == "label":
        return (
            f"Label about {report.labels_wanted:,} more rows to find out whether a refit is needed."
        )
    if report.drifted and report.gap.within(report.tolerance):
        claim = CLAIMS[report.input]
        still = f"{claim.confidence} still matches {claim.accuracy}"
        return f"Nothing to do: inputs have changed, but {still}."
    return "Nothing to do."

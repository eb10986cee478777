"""What a refresh changed: in numbers, and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from smallcal.calibrators.confidence_shift import ConfidenceShift
from smallcal.calibrators.decision import thresholds_of
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.later import without_last
from smallcal.calibrators.maps import TemperatureMap
from smallcal.calibrators.maps.multinomial import MultinomialMap
from smallcal.calibrators.objectives import sigmoid
from smallcal.calibrators.summary import groups_of
from smallcal.data.checks import FloatArray, IntArray
from smallcal.data.claims import CLAIMS, Claim
from smallcal.data.plain import plain_fields
from smallcal.data.shown import visible
from smallcal.deploy.monitor import label_free
from smallcal.deploy.monitor.report import p_value
from smallcal.deploy.refresh.posterior import Posterior
from smallcal.deploy.refresh.rows import Rows
from smallcal.metrics import METRICS
from smallcal.metrics.units import PERCENT, SHARE, X100, Unit, written

#: Confidences whose change is shown.
LEVELS = (0.5, 0.7, 0.9, 0.99)
#: Drift is said below this chance.
_LEVEL = 0.01
#: After drift, so many rows are worth more in a fit of their own; see docs/guides/refresh.md.
_ENOUGH = 100


class Change(NamedTuple):
    """A number before and after."""

    name: str
    before: float
    after: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return self._asdict()


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """What an old threshold would do with the new confidences, on the new rows.

    Attributes
    ----------
    name : str
        Of its column in outputs.
    risk : float
    share_before, share_after : float
        Of rows accepted.
    errors_before, errors_after : float or None
        The error rate among these; None where there are none.
    """

    name: str
    risk: float
    share_before: float
    share_after: float
    errors_before: float | None
    errors_after: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return plain_fields(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Refreshed:
    """A refreshed calibrator, and what changed.

    Attributes
    ----------
    calibrator : FittedCalibrator
        The new one.
    applied : bool
        Whether anything new was taken; if not, probabilities are those of the fit.
    slope, bias, tail : float
        Of the log-odds of the confidence, and the power of the other classes' proportions, as they
        are now: 1, 0 and 1 where not taken.
    rows, rows_in_all, fitted_rows : int
        New rows, all since the fit, and those of the fit.
    found : Posterior
        What all new rows say: slope and bias with intervals, how far the model's own confidences
        moved, and the log-loss of the claims with and without them, out of sample.
    drift_p_value : float or None
        Of "the model's own confidences come from where the split's came", as the monitor tests it.
    temperatures : tuple of Change
        What logits are divided by, and what they would have to be divided by for the same mean
        confidence on the new rows; empty for maps that do not divide them.
    confidence : Change
        Mean confidence on the rows of this refresh.
    accuracy : float
        The share of their claims that hold.
    levels : tuple of Change
        What becomes of some confidences.
    accepted : tuple of Accepted
        One for each certified threshold that is set aside.
    set_aside : int
        Decisions that no longer stand: thresholds, and prediction sets.
    input : str
        What rows hold, for words.

    Examples
    --------
    >>> import smallcal as sc
    >>> val, test = sc.load_demo("cal"), sc.load_demo("test")
    >>> cal = sc.TemperatureScaling().fit(val.logits, val.labels)
    >>> print(sc.refresh(cal, test.logits[:20], test.labels[:20]))
    20 new rows, 20 since the fit on 1,250.
    ...
    """

    calibrator: FittedCalibrator
    applied: bool
    slope: float
    bias: float
    tail: float
    rows: int
    rows_in_all: int
    fitted_rows: int
    found: Posterior
    drift_p_value: float | None
    temperatures: tuple[Change, ...]
    confidence: Change
    accuracy: float
    levels: tuple[Change, ...]
    accepted: tuple[Accepted, ...]
    set_aside: int
    input: str

    @property
    def drifted(self) -> bool:
        """Whether it is proven that the model's own confidences moved."""
        return self.drift_p_value is not None and self.drift_p_value < _LEVEL

    @property
    def fit_again(self) -> bool:
        """Whether a new fit is likely worth more: as many new rows as old, or fewer after drift."""
        return self.rows_in_all >= (
            min(_ENOUGH, self.fitted_rows) if self.drifted else self.fitted_rows
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """What changed, in words."""
        return tuple(_sentences(self, CLAIMS[self.input]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON; the calibrator has its own file."""
        told = {**plain_fields(self, without="calibrator"), "fit_again": self.fit_again}
        return {**told, "sentences": list(self.sentences)}

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def changes(
    rows: Rows, before: FittedCalibrator, after: FittedCalibrator, found: Posterior
) -> Refreshed:
    """Compare a refreshed calibrator with what it was, on the new rows."""
    old, new = _shift_of(before), _shift_of(after)
    was, claimed = rows.claims(before)
    now, _ = rows.claims(after)
    holds, evidence = rows.holds(claimed), new.evidence
    seen = None
    if after.reference is not None and evidence.bins:
        bins = after.reference.confidence.spacings
        seen = p_value(float(label_free.log_evidence(np.array(evidence.bins), bins)))
    mean = Change("mean", float(was.mean()), float(now.mean()))
    at = np.log(LEVELS) - np.log1p(-np.array(LEVELS))
    levels = sigmoid(new.of((at - old.bias) / old.slope))
    return Refreshed(
        calibrator=after,
        applied=not new.still,
        slope=new.slope,
        bias=new.bias,
        tail=new.tail,
        rows=rows.preds.n,
        rows_in_all=evidence.rows,
        fitted_rows=int(after.data["n"]),
        found=found,
        drift_p_value=seen,
        temperatures=tuple(_temperatures(rows, after, mean)),
        confidence=mean,
        accuracy=float(holds.mean()),
        levels=tuple(
            Change(f"{level:g}", level, each)
            for level, each in zip(LEVELS, levels.tolist(), strict=True)
        ),
        accepted=tuple(_accepted(rows, before, claimed, (was, now))),
        set_aside=len(before.decisions),
        input=after.input,
    )


def _shift_of(fitted: FittedCalibrator) -> ConfidenceShift:
    """Return the last refresh, or one that does nothing."""
    last = fitted.later[-1] if fitted.later else None
    return last if isinstance(last, ConfidenceShift) else ConfidenceShift(1.0, 0.0)


def _temperatures(rows: Rows, fitted: FittedCalibrator, confidence: Change) -> Iterator[Change]:
    """Yield the temperature of each group, or the usual one, and what it now amounts to."""
    base = without_last(fitted)
    if not isinstance(fitted.map, TemperatureMap | MultinomialMap):
        return
    steps = groups_of(fitted)
    named = [(f"group {i}", step[3]) for i, step in enumerate(steps)]
    if len(steps) == 1:
        named = [("temperature", steps[0][3])]
    if not steps:
        named = [("median", float(np.median(rows.temperatures(base))))]
    old, new = rows.factors(base, (confidence.before, confidence.after))
    for name, temperature in named:
        yield Change(name, temperature * old, temperature * new)


def _accepted(
    rows: Rows, before: FittedCalibrator, claimed: IntArray, confidences: tuple[FloatArray, ...]
) -> Iterator[Accepted]:
    """Yield what each certified threshold did, and would do."""
    holds = rows.holds(claimed)
    for name, rule in thresholds_of(before.decisions).items():
        if rule.by == "group" and rows.named is None:
            continue
        shares, errors = [], []
        for confidence in confidences:
            chosen = rule.accept(confidence, claimed, rows.named)
            shares.append(float(chosen.mean()))
            errors.append(float(1 - holds[chosen].mean()) if chosen.any() else None)
        yield Accepted(
            name=name,
            risk=rule.risk,
            share_before=shares[0],
            share_after=shares[1],
            errors_before=errors[0],
            errors_after=errors[1],
        )


def _sentences(done: Refreshed, claim: Claim) -> Iterator[str]:
    new = "1 new row" if done.rows == 1 else f"{done.rows:,} new rows"
    yield f"{new}, {done.rows_in_all:,} since the fit on {done.fitted_rows:,}."
    yield _drift(done)
    yield _verdict(done, claim)
    if done.found.better:
        yield from _numbers(done, claim)
    if done.found.tail.rows:
        yield _others(done)
    yield (
        f"Mean {claim.confidence} on the {_these(done)} {_arrow(done.confidence, SHARE)}; "
        f"{claim.accuracy} {SHARE.value(done.accuracy)}."
    )
    for each in done.accepted:
        yield _threshold(each, claim)
    if done.set_aside:
        yield "Certified thresholds were for the old probabilities and were removed: certify again."
    if done.fit_again and done.drifted:
        yield (
            "After drift, this many new rows probably do better in a new fit on them alone: fit "
            "again, and compare."
        )
    elif done.fit_again:
        yield (
            "The new rows are as many as those of the fit: a new fit on old and new rows together "
            "is probably better."
        )


def _these(done: Refreshed) -> str:
    return "new row" if done.rows == 1 else "new rows"


def _drift(done: Refreshed) -> str:
    if done.drift_p_value is None:
        return "Drift of the raw confidences is unknown: the file has no reference counts."
    far = f"{done.found.moved:.2f} on a scale from 0 to 1"
    if not done.drifted:
        return f"Raw confidences: no drift detected ({far}, p = {done.drift_p_value:.2g})."
    return f"Raw confidences have drifted ({far}): the old fit gets less weight."


def _verdict(done: Refreshed, claim: Claim) -> str:
    found, what = done.found, claim.confidence.capitalize()
    if done.rows_in_all == 1:
        return (
            f"{what}: unchanged. One row is too little to judge by; it is kept for the next "
            "refresh."
        )
    losses = f"{METRICS[claim.loss].title} {X100.number(found.before)} -> {X100.value(found.after)}"
    gain = X100.difference(found.before - found.after)
    ends = X100.interval(*found.gain_interval, signed=True)
    told = f"{losses} on all new rows, by leave-one-out cross-validation"
    kept = "" if found.better else " The rows are kept for the next refresh."
    verdict = "new" if found.better else "old stays"
    return f"{what}: {verdict}; {told} (gain {gain}, 95 % interval {ends}).{kept}"


def _others(done: Refreshed) -> str:
    tail = done.found.tail
    losses = f"{X100.number(tail.before)} -> {X100.value(tail.after)}"
    told = f"log-loss of the true one among them where the prediction is wrong {losses}"
    if not tail.better:
        return f"Other classes: old stays; {told}."
    ends = " to ".join(map(written, tail.interval))
    power = f"their proportions to the power {written(tail.power)} (95 % interval {ends})"
    return f"Other classes: new; {told}, {power}."


def _numbers(done: Refreshed, claim: Claim) -> Iterator[str]:
    found = done.found
    slope, bias = written(done.slope), written(done.bias, signed=True)
    slopes = " to ".join(map(written, found.slope_interval))
    biases = " to ".join(written(end, signed=True) for end in found.bias_interval)
    yield (
        f"Its log-odds are multiplied by {slope} (95 % interval {slopes}) and shifted by {bias} "
        f"({biases})."
    )
    if done.temperatures:
        listed = ", ".join(
            f"{visible(each.name)} {written(each.before)} -> {written(each.after)}"
            for each in done.temperatures
        )
        yield f"Equivalent change of temperatures: {listed}."
    shown = ", ".join(_arrow(each, PERCENT) for each in done.levels)
    yield f"{claim.confidence.capitalize()} before -> after: {shown}."


def _arrow(change: Change, unit: Unit) -> str:
    return f"{unit.number(change.before)} -> {unit.value(change.after)}"


def _threshold(each: Accepted, claim: Claim) -> str:
    rates = [
        None if rate is None else SHARE.value(rate)
        for rate in (each.errors_before, each.errors_after)
    ]
    was, now = (rate or "unknown" for rate in rates)
    return (
        f"At the threshold for {PERCENT.value(each.risk)} the accepted share goes from "
        f"{SHARE.value(each.share_before)} to {SHARE.value(each.share_after)}; {claim.rate} among "
        f"them {was} -> {now}."
    )

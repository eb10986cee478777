"""What the numbers amount to, in words: which method to use, and how far to believe it.

A difference is called one only where its interval lies on one side of zero. The choice starts from
the default, which was fixed before these test samples were seen, and leaves it only for a method
that is better beyond chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from smallcal.calibrators.catalogue import ALIASES
from smallcal.metrics import METRICS
from smallcal.metrics.units import PERCENT
from smallcal.reports.content.measure import CLASSIC, COMPARED, Difference, Measured
from smallcal.reports.settings import RAW
from smallcal.statistics.interval import Interval

#: What a choice rests on: the proper score of the confidence.
DECIDING = "top_label_bce"
#: What a finding names: how well calibrated, and at what price.
_TOLD = ("ece15", DECIDING, "nll")

#: With fewer calibration samples, or fewer errors among them, the report says so.
_FEW_SAMPLES = 250
_FEW_ERRORS = 20
_FEW_TEST = 1_000

#: How much a sentence matters, "fine", "care" or "bad", and the sentence.
Finding = tuple[str, str]


def recommended(measured: Measured) -> tuple[str, str]:
    """Return the method to use and why it was chosen."""
    names = [name for name, fit in measured.fits.items() if fit.deployable]
    default = ALIASES["default"]
    if default in names:
        first, why = default, "the default, chosen before these test samples were seen"
    else:
        gain = [name for name in names if _verdict(measured, name, RAW) == "better"]
        first = min(gain, key=lambda name: measured.fits[name].fitted.n_parameters, default=RAW)
        why = "the fewest fitted numbers among the methods that beat the raw model beyond chance"
        if first == RAW:
            why = "no method here beats the raw model beyond chance"
    better = [name for name in names if _verdict(measured, name, first) == "better"]
    if not better:
        return first, why
    best = min(better, key=lambda name: measured.value(name, DECIDING).point)
    return best, f"its {DECIDING} is below that of {first} beyond chance"


def _verdict(measured: Measured, method: str, baseline: str) -> str:
    return "tie" if method == baseline else measured.difference(method, baseline, DECIDING).verdict


def verdict(measured: Measured, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recommended method, one line for the top of the page, and the findings.

    ``data`` is what the report says of the samples.
    """
    chosen, why = recommended(measured)
    found = [
        *_raw(measured),
        *_gain(measured, chosen),
        *_rivals(measured, chosen),
        *_harm(measured, chosen),
        *_left(measured, chosen),
        *_flags(measured, chosen),
        *_changed(measured, chosen),
        *_caveats(measured, data),
    ]
    return {
        "recommended": chosen,
        "asked": measured.fits[chosen].asked,
        "reason": why,
        "outcome": outcome(measured, chosen),
        "headline": _headline(measured, chosen),
        "findings": [{"level": level, "text": text} for level, text in found],
    }


def outcome(measured: Measured, chosen: str) -> str:
    """Return "raw", "better", "tie", "mixed" or "worse", against the raw model."""
    if chosen == RAW or "kept_raw" in measured.fits[chosen].fitted.flags:
        return "raw"
    found = {measured.difference(chosen, RAW, metric).verdict for metric in _TOLD}
    if {"better", "worse"} <= found:
        return "mixed"
    return next((word for word in ("better", "worse") if word in found), "tie")


def _headline(measured: Measured, chosen: str) -> str:
    before, after = (measured.value(name, "ece15") for name in (RAW, chosen))
    result = outcome(measured, chosen)
    raw = with_interval("ece15", before)
    if result == "raw":
        why = "Nothing here beats it beyond chance"
        if chosen != RAW:
            why = f"{chosen} found too little evidence against its confidences and left them alone"
        return f"Keep the raw model. {why}. ECE {raw}."
    said = {
        "better": f"Use {chosen}. It is better than the raw model beyond chance",
        "tie": f"Use {chosen} or the raw model. They are level within chance",
        "mixed": f"{chosen} is better than the raw model in part and worse in part, beyond chance",
        "worse": f"{chosen} is worse than the raw model beyond chance",
    }
    return f"{said[result]}. ECE {with_interval('ece15', after)} after, {raw} before."


def _raw(measured: Measured) -> Iterator[Finding]:
    """Yield whether the model's own confidences are off, and which way."""
    gap = measured.value(RAW, "confidence_gap")
    sure = measured.points[RAW]["accuracy"] + gap.point
    means = (
        f"mean confidence {PERCENT.value(sure)}, accuracy "
        f"{PERCENT.value(measured.points[RAW]['accuracy'])}, gap "
        f"{with_interval('confidence_gap', gap, signed=True)}"
    )
    if gap.excludes_zero:
        way = "overconfident" if gap.point > 0 else "underconfident"
        yield "care", f"The raw model is {way}: {means}."
    else:
        said = "The raw model's confidence matches its accuracy on average, within chance"
        yield "fine", f"{said}: {means}."
    floor, value = measured.floors[RAW]["ece15"], measured.value(RAW, "ece15")
    beyond = value.point > floor.high
    said = "more than noise" if beyond else "no more than noise"
    text = (
        f"Its ECE of {with_interval('ece15', value)} is {said}: a perfectly calibrated model with "
        f"these confidences would show {PERCENT.value(floor.mean)} on average and stay "
        f"below {PERCENT.value(floor.high)} in {100 * floor.level:g} of 100 test sets."
    )
    yield ("care" if beyond else "fine"), text


def _gain(measured: Measured, chosen: str) -> Iterator[Finding]:
    """Yield what the chosen method changes, against the raw model and the classic."""
    if chosen == RAW:
        return
    if "kept_raw" in measured.fits[chosen].fitted.flags:
        yield "fine", f"{chosen} changes nothing: its gate kept the raw model."
    else:
        yield _compared(measured, chosen, RAW, "the raw model")
    if CLASSIC in measured.fits and chosen != CLASSIC:
        yield _compared(measured, chosen, CLASSIC, f"temperature scaling ({CLASSIC})")


def _compared(measured: Measured, method: str, baseline: str, called: str) -> Finding:
    """Return what differs from another method: changes first, ties after."""
    rows = {metric: measured.difference(method, baseline, metric) for metric in _TOLD}
    parts = []
    for word, said in (("better", "better"), ("worse", "worse"), ("tie", "level within chance")):
        named = {metric: row for metric, row in rows.items() if row.verdict == word}
        if named:
            parts.append(f"{said} in {_changes(named)}")
    level = "bad" if any(row.verdict == "worse" for row in rows.values()) else "fine"
    return level, f"Against {called}, {method} is {'; '.join(parts)}."


def _changes(rows: Mapping[str, Difference]) -> str:
    """Return some metrics and how much they differ, as a list for people."""
    return listed([f"{name} {with_interval(name, r.row, signed=True)}" for name, r in rows.items()])


def _rivals(measured: Measured, chosen: str) -> Iterator[Finding]:
    """Yield which other methods differ from the chosen one beyond chance."""
    rivals = [name for name in measured.fits if name not in (chosen, RAW)]
    rows = {
        (name, metric): measured.difference(name, chosen, metric)
        for name in rivals
        for metric in _TOLD
    }
    better = [
        f"{name} in {metric} ({with_interval(metric, row, signed=True)})"
        for (name, metric), (row, verdict) in rows.items()
        if verdict == "better"
    ]
    if better:
        yield "care", f"Better than {chosen} beyond chance: {listed(better)}."
    elif rivals:
        yield "fine", f"No other method here is better than {chosen} in {listed(_TOLD)}."


def _harm(measured: Measured, chosen: str) -> Iterator[Finding]:
    """Yield which methods do harm to the raw model, the chosen one last."""
    for name in [*(other for other in measured.fits if other != chosen), chosen]:
        if name == RAW:
            continue
        # Of the chosen one, some are told already.
        told = _TOLD if name == chosen else ()
        rows = {m: measured.difference(name, RAW, m) for m in COMPARED if m not in told}
        worse = {metric: row for metric, row in rows.items() if row.verdict == "worse"}
        if worse:
            what = "is also" if name == chosen else "does harm:"
            text = f"{name} {what} worse than the raw model beyond chance in {_changes(worse)}."
            yield "care", text


def _left(measured: Measured, chosen: str) -> Iterator[Finding]:
    """Yield what calibration error is left, beside what noise alone would show."""
    if chosen == RAW:
        return
    floor, value = measured.floors[chosen]["ece15"], measured.value(chosen, "ece15")
    text = (
        f"After {chosen} the ECE is {with_interval('ece15', value)}, and noise alone would show "
        f"{PERCENT.value(floor.mean)}"
    )
    if value.point > floor.high:
        yield "care", f"{text}: some miscalibration is left."
    else:
        yield "fine", f"{text}: what is left cannot be told from noise."


def _flags(measured: Measured, chosen: str) -> Iterator[Finding]:
    for name, fit in measured.fits.items():
        for flag, where in fit.fitted.flags.items():
            groups = f" (group {', '.join(map(str, where))})" if where else ""
            text = f"Flag {flag} of {name}{groups}: {fit.fitted.flag_text(flag)}."
            yield ("care" if name == chosen else "fine"), text
    for name, reason in measured.failures.items():
        yield "care", f"{name} could not be fitted: {reason}"


def _changed(measured: Measured, chosen: str) -> Iterator[Finding]:
    """Yield methods that change predictions."""
    raw = measured.fits[RAW].scored.proba.argmax(axis=1)
    for name, fit in measured.fits.items():
        if fit.fitted.preserves_argmax:
            continue
        count = int((fit.scored.proba.argmax(axis=1) != raw).sum())
        text = f"{name} may change the predicted class: it did for {count:,} test samples."
        yield ("care" if name == chosen else "fine"), text


def _caveats(measured: Measured, data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what the sample sizes and the number of comparisons leave open."""
    cal, test = data["calibration"], data["test"]
    rarer, kind = min((cal["n_errors"], "wrong"), (cal["n"] - cal["n_errors"], "right"))
    if cal["n"] < _FEW_SAMPLES:
        why = "another split could give another calibrator"
        yield "care", f"Only {cal['n']:,} calibration samples: {why}."
    if rarer < _FEW_ERRORS:
        yield "care", f"Only {rarer} of {cal['n']:,} calibration samples are predicted {kind}."
    if test["n"] < _FEW_TEST:
        yield "care", f"Only {test['n']:,} test samples: intervals are wide and noise floors high."
    if cal["sha256"] == test["sha256"]:
        yield "bad", "Calibration and test samples are the same: that flatters every method."
    count = (len(measured.fits) - 1) * len(COMPARED)
    share = 100 * (1 - measured.result.level)
    text = (
        f"Intervals resample the test samples with the fits kept as they are. Each of the {count} "
        f"differences from the raw model has its own {100 * measured.result.level:g} % interval: "
        f"about {share:g} in 100 would miss zero by chance alone."
    )
    yield "fine", text


def with_interval(name: str, row: Interval, *, signed: bool = False) -> str:
    """Return a metric, or with its sign a difference, and its interval for people.

    Examples
    --------
    >>> import numpy as np
    >>> from smallcal.statistics.interval import interval_of
    >>> found = interval_of(0.03, np.array([0.02, 0.04]), unit="samples", level=0.9)
    >>> with_interval("ece15", found)
    '3.00 % (90 % interval 2.10 to 3.90)'
    """
    unit = METRICS[name].unit
    value = unit.difference(row.point) if signed else unit.value(row.point)
    ends = unit.interval(row.low, row.high, signed=signed, n_undefined=row.n_undefined)
    return f"{value} ({100 * row.level:g} % interval {ends})"


def listed(words: Sequence[str]) -> str:
    """Return words as a list for people.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last

"""What the numbers amount to, in words: which method to use, and how far to believe it.

A difference is called one only where its interval lies on one side of zero. The choice starts from
the default, which was fixed before these test samples were seen, and leaves it only for a method
that is better beyond chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from smallcal.calibrators.base import flag_text
from smallcal.calibrators.catalogue import ALIASES
from smallcal.metrics import METRICS
from smallcal.metrics.units import PERCENT
from smallcal.reports.content.measure import CLASSIC, COMPARED, RAW, Measured
from smallcal.reports.content.words import listed, with_interval
from smallcal.reports.samples import Samples
from smallcal.statistics.interval import Interval

#: What a choice rests on: the proper score of the confidence.
DECIDING = "top_label_bce"
#: What a finding names: how well calibrated, and at what price.
_TOLD = ("ece15", DECIDING, "nll")

#: With fewer calibration samples, or fewer errors among them, the report says so.
_FEW_SAMPLES = 250
_FEW_ERRORS = 20
_FEW_TEST = 1_000

Finding = dict[str, str]


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
    return "tie" if method == baseline else measured.verdict(method, baseline, DECIDING)


def verdict(measured: Measured, calibration: Samples, test: Samples) -> dict[str, Any]:
    """Return the recommended method, one line for the top of the page, and the findings."""
    chosen, why = recommended(measured)
    found: list[Finding] = []
    for part in (
        _raw(measured),
        _gain(measured, chosen),
        _against_classic(measured, chosen),
        _rivals(measured, chosen),
        _harm(measured, chosen),
        _left(measured, chosen),
        _flags(measured, chosen),
        _changed(measured, chosen, test),
        _caveats(measured, calibration, test),
    ):
        found.extend(part)
    return {
        "recommended": chosen,
        "asked": measured.fits[chosen].asked,
        "reason": why,
        "outcome": outcome(measured, chosen),
        "headline": _headline(measured, chosen),
        "findings": found,
    }


def outcome(measured: Measured, chosen: str) -> str:
    """Return "raw", "better", "tie", "mixed" or "worse", against the raw model."""
    if chosen == RAW or "kept_raw" in measured.fits[chosen].fitted.flags:
        return "raw"
    found = {measured.verdict(chosen, RAW, metric) for metric in _TOLD}
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


def _finding(level: str, text: str) -> Finding:
    return {"level": level, "text": text}


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
        yield _finding("care", f"The raw model is {way}: {means}.")
    else:
        text = (
            f"The raw model's confidence matches its accuracy on average, within chance: {means}."
        )
        yield _finding("fine", text)
    floor, value = measured.floors[RAW]["ece15"], measured.value(RAW, "ece15")
    beyond = value.point > floor.high
    said = "more than noise" if beyond else "no more than noise"
    text = (
        f"Its ECE of {with_interval('ece15', value)} is {said}: a perfectly calibrated model with "
        f"these confidences would show {PERCENT.value(floor.mean)} on average and stay "
        f"below {PERCENT.value(floor.high)} in {100 * floor.level:g} of 100 test sets."
    )
    yield _finding("care" if beyond else "fine", text)


def _gain(measured: Measured, chosen: str) -> Iterator[Finding]:
    """Yield what the chosen method changes."""
    if chosen == RAW:
        return
    if "kept_raw" in measured.fits[chosen].fitted.flags:
        yield _finding("fine", f"{chosen} changes nothing: its gate kept the raw model.")
        return
    level, text = _compared(measured, chosen, RAW, "the raw model")
    yield _finding(level, text)


def _against_classic(measured: Measured, chosen: str) -> Iterator[Finding]:
    if CLASSIC in measured.fits and chosen not in (RAW, CLASSIC):
        level, text = _compared(measured, chosen, CLASSIC, f"temperature scaling ({CLASSIC})")
        yield _finding(level, text)


def _compared(
    measured: Measured, method: str, baseline: str, called: str, *, metrics: Sequence[str] = _TOLD
) -> tuple[str, str]:
    """Return how much a sentence matters, and the sentence: changes first, ties after."""
    rows = {metric: measured.difference(method, baseline, metric) for metric in metrics}
    verdicts = {metric: measured.verdict(method, baseline, metric) for metric in metrics}
    parts = []
    for word in ("better", "worse"):
        named = [metric for metric in metrics if verdicts[metric] == word]
        if named:
            sizes = listed([f"{metric} {_change(metric, rows[metric])}" for metric in named])
            parts.append(f"{word} in {sizes}")
    tied = [metric for metric in metrics if verdicts[metric] == "tie"]
    if tied:
        sizes = listed([f"{metric} {_change(metric, rows[metric])}" for metric in tied])
        parts.append(f"level within chance in {sizes}")
    level = "bad" if "worse" in verdicts.values() else "fine"
    return level, f"Against {called}, {method} is {'; '.join(parts)}."


def _change(metric: str, row: Interval) -> str:
    return with_interval(metric, row, signed=True)


def _rivals(measured: Measured, chosen: str) -> Iterator[Finding]:
    """Yield which other methods differ from the chosen one beyond chance."""
    better: list[str] = []
    rivals = [name for name in measured.fits if name not in (chosen, RAW)]
    for name in rivals:
        for metric in _TOLD:
            if measured.verdict(name, chosen, metric) == "better":
                row = measured.difference(name, chosen, metric)
                better.append(f"{name} in {metric} ({_change(metric, row)})")
    if better:
        text = f"Better than {chosen} beyond chance: {listed(better)}."
        yield _finding("care", text)
    elif rivals:
        told = listed(list(_TOLD))
        yield _finding("fine", f"No other method here is better than {chosen} in {told}.")


def _harm(measured: Measured, chosen: str) -> Iterator[Finding]:
    """Yield which methods do harm to the raw model."""
    for name in measured.fits:
        if name in (RAW, chosen):  # the chosen one's are told already
            continue
        worse = [m for m in COMPARED if measured.verdict(name, RAW, m) == "worse"]
        if worse:
            sizes = [f"{m} {_change(m, measured.difference(name, RAW, m))}" for m in worse]
            text = f"{name} does harm: worse than the raw model beyond chance in {listed(sizes)}."
            yield _finding("care", text)
    own = [
        m
        for m in COMPARED
        if chosen != RAW and m not in _TOLD and measured.verdict(chosen, RAW, m) == "worse"
    ]
    if own:
        sizes = [f"{m} {_change(m, measured.difference(chosen, RAW, m))}" for m in own]
        text = f"{chosen} is also worse than the raw model beyond chance in {listed(sizes)}."
        yield _finding("care", text)


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
        yield _finding("care", f"{text}: some miscalibration is left.")
    else:
        yield _finding("fine", f"{text}: what is left cannot be told from noise.")


def _flags(measured: Measured, chosen: str) -> Iterator[Finding]:
    for name, fit in measured.fits.items():
        for flag, where in fit.fitted.flags.items():
            groups = f" (group {', '.join(map(str, where))})" if where else ""
            text = f"Flag {flag} of {name}{groups}: {flag_text(fit.fitted, flag)}."
            yield _finding("care" if name == chosen else "fine", text)
    for name, reason in measured.failures.items():
        yield _finding("care", f"{name} could not be fitted: {reason}")


def _changed(measured: Measured, chosen: str, test: Samples) -> Iterator[Finding]:
    """Yield methods that change predictions."""
    raw = test.preds.predicted
    for name, fit in measured.fits.items():
        if fit.fitted.preserves_argmax:
            continue
        count = int((measured.scored[name].proba.argmax(axis=1) != raw).sum())
        text = f"{name} may change the predicted class: it did for {count:,} test samples."
        yield _finding("care" if name == chosen else "fine", text)


def _caveats(measured: Measured, calibration: Samples, test: Samples) -> Iterator[Finding]:
    """Yield what the sample sizes and the number of comparisons leave open."""
    cal = calibration.preds
    errors = int((~cal.correct).sum())
    rarer, kind = min((errors, "wrong"), (cal.n - errors, "right"))
    if cal.n < _FEW_SAMPLES:
        text = f"Only {cal.n:,} calibration samples: another split could give another calibrator."
        yield _finding("care", text)
    if rarer < _FEW_ERRORS:
        text = f"Only {rarer} of {cal.n:,} calibration samples are predicted {kind}."
        yield _finding("care", text)
    if test.preds.n < _FEW_TEST:
        text = f"Only {test.preds.n:,} test samples: intervals are wide and noise floors high."
        yield _finding("care", text)
    if cal.sha256() == test.preds.sha256():
        text = "Calibration and test samples are the same: that flatters every method."
        yield _finding("bad", text)
    count = (len(measured.fits) - 1) * len(COMPARED)
    share = 100 * (1 - measured.result.level)
    text = (
        f"Intervals resample the test samples with the fits kept as they are. Each of the {count} "
        f"differences from the raw model has its own {100 * measured.result.level:g} % interval: "
        f"about {share:g} in 100 would miss zero by chance alone."
    )
    yield _finding("fine", text)


def differences(measured: Measured, baseline: str) -> dict[str, Any]:
    """Return the table of paired differences from one method."""
    rows = []
    for name in measured.fits:
        if name == baseline:
            continue
        cells = {}
        for metric in COMPARED:
            row = measured.difference(name, baseline, metric)
            cells[metric] = {
                "value": row.point,
                "low": row.low,
                "high": row.high,
                "basic": list(row.basic),
                "win_rate": row.win_rate(METRICS[metric].better),
                "verdict": measured.verdict(name, baseline, metric),
            }
        rows.append({"method": name, "metrics": cells})
    return {"baseline": baseline, "metrics": list(COMPARED), "rows": rows}

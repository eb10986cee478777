"""What the numbers amount to: what to use, what it changes, what to take care of.

The recommendation is the default, which was fixed before these test samples were seen. Where it is
not among the methods the choice is made on the test samples, and the verdict says so. A difference
is called one only where its interval lies on one side of zero, and where several are looked at,
only after Holm's correction for their number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from smallcal.advice.recommend import default_of
from smallcal.calibrators.discipline import FLAGS, NOTES
from smallcal.calibrators.summary import accuracy_line
from smallcal.data.claims import CLAIMS, Claim
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.units import PERCENT
from smallcal.reports.content.measure import Difference, Fit, Measured, chance_of
from smallcal.reports.content.shown import told_of
from smallcal.reports.content.words import listed, with_interval
from smallcal.reports.settings import RAW
from smallcal.statistics.groups import holm
from smallcal.statistics.interval import binomial_interval

#: The confidence above which many let a model decide by itself.
THRESHOLD = 0.9

#: A difference below this (half a point) hardly matters, however sure it is.
LITTLE = 0.005

#: With fewer calibration samples, or fewer errors among them, the report says so.
_FEW_SAMPLES = 250
_FEW_ERRORS = 20
_FEW_TEST = 1_000

#: How much a sentence matters, "fine", "care" or "bad", and the sentence.
Finding = tuple[str, str]

Key = TypeVar("Key", bound=Hashable)


class Choice(NamedTuple):
    """The method to use; on what it was chosen, "default" or "test"; and why."""

    method: str
    basis: str
    reason: str


def recommended(measured: Measured) -> Choice:
    """Return what to use: the default, or what the test samples say where it is not there."""
    names = [name for name, fit in measured.fits.items() if fit.deployable]
    usual, claim = default_of(measured.kind), measured.claim
    if usual in names:
        return Choice(usual, "default", "the default, fixed before these test samples were used")
    if len(measured.fits) == 1:
        return Choice(RAW, "default", "nothing else was fitted")
    if not measured.result.n_boot:
        lowest = min(names, key=lambda name: measured.points[name][claim.loss])
        why = f"the lowest {METRICS[claim.loss].title} on these test samples, possibly by chance"
        return Choice(lowest, "test", why)
    gain = _better_than(measured, RAW, names)
    if not gain:
        why = f"no method here beats {claim.raw} beyond chance on these test samples"
        return Choice(RAW, "test", why)
    first = min(gain, key=lambda name: measured.fits[name].fitted.n_parameters)
    better = _better_than(measured, first, gain)
    if not better:
        why = f"the fewest parameters among the methods that beat {claim.raw} beyond chance"
        return Choice(first, "test", why)
    best = min(better, key=lambda name: measured.points[name][claim.loss])
    return Choice(
        best, "test", f"its {METRICS[claim.loss].title} is below that of {first} beyond chance"
    )


def _better_than(measured: Measured, method: str, names: list[str]) -> list[str]:
    """Return which methods have a lower deciding score, corrected for their number."""
    others = [name for name in names if name != method]
    rows = {name: measured.difference(name, method, measured.claim.loss) for name in others}
    found = beyond_chance(rows, measured.result.level)
    return [name for name, row in found.items() if row.verdict == "better"]


def beyond_chance(rows: Mapping[Key, Difference], level: float) -> dict[Key, Difference]:
    """Return the differences that are better or worse after Holm's correction for all of them."""
    keys = {str(i): key for i, key in enumerate(rows)}
    chances = {i: rows[key].p_value for i, key in keys.items()}
    fallen = {keys[i] for i in holm(chances, 1 - level)}
    real = ("better", "worse")
    return {key: row for key, row in rows.items() if key in fallen and row.verdict in real}


def verdict(measured: Measured, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to use and what it changes, in numbers and words.

    ``data`` is what the report says of the samples.
    """
    choice = recommended(measured)
    chosen = choice.method
    level = measured.result.level
    metrics = measured.compared if chosen != RAW else ()
    against = {m: measured.difference(chosen, RAW, m) for m in metrics}
    told = beyond_chance({m: row for m, row in against.items() if m in measured.told}, level)
    result = outcome(measured, chosen, told)
    rival = _rival(measured, choice)
    found = [
        *_same(data),
        *_harm(beyond_chance(against, level), measured.claim),
        *_calibration(measured, chosen, result),
        *([("care", rival["text"])] if rival else []),
        *_flags(measured, chosen),
        *_taken_for(data),
        *_sizes(data, measured.claim),
    ]
    return {
        "recommended": chosen,
        "asked": measured.fits[chosen].asked,
        "basis": choice.basis,
        "reason": choice.reason,
        "outcome": result,
        "headline": _headline(choice, result, told, kind=measured.kind),
        "changes": [_change(measured, chosen, name, told) for name in measured.two],
        "threshold": at_threshold(measured, chosen),
        "rival": rival,
        "findings": [{"level": level, "text": text} for level, text in found],
    }


def outcome(measured: Measured, chosen: str, told: Mapping[str, Difference]) -> str:
    """Return "raw", "better", "tie", "close", "mixed", "worse" or "unknown".

    It is against the uncalibrated model. "close" is worse beyond chance, but by so little that it
    hardly matters.
    """
    if chosen == RAW:
        return "raw"
    if not measured.result.n_boot:
        return "unknown"
    found = {row.verdict for row in told.values()}
    if {"better", "worse"} <= found:
        return "mixed"
    if found == {"worse"} and all(row.row.point < LITTLE for row in told.values()):
        return "close"
    return next((word for word in ("better", "worse") if word in found), "tie")


def _headline(
    choice: Choice,
    result: str,
    told: Mapping[str, Difference],
    *,
    kind: str = "logits",
) -> str:
    """Return the verdict in one line."""
    name, plain, names = choice.method, CLAIMS[kind].raw, told_of(kind)
    words = {m: row.verdict for m, row in told.items()}
    better, worse = (
        listed([names[m] for m, found in words.items() if found == word] or [""])
        for word in ("better", "worse")
    )
    where = "" if len(words) == len(names) else f" in {better}"
    said = {
        "raw": f"Keep {plain}. {choice.reason[:1].upper()}{choice.reason[1:]}.",
        "better": f"Use {name}. It is better than {plain} beyond chance{where}.",
        "tie": f"Use {name} or {plain}. They are tied within chance.",
        "close": f"Use {name} or {plain}. On these test samples {name} is worse beyond "
        f"chance, but by less than {PERCENT.scale * LITTLE:g} points in {worse}.",
        "mixed": f"Use {name} with care. Beyond chance it is better than {plain} in "
        f"{better} and worse in {worse}.",
        "worse": f"Do not ship {name} yet. On these test samples it is worse than {plain} "
        "beyond chance: calibration and test samples seem to differ.",
        "unknown": f"Use {name}. Without resamples, the difference may be chance.",
    }
    if choice.basis != "test" or name == RAW:  # of the uncalibrated model, the reason says so
        return said[result]
    flattered = "which makes it look too good: check it on new samples"
    return f"{said[result]} This was chosen on these test samples, {flattered}."


def _change(
    measured: Measured, chosen: str, name: str, told: Mapping[str, Difference]
) -> dict[str, Any]:
    """Return one of the two numbers before and after, and what the change amounts to."""
    before, after = (measured.value(key, name) for key in (RAW, chosen))
    text = f"{measured.two[name]} {with_interval(name, before)}"
    found: dict[str, Any] = {"difference": None, "verdict": ""}
    if chosen != RAW:
        same = "tie" if measured.result.n_boot else ""
        word = told[name].verdict if name in told else same
        row = measured.difference(chosen, RAW, name).row
        found = {"difference": row.numbers, "verdict": word}
        text += f" before, {with_interval(name, after)} after"
    both = {"before": before.numbers, "after": after.numbers}
    called = {"metric": name, "called": measured.two[name]}
    return {**called, **both, **found, "text": f"{text}."}


def at_threshold(measured: Measured, chosen: str) -> dict[str, Any]:
    """Return how many test samples lie above a confidence, and how many of them are wrong."""
    level = measured.result.level
    rows = [_above(measured.fits[name].scored, level) for name in (RAW, chosen)]
    shares = [PERCENT.value(row["share"]) for row in rows]
    claim = measured.claim
    text = f"{shares[0]} of the test samples{_wrong(rows[0], claim)}"
    if chosen != RAW:
        text += f" before; {shares[1]}{_wrong(rows[1], claim)} after"
    found = {"confidence": THRESHOLD, "before": rows[0], "after": rows[1]}
    return {**found, "text": f"Above {100 * THRESHOLD:g} % {claim.confidence}: {text}."}


def _above(scored: Scored, level: float) -> dict[str, Any]:
    sure = scored.confidence > THRESHOLD
    n, wrong = int(sure.sum()), int((sure & ~scored.correct).sum())
    low, high = binomial_interval(np.array([float(wrong)]), np.array([float(n)]), level=level)
    ends = {"error_low": float(low[0]), "error_high": float(high[0])} if n else {}
    none = {"error_low": None, "error_high": None}
    rate = wrong / n if n else None
    return {"n": n, "share": n / scored.n, "n_wrong": wrong, "error_rate": rate, **(ends or none)}


def _wrong(row: Mapping[str, Any], claim: Claim) -> str:
    return f" ({row['n_wrong']:,} of {row['n']:,} {claim.failed})" if row["n"] else ""


def _rival(measured: Measured, choice: Choice) -> dict[str, Any] | None:
    """Return which other method beats the chosen one on the test samples, if one does.

    The uncalibrated model is none of them: of harm, headline and findings speak.
    """
    if choice.basis == "test":
        return None
    mine = (choice.method, RAW)
    names = [n for n, fit in measured.fits.items() if fit.deployable and n not in mine]
    rows = {
        (metric, name): measured.difference(name, choice.method, metric)
        for metric in measured.two
        for name in names
    }
    found = {
        key: row.row
        for key, row in beyond_chance(rows, measured.result.level).items()
        if row.verdict == "better"
    }
    if not found:
        return None
    # The deciding score first; the lowest of it.
    decides = measured.claim.loss
    metric = decides if any(key[0] == decides for key in found) else min(found)[0]
    name = min((row.point, key[1]) for key, row in found.items() if key[0] == metric)[1]
    row, unit = found[metric, name], METRICS[metric].unit
    text = (
        f"On these test samples {name} is lower in {measured.two[metric]} by "
        f"{unit.size(-row.point)} ({100 * row.level:g} % interval "
        f"{unit.interval(-row.high, -row.low)}); check on new samples first."
    )
    return {"method": name, "metric": metric, **row.numbers, "text": text}


def _same(data: Mapping[str, Any]) -> Iterator[Finding]:
    if data["calibration"]["sha256"] == data["test"]["sha256"]:
        yield "bad", "Calibration and test samples are the same, so every result is too good."


def _harm(found: Mapping[str, Difference], claim: Claim) -> Iterator[Finding]:
    """Yield where the chosen method is worse than the uncalibrated model, by all metrics."""
    worse = {metric: row for metric, row in found.items() if row.verdict == "worse"}
    if worse:
        sizes = [
            f"{METRICS[m].title} ({METRICS[m].unit.difference(row.row.point)})"
            for m, row in worse.items()
        ]
        little = all(row.row.point < LITTLE for row in worse.values())
        level = "care" if little else "bad"
        yield level, f"Worse than {claim.raw} beyond chance: {listed(sizes)}."


def _calibration(measured: Measured, chosen: str, result: str) -> Iterator[Finding]:
    """Yield whether the uncalibrated model is off, and what the chosen method leaves."""
    if not measured.result.n_boot:
        return
    gap, floors = measured.value(RAW, "confidence_gap"), measured.floors
    errors = {name: measured.value(name, "ece15") for name in dict.fromkeys([RAW, chosen])}
    chances = {n: floors[n]["ece15"].p_value(row.point) for n, row in errors.items()}
    off = holm({"gap": chance_of(gap), **chances}, 1 - measured.result.level)
    # What is repaired is a fact; what stays is to be taken care of.
    level = "care" if result == "raw" else "fine"
    right, claim = measured.points[RAW]["accuracy"], measured.claim
    plain = f"T{claim.raw[1:]}"
    if "gap" in off:
        way = claim.over if gap.point > 0 else claim.under
        means = f"mean {claim.confidence} {PERCENT.value(right + gap.point)}"
        yield level, f"{plain} is {way}: {means}, {claim.accuracy} {PERCENT.value(right)}."
    elif RAW in off:
        said = (
            f"{plain} is calibrated on average, within chance, but its ECE is above the noise floor"
        )
        yield level, f"{said}, which alone would show {PERCENT.value(floors[RAW]['ece15'].mean)}."
    if chosen in off and result not in ("raw", "worse"):
        noise = PERCENT.value(floors[chosen]["ece15"].mean)
        text = f"Some miscalibration remains: noise alone would show an ECE of {noise}."
        yield "care", text


def _flags(measured: Measured, chosen: str) -> Iterator[Finding]:
    """Yield what the fit of the chosen method says of itself, and a default that failed."""
    fit = measured.fits[chosen]
    for flag, where in fit.fitted.flags.items():
        groups = f" (group {', '.join(map(str, where))})" if where else ""
        level = "fine" if flag in NOTES else "care"
        yield level, f"{chosen}{groups}, {flag}: {fit.fitted.flag_text(flag)}."
    if (usual := default_of(measured.kind)) in measured.failures:
        yield "care", f"{usual} could not be fitted: {measured.failures[usual]}"
    if measured.kind == "logits":
        yield from _predictions(measured, fit)


def _predictions(measured: Measured, fit: Fit) -> Iterator[Finding]:
    """Yield how many predictions change and what that does to accuracy, or would do."""
    usual = measured.default
    if usual is not None and (line := accuracy_line(usual)):
        helps = usual.fit_metrics["cross_validated"]["accuracy_change_low"] > 0
        level = "care" if helps and fit.fitted.preserves_argmax else "fine"
        name = fit.name if usual is fit.fitted else f"{default_of(measured.kind)}, the default,"
        yield level, f"On the calibration samples, {name} {line}."
    if fit.fitted.preserves_argmax:
        return
    before, after = (measured.points[name]["accuracy"] for name in (RAW, fit.name))
    yield (
        "fine",
        f"On the test samples, {fit.name} changes {changed(measured, fit):,} of "
        f"{fit.scored.n:,} predictions: accuracy {PERCENT.value(before)} before, "
        f"{PERCENT.value(after)} after.",
    )


def changed(measured: Measured, fit: Fit) -> int:
    """Return how many predictions of the test samples differ from the model's own."""
    return int((fit.predicted != measured.fits[RAW].predicted).sum())


def _taken_for(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what scores were taken for."""
    for flag in data["flags"]:
        yield "fine" if flag in NOTES else "care", f"{flag}: {FLAGS[flag]}."
    if "score_as_number" in data["flags"]:
        said = "The raw score is not a probability"
        yield "fine", f"{said}: it is measured as sigmoid((score - mean) / sd)."


def _sizes(data: Mapping[str, Any], claim: Claim) -> Iterator[Finding]:
    """Yield what few samples leave open."""
    cal, test = data["calibration"], data["test"]
    wrong, right = cal["n_errors"], cal["n"] - cal["n_errors"]
    rarer, kind = min((wrong, claim.are_wrong), (right, claim.are_right))
    if cal["n"] < _FEW_SAMPLES:
        why = "another split could give a different calibrator"
        yield "care", f"Only {cal['n']:,} calibration samples: {why}."
    if rarer < _FEW_ERRORS:
        yield "care", f"Only {rarer} of {cal['n']:,} calibration samples {kind}."
    if test["n"] < _FEW_TEST:
        yield "care", f"Only {test['n']:,} test samples: intervals are wide and noise floors high."

"""Decisions of a calibrator, and what it learned after its fit, in words."""

from __future__ import annotations

from smallcal.advice.certify_words import level_of
from smallcal.calibrators.class_frequencies import ClassFrequencies
from smallcal.calibrators.confidence_shift import ConfidenceShift
from smallcal.calibrators.decision import Threshold, thresholds_of
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.prediction_set import sets_of
from smallcal.cli import terminal
from smallcal.data.claims import CLAIMS, Claim
from smallcal.metrics.units import PERCENT, SHARE

#: Classes or groups that are shown.
_MOST = 30


def show_later(fitted: FittedCalibrator) -> None:
    """Print what was learned after the fit, in order."""
    for part in fitted.later:
        terminal.say(f"Learned after the fit: {part.words or part.kind}.")
        if isinstance(part, ConfidenceShift):
            terminal.say(_shift(part))
        elif isinstance(part, ClassFrequencies):
            _show_frequencies(part, fitted)


def _shift(part: ConfidenceShift) -> str:
    """Return what new labels changed, or that they changed nothing."""
    if part.still:
        return "They call for no change so far, and are kept for the next refresh."
    others = "" if part.tail == 1 else f"; other classes' proportions to the power {part.tail:.3f}"
    return f"Log-odds times {part.slope:.3f}, plus {part.bias:+.3f}{others}."


def _show_frequencies(part: ClassFrequencies, fitted: FittedCalibrator) -> None:
    """Print the classes whose frequency changed most."""
    names = fitted.class_names or tuple(map(str, range(len(part.before))))
    pairs = zip(names, part.before, part.now, strict=True)
    rows = sorted(pairs, key=lambda row: -abs(row[2] - row[1]))
    terminal.show_table(
        ["class", "share in the split", "share now"],
        [[name, PERCENT.value(then), PERCENT.value(share)] for name, then, share in rows[:_MOST]],
    )
    if len(rows) > _MOST:
        terminal.say(f"And {len(rows) - _MOST:,} classes that changed less.")


def show_decisions(fitted: FittedCalibrator) -> None:
    """Print each decision: what it promises, its threshold, and what it was tested on."""
    for column, rule in thresholds_of(fitted.decisions).items():
        _show_threshold(rule, column, CLAIMS[fitted.input])
    for column, sets in sets_of(fitted.decisions).items():
        terminal.say(f"Prediction sets (in_{column}): {sets.promise}")


def _show_threshold(decision: Threshold, column: str, claim: Claim) -> None:
    terminal.say(f"Decision ({column}): {decision.promise}")
    if decision.by == "all":
        terminal.say(_one(decision, claim))
    else:
        _show_each(decision, claim)


def _one(decision: Threshold, claim: Claim) -> str:
    (level,), (n,), (accepted,), (errors,) = (
        *(decision.thresholds, decision.n),
        *(decision.accepted, decision.errors),
    )
    if level is None:
        return f"No threshold meets this guarantee: none of {terminal.count(n, 'row')} is accepted."
    share = SHARE.value(accepted / n) if n else "none"
    (bound,) = decision.bounds
    most = "" if bound is None else f": the true rate is at most {PERCENT.value(bound)}"
    return (
        f"It accepts a row from {claim.confidence} {level_of(level)} on: {accepted:,} of {n:,} "
        f"({share}), {errors:,} of them {claim.failed}{most}."
    )


def _show_each(decision: Threshold, claim: Claim) -> None:
    """Print the threshold of each class or group, those of most rows first."""
    rows = sorted(
        zip(
            *(decision.names, decision.thresholds, decision.n),
            *(decision.accepted, decision.errors, decision.bounds),
            strict=True,
        ),
        key=lambda row: -row[2],
    )
    terminal.show_table(
        [decision.by, f"{claim.confidence} from", "rows", "accepted", claim.failed, "at most"],
        [
            [
                name,
                "never" if level is None else level_of(level),
                f"{n:,}",
                f"{accepted:,}",
                f"{errors:,}",
                "" if bound is None else PERCENT.value(bound),
            ]
            for name, level, n, accepted, errors, bound in rows[:_MOST]
        ],
    )
    what = {"class": "classes", "group": "groups"}[decision.by]
    if len(rows) > _MOST:
        terminal.say(f"And {len(rows) - _MOST:,} {what} of fewer rows.")

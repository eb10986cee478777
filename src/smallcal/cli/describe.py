"""A calibrator in words, for the verbs that fit one or open one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from smallcal.calibrators.discipline import NOTES
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.group_effects import GroupEffects
from smallcal.calibrators.summary import accuracy_change, effects_of, groups_of, words_of
from smallcal.cli import terminal
from smallcal.cli.describe_decided import show_decisions, show_later
from smallcal.data.claims import CLAIMS
from smallcal.data.score import ScoreScale
from smallcal.metrics.units import PERCENT

#: Groups that are shown.
_MOST = 30
#: Scores that are shown with what they are worth, where they are probabilities.
_SHOWN_PROBABILITIES = (0.1, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)

_OBJECTIVES = {
    "nll": "log-loss",
    "bce": "top-label log-loss",
    "brier": "Brier score of the top label",
    "softece": "soft ECE",
}


def notes_of(fitted: FittedCalibrator) -> list[str]:
    """Return what a fit has to say that asks nothing of anyone, for :func:`terminal.note`."""
    return [f"{name}: {fitted.flag_text(name)}" for name in fitted.flags if name in NOTES]


def describe(fitted: FittedCalibrator, *, noted: bool = False) -> None:
    """Print a calibrator in words; without its notes, where these were said before."""
    n = fitted.data.get("n")
    on = "" if n is None else f"fitted on {terminal.count(n, 'sample')} of "
    if fitted.score is not None:
        terminal.say(f"{fitted.method}: {on}one score and its outcome.", fitted.score.words)
    else:
        terminal.say(f"{fitted.method}: {on}{fitted.n_classes:,} classes ({fitted.input}).")
    terminal.say(_what_it_does(fitted))
    groups = groups_of(fitted)
    if len(groups) > 1:
        terminal.show_table(
            ["group", f"{fitted.signal.name} from", "to", "samples", "temperature", "confidence"],
            [
                [str(i), _shown(low), _shown(high), f"{n:,}", f"{t:.4f}", _effect(t)]
                for i, (low, high, n, t) in enumerate(groups)
            ],
            text=(5,),
        )
        terminal.say(
            f"A single temperature for all samples would be {fitted.pooled_temperature:.4f}."
        )
    if effects := effects_of(fitted):
        terminal.show_table(
            ["statistic", "factor on the temperature per standard deviation"],
            [[name.replace("_", " "), f"{factor:.4f}"] for name, factor in effects.items()],
            text=(0,),
        )
        terminal.say(
            f"A single temperature for all samples would be {fitted.pooled_temperature:.4f}."
        )
    if fitted.score is not None and fitted.groups is None and not fitted.signal.needs:
        _show_worth(fitted, fitted.score)
    if fitted.groups is not None:
        _show_groups(fitted.groups)
    show_later(fitted)
    terminal.say(_parameters(fitted), *_outcome(fitted, noted=noted))
    show_decisions(fitted)


def _show_worth(fitted: FittedCalibrator, scale: ScoreScale) -> None:
    """Print what some scores are worth: across the range of the split, or of probabilities."""
    scores = np.array(_SHOWN_PROBABILITIES)
    if scale.kind == "number":
        scores = np.linspace(scale.low + scale.scale, scale.high - scale.scale, len(scores))
    worth = fitted.predict_score(scores)
    terminal.show_table(
        ["score", "probability"],
        [[f"{score:.4g}", PERCENT.value(p)] for score, p in zip(scores, worth, strict=True)],
        text=(),
    )


def _show_groups(groups: GroupEffects) -> None:
    """Print what each group is shifted by, the largest effects first."""
    n = len(groups.names)
    if not groups.sigma:
        why = "are one" if n == 1 else "do not differ beyond chance"
        terminal.say(f"The {terminal.count(n, 'group')} {why}: no group effects.")
        return
    terminal.say(
        f"Then {groups.words}, with shrinkage by a prior of scale {groups.sigma:.3g}; a new group "
        "has no effect."
    )
    each = zip(groups.names, groups.counts, groups.effects, strict=True)
    rows = sorted(each, key=lambda row: -abs(row[2]))
    terminal.show_table(
        ["group", "samples", "effect", "odds times"],
        [[name, f"{k:,}", f"{b:+.3f}", f"{math.exp(b):.2f}"] for name, k, b in rows[:_MOST]],
        text=(0,),
    )
    if n > _MOST:
        terminal.say(f"{n - _MOST:,} more groups have smaller effects.")


def _what_it_does(fitted: FittedCalibrator) -> str:
    temperatures = fitted.map.steps
    rows = "Logits" if fitted.score is None else "Log-odds"
    held = 0 if fitted.groups is None else fitted.groups.n_parameters
    if fitted.n_parameters == held and temperatures:
        score = "It leaves them as they are."
        return score if fitted.score else "It does not change the model's probabilities."
    goal = _OBJECTIVES.get(fitted.objective, fitted.objective)
    how = fitted.signal.words or fitted.signal.name
    if not temperatures:
        # What a curve of scores minimises is nothing that one would name.
        how = "" if fitted.score else f" (fitted by {goal})"
        return f"{words_of(fitted, score=fitted.score is not None)}{how}."
    if len(temperatures) == 1:
        t = temperatures[0]
        return f"{rows} are divided by {t:.4f} (fitted by {goal}): {_effect(t)} confident."
    return (
        f"Each sample is put into one of {len(temperatures)} groups by {how}. Its logits are "
        f"divided by the group's temperature (fitted by {goal})."
    )


def _effect(temperature: float) -> str:
    if abs(temperature - 1) < 5e-5:
        return "equally"
    return "more" if temperature < 1 else "less"


def _shown(edge: float | None) -> str:
    return "" if edge is None else f"{edge:.4g}"


def _parameters(fitted: FittedCalibrator) -> str:
    total = f"{terminal.count(fitted.n_parameters, 'parameter')}"
    if fitted.signal.n_parameters:
        what = "temperature" if fitted.map.steps else "number"
        own = terminal.count(fitted.map.n_parameters, what)
        where = "" if fitted.map.steps else " in the map"
        total += (
            f": {own}{where} and {fitted.signal.n_parameters} in the {fitted.signal.name} score"
        )
    if fitted.groups is not None and fitted.groups.sigma:
        total += f", {fitted.groups.n_parameters:,} of them group effects with a prior"
    if fitted.score is not None:
        return f"{total}."
    if fitted.preserves_argmax:
        return f"{total}. The predicted class never changes."
    if "cross_validated" in fitted.fit_metrics:  # said more precisely there
        return f"{total}. It may change the predicted class."
    changed = terminal.count(fitted.fit_metrics["changed_predictions"], "prediction")
    return f"{total}. It may change the predicted class: {changed} of the fitted samples did."


def changed_predictions(fitted: FittedCalibrator) -> str:
    """Say how many predictions change, and what that does to accuracy; nothing if none can.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> changed_predictions(sc.TemperatureScaling().fit(val.logits, val.labels).fitted_)
    ''
    """
    found = fitted.fit_metrics.get("cross_validated")
    if found is None or fitted.map.preserves_argmax:
        return ""
    said = accuracy_change(found)
    if fitted.keep_predictions:
        return f"Letting predictions change would {said.replace('changes', 'change', 1)}."
    return f"{said[0].upper()}{said[1:]}."


def _outcome(fitted: FittedCalibrator, *, noted: bool) -> Iterator[str]:
    """Yield what is known about the fit: confidence before and after, and the flags."""
    found, claim = fitted.fit_metrics, CLAIMS[fitted.input]
    if {"accuracy", "before", "after"} <= set(found):
        before, after = (found[key]["mean_confidence"] for key in ("before", "after"))
        yield (
            f"On the samples it was fitted on: {claim.accuracy} "
            f"{PERCENT.value(found['accuracy'])}, mean {claim.confidence} "
            f"{PERCENT.value(before)} before and {PERCENT.value(after)} after."
        )
    if text := changed_predictions(fitted):
        yield text
    for name, groups in fitted.flags.items():
        if noted and name in NOTES:
            continue
        where = f" (group {', '.join(map(str, groups))})" if groups else ""
        yield f"Flag {name}{where}: {fitted.flag_text(name)}."
    if not fitted.flags:
        yield "No flags: there are enough right and wrong predictions for every temperature."

"""Calibrators in a notebook: the method, what was fitted, what to know, and what it does."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal.calibrators.catalogue import METHODS
from smallcal.calibrators.decision import thresholds_of
from smallcal.calibrators.discipline import NOTES
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.group_effects import GroupEffects
from smallcal.calibrators.prediction_set import sets_of
from smallcal.calibrators.summary import accuracy_line, effects_of, groups_of, words_of
from smallcal.data.claims import CLAIMS
from smallcal.metrics.units import PERCENT
from smallcal.reports.notebook import pictures
from smallcal.reports.notebook.markup import (
    MOST_ROWS,
    Safe,
    beside,
    facts,
    findings,
    named,
    said,
    shortened,
    table,
    tag,
    title,
)
from smallcal.reports.notebook.pictures import Axis, Bar

if TYPE_CHECKING:
    from smallcal.calibrators.base import BaseCalibrator
    from smallcal.deploy.adapters.sklearn import CalibratedModel

#: Names of classes that are listed, and points of a curve.
_LISTED, _POINTS = 8, 81


def estimator_view(estimator: BaseCalibrator) -> Iterator[Safe]:
    """Show an estimator: what was fitted, or what it would fit."""
    what = tag("code", shortened(repr(estimator), 300))
    fitted = getattr(estimator, "fitted_", None)
    if fitted is None:
        yield title(type(estimator).__name__, "not fitted yet")
        yield said(what)
        yield said(Safe("Call <code>fit(logits, labels)</code> with labelled held-out samples."))
        return
    yield title(type(estimator).__name__, what)
    yield from _body(fitted)


def fitted_view(fitted: FittedCalibrator) -> Iterator[Safe]:
    """Show the numbers of a fitted calibrator."""
    yield title("Fitted calibrator")
    yield from _body(fitted)


def model_view(model: CalibratedModel) -> Iterator[Safe] | None:
    """Show a model and its calibrator; before it is fitted, scikit-learn's diagram will do."""
    return _model(model) if hasattr(model, "calibrator_") else None


def _model(model: CalibratedModel) -> Iterator[Safe]:
    given = model.cv == "prefit" if isinstance(model.cv, str) else False
    how = "as it was given, fitted before" if given else "by models that had not seen them"
    yield title(type(model).__name__, tag("code", shortened(repr(model.estimator), 200)))
    yield facts(
        [
            ("calibrated", f"{model.response_} of {model.n_calibration_:,} samples, scored {how}"),
            ("classes", _listed(model.classes_)),
        ]
    )
    yield from _body(model.calibrator_.fitted_, classes=False)


def _body(fitted: FittedCalibrator, *, classes: bool = True) -> Iterator[Safe]:
    yield beside(
        facts(_facts(fitted, classes=classes)), Safe("".join([_confidence(fitted), _map(fitted)]))
    )
    yield findings(_flags(fitted))
    groups = groups_of(fitted)
    if len(groups) > 1:
        yield _groups_table(fitted)
    if fitted.groups is not None and fitted.groups.sigma:
        yield _effects_table(fitted.groups)
    for decision in (
        *thresholds_of(fitted.decisions).values(),
        *sets_of(fitted.decisions).values(),
    ):
        yield said(Safe("<b>Decision.</b>"), decision.promise)
    if fitted.later:
        yield said(
            "Learned after the fit:", *(f"{each.words or each.kind}." for each in fitted.later)
        )


def _facts(fitted: FittedCalibrator, *, classes: bool) -> Iterator[tuple[str, object]]:
    name = fitted.method
    row = METHODS.get(name.partition("[")[0])
    yield "method", Safe(f"{tag('b', name)}{'' if row is None else tag('small', row.summary)}")
    yield "what it does", _does(fitted)
    n = fitted.data.get("n")
    rows = "scores and outcomes" if fitted.score else f"samples of {fitted.n_classes:,} classes"
    yield "fitted on", "" if n is None else f"{n:,} {rows} ({fitted.input})"
    if classes and fitted.class_names is not None and fitted.score is None:
        yield "classes", _listed(fitted.class_names)
    yield "fitted numbers", f"{fitted.n_parameters:,}"
    if fitted.score is None:
        yield "predictions", _predictions(fitted)
    found, claim = fitted.fit_metrics, CLAIMS[fitted.input]
    if {"accuracy", "before", "after"} <= set(found):
        before, after = (
            PERCENT.value(found[key]["mean_confidence"]) for key in ("before", "after")
        )
        yield (
            f"mean {claim.confidence}",
            f"{before} before, {after} after, on the samples of the fit",
        )
        yield claim.accuracy, PERCENT.value(found["accuracy"])


def _listed(names: Any) -> Safe:
    shown = [named(name) for name in names[:_LISTED]]
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return Safe(", ".join(shown) + more)


def _does(fitted: FittedCalibrator) -> str:
    temperatures = fitted.map.steps
    rows = "Logits" if fitted.score is None else "Log-odds"
    held = 0 if fitted.groups is None else fitted.groups.n_parameters
    if temperatures and fitted.n_parameters == held:
        return "leaves the model as it is"
    if len(temperatures) == 1:
        return f"{rows} are divided by the temperature {temperatures[0]:.4f}"
    if temperatures:
        how = fitted.signal.words or fitted.signal.name
        return f"{rows} are divided by the temperature of the sample's group, by {how}"
    return words_of(fitted, score=fitted.score is not None)


def _predictions(fitted: FittedCalibrator) -> str:
    if line := accuracy_line(fitted):
        return line
    if fitted.preserves_argmax:
        return "never change"
    changed = fitted.fit_metrics.get("changed_predictions")
    return "may change" if changed is None else f"may change: {changed:,} in the fit did"


def _flags(fitted: FittedCalibrator) -> Iterator[tuple[str, str]]:
    for name, groups in fitted.flags.items():
        where = f" (group {', '.join(map(str, groups))})" if groups else ""
        level = "note" if name in NOTES else "care"
        yield level, f"{fitted.flag_text(name)}{where}."


def _groups_table(fitted: FittedCalibrator) -> Safe:
    groups = groups_of(fitted)
    rows = (
        [str(i), _edge(low), _edge(high), f"{n:,}", f"{t:.4f}", _more(t)]
        for i, (low, high, n, t) in enumerate(groups)
    )
    heads = ["group", f"{fitted.signal.name} from", "to", "samples", "temperature", "confidence"]
    one = f"One temperature for all would be {fitted.pooled_temperature:.4f}."
    return Safe(
        table(heads, rows, words=(0, 5), total=len(groups), more="groups") + said(one, kind="note")
    )


def _edge(edge: float | None) -> str:
    return "" if edge is None else f"{edge:.4g}"


def _more(temperature: float) -> str:
    if abs(temperature - 1) < 5e-5:
        return "as it was"
    return "higher" if temperature < 1 else "lower"


def _effects_table(groups: GroupEffects) -> Safe:
    each = zip(groups.names, groups.counts, groups.effects, strict=True)
    rows = heapq.nlargest(MOST_ROWS, each, key=lambda row: abs(row[2]))
    shown = ([named(name), f"{n:,}", f"{b:+.3f}", f"{math.exp(b):.2f}"] for name, n, b in rows)
    heads = ["group", "samples", "effect on log-odds", "odds times"]
    return table(heads, shown, total=len(groups.names), more="groups of smaller effects")


def _confidence(fitted: FittedCalibrator) -> Safe:
    """Draw the mean confidence before and after, against the accuracy."""
    found, claim = fitted.fit_metrics, CLAIMS[fitted.input]
    if not {"accuracy", "before", "after"} <= set(found):
        return Safe("")
    before, after = (float(found[key]["mean_confidence"]) for key in ("before", "after"))
    words = (
        f"Mean {claim.confidence} {PERCENT.value(before)} before and {PERCENT.value(after)} after, "
        f"{claim.accuracy} {PERCENT.value(found['accuracy'])}"
    )
    called = claim.confidence, claim.accuracy
    return pictures.moved(before, after, float(found["accuracy"]), called=called, words=words)


def _map(fitted: FittedCalibrator) -> Safe:
    """Draw the temperatures of groups, what raises a temperature, or a curve of scores."""
    groups = groups_of(fitted)
    if len(groups) > 1:
        rows = [
            Bar(f"group {i}", t, min(t, 1.0), max(t, 1.0), f"group {i}: {n:,} samples, T = {t:.4g}")
            for i, (_, _, n, t) in enumerate(groups)
        ]
        words = "Temperatures: " + ", ".join(
            f"group {i} {row.value:.4g}" for i, row in enumerate(rows)
        )
        return pictures.bars(rows, Axis("temperature (1 changes nothing)", 1.0), words=words)
    if effects := effects_of(fitted):
        rows = [
            Bar(
                key.replace("_", " "),
                f,
                min(f, 1.0),
                max(f, 1.0),
                f"{key}: temperature times {f:.4g}",
            )
            for key, f in effects.items()
        ]
        words = "Factors on the temperature: " + ", ".join(
            f"{row.name} {row.value:.4g}" for row in rows
        )
        axis = Axis("temperature times, for one s.d. more", 1.0)
        return pictures.bars(rows, axis, words=words)
    return _score_curve(fitted)


def _score_curve(fitted: FittedCalibrator) -> Safe:
    scale = fitted.score
    if scale is None or fitted.groups is not None or fitted.signal.needs:
        return Safe("")
    low, high = (0.0, 1.0) if scale.kind == "probability" else (scale.low, scale.high)
    scores = np.linspace(low, high, _POINTS)
    worth = fitted.predict_score(scores)
    ends = f"{low:.4g} is worth {PERCENT.value(worth[0])}, {high:.4g} {PERCENT.value(worth[-1])}"
    labels = "score", "probability of outcome 1 (%)"
    return pictures.curve(
        scores.tolist(), worth.tolist(), labels=labels, words=f"A score of {ends}"
    )

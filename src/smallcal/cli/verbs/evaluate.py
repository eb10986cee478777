"""``smallcal evaluate``: how good are these probabilities, and are they good enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal import runtime
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import choices, inputs, inputs_streamed, options, terminal
from smallcal.cli.gaps import show_gaps
from smallcal.cli.options import option
from smallcal.data.claims import CLAIMS
from smallcal.data.special import softmax
from smallcal.io import Loaded
from smallcal.metrics import METRICS
from smallcal.metrics.condition import Condition
from smallcal.metrics.debiased import CUTS
from smallcal.statistics.compare import evaluate as measure
from smallcal.statistics.gaps import gaps_by_group
from smallcal.statistics.interval import Interval, require_options


def evaluate(
    data: options.Data,
    calibrator: Annotated[str | None, option("CAL", "Apply this calibrator first.")] = None,
    labels: options.Labels = None,
    input: options.Input = None,
    class_names: options.ClassNames = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    score: options.Score = None,
    outcome: options.Outcome = None,
    group: options.Group = None,
    by: Annotated[
        str | None,
        option(
            "NAME",
            "Also hold confidence against accuracy in each group of this column or array, before "
            "and after CAL.",
        ),
    ] = None,
    metrics: options.Metrics = None,
    fail_if: Annotated[
        list[str] | None,
        option(
            "CONDITION", 'Exit with 1 if this holds: "ece15>0.03" or "ece15>3%". May be repeated.'
        ),
    ] = None,
    n_boot: options.Boot = 2000,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Measure the calibration of logits or scores, or of what a calibrator makes."""
    require_options(n_boot, level)
    conditions = [Condition.parse(text) for text in fail_if or []]
    shown = choices.metric_names(metrics, list(METRICS))
    wanted = list(dict.fromkeys([*shown, *(condition.metric for condition in conditions)]))
    fitted = None if calibrator is None else runtime.load(calibrator)
    asked = inputs.Asked.of({**locals(), "group": group or by})
    source = None
    if by is None:
        source = inputs_streamed.source_of(data, fitted, asked, resampled=n_boot > 0)
    if source is None:
        loaded = inputs.load(data, asked, fitted)
        kind = loaded.input
        how = {"n_boot": n_boot, "level": level, "random_state": seed}
        values, found, (n, n_classes), rows = _measured(
            loaded, fitted, wanted, by=_groups(loaded, by, asked), how=how, force=force
        )
    else:
        found, rows, n_classes, kind = {}, [], source.n_classes, source.input
        values, n = inputs_streamed.measured(
            source, fitted, metrics=wanted, asked=asked, force=force
        )
        if n_boot:
            terminal.note(f"{data} does not fit in memory: values without intervals")
    checks = [condition.check(values[condition.metric]) for condition in conditions]
    if as_json:
        terminal.show_json(
            {
                "data": data,
                "calibrator": calibrator,
                "n": n,
                "n_classes": n_classes,
                "input": kind,
                "metrics": values,
                "debiased": {name: found[name].point for name in CUTS if name in found},
                "intervals": {name: row.to_dict() for name, row in found.items()},
                **({} if by is None else {"by": by, "groups": rows}),
                "checks": checks,
            }
        )
    else:
        what = f"as {'they are' if kind == 'score' else 'the model gives them'}"
        if fitted is not None:
            what = f"calibrated by {calibrator} ({fitted.method})"
        terminal.say(f"{data}: {terminal.size(n, n_classes, kind)}, {what}")
        _show(values, found, level, kind)
        if by is not None:
            show_gaps(rows, paired=fitted is not None, level=level, kind=kind)
    terminal.leave(f"check failed: {check['reason']}" for check in checks if check["failed"])


class _Measured(NamedTuple):
    """Values, their intervals, samples and classes, and the gap of each group."""

    values: dict[str, float]
    found: dict[str, Interval]
    size: tuple[int, int]
    rows: list[dict[str, Any]]


def _measured(
    loaded: Loaded,
    fitted: FittedCalibrator | None,
    wanted: Sequence[str],
    *,
    by: NDArray[np.str_] | None,
    how: dict[str, Any],
    force: bool,
) -> _Measured:
    """Measure samples that are in memory."""
    codes, proba = inputs.probabilities(loaded, fitted, force=force)
    rows: list[dict[str, Any]] = []
    if by is not None:
        before = proba
        if fitted is not None:
            checked = inputs.predictions(inputs.named(loaded, fitted), fitted.score)
            before = checked.measured(softmax(checked.logits))
        with inputs.naming(loaded.source):
            rows = gaps_by_group(codes, proba, by, before=before, level=how["level"])
    size = len(proba), 2 if proba.ndim == 1 else proba.shape[1]
    if not how["n_boot"]:
        return _Measured(measure(codes, proba, metrics=wanted), {}, size, rows)
    with terminal.resampling(how["n_boot"], how["level"], how["random_state"]) as drawn:
        found = measure(codes, proba, metrics=wanted, ci=True, **drawn)
    return _Measured({name: row.plain for name, row in found.items()}, found, size, rows)


def _groups(loaded: Loaded, by: str | None, asked: inputs.Asked) -> NDArray[np.str_] | None:
    """Return the groups to measure by, which need not be those of the calibrator."""
    if by is None or by == asked.group:
        return None if by is None else loaded.groups
    return inputs.load(loaded.source, replace(asked, group=by)).groups


def _show(values: dict[str, float], found: dict[str, Interval], level: float, kind: str) -> None:
    binned = [name for name in found if name in CUTS]
    more = [f"{100 * level:g} % interval", "floor"] if found else []
    rows = []
    for name, value in values.items():
        unit, cells = METRICS[name].unit, []
        if found:
            row = found[name]
            cells.append(unit.interval(row.low, row.high, n_undefined=row.n_undefined))
            cells.append("" if row.floor is None else unit.number(row.floor))
        rows.append([name, unit.number(value), unit.sign, *cells, METRICS[name].told(kind)])
    headers = ["metric", "value", "unit", *more, "what it measures"]
    terminal.show_table(headers, rows, text=(0, 2, len(headers) - 1))
    if found:
        terminal.say(
            "Intervals: resampled test samples. Floor: what a perfectly calibrated model with "
            f"these {CLAIMS[kind].confidences} would show on average; an error near its floor is "
            "noise."
        )
    if binned:
        each = ", ".join(f"{name} {METRICS[name].unit.value(found[name].point)}" for name in binned)
        terminal.say(
            f"Debiased, without the noise of these samples: {each}, "
            "which their intervals are about."
        )

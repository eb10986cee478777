"""``smallcal evaluate``: how good are these probabilities, and are they good enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal import runtime
from smallcal.advice.cost_table import CostTable
from smallcal.advice.costs import Costs
from smallcal.advice.expected_cost import ExpectedCost, expected_cost_of
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import (
    choices,
    costs,
    inputs,
    inputs_streamed,
    model_predictions,
    options,
    terminal,
)
from smallcal.cli.gaps import show_gaps
from smallcal.cli.options import option
from smallcal.cli.resampled import resamples, resampling
from smallcal.data.claims import CLAIMS
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.deploy.decided_rows import Rows
from smallcal.errors import InputError
from smallcal.io import Loaded
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.condition import Condition
from smallcal.metrics.debiased import CUTS
from smallcal.statistics.bootstrap import DEFAULT_BOOT
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
            "Also compare confidence with accuracy in each group of this column or array, before "
            "and after CAL.",
        ),
    ] = None,
    cluster: options.Cluster = None,
    cost: options.Cost = None,
    metrics: options.Metrics = None,
    fail_if: Annotated[
        list[str] | None,
        option(
            "CONDITION", 'Exit code 1 if this holds: "ece15>0.03" or "ece15>3%". May be repeated.'
        ),
    ] = None,
    n_boot: options.EnoughBoot = None,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Measure how well logits, scores or a calibrator's probabilities are calibrated."""
    require_options(n_boot, level)
    if by is not None and cluster is not None:
        raise InputError(
            "--by takes samples as independent; leave out --cluster", code="options-conflict"
        )
    conditions = [Condition.parse(text) for text in fail_if or []]
    shown = choices.metric_names(metrics, list(METRICS))
    wanted = list(dict.fromkeys([*shown, *(condition.metric for condition in conditions)]))
    priced = costs.read(cost)
    fitted = None if calibrator is None else runtime.load(calibrator)
    asked = inputs.Asked.of({**locals(), "group": group or by})
    source, spent = None, None
    if by is None and priced is None and cluster is None:
        source = inputs_streamed.source_of(data, fitted, asked, resampled=n_boot != 0)
    if source is None:
        loaded = inputs.load(data, asked, fitted)
        kind = loaded.input
        how: dict[str, Any] = {"n_boot": n_boot, "level": level, "random_state": seed}
        how["clusters"] = inputs.clusters(loaded, asked, cluster, fitted)
        seen = _probabilities(loaded, fitted, force=force, both=by is not None or cost is not None)
        values, found, (n, n_classes), rows, own = _measured(
            loaded, seen, wanted, by=_groups(loaded, by, asked), how=how
        )
        spent = None if priced is None else _spent(loaded, seen, fitted, priced, how)
    else:
        found, rows, n_classes, kind = {}, [], source.n_classes, source.input
        values, own, n = inputs_streamed.measured(
            source, fitted, metrics=wanted, asked=asked, force=force
        )
        if n_boot != 0:
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
                **({} if own is None else {"model_predictions": own}),
                **({} if by is None else {"by": by, "groups": rows}),
                **({} if spent is None else {"cost": spent[0].to_dict()}),
                "checks": checks,
            }
        )
    else:
        what = f"as {'they are' if kind == 'score' else 'the model gives them'}"
        if fitted is not None:
            what = f"calibrated by {calibrator} ({fitted.method})"
        terminal.say(f"{data}: {terminal.size(n, n_classes, kind)}, {what}")
        _show(values, found, level, kind)
        model_predictions.show(fitted, own)
        if by is not None:
            show_gaps(rows, paired=fitted is not None, level=level, kind=kind)
        if spent is not None:
            costs.show(*spent, level=level, kind=kind)
    terminal.leave(f"check failed: {check['reason']}" for check in checks if check["failed"])


class _Measured(NamedTuple):
    """Values, their intervals, samples and classes, the gap of each group.

    Last, the metrics of the model's own predictions, where a calibrator judges them.
    """

    values: dict[str, float]
    found: dict[str, Interval]
    size: tuple[int, int]
    rows: list[dict[str, Any]]
    own: dict[str, float] | None


class _Seen(NamedTuple):
    """Labels and probabilities, and where both are asked for the uncalibrated ones."""

    labels: IntArray
    proba: FloatArray
    before: FloatArray
    rows: Rows | None = None


def _probabilities(
    loaded: Loaded, fitted: FittedCalibrator | None, *, force: bool, both: bool
) -> _Seen:
    codes, proba, rows = inputs.probabilities(loaded, fitted, force=force)
    if fitted is None or not both:
        return _Seen(codes, proba, proba, rows)
    checked = inputs.predictions(inputs.named(loaded, fitted), fitted.score)
    return _Seen(codes, proba, inputs.uncalibrated(loaded, checked), rows)


def _measured(
    loaded: Loaded,
    seen: _Seen,
    wanted: Sequence[str],
    *,
    by: NDArray[np.str_] | None,
    how: dict[str, Any],
) -> _Measured:
    """Measure samples that are in memory."""
    codes, proba, before, calibrated = seen
    rows: list[dict[str, Any]] = []
    if by is not None:
        with inputs.naming(loaded.source):
            rows = gaps_by_group(codes, proba, by, before=before, level=how["level"])
    size = len(proba), 2 if proba.ndim == 1 else proba.shape[1]
    own = None
    if calibrated is not None and loaded.input != "score":
        own = model_predictions.measured([model_predictions.scored(codes, calibrated)])
    if how["n_boot"] == 0:
        return _Measured(measure(codes, proba, metrics=wanted), {}, size, rows, own)
    if how["clusters"] is None:
        inputs.note_copies(loaded.source, codes, proba)
    with resampling(how["n_boot"], how["level"], how["random_state"]) as drawn:
        found = measure(codes, proba, metrics=wanted, ci=True, clusters=how["clusters"], **drawn)
    values = {name: row.plain for name, row in found.items()}
    return _Measured(values, found, size, rows, own)


def _spent(
    loaded: Loaded,
    seen: _Seen,
    fitted: FittedCalibrator | None,
    priced: Costs,
    how: dict[str, Any],
) -> tuple[ExpectedCost, CostTable]:
    """Return what the best decisions cost, and the costs of this model's decisions."""
    proba = seen.proba if seen.rows is None or seen.proba.ndim == 1 else seen.rows.proba
    after = Scored.of(seen.labels, proba, clusters=how["clusters"])
    names = inputs.named(loaded, fitted).class_names
    table = costs.table_for(priced, after.n_classes, names, score=after.outcome)
    before = None if fitted is None else Scored.of(seen.labels, seen.before)
    if fitted is not None and fitted.score is not None and fitted.score.kind != "probability":
        terminal.note(f"{loaded.source}: raw scores are no probabilities, so they decide nothing")
        before = None
    n_boot = DEFAULT_BOOT if how["n_boot"] is None else how["n_boot"]
    bootstrap = (n_boot, how["level"], how["random_state"])
    with terminal.progress("Resampling", n_boot) as advance:
        found = expected_cost_of(after, before, table, bootstrap=bootstrap, advance=advance)
    return found, table


def _groups(loaded: Loaded, by: str | None, asked: inputs.Asked) -> NDArray[np.str_] | None:
    """Return the groups to measure by, which need not be those of the calibrator."""
    if by is None or by == asked.group:
        return None if by is None else loaded.groups
    return inputs.load(loaded.source, replace(asked, group=by, input=loaded.input)).groups


def _show(values: dict[str, float], found: dict[str, Interval], level: float, kind: str) -> None:
    binned = [name for name in found if name in CUTS]
    more = [f"{100 * level:g} % interval", "floor"] if found else []
    rows = []
    for name, value in values.items():
        unit, cells = METRICS[name].unit, []
        if found:
            row = found[name]
            cells.append(row.ends(unit))
            cells.append("" if row.floor is None else unit.number(row.floor))
        what = f"{METRICS[name].called(kind)}: {METRICS[name].told(kind)}"
        rows.append([name, unit.number(value), unit.sign, *cells, what])
    headers = ["name", "value", "unit", *more, "metric"]
    terminal.show_table(headers, rows, text=(0, 2, len(headers) - 1))
    if found:
        drawn = next(iter(found.values())).unit
        floor = (
            f"Floor: what a perfectly calibrated model with these {CLAIMS[kind].confidences} would "
            "show on average; an error near this noise floor is no evidence of miscalibration."
        )
        if not any(row.floor is not None for row in found.values()):
            floor = ""
        terminal.say(f"Intervals: {resamples(found.values())} of the {drawn}. {floor}".rstrip())
    if binned:
        measured = ((METRICS[name], found[name]) for name in binned)
        each = ", ".join(
            f"{metric.title} {metric.unit.value(row.point)}" for metric, row in measured
        )
        terminal.say(
            f"Debiased (expected noise subtracted): {each}; the intervals are for these values."
        )

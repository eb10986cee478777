"""``smallcal monitor``: have the inputs drifted, and does confidence still match accuracy."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Any

import typer

from smallcal import runtime
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import inputs, options, terminal
from smallcal.cli.inputs import Asked
from smallcal.cli.options import argument, flag, option
from smallcal.data.claims import CLAIMS
from smallcal.deploy.monitor import Monitor, Report
from smallcal.deploy.monitor.promises import takes_groups
from smallcal.errors import InputError
from smallcal.metrics.units import PERCENT, SHARE


def monitor(
    calibrator: options.Calibrator,
    data: Annotated[
        str | None,
        argument(
            "[DATA]", "New logits, with or without labels. Without DATA, show the current state."
        ),
    ] = None,
    state: Annotated[
        str | None,
        option("FILE", "File that accumulates what was seen (JSON); created if missing."),
    ] = None,
    merge: Annotated[
        list[str] | None,
        option("FILE", "Combine state files of several monitors; writes nothing. May be repeated."),
    ] = None,
    labels: options.Labels = None,
    seen: Annotated[bool, flag("--seen", "DATA was added before; add only its labels.")] = False,
    alpha: Annotated[
        float | None, option("P", "Probability of ever raising a false alarm. Default: 0.01.")
    ] = None,
    tolerance: Annotated[
        float | None, option("GAP", "Confidence gap that is tolerated. Default: 0.02.")
    ] = None,
    reference: Annotated[
        str | None,
        option("FILE", "Calibration split, for a calibrator saved without reference counts."),
    ] = None,
    input: options.Input = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    score: options.Score = None,
    outcome: options.Outcome = None,
    group: options.Group = None,
    prometheus: Annotated[
        bool, flag("--prometheus", "Print metrics in Prometheus' text format.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Detect drift in new data; exit code 1 on alarm. Run it as often as you like."""
    if state is not None and merge:
        raise InputError(
            "--merge only looks and --state is written; use one of them", code="options-conflict"
        )
    if prometheus and as_json:
        raise InputError("choose one of --json and --prometheus", code="options-conflict")
    if data is None and (labels is not None or seen):
        raise InputError(
            "--labels and --seen say something about DATA; name its file", code="options-conflict"
        )
    settings = {"alpha": alpha, "tolerance": tolerance}
    asked = Asked.of(locals())
    begun = _begun(runtime.load(calibrator), state, merge or [], settings, reference, asked)
    whole = begun
    if data is None:
        _require_known(state, merge or [])
    else:
        new = begun.fresh()
        with terminal.progress("Reading"):
            loaded = inputs.load(data, asked, new.calibrator)
            inputs.require_same_input(new.calibrator, loaded.input, data)
            groups = loaded.groups if takes_groups(new.calibrator) else None
            known = loaded.logits, loaded.labels, loaded.features
            with inputs.naming(data), terminal.noted_warnings(data):
                new.update(*known, groups=groups, seen=seen)
                whole = begun.merge(new)
        if state is not None:  # which may hold more than a moment ago
            with inputs.naming(data):
                whole = new.add_to(state)
    report = whole.report()
    if prometheus:
        typer.echo(report.prometheus(), nl=False)
    elif as_json:
        terminal.show_json({"calibrator": calibrator, "data": data, **report.to_dict()})
    else:
        _show(report)
    if report.alarm:
        raise typer.Exit(terminal.CHECK_FAILED)


def _require_known(state: str | None, merge: list[str]) -> None:
    """Raise where there is no DATA and nothing was kept either."""
    if not merge and (state is None or not os.path.exists(state)):
        raise InputError(
            "nothing to look at: name DATA, or a --state or --merge file that exists", code="empty"
        )


def _begun(
    fitted: FittedCalibrator,
    state: str | None,
    merge: list[str],
    settings: dict[str, float | None],
    reference: str | None,
    asked: Asked,
) -> Monitor:
    """Return the monitor of what is known before DATA."""
    old = [state] if state is not None and os.path.exists(state) else merge
    given: dict[str, Any] = {k: value for k, value in settings.items() if value is not None}
    if old:
        first, *others = (_loaded(path, fitted, given) for path in old)
        for other in others:
            first.merge(other)
        return first
    split: dict[str, Any] = {}
    if reference is not None:
        told = replace(asked, labels=None, input=None, outcome=None, labels_key=None)
        loaded = inputs.load(reference, told, fitted)
        inputs.require_same_input(fitted, loaded.input, reference)
        split = {"reference": loaded.logits, "reference_features": loaded.features}
    return Monitor(fitted, **given, **split)


def _loaded(path: str, fitted: FittedCalibrator, given: dict[str, float]) -> Monitor:
    with inputs.naming(path):
        known = Monitor.load(path, fitted)
    kept = known.to_dict()
    for name, value in given.items():
        if kept[name] != value:
            raise InputError(
                f"{path} was begun with --{name} {kept[name]:g}, which it keeps; got {value:g}",
                code="options-conflict",
            )
    return known


def _show(report: Report) -> None:
    terminal.say(*report.sentences)
    groups = next((stream for stream in report.streams if stream.name == "groups"), None)
    if groups is None or not report.rows:
        return
    terminal.say("")
    rows = []
    counts = zip(groups.counts, groups.reference, report.gaps, strict=True)
    for i, (now, before, gap) in enumerate(counts):
        shares = (
            SHARE.number(now / sum(groups.counts)),
            SHARE.number(before / sum(groups.reference)),
        )
        found = ["", ""]
        if gap.gap is not None:
            ends = PERCENT.interval(gap.low, gap.high, signed=True)
            found = [PERCENT.number(gap.gap, signed=True), ends]
        rows.append([str(i), *shares, f"{gap.n:,}", *found])
    shares = SHARE.heading("share"), SHARE.heading("was")
    claim = CLAIMS[report.input]
    between = f"{claim.accuracy} - {claim.confidence}"
    headers = ["group", *shares, "labelled", between, "all looks"]
    terminal.show_table(headers, rows, text=())

"""``smallcal audit``: what a calibrator fitted, and what refits of it would have given."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import smallcal
from smallcal.advice.audit import audit as inspect_closely
from smallcal.advice.audit_findings import Audit
from smallcal.advice.refits import MOST, Spread
from smallcal.advice.signal_to_noise import SignalToNoise
from smallcal.calibrators.discipline import FLAGS
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import choices, inputs, options, terminal
from smallcal.cli.gaps import show_gaps
from smallcal.cli.inputs import Asked
from smallcal.cli.options import option
from smallcal.data.claims import CLAIMS
from smallcal.errors import InputError
from smallcal.io import Loaded
from smallcal.metrics import METRICS
from smallcal.metrics.units import SHARE, X100

#: What a share of refits says, in words.
_SHARES = {
    "saturated": "a temperature at a bound",
    "risk_ordered": "error rates in order",
    "rising": "temperatures rise from group to group",
    "falling": "temperatures fall from group to group",
    "same_order": "groups ranked by temperature as here",
    "beats_raw": "lower {loss} than {raw} on held-out samples",
}
_MARKS = {"fine": "-", "care": "!", "bad": "!!"}


def audit(
    data: options.Data,
    method: options.Method = "default",
    setting: options.Settings = None,
    calibrator: Annotated[
        str | None, option("CAL", "Audit this calibrator instead of fitting one.")
    ] = None,
    apply_to: Annotated[
        list[str] | None,
        option(
            "FILE", "Also show how these samples are distributed over the groups. May be repeated."
        ),
    ] = None,
    n_refits: Annotated[
        int | None,
        option("N", "Number of refits. Default: 50, or 100 if the two halves disagree.", min=2),
    ] = None,
    size: Annotated[
        int | None, option("N", "Refit on N samples, drawn without replacement.")
    ] = None,
    n_null: Annotated[
        int, option("N", "Simulations for p-values; 0 skips the test of signals.", min=0)
    ] = 499,
    labels: options.Labels = None,
    input: options.Input = None,
    class_names: options.ClassNames = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    score: options.Score = None,
    outcome: options.Outcome = None,
    group: options.Group = None,
    keep_predictions: options.KeepPredictions = False,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Refit a calibrator on resamples and say how stable it is."""
    if calibrator is not None and (setting or method != "default"):
        raise InputError(
            "--calibrator brings its own method; leave out --method and --set",
            code="options-conflict",
        )
    chosen = choices.method_options(method, setting or [])
    given = None if calibrator is None else smallcal.load(calibrator)
    asked = inputs.Asked.of(locals())
    fitted = None if given is None else given.fitted_
    loaded = inputs.named(inputs.load(data, asked, fitted), fitted)
    grouped = group is not None or (fitted is not None and fitted.groups is not None)
    if not grouped:
        inputs.note_groups(loaded, asked)
    others = _others(apply_to or [], loaded, asked, fitted)
    scale = None if fitted is None else fitted.score
    checked = inputs.require_agreement(inputs.predictions(loaded, scale), data, force=force)
    with terminal.progress("Auditing", (n_refits or MOST) + n_null) as advance, inputs.naming(data):
        found = inspect_closely(
            loaded.logits,
            checked.labels,
            method=method,
            options=chosen,
            calibrator=given,
            apply_to=others,
            n_refits=n_refits,
            size=size,
            n_null=n_null,
            input=loaded.input,
            features=loaded.features,
            groups=loaded.groups if grouped else None,
            keep_predictions=keep_predictions,
            random_state=seed,
            advance=advance,
        )
    if as_json:
        terminal.show_json({"data": data, "calibrator": calibrator, **found.to_dict()})
    else:
        _show(found, data)


def _others(
    files: list[str], audited: Loaded, asked: Asked, fitted: FittedCalibrator | None
) -> dict[str, object]:
    others: dict[str, object] = {}
    for file in files:
        other = inputs.load(file, replace(asked, labels=None), fitted)
        if other.input != audited.input:
            raise InputError(
                f"{file} holds {other.input}, and the audited samples are {audited.input}",
                code="input-differs",
            )
        other = inputs.in_order(replace(other, labels=None), audited)
        others[file] = (other.logits, other.features)
    return others


def _show(found: Audit, data: str) -> None:
    size = f"{terminal.count(found.n, 'sample')} of {found.n_classes:,} classes"
    wrong = f"{found.n_errors:,} of them predicted wrong"
    if found.input == "score":
        size, wrong = terminal.count(found.n, "score"), f"{found.n_errors:,} of them of outcome 0"
    parameters = terminal.count(found.n_parameters, "parameter")
    terminal.say(f"{found.method} on {data}: {size}, {wrong}; {parameters}.")
    terminal.say(f"{terminal.count(found.n_refits, 'refit')}, each on {found.resampling}.")
    _show_temperatures(found)
    if found.bands:
        _show_bands(found)
    _show_shares(found)
    if found.groups:
        show_gaps(found.groups, kind=found.input)
    if found.signals is not None:
        _show_signals(found.signals)
    findings = [f"{_MARKS[finding.level]} {finding.text}" for finding in found.findings]
    advised = [] if found.recommendation is None else [found.recommendation.sentence]
    terminal.say(*findings, "", found.verdict, *advised)


def _show_temperatures(found: Audit) -> None:
    rows = {"one temperature for all": found.pooled_temperature}
    for level, spread in found.quantiles.items():
        rows[f"temperature, {100 * float(level):g} % of samples below"] = spread
    if found.rank_correlation is not None:
        rows["rank correlation of temperatures"] = found.rank_correlation
    rows |= {f"group {i + 1} begins at score": t for i, t in enumerate(found.thresholds)}
    terminal.show_table(
        ["", "here", "median [quartiles] of refits", "mean ± sd"],
        [
            [name, f"{s.point:.4g}", _quartiles(s), f"{s.mean:.3g} ± {s.sd:.2g}"]
            for name, s in rows.items()
        ],
    )


def _quartiles(spread: Spread) -> str:
    return f"{spread.median:.3g} [{spread.low:.3g}, {spread.high:.3g}]"


def _show_bands(found: Audit) -> None:
    name = "group" if found.banded_by == "groups" else "third by T"
    headers = [name, "T here", "median T [quartiles]", "samples", "share", "errors", "confidence"]
    rows = []
    for i, band in enumerate(found.bands):
        rate = "" if band.error_rate is None else SHARE.value(band.error_rate)
        sure = "" if band.confidence is None else SHARE.value(band.confidence)
        t = band.temperature
        row = [str(i), f"{t.point:.4g}", _quartiles(t), f"{band.n:,}", SHARE.value(band.share)]
        rows.append([*row, rate, sure])
    terminal.show_table(headers, rows)
    if found.occupancy:
        headers = ["share of samples in", *(f"{name} {i}" for i in range(len(found.bands)))]
        here = ["these samples", *(SHARE.value(band.share) for band in found.bands)]
        others = [[file, *map(SHARE.value, shares)] for file, shares in found.occupancy.items()]
        terminal.show_table(headers, [here, *others])


def _show_shares(found: Audit) -> None:
    claim, score = CLAIMS[found.input], found.input == "score"
    told = {"loss": METRICS[claim.loss].title, "raw": claim.raw}
    rows = [
        [_SHARES[key].format(**told), SHARE.value(share)] for key, share in found.shares.items()
    ]
    rows += [
        [f"flag {key}: {FLAGS[key]}", SHARE.value(share)] for key, share in found.flags.items()
    ]
    terminal.show_table(["in refits", "share"], rows)
    names = {
        **{key: (METRICS[key].title, key) for key in ("top_label_bce", "ece15")},
        "ece15_floor": (f"{METRICS['ece15'].title} noise floor", "ece15"),
        "nll": (METRICS["nll"].title, "nll"),
    }
    rows = []
    for key, (name, metric) in names.items():
        if key in found.held_out and not (score and key == "top_label_bce"):
            unit, pair = METRICS[metric].unit, (found.held_out[k] for k in (f"raw_{key}", key))
            rows.append([unit.heading(name), *(unit.spread(s.mean, s.sd) for s in pair)])
    if rows:
        terminal.show_table(
            ["on held-out samples", claim.raw.removeprefix("the "), found.method], rows
        )


def _show_signals(signals: SignalToNoise) -> None:
    terminal.say("Does miscalibration depend on a signal, after one temperature for all?")
    rows = []
    for row in signals.rows:
        name = row.signal.replace("_", " ")
        if row.note:
            rows.append([name, "", "", "", row.note])
            continue
        gain = X100.number(row.predicted_gain, signed=True)
        gain += "" if row.metric == "top_label_bce" else f" {METRICS[row.metric].title}"
        beyond = "beyond chance" if row.beyond_chance else ""
        rows.append([name, f"{row.times_floor:.1f}", gain, f"{row.p_value:.3f}", beyond])
    control = f"{signals.random_times_floor:.1f}"
    rows.append(["random groups", control, "", "", "for comparison"])
    gained = METRICS["top_label_bce"]
    heading = gained.unit.heading(f"{gained.title} gain", difference=True)
    terminal.show_table(["signal", "B/σ² in floors", heading, "p", ""], rows, text=(0, 4))

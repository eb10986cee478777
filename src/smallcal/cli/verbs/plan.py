"""``smallcal plan``: how many samples calibration needs, from those that are there."""

from __future__ import annotations

import math
import re
from typing import Annotated

from smallcal.advice.plan import count_steps, require_pilot
from smallcal.advice.plan import plan as make_plan
from smallcal.advice.plan_words import Expected, Plan
from smallcal.cli import inputs, options, terminal
from smallcal.cli.options import option
from smallcal.data.claims import CLAIMS
from smallcal.data.special import softmax
from smallcal.errors import InputError
from smallcal.metrics import METRICS
from smallcal.metrics.units import Unit

_TARGET = re.compile(r"\s*(\w+)\s*=\s*([-+.\deE]+)\s*(%?)\s*")


def plan(
    data: options.Data,
    labels: options.Labels = None,
    input: options.Input = None,
    class_names: options.ClassNames = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    score: options.Score = None,
    outcome: options.Outcome = None,
    group: options.Group = None,
    cluster: options.Cluster = None,
    method: options.Method = "default",
    keep_predictions: options.KeepPredictions = False,
    sizes: Annotated[
        str | None,
        option(
            "N,N,...", "Sample sizes to plan for. Default: round numbers up to four times DATA."
        ),
    ] = None,
    draws: Annotated[int, option("N", "Fits per sample size.", min=5, max=1000)] = 20,
    target: Annotated[
        list[str] | None,
        option("METRIC=VALUE", "Target to reach: ece15=0.02 or ece15=2%. May be repeated."),
    ] = None,
    test_size: Annotated[
        int, option("N", "Size of the test split for which ECE is predicted.", min=1)
    ] = 5000,
    level: options.Level = 0.9,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Estimate how many labelled samples calibration needs, from a pilot split."""
    wanted = None if sizes is None else _sizes(sizes)
    goals = dict(_goal(text) for text in target or [])
    asked = inputs.Asked.of(locals())
    loaded = inputs.load(data, asked)
    if group is not None:
        terminal.note("plan fits no effects of groups; fit --group does")
    checked = inputs.require_agreement(inputs.predictions(loaded), data, force=force)
    with inputs.naming(data):
        checked.require_fittable()
        require_pilot(checked.n)
    clusters = inputs.clusters(loaded, asked, cluster)
    if clusters is None:
        inputs.note_copies(data, checked.labels, softmax(checked.logits))
    steps = count_steps(checked.n, wanted, method, input=loaded.input)
    with terminal.progress("Fitting", steps) as advance:
        found = make_plan(
            loaded.logits,
            checked.labels,
            method=method,
            sizes=wanted,
            draws=draws,
            target=goals,
            test_size=test_size,
            input=loaded.input,
            level=level,
            clusters=clusters,
            keep_predictions=keep_predictions,
            random_state=seed,
            advance=advance,
        )
    if as_json:
        terminal.show_json({"data": data, **found.to_dict()})
        return
    _show(data, found)
    terminal.note(*found.notes)


def _sizes(text: str) -> list[int]:
    parts = [part.strip().replace("_", "") for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise InputError(
            f"--sizes must be whole numbers with commas between; got {text!r}", code="option-format"
        )
    return [int(part) for part in parts]


def _goal(text: str) -> tuple[str, float]:
    match = _TARGET.fullmatch(text)
    try:
        value = float(match[2]) if match else math.nan
    except ValueError:
        value = math.nan
    if match is None or not math.isfinite(value):
        raise InputError(
            f"--target must look like ece15=0.02 or ece15=2%; got {text!r}", code="option-format"
        )
    return match[1], value / 100 if match[3] else value


def _show(data: str, found: Plan) -> None:
    ece, bce = METRICS["ece15"].unit, METRICS["top_label_bce"].unit
    pilot = terminal.size(found.n, found.n_classes, found.input)
    terminal.say(
        f"{data}: {pilot}. {found.method} fitted on {found.draws} draws of each size and "
        "measured on the held-out samples. ± is the standard deviation over draws; a band is a "
        f"{100 * found.level:g} % interval of the mean over draws."
    )
    band = f"{100 * found.level:g} % band"
    rows = [
        [
            f"{row.size:,}",
            "measured" if row.measured else "extrapolated",
            _spread(ece, row.metrics["ece15"]),
            ece.interval(row.metrics["ece15"].low, row.metrics["ece15"].high),
            ece.number(row.metrics["debiased_ece15"].value),
            _spread(bce, row.metrics["top_label_bce"]),
        ]
        for row in found.rows
    ]
    names = [METRICS[name].heading() for name in ("ece15", CLAIMS[found.input].loss)]
    headers = ["samples", "", names[0], band, "no noise", names[1]]
    terminal.show_table(headers, rows, text=(1,))
    terminal.say(f"Expected results with all {found.n:,} samples:")
    rows = []
    for name in dict.fromkeys(["none", found.simple, found.method]):
        row = found.row(found.n, name)
        gain = row.gains.get("top_label_bce")
        change = ["", ""]
        if gain is not None:
            change = [bce.number(gain.point, signed=True), bce.interval(*gain, signed=True)]
        cells = [_spread(ece, row.metrics["ece15"]), _spread(bce, row.metrics["top_label_bce"])]
        rows.append([name, *cells, *change])
    terminal.show_table(["method", *names, f"minus none, {bce.change}", band], rows)
    terminal.say(
        *found.sentences,
        f"ECE: as `smallcal evaluate` would show it on {found.test_size:,} test samples, noise "
        "included. No noise: on an endless test split.",
    )


def _spread(unit: Unit, entry: Expected) -> str:
    return unit.spread(entry.value, entry.spread)

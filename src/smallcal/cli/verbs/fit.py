"""``smallcal fit``: logits and labels in, a calibrator out."""

from __future__ import annotations

from typing import Annotated

from smallcal import io
from smallcal.calibrators.estimators import Calibrator
from smallcal.calibrators.summary import summary
from smallcal.cli import choices, inputs, options, terminal
from smallcal.cli.describe import describe, notes_of
from smallcal.cli.options import flag, option


def fit(
    data: options.Data,
    output: Annotated[
        str | None, option("FILE", "Where to write the calibrator (JSON).", "-o", "--output")
    ] = None,
    method: options.Method = "default",
    labels: options.Labels = None,
    input: options.Input = None,
    setting: options.Settings = None,
    class_names: options.ClassNames = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    group: options.Group = None,
    may_change_predictions: Annotated[
        bool,
        flag("--may-change-predictions", "Let classes win that the model itself puts second."),
    ] = False,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Fit a calibrator on held-out logits and labels."""
    chosen = choices.method_options(method, setting or [])
    if output is not None:
        io.require_folder(output)
    asked = inputs.Asked.of(locals())
    loaded = inputs.load(data, asked)
    inputs.note_groups(loaded, asked)
    checked = inputs.require_agreement(inputs.predictions(loaded), data, force=force)
    estimator = Calibrator(
        method=method,
        options=chosen,
        keep_predictions=False if may_change_predictions else None,
        input=loaded.input,
        class_names=loaded.class_names,
        random_state=seed,
    )
    with terminal.noted_warnings(), inputs.naming(data), terminal.progress("Fitting"):
        groups = None if group is None else loaded.groups
        estimator.fit(loaded.logits, checked.labels, features=loaded.features, groups=groups)
    if output is not None:
        estimator.save(output)
    fitted = estimator.fitted_
    terminal.note(*notes_of(fitted))
    if as_json:
        terminal.show_json({"output": output, **summary(fitted)})
        return
    describe(fitted, noted=True)
    if output is None:
        terminal.say("Nothing was written; -o cal.json keeps this calibrator.")
    else:
        terminal.say(f"Wrote {output}.")

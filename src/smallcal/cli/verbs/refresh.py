"""``smallcal refresh``: new labelled rows update a calibrator."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Annotated

from smallcal import io, runtime
from smallcal.cli import inputs, options, terminal
from smallcal.cli.options import option
from smallcal.deploy.refresh import refresh as refreshed
from smallcal.io.lock import one_at_a_time


def refresh(
    calibrator: options.Calibrator,
    data: options.Data,
    output: Annotated[
        str, option("NEW.json", "Where to write the new calibrator.", "-o", "--output")
    ],
    labels: options.Labels = None,
    input: options.Input = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    score: options.Score = None,
    outcome: options.Outcome = None,
    group: options.Group = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Update a calibrator with new labelled samples, and say what changed."""
    asked = inputs.Asked.of(locals())
    io.require_folder(output)
    # Others may refresh the same file at the same time: one after another, and no rows are lost.
    in_place = os.path.isfile(output) and os.path.realpath(calibrator) == os.path.realpath(output)
    with one_at_a_time(output) if in_place else nullcontext():
        fitted = runtime.load(calibrator)
        loaded = inputs.named(inputs.load(data, asked, fitted), fitted)
        inputs.require_same_input(fitted, loaded.input, data)
        checked = inputs.predictions(loaded, fitted.score)
        inputs.require_agreement(checked, data, force=force)
        groups = None if fitted.groups is None else loaded.groups
        with inputs.naming(data), terminal.noted_warnings(data):
            found = refreshed(
                fitted, loaded.logits, loaded.labels, features=loaded.features, groups=groups
            )
        found.calibrator.save(output)
    if as_json:
        told = {"calibrator": calibrator, "data": data, "output": output}
        terminal.show_json({**told, **found.to_dict()})
    else:
        terminal.say(*found.sentences, f"Wrote {output}.")

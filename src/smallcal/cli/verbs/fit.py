"""``smallcal fit``: logits and labels in, a calibrator out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

from smallcal import io
from smallcal.calibrators.catalogue import resolve_method
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.method import Method, fit_arrays, warn_of_flags
from smallcal.calibrators.summary import summary
from smallcal.cli import choices, inputs, options, terminal
from smallcal.cli import per as each
from smallcal.cli.describe import describe, notes_of
from smallcal.cli.options import option
from smallcal.errors import InputError
from smallcal.io import Loaded


def fit(
    data: options.Data,
    output: Annotated[
        str | None,
        option(
            "FILE",
            "Where to write the calibrator (JSON); with --per, a new folder.",
            "-o",
            "--output",
        ),
    ] = None,
    method: options.Method = "default",
    labels: options.Labels = None,
    input: options.Input = None,
    setting: options.Settings = None,
    class_names: options.ClassNames = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    score: options.Score = None,
    outcome: options.Outcome = None,
    group: options.Group = None,
    cluster: options.Cluster = None,
    per: options.Per = None,
    keep_predictions: options.KeepPredictions = False,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Fit a calibrator on held-out logits and labels, or scores and outcomes."""
    settings = choices.method_options(method, setting or [])
    asked = inputs.Asked.of(locals())
    compose = partial(
        resolve_method,
        method,
        options=settings,
        keep_predictions=keep_predictions,
        random_state=seed,
    )
    if per is not None:
        if cluster is not None:
            raise InputError(
                "--per splits the samples by its field; leave out --cluster",
                code="options-conflict",
            )
        _fit_each(data, asked, compose, output, force=force, as_json=as_json)
        return
    if output is not None:
        io.require_folder(output)
    loaded = inputs.load(data, asked)
    clusters = inputs.clusters(loaded, asked, cluster)
    fitted = _fitted(loaded, asked, compose, force=force, clusters=clusters)
    if output is not None:
        fitted.save(output)
    terminal.note(*notes_of(fitted))
    if as_json:
        terminal.show_json({"output": output, **summary(fitted)})
        return
    describe(fitted, noted=True)
    if output is None:
        terminal.say("Nothing was saved; use -o cal.json to save this calibrator.")
    else:
        terminal.say(f"Wrote {output}.")


def _fitted(
    loaded: Loaded,
    asked: inputs.Asked,
    compose: Callable[..., Method],
    *,
    force: bool,
    clusters: object = None,
) -> FittedCalibrator:
    """Fit on the samples of a file."""
    inputs.note_groups(loaded, asked)
    checked = inputs.require_agreement(inputs.predictions(loaded), loaded.source, force=force)
    names = loaded.class_names
    groups = None if asked.group is None else loaded.groups
    given: dict[str, object] = {"class_names": names, "features": loaded.features}
    given |= {"groups": groups, "clusters": clusters}
    with terminal.noted_warnings(), inputs.naming(loaded.source), terminal.progress("Fitting"):
        method = compose(input=loaded.input)
        fitted = fit_arrays(method, loaded.logits, checked.labels, input=loaded.input, **given)
        warn_of_flags(fitted)
    return fitted


def _fit_each(
    data: str,
    asked: inputs.Asked,
    compose: Callable[..., Method],
    output: str | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Fit a calibrator for each model or task, and write all of them or none."""
    if output is None:
        raise InputError(
            "--per fits several calibrators; name a folder for them with -o", code="option-missing"
        )
    found: dict[str, FittedCalibrator] = {}
    with each.whole_folder(output) as folder:
        parts = each.apart(data, asked)
        files = each.file_names(list(parts))
        for value, loaded in parts.items():
            found[value] = _fitted(loaded, asked, compose, force=force)
            found[value].save(folder / files[value])
        each.write_index(folder, str(asked.per), files)
    told = {value: summary(one) for value, one in found.items()}
    if as_json:
        terminal.show_json({"output": output, "per": asked.per, "files": files, "fits": told})
        return
    rows = [[value, f"{one.data['n']:,}", one.method, files[value]] for value, one in found.items()]
    terminal.show_table([str(asked.per), "samples", "method", "file"], rows, text=(0, 2, 3))
    terminal.say(f"Wrote {terminal.count(len(rows), 'calibrator')} to {output}.")

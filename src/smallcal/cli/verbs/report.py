"""``smallcal report``: everything there is to say about a model's calibration, in one file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from smallcal import io, runtime
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import choices, costs, inputs, options, terminal
from smallcal.cli.options import option
from smallcal.cli.verbs.apply import apply
from smallcal.cli.verbs.fit import fit
from smallcal.deploy.decided_rows import require_decisions
from smallcal.errors import FileError, InputError
from smallcal.io import READERS
from smallcal.io.paths import split_path
from smallcal.reports import Report
from smallcal.reports import report as make
from smallcal.reports.conditions import require_known
from smallcal.reports.document import FORMATS, format_of
from smallcal.reports.render.drawer import Drawer
from smallcal.reports.render.html import require_page
from smallcal.reports.settings import MIN_BOOT, Settings, usual_methods
from smallcal.statistics.interval import require_options

#: Options with the same name in several verbs that say nothing of how files are read.
_OWN = {"output", "method", "calibrator", "keep_predictions", "as_json"}

#: What a finding begins with.
_WORDS = {"fine": "", "care": "Take care: ", "bad": "Warning: "}

#: ``...fog-s3.npz``, ``fog_3.npz`` or ``fog3.npz``: a kind and its severity.
_CONDITION = re.compile(r"(.*?[^\W\d_])(?:[-_]?s(?:everity)?)?[-_]?(\d+(?:\.\d+)?)")


def report(
    context: typer.Context,
    cal_data: options.CalData,
    test_data: options.TestData = None,
    output: Annotated[
        str | None,
        option("FILE", "Where to write the report: .html, .md or .json.", "-o", "--output"),
    ] = None,
    format: Annotated[
        str | None,
        option("html|md|json", "Format. Default: by the suffix of FILE, otherwise md."),
    ] = None,
    methods: Annotated[
        str | None, option("A,B,...", "Methods, separated by commas. Default: six.")
    ] = None,
    shift: Annotated[
        list[str] | None,
        option(
            "PATH",
            "Also measure on this shifted test file, or on a folder of them, named like "
            "fog-s3.npz. May be repeated.",
        ),
    ] = None,
    calibrator: Annotated[
        str | None,
        option("CAL", "Check the certified threshold of this calibrator on the test split."),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        option(
            "CONDITION",
            'Exit code 1 if this holds for the recommended method, "ece15>0.03", or of '
            'another, "ts-nll:ece15>3%". May be repeated.',
        ),
    ] = None,
    cost: options.Cost = None,
    title: Annotated[str | None, option("TEXT", "Title of the report.")] = None,
    input: options.Input = None,
    class_names: options.ClassNames = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    score: options.Score = None,
    outcome: options.Outcome = None,
    group: options.Group = None,
    keep_predictions: options.KeepPredictions = False,
    n_boot: options.Boot = 1000,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write a report: how well a model is calibrated, and which method to use."""
    given = tuple(choices.method_names(methods)) if methods else None
    if 0 < n_boot < MIN_BOOT:
        raise InputError(
            f"--n-boot must be 0 or at least {MIN_BOOT}; got {n_boot}", code="option-range"
        )
    require_options(n_boot, level)
    kind = _kind(output, format, as_json=as_json)
    if kind == "html":
        require_page()
    if output is not None:
        io.require_folder(output)
    priced = costs.read(cost)
    asked = inputs.Asked.of(locals())
    known = _certified(calibrator)
    said = [] if asked.kind == asked.kind_for(known) else ["--input", str(asked.kind_for(known))]
    asked = replace(asked, input=asked.kind_for(known))
    cal, test = inputs.load_pair(cal_data, test_data, asked, verb="report")
    chosen = usual_methods(cal.input) if given is None else given
    settings = Settings(methods=chosen, n_boot=n_boot, level=level, input=cal.input)
    for text in fail_if or []:
        require_known(text, settings.names)
    cal = inputs.grouped_if(cal, asked)
    fitted_on = inputs.require_agreement(inputs.predictions(cal), cal.source, force=force)
    tested_on = inputs.predictions(test, fitted_on.score)
    inputs.require_agreement(tested_on, test.source, force=force)
    if priced is not None:
        costs.table_for(priced, fitted_on.n_classes, cal.class_names, score=cal.input == "score")
    files = shifted_files(shift or [], model=Path(split_path(cal.source)[0]).stem)
    shifted = {
        key: inputs.in_order(inputs.load(str(file), asked), cal) for key, file in files.items()
    }
    with (
        Drawer() if kind == "html" else nullcontext() as drawer,
        terminal.progress("Measuring", settings.steps(len(files))) as advance,
    ):
        made = make(
            cal,
            test,
            methods=chosen,
            class_names=None if class_names is None else io.read_names(class_names),
            shift=shifted,
            calibrator=calibrator,
            n_boot=n_boot,
            level=level,
            input=cal.input,
            keep_predictions=keep_predictions,
            random_state=seed,
            costs=priced,
            title=title,
            command=terminal.typed(context, defaults=True),
            verb_options={verb.__name__: [*_shared(context, verb), *said] for verb in (fit, apply)},
            advance=advance,
            drawer=drawer,
        )
        if output is not None:
            made.save(output, format=kind)
    if as_json or output is None:
        sys.stdout.write(made.text("json" if as_json else kind))
    else:
        _say(made.content["verdict"])
        terminal.say(f"Wrote {output}.")
    _leave(made, fail_if or [])


def _certified(calibrator: str | None) -> FittedCalibrator | None:
    """Return the calibrator; raise before anything is measured if it has nothing to check."""
    if calibrator is None:
        return None
    fitted = runtime.load(calibrator)
    require_decisions(fitted, calibrator)
    return fitted


def _shared(context: typer.Context, verb: Callable[..., object]) -> list[str]:
    """Return the options of this command that another verb needs to read the same files."""
    names = set(signature(verb).parameters) - _OWN
    return terminal.typed_words(context, names)


def _say(verdict: Mapping[str, Any]) -> None:
    """Print the verdict: what to use, what it changes, what to take care of, how to ship it."""
    changed = [entry["text"] for entry in [*verdict["changes"], verdict["threshold"]]]
    care = [f"{_WORDS[row['level']]}{row['text']}" for row in verdict["findings"]]
    terminal.say(verdict["headline"], *(f"{text[0].upper()}{text[1:]}" for text in changed), *care)
    if verdict["ship"]:
        terminal.say("Ship it:", *(f"  {line}" for line in verdict["ship"]["text"].split("\n")))


def _kind(output: str | None, format: str | None, *, as_json: bool = False) -> str:
    """Return what to write; a page goes to a file only."""
    known = list(dict.fromkeys(FORMATS.values()))
    if format is not None and format not in known:
        raise InputError(
            f"--format must be one of {', '.join(known)}; got {format!r}", code="unknown-choice"
        )
    if output is None:
        if as_json and format not in (None, "json"):
            raise InputError(
                f"--json prints JSON; name a file for the {format}: -o report.{format}",
                code="options-conflict",
            )
        if format == "html":
            raise InputError(
                "a page needs a file to be written to: -o report.html", code="option-missing"
            )
        return format or ("json" if as_json else "md")
    return format or format_of(output)


def shifted_files(paths: Sequence[str], *, model: str = "") -> dict[tuple[str, str], object]:
    """Return the shifted files by kind and severity, as their names say.

    Of a folder that holds ``MODEL__...`` files, only those of this model are taken.
    """
    found: dict[tuple[str, str], object] = {}
    for path in paths:
        for file in _files_of(Path(path), model):
            key = condition_of(file)
            if key in found:
                named = " ".join(filter(None, key))
                raise InputError(
                    f"--shift: {found[key]} and {file} are both called {named}",
                    code="file-ambiguous",
                )
            found[key] = str(file)
    return found


def _files_of(path: Path, model: str) -> list[Path]:
    if not os.path.isdir(path):
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in READERS)
    own = [file for file in files if model and file.name.startswith(f"{model}__")]
    if not files:
        raise FileError(
            f"--shift {path}: no file there is of a type that can be read", code="file-type"
        )
    return own or files


def condition_of(file: Path) -> tuple[str, str]:
    """Return the kind and the severity that a file's name tells.

    Examples
    --------
    >>> condition_of(Path("cifar10__resnet__fog-s3.npz")), condition_of(Path("night.csv"))
    (('fog', '3'), ('night', ''))
    """
    name = file.stem.rpartition("__")[2]
    match = _CONDITION.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def _leave(made: Report, conditions: Sequence[str]) -> None:
    """Say what failed, after everything was written."""
    failed = [check for text in conditions if (check := made.check(text))["failed"]]
    terminal.leave(
        [
            *(f"check failed: {check['reason']}" for check in failed),
            *(f"{name} failed: {reason}" for name, reason in made.content["failures"].items()),
        ]
    )

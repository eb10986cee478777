"""``smallcal adapt``: rows without labels, or known rates, in; a calibrator for them out."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from smallcal import io, runtime
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import inputs, inputs_streamed, options, terminal
from smallcal.cli.inputs import Asked
from smallcal.cli.options import argument, flag, option
from smallcal.data.predictions import FloatArray
from smallcal.deploy.adapt.estimate import Asked as Sure
from smallcal.deploy.adapt.estimate import adapt as adapted
from smallcal.deploy.adapt.estimate import adapt_blocks, names_of, source_blocks, unadapted
from smallcal.deploy.adapt.rates import rates_of, read_rates
from smallcal.deploy.adapt.result import Adaptation, table
from smallcal.errors import InputError

#: Classes that are shown.
_MOST = 10


def adapt(
    calibrator: options.Calibrator,
    data: Annotated[
        str | None,
        argument("[DATA]", "New data from deployment; labels are ignored."),
    ] = None,
    output: Annotated[
        str | None,
        option("NEW", "Where to write the calibrator (JSON).", "-o", "--output"),
    ] = None,
    rates: Annotated[
        str | None,
        option("FILE", "Use known class frequencies: a table with the columns class and rate."),
    ] = None,
    undo: Annotated[
        bool, flag("--undo", "Write CAL as it was before adaptation, byte for byte.")
    ] = False,
    level: Annotated[
        float, option("P", "Level of the confidence intervals; the test uses one minus it.")
    ] = 0.95,
    force: Annotated[
        bool,
        flag(
            "--force",
            "Adapt even if samples are few, nothing changed, or more than class frequencies "
            "changed.",
        ),
    ] = False,
    input: options.Input = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    score: options.Score = None,
    outcome: options.Outcome = None,
    group: options.Group = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Adapt a calibrator to new class frequencies (label shift), without labels."""
    asked = Asked.of(locals())
    if undo and (data is not None or rates is not None or force):
        raise InputError("--undo needs nothing but CAL and -o", code="options-conflict")
    if output is None:
        raise InputError("say where to write the calibrator: -o NEW.json", code="option-missing")
    io.require_writable(output)
    fitted = runtime.load(calibrator)
    if undo:
        with inputs.naming(calibrator):
            found = adapted(fitted, undo=True)
    else:
        known, how = _rates(fitted, rates), Sure(level, seed, force)
        found = _adapted(fitted, data, asked, known, how)
    if found.adapted:
        found.calibrator.save(output)
    _tell(found, calibrator, data, output, as_json=as_json)


def _rates(fitted: FittedCalibrator, file: str | None) -> FloatArray | None:
    """Return the rates that a file gives the calibrator's classes."""
    if file is None:
        return None
    with inputs.naming(file):
        return rates_of(read_rates(file), names_of(fitted))


def _adapted(
    fitted: FittedCalibrator, data: str | None, asked: Asked, rates: FloatArray | None, how: Sure
) -> Adaptation:
    """Adapt to rows that are read in pieces where they can be."""
    if data is None:
        return adapt_blocks(fitted, None, rates=rates, asked=how)
    base = unadapted(fitted)
    source = inputs_streamed.source_of(data, base, asked, resampled=False)
    if source is not None:
        with terminal.progress("Reading", source.rows) as advance:
            blocks = source_blocks(base, source)
            return adapt_blocks(fitted, blocks, rates=rates, asked=how, advance=advance)
    loaded = inputs.load(data, asked, base)
    inputs.require_same_input(base, loaded.input, data)
    groups = None if base.groups is None else loaded.groups
    given: dict[str, Any] = {"features": loaded.features, "groups": groups, "rates": rates}
    with inputs.naming(data), terminal.noted_warnings(data):
        return adapted(fitted, loaded.logits, **given, **vars(how))


def _tell(
    found: Adaptation,
    calibrator: str,
    data: str | None,
    output: str,
    *,
    as_json: bool,
) -> None:
    written = output if found.adapted else None
    if as_json:
        told = {"calibrator": calibrator, "data": data, "output": written}
        terminal.show_json({**told, **found.to_dict()})
        if not found.adapted:
            raise typer.Exit(terminal.CHECK_FAILED)
        return
    if not found.adapted:
        terminal.leave(found.sentences)
    first, *rest = found.sentences
    terminal.say(first)
    if found.now:
        terminal.say("")
        headers, rows = table(found, _MOST)
        terminal.show_table(headers, rows)
        if len(found.now) > len(rows):
            terminal.say(f"And {len(found.now) - len(rows):,} classes that changed less.")
    terminal.say(*rest, f"Wrote {output}.")

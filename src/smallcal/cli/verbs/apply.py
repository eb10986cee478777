"""``smallcal apply``: a calibrator and logits in, probabilities out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from smallcal import io, runtime
from smallcal.advice.cost_table import CostTable
from smallcal.advice.costs import Costs
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import costs, inputs, options, terminal
from smallcal.cli import per as each
from smallcal.cli.inputs import Asked
from smallcal.cli.options import flag, option
from smallcal.data.names import order_of, require_names
from smallcal.deploy import decided_rows
from smallcal.deploy.apply_in_parts import More, apply_in_parts
from smallcal.deploy.decided_rows import asks_for_groups, require_decisions
from smallcal.errors import InputError, SmallcalError
from smallcal.io import Source, Target
from smallcal.io.atomic import atomic_path, is_special
from smallcal.io.readers import suffix_of

#: Below so many rows a speed says nothing.
_MANY = 1_000_000
#: All rows in this process.
_AT_ONCE = {"jobs": 1, "dask": None, "part_rows": None}


def apply(
    calibrator: options.CalibratorOrFolder,
    data: options.Data,
    output: Annotated[
        str,
        option(
            "OUT",
            "Where to write; the suffix sets the format, a name without one is a folder.",
            "-o",
            "--output",
        ),
    ],
    input: options.Input = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    score: options.Score = None,
    outcome: options.Outcome = None,
    group: options.Group = None,
    with_temperature: Annotated[
        bool, flag("--with-temperature", "Also write each row's temperature.")
    ] = False,
    with_decision: Annotated[
        bool, flag("--with-decision", "Also write which rows a certified threshold accepts.")
    ] = False,
    cost: options.Cost = None,
    jobs: Annotated[int, option("N", "Number of worker processes.", min=1)] = 1,
    dask: Annotated[
        str | None, option("ADDRESS", "Run on the Dask cluster with this scheduler.")
    ] = None,
    part_rows: Annotated[
        int | None, option("N", "Rows per part. Default: as many as fit in 64 MB.", min=1)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write calibrated probabilities; .npy, Parquet and Arrow files may be of any size."""
    asked = inputs.Asked.of(locals())
    how: dict[str, Any] = {"jobs": jobs, "dask": dask, "part_rows": part_rows}
    if os.path.isdir(calibrator):
        if with_temperature or cost is not None or how != _AT_ONCE:
            raise InputError(
                f"{calibrator} is a folder of calibrators: --with-temperature, --cost, --jobs, "
                "--dask and --part-rows are for one",
                code="options-conflict",
            )
        _apply_each(calibrator, data, output, asked, with_decision=with_decision, as_json=as_json)
        return
    priced = costs.read(cost)
    fitted = runtime.load(calibrator)
    if with_decision:
        require_decisions(fitted, calibrator)
    more = More(with_temperature, with_decision)
    began = time.perf_counter()
    with _place(output, data) as place:
        n, before = _apply(fitted, data, place, asked, more, priced=priced, **how)
    seconds = time.perf_counter() - began
    if as_json:
        told = {"output": output, "n": n, "n_classes": fitted.n_classes}
        terminal.show_json({**told, "n_before": before, "seconds": seconds})
        return
    shape = f"{terminal.count(n, 'row')} of {fitted.n_classes:,} probabilities"
    if fitted.score is not None:
        shape = f"the probability of outcome 1 of {terminal.count(n, 'row')}"
    if before:
        terminal.note(f"{before:,} of {n:,} rows were done before")
    rate = f" ({(n - before) / seconds:,.0f} rows/s)" if n - before >= _MANY else ""
    terminal.say(f"Wrote {shape} to {output}{rate}.")


def _apply_each(
    folder: str, data: str, output: str, asked: Asked, *, with_decision: bool, as_json: bool
) -> None:
    """Apply to each row the calibrator of its model or task."""
    with _place(output, data) as place:
        _require_room(place, More(decision=with_decision))
        io.require_writable(place)
        arrays = each.applied(folder, data, asked, with_decision=with_decision)
        io.write_arrays(place, arrays)
    n = len(next(iter(arrays.values())))
    if as_json:
        terminal.show_json({"output": output, "n": n})
    else:
        terminal.say(f"Wrote {terminal.count(n, 'row')} of probabilities to {output}.")


@contextmanager
def _place(output: str, data: str) -> Iterator[str]:
    """Give the output itself; a file to be copied into it where it is a device, pipe or stream.

    Where its name tells no type, such a one gets that of the data.
    """
    if not is_special(output):
        yield output
        return
    own = suffix_of(Path(output))
    with atomic_path(output, suffix=own if own in io.WRITERS else io.type_of(data)) as path:
        try:
            yield str(path)
        except SmallcalError as error:  # the file is nothing the user knows of
            raise error.calling(path, output) from error


def _apply(
    fitted: FittedCalibrator,
    data: str,
    output: str,
    asked: Asked,
    more: More,
    *,
    priced: Costs | None,
    **how: Any,
) -> tuple[int, int]:
    """Return how many rows were written, and how many of them an earlier run had done."""
    _require_room(output, more, priced)
    # Thresholds by group need the groups, which are read with all rows.
    whole = more.decision and asks_for_groups(fitted)
    streamed = None if whole else _opened(fitted, data, output, asked)
    if streamed is not None:
        table = _table_for(fitted, streamed[0].class_names, priced)
        return _stream(fitted, *streamed, more=more._replace(costs=table), **how)
    if how != _AT_ONCE:
        raise InputError(
            f"--jobs, --dask and --part-rows: {data} cannot be applied to {output} in parts; that "
            "needs .npy, Parquet or Arrow on both sides, and a method that looks at one row at a "
            "time",
            code="options-conflict",
        )
    return _whole(fitted, data, output, asked, more, priced), 0


def _require_room(output: str, more: More, priced: Costs | None = None) -> None:
    """Raise where a file cannot hold what is asked for beside the probabilities."""
    for name, there in (
        ("--with-temperature", more.temperature),
        ("--with-decision", more.decision),
        ("--cost", priced),
    ):
        if there and output.lower().endswith(".npy"):
            raise InputError(
                f"{name}: a .npy file holds one array; write to .npz or .csv", code="file-type"
            )


def _table_for(
    fitted: FittedCalibrator, names: Sequence[str] | None, priced: Costs | None
) -> CostTable | None:
    """Return what this calibrator's decisions cost, where that was asked for."""
    if priced is None:
        return None
    score = fitted.score is not None
    return costs.table_for(priced, fitted.n_classes, names or fitted.class_names, score=score)


def _opened(
    fitted: FittedCalibrator, data: str, output: str, asked: Asked
) -> tuple[Source, Target] | None:
    """Return from where to where rows can be streamed, or None if all must be in memory."""
    found = inputs.in_pieces(data, fitted, asked)
    # Whether there is a target does not depend on the kind of the source, which is not open yet.
    if found is None or io.Target.of(output, "parquet") is None:
        io.require_writable(output)
        return None
    source = io.open_source(found[0], prefix=found[1], choice=asked.choice(fitted))
    target = io.Target.of(output, source.kind)
    assert target is not None
    io.require_parent(target.path)
    inputs.require_same_input(fitted, source.input, data)
    source = source.in_order_of(fitted.class_names)
    terminal.note(*source.notes)
    return source, target


def _whole(
    fitted: FittedCalibrator,
    data: str,
    output: str,
    asked: Asked,
    more: More,
    priced: Costs | None,
) -> int:
    io.require_writable(output)
    loaded = inputs.load(data, asked, fitted, as_written=True)
    given = replace(loaded, labels=None).in_order_of(fitted.class_names)
    table = _table_for(fitted, given.class_names, priced)
    rows = inputs.calibrated(fitted, given)
    beside = decided_rows.priced(table, rows.proba)
    if more.decision:
        beside |= inputs.decisions(fitted, given, rows)
    proba = rows.adjusted(fitted)
    if loaded.class_names is not None and given.class_names != loaded.class_names:
        terminal.note(given.notes[-1])
        back = order_of(given.class_names or (), loaded.class_names, what="columns")
        assert back is not None
        proba, beside = decided_rows.moved(proba, back), decided_rows.in_order(beside, back)
    arrays: dict[str, NDArray[Any]] = {"probabilities": proba}
    if more.temperature:
        arrays["temperature"] = fitted.temperature(loaded.logits, features=loaded.features)
    arrays |= decided_rows.predicted(fitted, rows, given.class_names or fitted.class_names)
    arrays |= beside
    if loaded.labels is not None:
        arrays["labels"] = inputs.label_column(loaded.labels, loaded)
    named = fitted.groups is not None or (more.decision and asks_for_groups(fitted))
    if loaded.groups is not None and named:
        arrays["groups"] = loaded.groups
    if fitted.score is not None:  # one number in, one out, and what came of it
        own = {"probabilities": "probability", "labels": "outcome"}
        arrays["probabilities"] = proba[:, 1]
        io.write_arrays(output, {own.get(name, name): array for name, array in arrays.items()})
        return len(proba)
    names = loaded.class_names or fitted.class_names
    if names is not None:
        require_names(names)  # before an array of text drops what it cannot hold
        arrays["class_names"] = np.array(names)
    io.write_arrays(output, arrays)
    return len(loaded.logits)


def _stream(
    fitted: FittedCalibrator, source: Source, target: Target, **how: Any
) -> tuple[int, int]:
    """Apply in parts; what was noted is said."""
    with terminal.progress("Applying", source.rows) as advance:
        done = apply_in_parts(fitted, source, target, **how, advance=advance)
    terminal.note(*done.notes)
    return done.rows, done.rows_before

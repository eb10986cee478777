"""``smallcal export``: a calibrator in, a file that works without smallcal out."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from smallcal import io, runtime
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import options, terminal
from smallcal.deploy.export import EXPORTERS, append_to_onnx, exporter_for, origin_of, to_onnx
from smallcal.errors import FileError, InputError
from smallcal.io.atomic import atomic_path


def export(
    calibrator: options.Calibrator,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where to write it: .onnx, .py or .sql."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="onnx|python|sql", help="What to write. Default: what FILE says."),
    ] = None,
    append: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Put the calibrator behind this ONNX model."),
    ] = None,
    output_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model's output with the logits, if not the only."),
    ] = None,
    features_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model's output with the features, if needed."),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="float32|float16|float64",
            help="Of the inputs and outputs of an ONNX file. Default: float32, or the model's.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write a calibrator as ONNX, a Python file or SQL, for places without smallcal."""
    kind = _kind(output, to)
    _require_onnx_options(kind, append, output_name, features_name, dtype)
    if output is not None:
        io.require_folder(output)
    fitted = runtime.load(calibrator)
    content = _content(fitted, calibrator, kind, append, output_name, features_name, dtype)
    raw = content.encode() if isinstance(content, str) else content
    if output is not None:
        with atomic_path(output) as temporary:
            temporary.write_bytes(raw)
    if as_json:
        text = {} if output is not None else {"text": content}
        about = {"output": output, "format": kind, "method": fitted.method, "bytes": len(raw)}
        terminal.show_json({**about, **text})
    elif output is None:
        sys.stdout.write(raw.decode())
    else:
        behind = f" behind {append}" if append else ""
        terminal.say(f"Wrote {fitted.method}{behind} as {kind} to {output} ({len(raw):,} bytes).")


def _kind(output: str | None, to: str | None) -> str:
    """Return what to write; only text goes to stdout."""
    if to is not None and to not in EXPORTERS:
        raise InputError(f"--to must be one of {', '.join(EXPORTERS)}; got {to!r}")
    if output is None:
        if to is None:
            raise InputError("say what to write: -o cal.onnx, or --to python or sql for stdout")
        if not EXPORTERS[to].is_text:
            raise InputError(f"--to {to} needs a file to write to: -o cal{EXPORTERS[to].suffix}")
        return to
    if to is not None:
        return to
    try:
        return exporter_for(output)
    except FileError as error:
        raise InputError(f"{error}; --to says it") from None


def _require_onnx_options(
    kind: str,
    append: str | None,
    output_name: str | None,
    features_name: str | None,
    dtype: str | None,
) -> None:
    """Refuse options that would have no effect."""
    given = {
        "--append": append,
        "--output-name": output_name,
        "--features-name": features_name,
        "--dtype": dtype,
    }
    for flag, value in given.items():
        if value is not None and kind != "onnx":
            raise InputError(f"{flag} is for ONNX, and {kind} was asked for")
    for flag in ("--output-name", "--features-name"):
        if given[flag] is not None and append is None:
            raise InputError(f"{flag} names an output of a model: --append MODEL says which model")
    if append is not None and dtype is not None:
        raise InputError("--dtype: behind a model, probabilities have the type of its logits")


def _content(
    fitted: FittedCalibrator,
    path: str,
    kind: str,
    append: str | None,
    output_name: str | None,
    features_name: str | None,
    dtype: str | None,
) -> str | bytes:
    origin = origin_of(fitted, path)
    if append is not None:
        return append_to_onnx(
            fitted, append, output_name=output_name, features_name=features_name, origin=origin
        )
    if dtype is not None:
        return to_onnx(fitted, dtype=dtype, origin=origin)
    return EXPORTERS[kind].make(fitted, origin=origin)

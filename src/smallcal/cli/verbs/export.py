"""``smallcal export``: a calibrator in, a file that works without smallcal out."""

from __future__ import annotations

import sys
from typing import Annotated, NamedTuple

from smallcal import io, runtime
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.prediction_set import sets_of
from smallcal.cli import options, terminal
from smallcal.cli.options import option
from smallcal.deploy.export import EXPORTERS, append_to_onnx, exporter_for, origin_of, to_onnx
from smallcal.errors import FileError, InputError
from smallcal.io.atomic import atomic_path


class _Onnx(NamedTuple):
    """Options of ONNX files alone."""

    append: str | None
    output_name: str | None
    features_name: str | None
    dtype: str | None


def export(
    calibrator: options.Calibrator,
    output: Annotated[
        str | None,
        option("FILE", "Where to write the export: .onnx, .py or .sql.", "-o", "--output"),
    ] = None,
    to: Annotated[
        str | None, option("onnx|python|sql", "Format. Default: by the suffix of FILE.")
    ] = None,
    append: Annotated[
        str | None, option("MODEL", "Append the calibrator to this ONNX model.")
    ] = None,
    output_name: Annotated[
        str | None, option("NAME", "Name of the model's output with the logits, if it has several.")
    ] = None,
    features_name: Annotated[
        str | None, option("NAME", "Name of the model's output with the features, if needed.")
    ] = None,
    dtype: Annotated[
        str | None,
        option(
            "float32|float16|float64",
            "Number type of an ONNX file's inputs and outputs. Default: float32, or the model's.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Export a calibrator to ONNX, a Python file or SQL, to run without smallcal."""
    kind = _kind(output, to)
    onnx = _Onnx(append, output_name, features_name, dtype)
    _require_effect(onnx, kind)
    if output is not None:
        io.require_folder(output)
    fitted = runtime.load(calibrator)
    if sets_of(fitted.decisions):
        terminal.note(
            "the export holds no prediction sets: it gives probabilities, and whether a row is "
            "accepted; smallcal apply --with-decision and predict_set give the sets"
        )
    content = _content(fitted, calibrator, kind, onnx)
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
        raise InputError(
            f"--to must be one of {', '.join(EXPORTERS)}; got {to!r}", code="unknown-choice"
        )
    if output is None:
        if to is None:
            raise InputError(
                "say what to write: -o cal.onnx, or --to python or sql for stdout",
                code="option-missing",
            )
        if not EXPORTERS[to].is_text:
            raise InputError(
                f"--to {to} needs a file to write to: -o cal{EXPORTERS[to].suffix}",
                code="option-missing",
            )
        return to
    if to is not None:
        return to
    try:
        return exporter_for(output)
    except FileError as error:
        raise InputError(f"{error}; --to says it", code="file-type") from None


def _require_effect(onnx: _Onnx, kind: str) -> None:
    """Refuse options that would have no effect."""
    given = {f"--{name.replace('_', '-')}": value for name, value in onnx._asdict().items()}
    for flag, value in given.items():
        if value is not None and kind != "onnx":
            raise InputError(
                f"{flag} is for ONNX, and {kind} was asked for", code="options-conflict"
            )
    for flag in ("--output-name", "--features-name"):
        if given[flag] is not None and onnx.append is None:
            raise InputError(
                f"{flag} names an output of a model: --append MODEL says which model",
                code="options-conflict",
            )
    if onnx.append is not None and onnx.dtype is not None:
        raise InputError(
            "--dtype: behind a model, probabilities have the type of its logits",
            code="options-conflict",
        )


def _content(fitted: FittedCalibrator, path: str, kind: str, onnx: _Onnx) -> str | bytes:
    origin = origin_of(fitted, path)
    if onnx.append is not None:
        names = {"output_name": onnx.output_name, "features_name": onnx.features_name}
        return append_to_onnx(fitted, onnx.append, **names, origin=origin)
    if onnx.dtype is not None:
        return to_onnx(fitted, dtype=onnx.dtype, origin=origin)
    return EXPORTERS[kind].make(fitted, origin=origin)

"""``smallcal apply``: a calibrator and logits in, probabilities out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smallcal.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from smallcal.runtime import FittedCalibrator


def apply(
    calibrator: options.Calibrator,
    data: options.Data,
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where to write; the suffix chooses the type."
        ),
    ],
    input: options.Input = None,
    with_temperature: Annotated[
        bool, typer.Option("--with-temperature", help="Also write each row's temperature.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Write calibrated probabilities; .npy to .npy streams, however large."""
    from smallcal import io, runtime
    from smallcal.cli import terminal
    from smallcal.errors import InputError

    fitted = runtime.load(calibrator)
    target = io.require_writable(output)
    if with_temperature and target.suffix.lower() == ".npy":
        raise InputError("--with-temperature: a .npy file holds one array; write to .npz or .csv")
    source = Path(data)
    # A control's scores depend on the whole batch, and features are in the same file: such
    # calibrators are not applied in pieces.
    in_pieces = fitted.signal.rowwise and not fitted.signal.needs
    if in_pieces and io.streamable(source, target):
        n = _stream(fitted, source, target, input or "logits")
    else:
        n = _whole(fitted, data, target, input, with_temperature)
    if as_json:
        terminal.show_json({"output": output, "n": n, "n_classes": fitted.n_classes})
    else:
        shape = f"{terminal.count(n, 'row')} of {fitted.n_classes:,} probabilities"
        terminal.say(f"Wrote {shape} to {output}.")


def _whole(
    fitted: FittedCalibrator, data: str, target: Path, input: str | None, with_temperature: bool
) -> int:
    import numpy as np

    from smallcal import io
    from smallcal.cli import inputs

    loaded = io.read(data, input=input)
    arrays: dict[str, NDArray[Any]] = {"probabilities": inputs.calibrated(fitted, loaded)}
    if with_temperature:
        arrays["temperature"] = fitted.temperature(loaded.logits, features=loaded.features)
    if loaded.labels is not None:
        arrays["labels"] = loaded.labels
    names = loaded.class_names or fitted.class_names
    if names is not None:
        arrays["class_names"] = np.array(names)
    io.write_arrays(target, arrays)
    return len(loaded.logits)


def _stream(fitted: FittedCalibrator, source: Path, target: Path, input: str) -> int:
    from smallcal import io
    from smallcal.cli import inputs, terminal

    inputs.require_same_input(fitted, input, str(source))
    rows = io.row_count(source)
    with terminal.progress("Applying", rows) as advance, inputs.naming(str(source)):
        io.map_rows(source, target, _row_map(fitted), advance=advance)
    return rows


def _row_map(fitted: FittedCalibrator) -> Callable[[NDArray[Any], int], NDArray[Any]]:
    from smallcal.data import as_scores, require_finite
    from smallcal.errors import InputError

    def transform(block: NDArray[Any], start: int) -> NDArray[Any]:
        if fitted.input == "logits":  # here, so that the message counts rows from the file's first
            require_finite(as_scores(block), name="logits", first_row=start)
        try:
            return fitted.predict_proba(block)
        except InputError as error:
            where = f" (counting from row {start} of the file)" if start else ""
            raise InputError(f"{error}{where}") from error

    return transform

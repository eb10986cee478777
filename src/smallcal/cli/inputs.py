"""Turn the files that were named into checked arrays, naming the file at fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from smallcal import io
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import terminal
from smallcal.data.predictions import FloatArray, IntArray, Predictions
from smallcal.data.special import softmax
from smallcal.errors import InputError
from smallcal.io import Loaded


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Put the name of the file in front of what is wrong with its arrays."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def load(
    data: str, *, labels: str | None = None, input: str | None = None, names: str | None = None
) -> Loaded:
    """Read a data file; class names may come from a file of their own."""
    loaded = io.read(data, labels=labels, input=input)
    return loaded if names is None else replace(loaded, class_names=io.read_names(names))


def in_pieces(data: str, fitted: FittedCalibrator | None) -> tuple[Path, str | None] | None:
    """Return file and split of data that can be read in pieces, or None.

    A control's scores depend on the whole batch, and features are in the same file: such
    calibrators are not applied in pieces.
    """
    file, prefix = io.split_path(data)
    rowwise = fitted is None or (fitted.signal.rowwise and not fitted.signal.needs)
    if not rowwise or not io.is_source(file) or (prefix and file.suffix.lower() == ".npy"):
        return None
    return file, prefix


def load_pair(
    cal_data: str, test_data: str | None, input: str | None, *, verb: str
) -> tuple[Loaded, Loaded]:
    """Read the samples to fit on and those to measure on, which may share a file."""
    if test_data is None:
        found = io.splits(cal_data)
        first = next((name for name in io.CALIBRATION_SPLITS if name in found), None)
        if first is None or "test" not in found:
            raise InputError(
                f"{cal_data} does not hold two splits (val or cal, and test); name the file to "
                f"test on: smallcal {verb} CAL_DATA TEST_DATA"
            )
        cal_data, test_data = f"{cal_data}:{first}", f"{cal_data}:test"
    elif test_data == cal_data:
        terminal.note("fitted and measured on the same samples: that flatters every method")
    cal, test = io.read(cal_data, input=input), io.read(test_data, input=input)
    if cal.input != test.input:
        raise InputError(
            f"{cal_data} holds {cal.input} and {test_data} holds {test.input}; use one kind"
        )
    return cal, test


def predictions(loaded: Loaded) -> Predictions:
    """Check logits and labels."""
    if loaded.labels is None:
        raise InputError(
            f"{loaded.source} has no labels; put an array called labels into it or name their "
            "file with --labels"
        )
    with naming(loaded.source):
        return Predictions.of(
            loaded.logits,
            loaded.labels,
            input=loaded.input,
            class_names=loaded.class_names,
            name=loaded.input,
        )


def probabilities(
    loaded: Loaded, calibrator: FittedCalibrator | None = None
) -> tuple[IntArray, FloatArray]:
    """Return checked labels and probabilities: calibrated, or the model's own."""
    checked = predictions(named(loaded, calibrator))
    if calibrator is not None:
        return checked.labels, calibrated(calibrator, loaded)
    return checked.labels, softmax(checked.logits)


def named(loaded: Loaded, calibrator: FittedCalibrator | None) -> Loaded:
    """Let labels be names that the calibrator knows, where the file names no classes."""
    if calibrator is None or loaded.class_names is not None:
        return loaded
    return replace(loaded, class_names=calibrator.class_names)


def calibrated(calibrator: FittedCalibrator, loaded: Loaded) -> FloatArray:
    """Apply a calibrator to a file's scores."""
    require_same_input(calibrator, loaded.input, loaded.source)
    with naming(loaded.source):
        return calibrator.predict_proba(loaded.logits, features=loaded.features)


def require_same_input(calibrator: FittedCalibrator, input: str, source: str) -> None:
    """Raise when a calibrator of logits meets probabilities, or the reverse."""
    if calibrator.input != input:
        raise InputError(
            f"{source} holds {input}, but this calibrator was fitted on {calibrator.input}; "
            f"say --input {calibrator.input} if the file's names are wrong"
        )

"""Turn what was typed into checked arrays and options, naming the file or option at fault."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from smallcal.errors import InputError

if TYPE_CHECKING:
    from smallcal.calibrators.fitted import FittedCalibrator
    from smallcal.data.predictions import FloatArray, IntArray, Predictions
    from smallcal.io import Loaded

#: Options that have a flag of their own.
_OWN_FLAGS = {"input": "--input", "class_names": "--class-names", "random_state": "--seed"}


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
    from dataclasses import replace

    from smallcal import io

    loaded = io.read(data, labels=labels, input=input)
    return loaded if names is None else replace(loaded, class_names=io.read_names(names))


def predictions(loaded: Loaded) -> Predictions:
    """Check logits and labels."""
    from smallcal.data.predictions import Predictions

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
    from dataclasses import replace

    from scipy.special import softmax

    if calibrator is not None and loaded.class_names is None:
        loaded = replace(loaded, class_names=calibrator.class_names)
    checked = predictions(loaded)
    if calibrator is not None:
        return checked.labels, calibrated(calibrator, loaded)
    return checked.labels, softmax(checked.logits, axis=1)


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


def metric_names(text: str | None, default: Sequence[str]) -> list[str]:
    """Return the metrics that were asked for, each known."""
    from smallcal.metrics import METRICS

    return _listed(text, METRICS, "metric") if text is not None else list(default)


def method_names(text: str) -> list[str]:
    """Return the methods that were asked for, each known; "all" is every one."""
    from smallcal.calibrators.catalogue import ALIASES, METHODS

    return list(METHODS) if text == "all" else _listed(text, {**METHODS, **ALIASES}, "method")


def _listed(text: str, known: Mapping[str, object], what: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InputError(f"--{what}s names none; choose from {', '.join(known)}")
    for name in names:
        if name not in known:
            raise InputError(f"unknown {what} {name!r}; choose from {', '.join(known)}")
    return names


def method_options(method: str, settings: Sequence[str]) -> dict[str, Any]:
    """Parse ``--set name=value`` pairs against the options the method has.

    Examples
    --------
    >>> method_options("srts-bce", ["n_groups=5", "bounds=0.1,10"])
    {'n_groups': 5, 'bounds': (0.1, 10)}
    """
    from smallcal.calibrators.catalogue import method as row

    known = row(method).known_options()
    del known["seed"]
    if row(method).map == "identity":
        known = {}
    options: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if not equals or not text.strip():
            raise InputError(f"--set needs name=value; got {setting!r}")
        if name in _OWN_FLAGS:
            raise InputError(f"--set {name}: use {_OWN_FLAGS[name]}")
        if name not in known:
            choices = ", ".join(sorted(known)) or "none"
            raise InputError(f"--set {name}: {method} has no such option; it has {choices}")
        options[name] = _typed(name, text.strip(), known[name])
    return options


def _typed(name: str, text: str, default: object) -> Any:
    """Read an option's text as the type of its default."""
    if isinstance(default, str):
        return text
    if default is None:
        return _literal(text)
    if isinstance(default, tuple):
        return tuple(_literal(part.strip()) for part in text.strip("[]()").split(","))
    value = _literal(text)
    whole = isinstance(default, int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        must = "a whole number" if whole else "a number"
        raise InputError(f"--set {name} must be {must}; got {text!r}")
    return value


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

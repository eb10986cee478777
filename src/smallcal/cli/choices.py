"""Turn what was typed into names of methods and metrics, and into options of a method."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from smallcal.calibrators.catalogue import METHODS, settable_options
from smallcal.calibrators.catalogue import method as row
from smallcal.errors import InputError, choose
from smallcal.metrics.table import chosen_metrics

#: Options that have a flag of their own.
_OWN_FLAGS = {
    "input": "--input",
    "class_names": "--class-names",
    "random_state": "--seed",
    "seed": "--seed",
    "keep_predictions": "--keep-predictions",
}


def metric_names(text: str | None, default: Sequence[str]) -> list[str]:
    """Return the metrics that were asked for, each known."""
    if text is None:
        return list(default)
    names = list(words(text, "--metrics"))
    chosen_metrics(names)
    return names


def method_names(text: str) -> list[str]:
    """Return the methods that were asked for, each known; "all" is every one."""
    if text == "all":
        return list(METHODS)
    names = list(words(text, "--methods"))
    for name in names:
        row(name)
    return names


def words(text: str, option: str) -> tuple[str, ...]:
    """Return what stands between the commas of an option, each once; nothing is an error.

    Examples
    --------
    >>> words("a, b,a", "--methods")
    ('a', 'b')
    """
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise InputError(f"{option} names none; got {text!r}", code="empty")
    return found


def shares(texts: Sequence[str], option: str) -> list[float]:
    """Return shares that were typed as percentages or fractions, each once.

    Examples
    --------
    >>> shares(["2%", "0.5 %, 0.02"], "--risk")
    [0.02, 0.005]
    """
    found: dict[float, None] = {}
    for text in (word for given in texts for word in words(given, option)):
        bare = text.removesuffix("%")
        try:
            share = float(bare) / (1 if bare == text else 100)
        except ValueError:
            share = math.nan
        if not math.isfinite(share):
            raise InputError(
                f"{option} takes a share such as 2% or 0.02; got {text!r}", code="option-format"
            )
        found[float(f"{share:.12g}")] = None  # 7% is 0.07, not 0.07 and a bit
    return list(found)


def share(text: str, option: str) -> float:
    """Return the one share that was typed.

    Examples
    --------
    >>> share("95%", "--confidence")
    0.95
    """
    found = shares([text], option)
    if len(found) > 1:
        raise InputError(f"{option} takes one share; got {text!r}", code="option-format")
    return found[0]


def method_options(method: str, settings: Sequence[str]) -> dict[str, Any]:
    """Parse ``--set name=value`` pairs against the options the method has.

    Examples
    --------
    >>> method_options("srts-bce", ["n_groups=5", "bounds=0.1,10"])
    {'n_groups': 5, 'bounds': (0.1, 10)}
    """
    known = settable_options(method)
    options: dict[str, Any] = {}
    for name, text in pairs(settings):
        if name in _OWN_FLAGS:
            raise InputError(f"--set {name}: use {_OWN_FLAGS[name]}", code="options-conflict")
        if name not in known:
            advice = choose(name, sorted(known)) if known else "it has none"
            raise InputError(
                f"--set {name}: {method} has no such option; {advice}", code="unknown-choice"
            )
        options[name] = typed(name, text, known[name])
    return options


def pairs(settings: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the names and the texts of ``--set``."""
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise InputError(f"--set needs name=value; got {setting!r}", code="option-format")
        yield name.strip(), text.strip()


def typed(name: str, text: str, default: object) -> Any:
    """Read an option's text as the type of its default."""
    if isinstance(default, str):
        return text
    if default is None:
        return _literal(text)
    if isinstance(default, tuple):
        return tuple(_literal(part.strip()) for part in text.strip("[]()").split(","))
    value = _literal(text)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise InputError(
                f"--set {name} must be true or false; got {text!r}", code="option-format"
            )
        return value
    whole = isinstance(default, int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        must = "a whole number" if whole else "a number"
        raise InputError(f"--set {name} must be {must}; got {text!r}", code="option-format")
    return value


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text

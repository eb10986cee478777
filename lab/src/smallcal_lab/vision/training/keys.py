"""Sections of a recipe as dataclasses: what a key may hold is said where the key is."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, field, fields
from typing import Any, TypeVar, get_type_hints

from smallcal.errors import FileError, choose

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Section = TypeVar("Section")

#: What types are called in errors.
_WORDS = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "a list of numbers",
    dict: "a table",
}
#: No number of a recipe is larger: it fits a random generator's seed.
MOST = 2**32 - 1


def key(
    default: Any = MISSING,
    *,
    least: float = -math.inf,
    most: float = MOST,
    above: float = -math.inf,
    below: float = math.inf,
    one_of: Sequence[str] = (),
) -> Any:
    """Return a field of a section, with what its values must be."""
    rules = {"least": least, "most": most, "above": above, "below": below, "one_of": one_of}
    return field(default=default, metadata=rules)


def section_of(kind: type[Section], given: object, *, where: str) -> Section:
    """Return a section of a recipe from its table.

    Raises
    ------
    FileError
        If a key is missing, unknown, of another type or out of range; it names the key.
    """
    if not isinstance(given, Mapping):
        raise FileError(f"{where} must be a table of keys")
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    types = get_type_hints(kind)
    for name in given:
        if name not in known:
            raise FileError(f"{where} has no key {name!r}; {choose(str(name), known)}")
    for name, one in known.items():
        needed = one.default is MISSING and one.default_factory is MISSING
        if needed and name not in given:
            raise FileError(f"{where} lacks the key {name}")
    checked = {
        name: _value(value, types[name], known[name].metadata, where=f"{where} {name}")
        for name, value in given.items()
    }
    return kind(**checked)


def _value(given: Any, kind: Any, rules: Mapping[str, Any], *, where: str) -> Any:
    plain = getattr(kind, "__origin__", kind)
    if plain is tuple:
        if not isinstance(given, list | tuple):
            raise FileError(f"{where} must be {_WORDS[tuple]}; got {given!r}")
        inner = kind.__args__[0]
        return tuple(_value(one, inner, rules, where=where) for one in given)
    if plain is float and type(given) is int:
        given = float(given) if abs(given) <= MOST else given
    if type(given) is not plain:
        raise FileError(f"{where} must be {_WORDS[plain]}; got {given!r}")
    if plain is dict:
        _require_plain(given, where=where)
    if plain in (int, float):
        _require_range(given, rules, where=where)
    if rules["one_of"] and given not in rules["one_of"]:
        raise FileError(f"{where} is {given!r}; {choose(given, rules['one_of'])}")
    return given


def _require_range(number: float, rules: Mapping[str, Any], *, where: str) -> None:
    most = rules["most"]
    tests = {
        "finite": math.isfinite(number),
        f"at least {rules['least']:g}": number >= rules["least"],
        f"above {rules['above']:g}": number > rules["above"],
        f"below {rules['below']:g}": number < rules["below"],
        f"at most {most:,}": number <= most,
    }
    for words, holds in tests.items():
        if not holds:
            raise FileError(f"{where} must be {words}; got {number!r}")


def _require_plain(given: Any, *, where: str) -> None:
    """Raise for dates and the like, which no checkpoint could hold."""
    if isinstance(given, Mapping):
        for name, value in given.items():
            _require_plain(value, where=f"{where}.{name}")
    elif isinstance(given, list | tuple):
        for value in given:
            _require_plain(value, where=where)
    elif type(given) not in (str, bool, int, float):
        raise FileError(f"{where} must be a text, a number, a list or a table; got {given!r}")


def value_of(text: str) -> Any:
    """Return what a text is as a value of TOML; one that is none stands for itself.

    Examples
    --------
    >>> value_of("1e-4"), value_of("[30, 60]"), value_of("timm:resnet18"), value_of("true")
    (0.0001, [30, 60], 'timm:resnet18', True)
    """
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return found["value"] if len(found) == 1 else text

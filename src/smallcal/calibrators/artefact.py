"""Saved calibrators: versioned JSON, checked against the published schema before it is used.

``calibrator-v3.json`` says what a document holds; each signal and map adds its own form. The same
schema is published (``docs/reference/calibrator-v3.json``) and checked against here, through a
small validator for the part of JSON Schema it uses, so the two cannot drift apart.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Any

from smallcal.calibrators import plugins
from smallcal.calibrators.class_frequencies import ClassFrequencies
from smallcal.calibrators.confidence_shift import ConfidenceShift
from smallcal.calibrators.decision import Threshold
from smallcal.calibrators.group_effects import GroupEffects
from smallcal.calibrators.maps import FittedMap
from smallcal.calibrators.prediction_set import PredictionSet
from smallcal.calibrators.signals import FittedSignal
from smallcal.errors import ArtefactError
from smallcal.io.atomic import atomic_path
from smallcal.io.documents import parse_document, read_document, shown

FORMAT = "smallcal-calibrator"
VERSION = 3

#: What version 1 does not say, and means.
_SINCE_1 = {"keep_predictions": False}
#: What earlier versions may hold, and this one does not: parts of an older default.
_UNTIL_2 = ("correction", "tail_temperature")
_OPTIONS_UNTIL_2 = ("correction", "tail", "gate", "scales")

#: A calibrator of a thousand classes is a few kilobytes; anything this large is not one.
MAX_BYTES = 64 * 1024 * 1024

#: The largest number in an artefact: products of a few of them, and of logits, stay finite.
MAX_NUMBER = 1e30

#: The largest whole number in the place of a float: an array takes no longer ones.
MAX_WHOLE = 2**63 - 1

#: The parts that are known, by what holds them in a document.
_KINDS: dict[str, dict[str, Any]] = {
    "signal": FittedSignal.kinds,
    "map": FittedMap.kinds,
    "groups": GroupEffects.kinds,
    "later": {each.kind: each for each in (ClassFrequencies, ConfidenceShift)},
    "decision": {each.kind: each for each in (Threshold, PredictionSet)},
}

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the current version, with every part that is known.

    Examples
    --------
    >>> schema()["title"]
    'smallcal calibrator, version 3'
    """
    text = files("smallcal.calibrators").joinpath(f"calibrator-v{VERSION}.json").read_text("utf-8")
    document: dict[str, Any] = json.loads(text)
    for axis, kinds in _KINDS.items():
        known = (part for part in kinds.values() if part.saved)
        document["$defs"][axis]["oneOf"] = [part.json_schema() for part in known]
    return document


@cache
def _rules(n_parts: int) -> dict[str, Any]:
    """Return the schema, made anew when a package has brought a part of its own."""
    return schema()


def _known() -> dict[str, Any]:
    return _rules(sum(map(len, _KINDS.values())))


def write(document: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Check a document and write it, whole or not at all."""
    validate(document, source="this calibrator")
    text = text_of(document)
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def text_of(document: dict[str, Any]) -> str:
    r"""Return a document as the text of its file.

    Examples
    --------
    >>> text_of({"version": 1})
    '{\n  "version": 1\n}\n'
    """
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read and check a saved calibrator.

    Raises
    ------
    ArtefactError
        If the file is missing, too large, not JSON, of an unknown version, or holds anything
        the schema does not allow.
    """
    found = read_document(path, most=MAX_BYTES, what="calibrator", wrote="smallcal fit -o")
    return checked(found, source=str(path))


def parse(text: str, *, source: str) -> dict[str, Any]:
    """Parse and check the text of a saved calibrator; ``source`` is named in errors."""
    return checked(parse_document(text, source=source), source=source)


def checked(document: Any, *, source: str) -> dict[str, Any]:
    """Return a parsed document as one of this version that the schema allows."""
    found: dict[str, Any] = upgraded(document, source=source)
    validate(found, source=source)
    return found


def upgraded(document: Any, *, source: str) -> Any:
    """Return a document of an earlier version as one of this version; others as they are.

    Raises
    ------
    ArtefactError
        If it has a class correction or a tail temperature, which this version does not have.

    Examples
    --------
    >>> upgraded({"version": 1}, source="cal.json")
    {'keep_predictions': False, 'version': 3}
    """
    version = document.get("version") if isinstance(document, dict) else None
    if version not in (1, 2) or isinstance(version, bool):
        return document
    if any(document.get(name) is not None for name in _UNTIL_2):
        raise ArtefactError(
            f"{source} was fitted by an older default of smallcal, which this version does not "
            "have; fit again: smallcal fit DATA -o NEW.json",
            code="artefact-outdated",
        )
    kept = {name: value for name, value in document.items() if name not in _UNTIL_2}
    if isinstance(kept.get("options"), dict):
        chosen = kept["options"].items()
        kept["options"] = {name: value for name, value in chosen if name not in _OPTIONS_UNTIL_2}
    return {**_SINCE_1, **kept, "version": VERSION}


def validate(document: object, *, source: str) -> None:
    """Raise :class:`ArtefactError` unless the document is a calibrator of a known version."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ArtefactError(
            f"{source} is not a smallcal calibrator (no format {FORMAT!r})", code="artefact-damaged"
        )
    version = document.get("version")
    if version != VERSION or isinstance(version, bool):
        raise ArtefactError(
            f"{source} has artefact version {shown(version)}; this smallcal reads 1 to {VERSION}. "
            "Install the release that wrote it, or fit again",
            code="artefact-version",
        )
    for axis, kinds in _KINDS.items():
        part = document.get(axis)
        kind = part.get("kind") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind not in kinds:
            plugins.methods()  # a package that offers methods may bring it
    wrong = problem(document, _known())
    if wrong:
        raise ArtefactError(f"{source} is not a valid calibrator: {wrong}", code="artefact-damaged")


def problem(value: object, rule: dict[str, Any], where: str = "") -> str:
    """Return what is wrong with a value by a rule that may use the schema's definitions, or "".

    ``where`` is the value's place in the document.

    Examples
    --------
    >>> problem({"n": -1}, {"type": "object", "properties": {"n": {"$ref": "#/$defs/count"}}})
    'n must lie in [0, 1000000000000], got -1'
    """
    rule = _resolved(rule)
    if "oneOf" in rule:
        return _choice_problem(value, rule["oneOf"], where)
    types = _types(rule)
    if not _has_type(value, types):
        return f"{where or 'document'} must be {rule['type']}, got {shown(value)}"
    if "const" in rule and value != rule["const"]:
        return f"{where} must be {rule['const']!r}, got {shown(value)}"
    if "enum" in rule and value not in rule["enum"]:
        return f"{where} must be one of {rule['enum']}, got {shown(value)}"
    if isinstance(value, dict):
        return _object_problem(value, rule, where)
    if isinstance(value, list):
        return _array_problem(value, rule, where)
    return _scalar_problem(value, rule, where)


def _resolved(rule: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference into the schema's definitions."""
    if "$ref" not in rule:
        return rule
    definition: dict[str, Any] = _known()["$defs"][rule["$ref"].rsplit("/", 1)[1]]
    return definition


def _choice_problem(value: object, choices: list[dict[str, Any]], where: str) -> str:
    """Pick the alternative by its ``kind`` (parts) or by its type (null or something)."""
    choices = [_resolved(rule) for rule in choices]
    if isinstance(value, dict) and "kind" in choices[0].get("properties", {}):
        kinds = {rule["properties"]["kind"]["const"]: rule for rule in choices}
        kind = value.get("kind")
        if not isinstance(kind, str) or kind not in kinds:
            return f"{where}.kind must be one of {sorted(kinds)}, got {shown(kind)}"
        return problem(value, kinds[kind], where)
    problems = [problem(value, rule, where) for rule in choices]
    return "" if "" in problems else problems[-1]


def _object_problem(value: dict[str, Any], rule: dict[str, Any], where: str) -> str:
    properties = rule.get("properties", {})
    missing = [key for key in rule.get("required", []) if key not in value]
    if missing:
        return f"{where or 'document'} lacks {', '.join(missing)}"
    extra = rule.get("additionalProperties", True)
    for key, entry in value.items():
        inner = properties.get(key, extra)
        if inner is False:
            return f"{where or 'document'} has an unknown field {shown(key)}"
        if wrong := _text_problem(key, f"the name {shown(key)} in {where or 'document'}"):
            return wrong
        wrong = problem(entry, {} if inner is True else inner, f"{where}.{key}".lstrip("."))
        if wrong:
            return wrong
    return ""


def _array_problem(value: list[Any], rule: dict[str, Any], where: str) -> str:
    if len(value) < rule.get("minItems", 0):
        return f"{where} must have at least {rule['minItems']} entries, got {len(value)}"
    if len(value) > rule.get("maxItems", math.inf):
        return f"{where} must have at most {rule['maxItems']} entries, got {len(value)}"
    if rule.get("uniqueItems") and len(set(map(repr, value))) < len(value):
        twice = Counter(map(repr, value)).most_common(1)[0][0]
        return f"{where} must be different from one another; {twice} repeats"
    items = _resolved(rule.get("items", {}))
    if _all_alike(value, items):
        return ""
    problems = (problem(v, items, f"{where}[{i}]") for i, v in enumerate(value))
    return next(filter(None, problems), "")


def _all_alike(value: list[Any], rule: dict[str, Any]) -> bool:
    """Whether these are numbers that the rule allows: of a matrix, each is not looked at alone."""
    kinds = set(map(type, value))
    if kinds not in ({int}, {float}) or not _has_type(value[0], _types(rule)):
        return False
    finite = kinds == {int} or all(map(math.isfinite, value))
    ends = (min(value), max(value))
    return finite and "enum" not in rule and not any(_scalar_problem(one, rule, "") for one in ends)


def _scalar_problem(value: object, rule: dict[str, Any], where: str) -> str:
    if isinstance(value, str):
        return _text_problem(value, where)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return ""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{where} must be finite, got {value}"
    if value <= rule.get("exclusiveMinimum", -math.inf):
        return f"{where} must be above {rule['exclusiveMinimum']}, got {shown(value)}"
    if value < rule.get("minimum", -math.inf) or value > rule.get("maximum", math.inf):
        low, high = rule.get("minimum", "-inf"), rule.get("maximum", "inf")
        return f"{where} must lie in [{low}, {high}], got {shown(value)}"
    if abs(value) > MAX_NUMBER:
        return f"{where} must be at most {MAX_NUMBER:g} in size, got {shown(value)}"
    if isinstance(value, int) and abs(value) > MAX_WHOLE and "integer" not in _types(rule):
        return f"{where} is too long for a whole number; write {float(value):g}"
    return ""


def _text_problem(text: str, where: str) -> str:
    """Say that a text cannot be written anywhere, where it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as broken:
        return f"{where} holds {text[broken.start]!a}, which is half of a character"
    return ""


def _types(rule: dict[str, Any]) -> list[str]:
    types = rule.get("type", [])
    return [types] if isinstance(types, str) else types


def _has_type(value: object, types: list[str]) -> bool:
    if not types:
        return True
    if isinstance(value, bool):  # Python counts booleans as integers; JSON does not
        return "boolean" in types
    return any(isinstance(value, _TYPES[name]) for name in types)

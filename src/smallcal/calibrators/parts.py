"""What a fitted part owns: its name in files, its JSON form, its words.

A signal scores a row, a map turns logits and score into probabilities. Each is a frozen dataclass
whose fields are plain data, and whatever smallcal does with a part it asks of the part itself:
a new one is one file, here or in another package.
"""

from __future__ import annotations

import inspect
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from smallcal.errors import InputError

#: A JSON Schema.
Rule = Mapping[str, Any]

AnyPart = TypeVar("AnyPart", bound="Part")


def rule(name: str, description: str = "", **limits: Any) -> Rule:
    """Return a rule of the artefact's schema by its name there, or a list of such.

    Examples
    --------
    >>> rule("temperature")
    {'$ref': '#/$defs/temperature'}
    """
    said = {"description": description} if description else {}
    return {"$ref": f"#/$defs/{name}", **said, **limits}


def list_of(items: Rule, description: str = "", *, least: int = 0, most: int | None = None) -> Rule:
    """Return the rule of a list.

    Examples
    --------
    >>> list_of(rule("number"), least=1)
    {'type': 'array', 'items': {'$ref': '#/$defs/number'}, 'minItems': 1}
    """
    said = {"minItems": least, "maxItems": most, "description": description}
    return {"type": "array", "items": items} | {name: it for name, it in said.items() if it}


#: A spread below this is none: what is divided by it must stay finite.
_LEAST_SCALE = 1e-100


def require_scale(least: float) -> None:
    """Raise unless the smallest spread can be divided by."""
    if not least > 0:
        raise InputError(f"scale must be positive; got {least}", code="option-range")
    if least < _LEAST_SCALE:
        raise InputError(
            f"scale must be at least {_LEAST_SCALE:g}; got {least:g}", code="option-range"
        )


class Scores(NamedTuple):
    """What a signal gives a map for each row: none, one or several numbers.

    Attributes
    ----------
    n : int
        How many.
    columns : bool
        Whether they come as columns, shape (m, n), or as one number per row, shape (m,).
    classed : bool
        Whether one more column says which class is predicted.

    Examples
    --------
    >>> str(Scores(6, classed=True)), str(Scores(1)), str(ONE_SCORE)
    ('6 scores and the predicted class', '1 column of scores', '1 score')
    """

    n: int
    columns: bool = True
    classed: bool = False

    def __str__(self) -> str:
        number = f"{self.n or 'no'} scores"
        if self.n == 1:
            number = "1 column of scores" if self.columns else "1 score"
        return f"{number} and the predicted class" if self.classed else number


NO_SCORES = Scores(0, columns=False)
ONE_SCORE = Scores(1, columns=False)


class Part(ABC):
    """A fitted signal or map.

    Attributes
    ----------
    kind : str
        Its name in artefacts; subclasses with a kind are found by it.
    schema : dict
        JSON Schema of each field.
    words : str
        What it does, for people; each base class says how the words are used.
    saved : bool
        Whether artefacts may hold it.
    kinds : dict
        Every part of its sort, by kind.
    """

    kind: ClassVar[str]
    schema: ClassVar[Mapping[str, Rule]] = {}
    words: ClassVar[str] = ""
    saved: ClassVar[bool] = True
    kinds: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" not in cls.__dict__:
            return
        other = cls.kinds.setdefault(cls.kind, cls)
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"the kind {cls.kind!r} belongs to {other.__module__}: choose another")
        cls.kinds[cls.kind] = cls

    def to_dict(self) -> dict[str, Any]:
        """Return its kind and its fields, ready for JSON."""
        return {"kind": self.kind, **plain_fields(self)}

    @classmethod
    def from_dict(cls: type[AnyPart], document: Mapping[str, Any]) -> AnyPart:
        """Rebuild a part of this sort from a document that the schema allows."""
        given = {name: frozen(value) for name, value in document.items() if name != "kind"}
        for name, value in given.items():
            if isinstance(value, dict):  # a part inside a part
                given[name] = cls.from_dict(value)
        part: AnyPart = cls.kinds[document["kind"]](**given)
        return part

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema of a part of this kind."""
        properties = {"kind": {"type": "string", "const": cls.kind}, **cls.schema}
        return {
            "type": "object",
            "required": list(properties),
            "additionalProperties": False,
            "properties": properties,
        }


def plain(value: Any) -> Any:
    """Turn parts and other dataclasses, arrays and tuples into what JSON knows."""
    if isinstance(value, Part) or (is_dataclass(value) and hasattr(value, "to_dict")):
        return value.to_dict()
    if is_dataclass(value):
        return plain_fields(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, tuple | list) else value


def plain_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass in their order, as plain data."""
    return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}


def frozen(value: Any) -> Any:
    """Turn lists and arrays, also those inside objects, into the tuples that frozen parts hold."""
    if isinstance(value, dict):
        return {name: frozen(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list):
        return value
    nested = {list, dict} & set(map(type, value))  # a matrix is a million numbers
    return tuple(map(frozen, value)) if nested else tuple(value)


def keyword_defaults(function: Callable[..., object]) -> dict[str, Any]:
    """Return the keyword-only arguments of a function with their defaults: a part's options.

    Examples
    --------
    >>> keyword_defaults(lambda split, *, n_groups=3: None)
    {'n_groups': 3}
    """
    found = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in found if each.kind is each.KEYWORD_ONLY}

"""What a string says about a model: its kind, its name, its options."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smallcal.errors import InputError

#: What options begin with that are about the images and not about the network.
INPUT = "input."

#: The kind of networks that a user's own code makes, and the option by which a checkpoint's user
#: says which code that is: none is imported that only a file names.
CODE = "torch"

#: How weights are given by hand, in Python and on the command line.
BY_HAND = ("pass the weights as checkpoint=FILE", "give the weights by --checkpoint FILE")

_WORDS = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class Order:
    """A model that was asked for.

    ``place`` stands between kind and options: a name, a file, a factory. ``options`` are keywords
    of the network; ``input`` has fields of an ``InputSpec`` that shall be other than its own.
    """

    source: str
    place: str
    options: dict[str, Any] = field(default_factory=dict)
    input: dict[str, Any] = field(default_factory=dict)
    classes: int | None = None
    pretrained: bool = True
    checkpoint: Path | None = None

    @property
    def name(self) -> str:
        """The place, fit for the name of a file."""
        last = re.split(r"[/\\:]", self.place.rstrip("/\\"))[-1]
        return re.sub(r"[^\w.-]+", "-", last).strip(".-") or "model"


def split_source(source: str) -> tuple[str, str, dict[str, Any]]:
    """Return kind, place and options of ``KIND:PLACE?option=value&...``.

    Examples
    --------
    >>> split_source("timm:vit_tiny_patch16_224?img_size=32&class_token=false&act_layer=gelu")
    ('timm', 'vit_tiny_patch16_224', {'img_size': 32, 'class_token': False, 'act_layer': 'gelu'})
    """
    kind, _, rest = str(source).partition(":")
    place, _, query = rest.partition("?")
    options: dict[str, Any] = {}
    for one in filter(None, query.split("&")):
        name, equals, text = one.partition("=")
        if not name or not equals:
            raise InputError(f"{source}: options are written ?name=value&name=value; got {one!r}")
        if name in options:
            raise InputError(f"{source}: the option {name!r} is given twice")
        options[name] = _value(text)
    return kind, place, options


def _value(text: str) -> Any:
    """Return a truth value, a number, a list of numbers, or the text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    with suppress(ValueError, SyntaxError):
        found = ast.literal_eval(text)
        if isinstance(found, int | float):
            return found
        if isinstance(found, tuple) and all(isinstance(one, int | float) for one in found):
            return list(found)
    return text


def checkpoint_of(file: str | Path, source: str) -> str:
    """Return the string that opens a checkpoint of a network, whose code is named if it needs any.

    Examples
    --------
    >>> checkpoint_of("last.pt", "torch:nets:small?width=4")
    'checkpoint:last.pt?torch=nets:small'
    """
    kind, place, options = split_source(source)
    code = place if kind == CODE else options.get(CODE, "")
    return f"checkpoint:{file}" + (f"?{CODE}={code}" if code else "")

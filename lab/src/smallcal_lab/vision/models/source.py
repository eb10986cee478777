"""What a string says about a model: its kind, its name, its options."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from smallcal.errors import InputError, choose
from smallcal_lab.vision.models.model import InputSpec
from smallcal_lab.vision.models.preprocess import resampling

#: What options begin with that are about the images and not about the network.
INPUT = "input."

#: The kind of networks that a user's own code makes, and the option by which a checkpoint's user
#: says which code that is: none is imported that only a file names.
CODE = "torch"

#: Pixels of a side; a slip of the keyboard must not fill the memory.
_LARGEST = 8192

_WORDS = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class Order:
    """A model that was asked for.

    ``place`` stands between kind and options: a name, a file, a factory. ``options`` are keywords
    of the network; ``input`` has fields of :class:`InputSpec` that shall be other than its own.
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


def changed(spec: InputSpec, changes: Mapping[str, Any]) -> InputSpec:
    """Return an input with other fields; one number stands for all sides or colours.

    Examples
    --------
    >>> changed(InputSpec((224, 224)), {"size": 32, "mean": 0.5}).mean
    (0.5, 0.5, 0.5)
    """
    known = [one.name for one in fields(InputSpec)]
    values: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in known:
            raise InputError(f"the input of a model has no {name!r}; {choose(name, known)}")
        if name == "interpolation":
            values[name] = resampling(value).name.lower()
            continue
        row = _row(name, value)
        if row is None:
            raise InputError(f"the input's {name} cannot be {value!r}")
        values[name] = row[0] if name in ("crop", "squash") else row
    return replace(spec, **values)


def _row(name: str, value: Any) -> tuple[Any, ...] | None:
    """Return the numbers of a field, or None if it cannot have these."""
    if name == "squash":
        return (value,) if isinstance(value, bool) else None
    row = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not all(type(one) in (int, float) and math.isfinite(one) for one in row):
        return None
    length = {"crop": 1, "size": 2}.get(name, 3)
    row = row * length if len(row) == 1 else row
    fits = {
        "size": all(1 <= one <= _LARGEST and one % 1 == 0 for one in row),
        "crop": min(row, default=0) > 0 and max(row) <= 1,
        "std": min(row, default=0) > 0,
    }
    if len(row) != length or not fits.get(name, True):
        return None
    return tuple(int(one) if name == "size" else float(one) for one in row)


def spec_of(content: object, source: str) -> InputSpec:
    """Return the input that a mapping describes."""
    if isinstance(content, InputSpec):
        return content
    if not isinstance(content, Mapping) or "size" not in content:
        raise InputError(
            f"{source}: the model's input must be an InputSpec or a dict with its size; "
            f"got {content!r:.100}"
        )
    try:
        return changed(InputSpec((1, 1)), content)
    except InputError as error:
        raise error.about(source) from None

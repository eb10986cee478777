"""What a string says about a model: its kind, its name, its options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
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

#: Numbers that can be: pixels, shares, colours.
_FITS: dict[str, Callable[[float], bool]] = {
    "size": lambda side: 1 <= side <= _LARGEST and side % 1 == 0,
    "crop": lambda share: 0 < share <= 1,
    "mean": math.isfinite,
    "std": lambda scale: math.isfinite(scale) and scale > 0,
}


@dataclass(frozen=True)
class Order:
    """A model that was asked for.

    Attributes
    ----------
    source : str
        As it was written.
    place : str
        What stands behind the kind and before the options: a name, a file, a factory.
    options : dict
        Keyword arguments of the network.
    input : dict
        Fields of the :class:`InputSpec` that shall be other than the model's own.
    classes : int, or None
        Columns of a new last layer.
    pretrained : bool
    checkpoint : Path, or None
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


def checkpoint_of(file: str | Path, source: str) -> str:
    """Return the string that opens a checkpoint of a network, whose code is named if it needs any.

    Examples
    --------
    >>> checkpoint_of("last.pt", "timm:vit_tiny_patch16_224?img_size=32")
    'checkpoint:last.pt'
    >>> checkpoint_of("last.pt", "torch:nets:small?width=4")
    'checkpoint:last.pt?torch=nets:small'
    """
    kind, place, options = split_source(source)
    code = place if kind == CODE else options.get(CODE, "")
    return f"checkpoint:{file}" + (f"?{CODE}={code}" if code else "")


def _value(text: str) -> Any:
    """Return a number, a truth value, a list of numbers, or the text."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    parts = text.split(",")
    try:
        return [float(part) if "." in part or "e" in part else int(part) for part in parts]
    except ValueError:
        return text


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the network, and those of its input without ``input.``.

    Examples
    --------
    >>> split_options({"depth": 4, "input.size": 32})
    ({'depth': 4}, {'size': 32})
    """
    network = {name: value for name, value in options.items() if not name.startswith(INPUT)}
    seen = {name[len(INPUT) :]: options[name] for name in options if name.startswith(INPUT)}
    return network, seen


def changed(spec: InputSpec, changes: Mapping[str, Any]) -> InputSpec:
    """Return an input with other fields; one number stands for all sides or colours.

    Examples
    --------
    >>> changed(InputSpec((224, 224)), {"size": 32, "mean": 0.5}).mean
    (0.5, 0.5, 0.5)
    """
    known = [one.name for one in fields(InputSpec)]
    values = {}
    for name, value in changes.items():
        if name not in known:
            raise InputError(f"the input of a model has no {name!r}; {choose(name, known)}")
        values[name] = _field(name, value)
    return replace(spec, **values)


def _field(name: str, value: Any) -> Any:
    """Return a field's value as it is kept."""
    wrong = InputError(f"the input's {name} cannot be {value!r}")
    if name == "interpolation":
        return resampling(value).name.lower()
    if name == "squash":
        if not isinstance(value, bool):
            raise wrong
        return value
    row = tuple(value) if isinstance(value, list | tuple) else (value,)
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in row):
        raise wrong
    length = {"crop": 1, "size": 2}.get(name, 3)
    row = row * length if len(row) == 1 else row
    if len(row) != length or not all(map(_FITS[name], row)):
        raise wrong
    if name == "crop":
        return float(row[0])
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

"""A model of images: what a string says of it, how images are prepared, what goes out."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from smallcal.data.shown import one_line
from smallcal.deploy.adapters.torch_batches import device_of
from smallcal.errors import InputError, choose

#: What options begin with that are about the images and not about the network.
INPUT = "input."

#: The kind of networks that a user's own code makes, and the option by which a checkpoint's user
#: says which code that is: none is imported that only a file names.
CODE = "torch"

#: How weights are given by hand, in Python and on the command line.
BY_HAND = ("pass the weights as checkpoint=FILE", "give the weights by --checkpoint FILE")

_WORDS = ("true", "false", "none")

#: Numbers of an input: how many, their least and their most. A slip of the keyboard must not fill
#: the memory.
_NUMBERS = {
    "size": (2, 1, 8192),
    "mean": (3, -math.inf, math.inf),
    "std": (3, 1e-12, math.inf),
    "crop": (1, 1e-12, 1),
}


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
        if not name or not equals or name in options:
            what = "options are written ?name=value&name=value, each once"
            raise InputError(f"{source}: {what}; got {one!r}")
        options[name] = _value(text)
    return kind, place, options


def _value(text: str) -> Any:
    """Return a truth value, a number, a list of numbers, or the text."""
    with suppress(ValueError, SyntaxError):
        found = ast.literal_eval(text.title() if text.lower() in _WORDS else text)
        if found is None or isinstance(found, int | float):
            return found
        if isinstance(found, tuple) and all(isinstance(one, int | float) for one in found):
            return list(found)
    return text


def checkpoint_of(file: str | Path, source: str) -> str:
    """Return the string that opens a checkpoint, with the network's code if it needs any."""
    kind, place, options = split_source(source)
    code = place if kind == CODE else options.get(CODE, "")
    return f"checkpoint:{file}" + (f"?{CODE}={code}" if code else "")


@dataclass(frozen=True)
class InputSpec:
    """The input that a model takes: size, normalisation and resizing.

    Attributes
    ----------
    size : tuple of int
        Height and width.
    mean, std : tuple of float
        Of each colour, on a scale from 0 to 1.
    interpolation : str
        As Pillow calls it: ``bilinear``, ``bicubic``, ...
    crop : float
        The share of the resized image's side that the crop in its centre keeps.
    squash : bool
        Whether height and width are resized separately, so that nothing is cut off at the sides
        and shapes change, as many models of transformers want it.
    """

    size: tuple[int, int]
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    interpolation: str = "bilinear"
    crop: float = 1.0
    squash: bool = False


def changed(spec: InputSpec, changes: Mapping[str, Any]) -> InputSpec:
    """Return an input with other fields; one number stands for all sides or colours."""
    known = [one.name for one in fields(InputSpec)]
    values: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in known:
            raise InputError(f"the input of a model has no {name!r}; {choose(name, known)}")
        if name == "interpolation":
            ways = [one.name.lower() for one in Image.Resampling]
            values[name] = str(value).lower()
            if values[name] not in ways:
                raise InputError(f"unknown interpolation {value!r}; {choose(str(value), ways)}")
        elif name == "squash" and isinstance(value, bool):
            values[name] = value
        elif row := _row(name, value):
            values[name] = row[0] if name == "crop" else row
        else:
            raise InputError(f"the input's {name} cannot be {value!r}")
    return replace(spec, **values)


def _row(name: str, value: Any) -> tuple[float, ...]:
    """Return the numbers of a field, or nothing if it cannot have these."""
    count, least, most = _NUMBERS.get(name, (0, 0, 0))
    row = tuple(value) if isinstance(value, list | tuple) else (value,)
    row = row * count if len(row) == 1 else row
    kind = int if name == "size" else float
    numbers = all(type(one) in (int, float) and math.isfinite(one) for one in row)
    if len(row) != count or not numbers:
        return ()
    fits = all(least <= one <= most and kind(one) == one for one in row)
    return tuple(map(kind, row)) if fits else ()


def spec_of(content: object, source: str) -> InputSpec:
    """Return the input that a mapping describes."""
    if isinstance(content, InputSpec):
        return content
    if not isinstance(content, Mapping) or "size" not in content:
        raise InputError(f"{source}: the input must be an InputSpec or a dict with its size")
    try:
        return changed(InputSpec((1, 1)), content)
    except InputError as error:
        raise error.about(source) from None


def processor_input(config: Mapping[str, Any], source: str) -> InputSpec:
    """Return the input that a ``preprocessor_config.json`` of transformers describes."""
    try:
        factor = config.get("rescale_factor") or 1 / 255
        most = 255 * float(factor) if config.get("do_rescale", True) else 255.0
        normal = config if config.get("do_normalize", True) else {}
        r, g, b = (float(one) / most for one in normal.get("image_mean") or [0.0] * 3)
        x, y, z = (float(one) / most for one in normal.get("image_std") or [1.0] * 3)
        interpolation = Image.Resampling(config.get("resample") or 2).name.lower()
        size, crop, squash = _sides(config)
    except (TypeError, ValueError, LookupError, AttributeError):
        raise InputError(
            f"{source}: cannot use its preprocessor_config.json: write "
            "?input.size=224&input.mean=0.5&input.std=0.5&..."
        ) from None
    return InputSpec(size, (r, g, b), (x, y, z), interpolation, crop, squash)


def _sides(config: Mapping[str, Any]) -> tuple[tuple[int, int], float, bool]:
    """Return height and width, the share that the crop keeps, and whether shapes change."""
    size, share = config["size"], config.get("crop_pct")
    edge = size if isinstance(size, int) else size.get("shortest_edge")
    if edge is not None and share:
        large = edge >= 384  # from here on ConvNext's processor does not crop
        return (edge, edge), 1.0 if large else share, large
    cut = config.get("crop_size") if config.get("do_center_crop") else None
    if cut is None:
        return _pair(size), 1.0, True
    inner = _pair(cut)
    if edge is None:
        return inner, inner[0] / _pair(size)[0], True
    return inner, min(inner) / edge, False


def _pair(size: Any) -> tuple[int, int]:
    edge = size if isinstance(size, int) else size.get("shortest_edge")
    return (edge, edge) if edge else (int(size["height"]), int(size["width"]))


@dataclass(frozen=True)
class Preprocess:
    """Resize, cut out the centre, normalise, by Pillow and torch alone. It can be pickled.

    The shorter side is resized (the one that needs more of it where height and width differ), or
    both sides if the model wants images squashed.
    """

    input: InputSpec

    def __call__(self, image: Image.Image) -> Any:
        """Return a float32 tensor, 3 x height x width."""
        import torch

        # By NumPy: for one small image each of torch's operations costs more than its numbers.
        seen = np.divide(np.asarray(self.picture(image)), np.float32(255))
        mean, std = (np.array(one, np.float32) for one in (self.input.mean, self.input.std))
        seen = ((seen - mean) / std).transpose(2, 0, 1)
        return torch.from_numpy(np.ascontiguousarray(seen))

    def picture(self, image: Image.Image) -> Image.Image:
        """Return the image as the model sees it, before its levels become numbers."""
        height, width = self.input.size
        # Fractions such as 224 / 232 must not lose a pixel to rounding.
        tall, wide = (math.floor(side / self.input.crop + 1e-6) for side in (height, width))
        if not self.input.squash:
            if tall * image.width >= wide * image.height:
                wide = max(wide, tall * image.width // image.height)
            else:
                tall = max(tall, wide * image.height // image.width)
        how = Image.Resampling[self.input.interpolation.upper()]
        resized = image.convert("RGB").resize((wide, tall), how)
        left, top = round((wide - width) / 2), round((tall - height) / 2)
        return resized.crop((left, top, left + width, top + height))


@dataclass(frozen=True, eq=False)
class VisionModel:
    """A classifier of images with its own preprocessing.

    Attributes
    ----------
    source : str
        As it was named, ``timm:vit_tiny_patch16_224``.
    name : str
        Short, fit for the name of a file: ``vit_tiny_patch16_224``.
    classes : int
        Columns of the logits.
    preprocess : callable
        From one RGB image to a float32 tensor, 3 x height x width. It can be pickled, so that
        processes that load images can have it.
    outputs : callable
        From a batch (a tensor on ``device``) to logits (n x classes) and the features that the last
        layer sees (n x d, or None where that layer is not known), as tensors or arrays.
    fingerprint : str
        SHA-256 of the weights.
    input : InputSpec
    module : torch.nn.Module, or None
        From a batch to logits, to train it; None for a model that cannot be trained (ONNX).
    class_names : tuple of str
        Empty where the model does not know them.
    seed : int, or None
        Of the training, where the weights are a checkpoint of ``smallcal train``.
    untrained : bool
        Whether the last layer, or all of them, have random weights: to be trained, not to be
        asked. Models of ``torch:`` load what they load, so that nothing is known of theirs.
    """

    source: str
    name: str
    classes: int
    preprocess: Callable[[Image.Image], Any]
    outputs: Callable[[Any], tuple[Any, Any]]
    fingerprint: str
    input: InputSpec
    module: Any = None
    class_names: tuple[str, ...] = ()
    seed: int | None = None
    untrained: bool = False

    @property
    def device(self) -> str:
        """Where batches must be, as torch calls it: ``cpu``, ``cuda:0``, ..."""
        return "cpu" if self.module is None else str(device_of(self.module))

    def to(self, device: str) -> VisionModel:
        """Move the weights to a device, and return this model."""
        moved = self.outputs if self.module is None else self.module
        try:
            if hasattr(moved, "to"):
                moved.to(device)
        except (RuntimeError, AssertionError) as error:  # what torch raises without a GPU
            raise InputError(f"cannot use the device {device!r}: {one_line(error)[:200]}") from None
        return self

    def __repr__(self) -> str:
        return f"<VisionModel {self.source}: {self.classes:,} classes>"

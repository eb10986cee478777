"""Models of images by one string, ``KIND:NAME`` or ``KIND:NAME?option=value``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

from smallcal.data.shown import one_line
from smallcal.errors import FileError, InputError, choose
from smallcal_lab.vision.models import libraries
from smallcal_lab.vision.models.built import finish
from smallcal_lab.vision.models.from_onnx import open_onnx
from smallcal_lab.vision.models.model import (
    CODE,
    INPUT,
    Order,
    VisionModel,
    checkpoint_of,
    split_source,
)
from smallcal_lab.vision.models.weights import FORMAT, read_weights


def open_model(
    source: str,
    *,
    checkpoint: str | Path | None = None,
    classes: int | None = None,
    options: Mapping[str, Any] | None = None,
    pretrained: bool = True,
) -> VisionModel:
    """Open an image classifier with its own preprocessing.

    Parameters
    ----------
    source : str
        ``KIND:NAME``, and options behind a question mark as in ``?img_size=32&patch_size=4``.
        Kinds are

        - ``timm:NAME`` or ``timm:NAME.TAG``;
        - ``hf:NAME`` or ``hf:DIR``, a classifier of the package transformers;
        - ``torchvision:NAME`` or ``torchvision:NAME.WEIGHTS``;
        - ``onnx:FILE``;
        - ``torch:package.module:factory``, a function or class that gives a ``torch.nn.Module``,
          alone or with its preprocessing; the current folder counts as installed;
        - ``checkpoint:FILE``, what ``smallcal train`` wrote; of a network that one's own code
          makes, ``checkpoint:FILE?torch=package.module:factory``.

        Options that begin with ``input.`` change the model's input: ``?input.size=64``.
    checkpoint : path, optional
        A file of weights in place of the library's own: .pt, .pth, .bin or .safetensors. It is read
        without running code, and must fit in every tensor; the number of classes is that of the
        file.
    classes : int, optional
        Columns of the logits. Where the weights have others, the last layer is new: for training.
    options : mapping, optional
        More options, as in the string; those given here take precedence.
    pretrained : bool, default True
        Whether weights are loaded; False for training from random ones.

    Returns
    -------
    VisionModel
        On the CPU; its ``to(device)`` moves it.

    Examples
    --------
    >>> model = open_model("timm:resnet10t", classes=7, pretrained=False)
    >>> model, model.name, model.input.size, model.untrained
    (<VisionModel timm:resnet10t: 7 classes>, 'resnet10t', (176, 176), True)
    """
    kind, order = _order(source, options or {})
    file = Path(checkpoint) if checkpoint is not None else None
    return KINDS[kind](
        replace(order, classes=_classes(classes), pretrained=pretrained, checkpoint=file)
    )


def _order(source: str, options: Mapping[str, Any]) -> tuple[str, Order]:
    """Return the kind that a string names, and what it asks for."""
    kind, place, written = split_source(source)
    if kind not in KINDS:
        raise InputError(f"unknown kind of model {kind!r}; {choose(kind, KINDS)}")
    if not place and kind != CODE:
        raise InputError(f"the model's name is missing: write {kind}:NAME")
    asked = {**written, **options}
    seen = {name[len(INPUT) :]: one for name, one in asked.items() if name.startswith(INPUT)}
    network = {name: one for name, one in asked.items() if not name.startswith(INPUT)}
    return kind, Order(str(source), place, network, seen)


def _classes(number: object) -> int | None:
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, Integral) or number < 2:
        raise InputError(f"classes must be a number, 2 or more; got {number!r}")
    return int(number)


def _open_checkpoint(order: Order) -> VisionModel:
    """Open what ``smallcal train`` wrote: the file names its own network."""
    if order.checkpoint is not None:
        raise InputError(f"{order.source} is already a checkpoint; name only one file")
    file = Path(order.place).expanduser()
    about = read_weights(file).about
    source, options = about.get("source"), about.get("options")
    if about.get("format") != FORMAT or not isinstance(source, str):
        raise FileError(
            f"{file} does not say its network, as files of smallcal train do: "
            "name the network, with this file as its checkpoint"
        )
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        raise FileError(f"{file} is damaged: its options must have names")
    own = {f"{INPUT}{name}": value for name, value in order.input.items()} | order.options
    code = own.pop(CODE, None) if source.startswith(f"{CODE}:") else None
    try:
        kind, inner = _order(source, {**options, **own})
        classes = order.classes or _classes(about.get("classes"))
    except InputError as error:
        raise FileError(f"{file}: {error}") from None
    if kind == CODE and code != inner.place:
        raise FileError(
            f"{file} needs the code of {one_line(source)}, and code that only a file names is "
            f"never imported; if you trust it, write {one_line(checkpoint_of(file, source))}"
        )
    model = KINDS[kind](replace(inner, classes=classes, checkpoint=file))
    if model.untrained and order.classes is None:
        raise FileError(f"{file} is damaged: its weights are not of {classes:,} classes")
    return replace(model, source=order.source)


#: What can be opened.
KINDS: dict[str, Callable[[Order], VisionModel]] = {
    "timm": partial(finish, libraries.build_timm),
    "hf": partial(finish, libraries.build_hf),
    "torchvision": partial(finish, libraries.build_torchvision),
    "onnx": open_onnx,
    "torch": partial(finish, libraries.build_factory),
    "checkpoint": _open_checkpoint,
}

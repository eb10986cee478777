"""From a torch module, and a file of weights, to a :class:`VisionModel`.

Files are read without running code and loaded strictly.

``head.temperature`` among the options of any model puts a temperature head on it, a network from
its features to T(x), trained along with it; ``head.width`` says how wide it is, and
``head.features = "temperature"`` lets T(x) stand for the features.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from smallcal.calibrators.signals.heads import FLOOR
from smallcal.deploy.adapters.torch_batches import device_of, evaluating, logits_of
from smallcal.errors import (
    FileError,
    InputError,
    choose,
    missing_file,
    needing,
)
from smallcal.io.memory import refuse_bomb
from smallcal.io.readers import refuse_zip_bomb
from smallcal_lab.vision.image_set import one_line_errors
from smallcal_lab.vision.models.model import InputSpec, Order, Preprocess, VisionModel, changed

with needing("torch", "vision", "opening a model", of="smallcal-lab"):
    import torch
    from torch import Tensor, nn
    from torch.nn import functional

# timm's script for training keeps its arguments so in a checkpoint; nothing of it runs.
torch.serialization.add_safe_globals([argparse.Namespace])

#: The checkpoints of ``smallcal train``.
FORMAT = "smallcal-checkpoint-1"

#: Where programs for training put the state dict.
_KEYS = ("model", "state_dict", "model_state_dict")

#: What several processes, a wrapper or a compiler put before every name.
_PREFIXES = re.compile(r"((module|model|_orig_mod)\.)*")

_SUFFIXES = (".pt", ".pth", ".bin", ".safetensors")

#: What options begin with that are about the head, and what its words may be.
HEAD = "head."
_WORDS = {"temperature": ("unrestricted", "stop-grad"), "features": ("layer", "temperature")}


class Logits(nn.Module):
    """A network that gives more than its logits, as one that gives these alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Tensor) -> Tensor:
        """Return the logits of a batch."""
        return logits_of(self.model(batch))


@dataclass(frozen=True, eq=False)
class Built:
    """What a library gave.

    ``preprocess`` is the library's own; where it has none, the plain one serves. ``untrained`` says
    whether weights are random, as far as is known. ``translate`` goes from the tensors of a file to
    those of the module, where its library has changed names or adapts sizes.
    """

    module: nn.Module
    input: InputSpec
    preprocess: Callable[[Any], Any] | None = None
    class_names: tuple[str, ...] = ()
    untrained: bool = False
    translate: Callable[[dict[str, Tensor]], dict[str, Tensor]] | None = None


Builder = Callable[[Order], Built]


def finish(build: Builder, order: Order) -> VisionModel:
    """Build a network, load the checkpoint that was named, and look at what comes out."""
    own = {name: one for name, one in order.options.items() if not name.startswith(HEAD)}
    head = {name[len(HEAD) :]: one for name, one in order.options.items() if name not in own}
    order = replace(order, options=own)
    if head:
        build = partial(_headed, build, head)
    weights = read_weights(order.checkpoint) if order.checkpoint else None
    if weights:
        order = replace(order, pretrained=False)  # nothing to download
    built, classes = _looked_at(build, order)
    untrained, about = built.untrained, weights.about if weights else {}
    if weights:
        name, cut = _last_layer(built.module, classes)[0], _prefix(built.module.state_dict())
        last = weights.state.get(f"{name.removeprefix(cut)}.weight")
        rows = classes if last is None or last.ndim < 2 else len(last)
        if order.classes is None and rows != classes:  # as many as the file has
            built, classes = _looked_at(build, replace(order, classes=rows))
        untrained = load_into(built, weights, order)
    if order.classes not in (None, classes):
        raise InputError(f"{order.source} gives {classes:,} columns, not {order.classes:,}")
    names, seed = about.get("class_names"), about.get("seed")
    if not isinstance(names, list | tuple):
        names = built.class_names
    run: Any = partial(_seen, built.module, _last_layer(built.module, classes)[1])
    if head.get("features") == "temperature":
        run = built.module.scaled
    return VisionModel(
        source=order.source,
        name=order.name,
        classes=classes,
        preprocess=(not order.input and built.preprocess) or Preprocess(built.input),
        outputs=partial(_asked, built.module, run),
        fingerprint=fingerprint(built.module),
        input=built.input,
        module=built.module,
        class_names=tuple(map(str, names)) if len(names) == classes else (),
        seed=seed if type(seed) is int and not untrained else None,
        untrained=untrained,
    )


def _looked_at(build: Builder, order: Order) -> tuple[Built, int]:
    """Build; show it two grey images; return it with its number of columns."""
    built = build(order)
    built = replace(built, input=changed(built.input, order.input))
    height, width = built.input.size
    batch = torch.full((2, 3, height, width), 0.5, device=device_of(built.module))
    what = f"{order.source} cannot take images of {height} x {width}"
    with one_line_errors(what, InputError), evaluating(built.module):
        said = built.module(batch)
        shape = tuple(logits_of(said).shape)
    if len(shape) != 2 or shape[0] != 2 or shape[1] < 2:
        raise InputError(
            f"{order.source} must give logits of two classes or more; for 2 images it gives {shape}"
        )
    if not isinstance(said, Tensor):
        built = replace(built, module=Logits(built.module))
    return built, shape[1]


def _last_layer(module: nn.Module, classes: int) -> tuple[str, nn.Module | None]:
    """Return name and layer that give the logits: what timm says, else the last of its size."""
    asked: Any = getattr(module, "get_classifier", None)
    own = asked() if callable(asked) else None
    own = own[0] if isinstance(own, tuple | list) and own else own  # distilled: class token first
    for name, layer in module.named_modules():
        if layer is own and isinstance(layer, nn.Linear | nn.Conv2d):
            return name, layer
    return last_of_size(module, classes)


def last_of_size(module: nn.Module, classes: int) -> tuple[str, nn.Module | None]:
    """Return name and layer of the last one with so many outputs, or none."""
    found: tuple[str, nn.Module | None] = ("", None)
    for name, layer in module.named_modules():
        rows = layer.out_features if isinstance(layer, nn.Linear) else None
        if isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1):
            rows = layer.out_channels
        if rows == classes:
            found = (name, layer)
    return found


def _asked(module: nn.Module, run: Callable[[Tensor], Any], batch: Tensor) -> Any:
    """Return what a model that is not trained now says of a batch."""
    with evaluating(module):
        return run(batch)


def _seen(run: nn.Module, last: nn.Module | None, batch: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return logits of a batch, and what a layer saw of it as n x d."""
    if last is None:
        return logits_of(run(batch)), None
    seen: list[Tensor] = []
    # The hook is there for this call only: a copy, a pickle or DDP must not find it.
    hook = last.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    try:
        logits = logits_of(run(batch))
    finally:
        hook.remove()
    if not seen or seen[-1].ndim < 2 or len(seen[-1]) != len(logits):
        return logits, None
    found = seen[-1]
    if isinstance(last, nn.Conv2d):
        return logits, found.flatten(2).mean(2)
    return logits, found if found.ndim == 2 else found.flatten(1, -2).mean(1)


@dataclass(frozen=True)
class Weights:
    """Tensors by name, without prefixes that all names share, and what else a file says."""

    file: Path
    state: dict[str, Tensor]
    about: dict[str, Any]


def existing(path: str | Path, what: str) -> Path:
    """Return a file that is there."""
    file = Path(path).expanduser()
    if not file.is_file():
        why = "a folder" if file.is_dir() else f"not there{missing_file(file)}"
        raise FileError(f"{what} {file} is {why}")
    return file


def read_weights(path: str | Path) -> Weights:
    """Read a checkpoint: .pt, .pth, .bin or .safetensors."""
    file = existing(path, "the checkpoint")
    if file.suffix not in _SUFFIXES:
        raise FileError(f"{file}: a checkpoint must end in one of {', '.join(_SUFFIXES)}")
    with one_line_errors(f"{file} is damaged or not a checkpoint", FileError):
        content = _content(file)
    about = dict(content) if isinstance(content, Mapping) else {}
    state = next((about.pop(key) for key in _KEYS if isinstance(about.get(key), Mapping)), None)
    if state is None:
        state, about = about, {}
    if not state or not all(isinstance(one, torch.Tensor) for one in state.values()):
        raise FileError(
            f"{file} holds no state dict: tensors by name, alone or under {', '.join(_KEYS)}"
        )
    # An expanded tensor is a huge view of a few numbers.
    size = sum(one.numel() * one.element_size() for one in state.values())
    refuse_bomb(str(file), size=size, stored=file.stat().st_size)
    cut = len(_prefix(map(str, state)))
    return Weights(file, {str(name)[cut:]: value for name, value in state.items()}, about)


def _content(file: Path) -> Any:
    if file.suffix == ".safetensors":
        with needing("safetensors", "safetensors", "reading .safetensors files"):
            from safetensors.torch import load_file
        return load_file(file)
    refuse_zip_bomb(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Mapped, so that what is not asked for, such as an optimiser's state, is not read.
            mapped = zipfile.is_zipfile(file)
            return torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        if not re.search("Unsupported|GLOBAL", str(error)):
            raise
        raise FileError(
            f"{file} holds more than tensors, and reading that could run code, which is never "
            "done; write it with torch.save(model.state_dict(), FILE)"
        ) from error


def _prefix(names: Iterable[str]) -> str:
    """Return the prefixes that all of the names have."""
    found = _PREFIXES.match(os.path.commonprefix(list(names)))  # noqa: RUF071 - letters are meant
    return found[0] if found else ""


def load_into(built: Built, weights: Weights, order: Order) -> bool:
    """Load all weights, or say in one line how they differ; return whether layers stay new.

    Layers with the classes that were asked for may have another number of these in the file: for
    training. What does not fit is tried again after the library has translated it.
    """
    own = built.module.state_dict()
    wrong, fits = _compared(own, weights.state, order.classes)
    if wrong and built.translate:
        wrong, fits = _compared(own, built.translate(weights.state), order.classes)
    if wrong:
        raise FileError(
            f"{weights.file} is of another architecture than {order.source}, which has "
            f"{len(own):,} tensors: {wrong}"
        )
    built.module.load_state_dict({**own, **fits})
    return len(fits) < len(own)


def _compared(
    own: Mapping[str, Tensor], state: Mapping[str, Tensor], new: int | None
) -> tuple[str, dict[str, Tensor]]:
    """Return what is wrong with a file's tensors, in words, and those that fit, by own names."""
    cut = _prefix(own)
    mine = {name.removeprefix(cut): [*value.shape] for name, value in own.items()}
    given = {name: [*value.shape] for name, value in state.items()}
    wrong: dict[str, list[str]] = {"missing": [], "unknown": [], "of another shape": []}
    wrong["unknown"] += [name for name in given if name not in mine]
    left = []
    for name, shape in mine.items():
        there = given.get(name)
        if there is None:
            wrong["missing"].append(name)
        elif there != shape and there and shape[:1] == [new] and there[1:] == shape[1:]:
            left.append(name)
        elif there != shape:
            wrong["of another shape"].append(f"{name} {there} for {shape}")
    counts = [
        f"{len(found):,} {what} ({', '.join(found[:3])}{', ...' * (len(found) > 3)})"
        for what, found in wrong.items()
        if found
    ]
    return ", ".join(counts), {cut + name: state[name] for name in state if name not in left}


def fingerprint(module: nn.Module) -> str:
    """Return the SHA-256 of the weights: names, types, shapes and bytes, by name."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if isinstance(value, torch.Tensor):  # a layer may keep more beside its weights
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            content: Any = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            digest.update(content)
    return digest.hexdigest()


class TemperatureHead(nn.Module):
    """A classifier whose logits are divided by a temperature that is read from its features.

    T(x) = max(0.001, softplus(network(features))), as in the method ``utemphead``: one hidden layer
    with GELU, ``width`` wide. ``last`` is the layer of ``backbone`` whose input the features are;
    ``stop`` ends the head's gradient there.
    """

    def __init__(self, backbone: nn.Module, last: nn.Module, *, width: int, stop: bool) -> None:
        super().__init__()
        self.backbone = backbone
        self.stop = stop
        self._last = [last]  # in a list, or its weights would be there twice
        inputs: Any = last.in_channels if isinstance(last, nn.Conv2d) else last.in_features
        final = nn.Linear(width, 1)
        self.head = nn.Sequential(nn.Linear(inputs, width), nn.GELU(), final)
        nn.init.constant_(final.bias, math.log(math.e - 1))  # T near 1: it begins almost as it is

    def get_classifier(self) -> nn.Module:
        """Return the last layer, as models of timm do."""
        return self._last[0]

    def no_weight_decay(self) -> set[str]:
        """Return the names of weights that the backbone wants not to be decayed."""
        asked: Any = getattr(self.backbone, "no_weight_decay", set)
        return {f"backbone.{name}" for name in asked()}

    def parts(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits before the division, and temperatures."""
        logits, features = _seen(self.backbone, self._last[0], images)
        assert features is not None  # it was looked at when the head was put on
        found = self.head(features.detach() if self.stop else features)
        return logits, functional.softplus(found.squeeze(1)).clamp(min=FLOOR)

    def temperature(self, images: Tensor) -> Tensor:
        """Return T(x) of each image."""
        return self.parts(images)[1]

    def scaled(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return z / T(x), and T(x) as n x 1."""
        logits, temperature = self.parts(images)
        return logits / temperature.unsqueeze(1), temperature.unsqueeze(1)

    def forward(self, images: Tensor) -> Tensor:
        """Return z / T(x)."""
        return self.scaled(images)[0]


def _headed(build: Builder, head: Mapping[str, Any], order: Order) -> Built:
    """Build a network with a temperature head, if a head may have these options."""
    for name, value in head.items():
        if name not in (*_WORDS, "width"):
            what = choose(name, (*_WORDS, "width"))
            raise InputError(f"{order.source}: a head has no option {name!r}; {what}")
        wide = name == "width" and type(value) is int and value >= 1
        if not wide and value not in (words := _WORDS.get(name, ("whole numbers from 1 on",))):
            what = f"cannot be {value!r}; choose from {', '.join(words)}"
            raise InputError(f"{order.source}: {HEAD}{name} {what}")
    if "temperature" not in head:
        raise InputError(
            f"{order.source} has no temperature head; train one with {HEAD}temperature"
        )
    built, classes = _looked_at(build, order)
    last = _last_layer(built.module, classes)[1]
    if last is None:
        raise InputError(f"{order.source}: no last layer is known, to put a temperature head on")
    stop = head["temperature"] == "stop-grad"
    module = TemperatureHead(built.module, last, width=head.get("width", 128), stop=stop)
    return replace(built, module=module, translate=None)  # names are others now

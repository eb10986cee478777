"""From a torch module to a :class:`VisionModel`: its columns, its features, its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from smallcal.data.shown import one_line
from smallcal.deploy.adapters.torch_batches import device_of, evaluating, logits_of
from smallcal.errors import InputError, needing
from smallcal_lab.vision.models.model import InputSpec, VisionModel
from smallcal_lab.vision.models.preprocess import Preprocess
from smallcal_lab.vision.models.source import Order, changed
from smallcal_lab.vision.models.weights import (
    bare_name,
    compare,
    fingerprint,
    load_into,
    read_weights,
)

with needing("torch", "vision", "opening a model", of="smallcal-lab"):
    import torch
    from torch import Tensor, nn


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


def with_features(
    run: Callable[[Tensor], Any], head: nn.Module, batch: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return logits of a batch, and what a layer saw of it as n x d."""
    seen: list[Tensor] = []
    # The hook is there for this call only: a copy, a pickle or DDP must not find it.
    hook = head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    try:
        logits = logits_of(run(batch))
    finally:
        hook.remove()
    if not seen or seen[-1].ndim < 2 or len(seen[-1]) != len(logits):
        return logits, None
    found = seen[-1]
    if isinstance(head, nn.Conv2d):
        return logits, found.flatten(2).mean(2)
    return logits, found if found.ndim == 2 else found.flatten(1, -2).mean(1)


@dataclass(frozen=True, eq=False)
class Outputs:
    """Logits of a batch, and what the last layer saw."""

    module: nn.Module
    head: nn.Module | None

    def __call__(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Run the model as one that is not trained now."""
        with evaluating(self.module):
            if self.head is None:
                return logits_of(self.module(batch)), None
            return with_features(self.module, self.head, batch)


def finish(build: Builder, order: Order) -> VisionModel:
    """Build a network, load the checkpoint that was named, and look at what comes out."""
    weights = read_weights(order.checkpoint) if order.checkpoint else None
    if weights:
        order = replace(order, pretrained=False)  # nothing to download
    built, classes = looked_at(order, build)
    left = False
    if weights:
        name, head = head_of(built.module, classes)
        rows = weights.rows(bare_name(built.module, name)) if head is not None else None
        if order.classes is None and rows not in (None, classes):  # as many as the file has
            built, classes = looked_at(replace(order, classes=rows), build)
        if built.translate and compare(built.module, weights, new=order.classes).wrong:
            weights = replace(weights, state=built.translate(weights.state))
        left = load_into(built.module, weights, order.source, new=order.classes)
    if order.classes not in (None, classes):
        raise InputError(
            f"{order.source} gives {classes:,} columns, not {order.classes:,}, and has no "
            "num_classes to change that"
        )
    preprocess = built.preprocess
    if preprocess is None or order.input:
        preprocess = Preprocess(built.input)
    names = (weights.class_names if weights else ()) or built.class_names
    return VisionModel(
        source=order.source,
        name=order.name,
        classes=classes,
        preprocess=preprocess,
        outputs=Outputs(built.module, head_of(built.module, classes)[1]),
        fingerprint=fingerprint(built.module),
        input=built.input,
        module=built.module,
        class_names=names if len(names) == classes else (),
        seed=weights.seed if weights and not left else None,
        untrained=left if weights else built.untrained,
    )


def looked_at(order: Order, build: Builder) -> tuple[Built, int]:
    """Build; show it two grey images; return it with its number of columns."""
    built = build(order)
    built = replace(built, input=changed(built.input, order.input))
    height, width = built.input.size
    batch = torch.full((2, 3, height, width), 0.5, device=device_of(built.module))
    try:
        with evaluating(built.module):
            said = built.module(batch)
            shape = tuple(logits_of(said).shape)
    except InputError as error:
        raise error.about(order.source) from None
    except Exception as error:  # what the network's own code raises when images do not fit it
        raise InputError(
            f"{order.source} cannot take images of {height} x {width}: "
            f"{type(error).__name__}: {one_line(error)[:200]}"
        ) from error
    if len(shape) != 2 or shape[0] != 2 or shape[1] < 2:
        raise InputError(
            f"{order.source} must give one row of logits for each image, of two classes at least; "
            f"for 2 images it gives {shape}"
        )
    if not isinstance(said, Tensor):
        built = replace(built, module=Logits(built.module))
    return built, shape[1]


def head_of(module: nn.Module, classes: int) -> tuple[str, nn.Module | None]:
    """Return name and layer that give the logits: what timm says, else the last of its size."""
    asked: Any = getattr(module, "get_classifier", None)
    own = asked() if callable(asked) else None
    own = own[0] if isinstance(own, tuple | list) and own else own  # distilled: class token first
    for name, layer in module.named_modules():
        if layer is own and isinstance(layer, nn.Linear | nn.Conv2d):
            return name, layer
    return last_layer(module, classes)


def last_layer(module: nn.Module, classes: int) -> tuple[str, nn.Module | None]:
    """Return name and layer of the last one with so many outputs, or none."""
    found: tuple[str, nn.Module | None] = ("", None)
    for name, layer in module.named_modules():
        rows = layer.out_features if isinstance(layer, nn.Linear) else None
        if isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1):
            rows = layer.out_channels
        if rows == classes:
            found = (name, layer)
    return found

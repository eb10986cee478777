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
    Weights,
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

    Attributes
    ----------
    module : torch.nn.Module
        From a batch to logits.
    input : InputSpec
    preprocess : callable, or None
        The library's own; where it has none, the plain one serves.
    class_names : tuple of str
    untrained : bool
        Whether weights are random, as far as is known.
    translate : callable, optional
        From the tensors of a file, by name, to those of the module, where its library
        has changed names or adapts sizes.
    """

    module: nn.Module
    input: InputSpec
    preprocess: Callable[[Any], Any] | None = None
    class_names: tuple[str, ...] = ()
    untrained: bool = False
    translate: Callable[[dict[str, Tensor]], dict[str, Tensor]] | None = None


@dataclass(frozen=True, eq=False)
class Outputs:
    """Logits of a batch, and what the last layer saw."""

    module: nn.Module
    head: nn.Module | None

    def __call__(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Run the model as one that is not trained now."""
        seen: list[Tensor] = []

        def keep(_: nn.Module, args: tuple[Any, ...]) -> None:
            seen.append(args[0])

        # The hook is there for this call only: a copy, a pickle or DDP must not find it.
        hook = self.head.register_forward_pre_hook(keep) if self.head is not None else None
        try:
            with evaluating(self.module):
                logits = logits_of(self.module(batch))
        finally:
            if hook is not None:
                hook.remove()
        return logits, flat_features(seen[-1], self.head, len(logits)) if seen else None


def flat_features(seen: Tensor, head: nn.Module | None, n: int) -> Tensor | None:
    """Return features as n x d; where the last layer sees places or tokens, their mean."""
    if seen.ndim < 2 or len(seen) != n:
        return None
    if seen.ndim == 2:
        return seen
    if isinstance(head, nn.Conv2d):
        return seen.flatten(2).mean(2)
    return seen.flatten(1, -2).mean(1)


def finish(build: Callable[[Order], Built], order: Order) -> VisionModel:
    """Build a network, load the checkpoint that was named, and look at what comes out."""
    weights = read_weights(order.checkpoint) if order.checkpoint else None
    if weights:
        order = replace(order, pretrained=False)  # nothing to download
    built, classes = looked_at(order, build)
    left = False
    if weights:
        built, classes = _same_classes(order, build, weights, (built, classes))
        if built.translate and not compare(built.module, weights, new=order.classes).good:
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


def looked_at(order: Order, build: Callable[[Order], Built]) -> tuple[Built, int]:
    """Build; show it one grey image; return it with its number of columns."""
    built = build(order)
    built = replace(built, input=changed(built.input, order.input))
    said, classes = _columns(built, order.source)
    if not isinstance(said, Tensor):
        built = replace(built, module=Logits(built.module))
    return built, classes


def _same_classes(
    order: Order, build: Callable[[Order], Built], weights: Weights, now: tuple[Built, int]
) -> tuple[Built, int]:
    """Build again with as many classes as the checkpoint has, unless their number was said."""
    built, classes = now
    name, head = head_of(built.module, classes)
    rows = weights.rows(bare_name(built.module, name)) if head is not None else None
    if order.classes is not None or rows in (None, classes):
        return now
    return looked_at(replace(order, classes=rows), build)


def _columns(built: Built, source: str) -> tuple[Any, int]:
    """Return what the network says of grey images, and the columns of its logits."""
    batch = torch.full((2, 3, *built.input.size), 0.5, device=device_of(built.module))
    try:
        with evaluating(built.module):
            said = built.module(batch)
            shape = tuple(logits_of(said).shape)
    except InputError as error:
        raise error.about(source) from None
    # What the network's own code raises when images do not fit it.
    except (RuntimeError, AssertionError, ValueError, TypeError, LookupError) as error:
        raise InputError(
            f"{source} cannot take images of {built.input.size[0]} x {built.input.size[1]}: "
            f"{type(error).__name__}: {one_line(error)[:200]}"
        ) from error
    if len(shape) != 2 or shape[0] != 2 or shape[1] < 2:
        raise InputError(
            f"{source} must give one row of logits for each image, of two classes at least; for 2 "
            f"images it gives {shape}"
        )
    return said, shape[1]


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

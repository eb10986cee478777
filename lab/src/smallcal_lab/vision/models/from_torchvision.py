"""``torchvision:NAME[.WEIGHTS]``."""

from __future__ import annotations

from typing import Any

from torch import nn

from smallcal.errors import InputError, choose, did_you_mean
from smallcal_lab.vision.models.built import Built, Logits, last_layer
from smallcal_lab.vision.models.downloads import library, loading, require_address
from smallcal_lab.vision.models.model import InputSpec
from smallcal_lab.vision.models.source import Order


def build_torchvision(order: Order) -> Built:
    """Create a model of torchvision, with the transforms of its weights."""
    models = library("torchvision", "", order.source).models
    name, weights = _weights(models, order)
    names = tuple(weights.meta.get("categories", ()))
    new = not order.pretrained or order.classes not in (None, len(names))
    options = dict(order.options)
    if order.classes is not None and not order.pretrained:
        options["num_classes"] = order.classes
    with loading(order.source):
        module = models.get_model(name, weights=weights if order.pretrained else None, **options)
        see = weights.transforms()
    if order.pretrained and new:
        _renew(module, len(names), order)
    if getattr(module, "aux_logits", False):  # in training it gives more than logits
        module = Logits(module)
    return Built(module, _spec(see), see, () if new else names, untrained=new)


def _weights(models: Any, order: Order) -> tuple[str, Any]:
    """Return the name, and the weights: those that were named, or the best."""
    name, _, which = order.place.partition(".")
    known = models.list_models(module=models)
    if name not in known:
        what = did_you_mean(name, known) or "see torchvision.models.list_models()"
        raise InputError(f"torchvision has no classifier {name!r}; {what}")
    every = models.get_model_weights(name)
    if which and which not in every.__members__:
        raise InputError(
            f"torchvision's {name} has no weights {which!r}; {choose(which, every.__members__)}"
        )
    weights = every[which or "DEFAULT"]
    if order.pretrained:
        require_address(order.source, weights.url)
    return name, weights


def _spec(see: Any) -> InputSpec:
    side = see.crop_size[0]
    return InputSpec(
        size=(side, side),
        mean=tuple(see.mean),
        std=tuple(see.std),
        interpolation=see.interpolation.value,
        crop=side / see.resize_size[0],
    )


def _renew(module: nn.Module, classes: int, order: Order) -> None:
    """Put a new last layer in place of the one for other classes."""
    name, old = last_layer(module, classes)
    if old is None or order.classes is None:
        raise InputError(
            f"{order.source}: its last layer is not known, so its number of classes is fixed"
        )
    fresh: nn.Module
    if isinstance(old, nn.Linear):
        fresh = nn.Linear(old.in_features, order.classes, bias=old.bias is not None)
    else:
        fresh = nn.Conv2d(old.in_channels, order.classes, 1)  # type: ignore[arg-type]
    parent, _, own = name.rpartition(".")
    setattr(module.get_submodule(parent), own, fresh)

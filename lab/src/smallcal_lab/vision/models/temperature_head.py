"""A temperature head: a network from a model's features to T(x), trained along with it.

``head.temperature`` among the options of any model puts one on it, ``head.width`` says how wide;
``head.features = "temperature"`` lets T(x) stand for the features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from smallcal.calibrators.signals.heads import FLOOR
from smallcal.deploy.adapters.torch_batches import evaluating
from smallcal.errors import InputError, choose
from smallcal_lab.vision.models.built import (
    Builder,
    Built,
    finish,
    head_of,
    looked_at,
    with_features,
)
from smallcal_lab.vision.models.model import VisionModel
from smallcal_lab.vision.models.source import Order

#: What options begin with that are about the head.
HEAD = "head."

#: What each of them may be.
_CHOICES = {"temperature": ("unrestricted", "stop-grad"), "features": ("layer", "temperature")}


class TemperatureHead(nn.Module):
    """A classifier whose logits are divided by a temperature that is read from its features.

    T(x) = max(0.001, softplus(network(features))), as in the method ``utemphead``: one hidden layer
    with GELU. The last bias begins where T is near 1, so that a pretrained model begins almost
    as it is.

    Parameters
    ----------
    backbone : nn.Module
        From a batch to logits.
    last : nn.Module
        Its last layer, whose input the features are.
    width : int
        Hidden units.
    stop : bool
        Whether the head's gradient ends at the features.

    Examples
    --------
    >>> import torch
    >>> body = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 3))
    >>> head = TemperatureHead(body, body[3], width=8, stop=True)
    >>> images = torch.rand(4, 3, 2, 2)
    >>> head(images).shape, head.temperature(images).shape
    (torch.Size([4, 3]), torch.Size([4]))
    """

    def __init__(self, backbone: nn.Module, last: nn.Module, *, width: int, stop: bool) -> None:
        super().__init__()
        self.backbone = backbone
        self.stop = stop
        self._last = [last]  # in a list, or its weights would be there twice
        inputs: Any = last.in_channels if isinstance(last, nn.Conv2d) else last.in_features
        final = nn.Linear(width, 1)
        self.head = nn.Sequential(nn.Linear(inputs, width), nn.GELU(), final)
        nn.init.constant_(final.bias, math.log(math.e - 1))

    def get_classifier(self) -> nn.Module:
        """Return the last layer, as models of timm do."""
        return self._last[0]

    def no_weight_decay(self) -> set[str]:
        """Return the names of weights that the backbone wants not to be decayed."""
        asked: Any = getattr(self.backbone, "no_weight_decay", set)
        return {f"backbone.{name}" for name in asked()}

    def parts(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits before the division, and temperatures."""
        logits, features = with_features(self.backbone, self._last[0], images)
        assert features is not None  # it was looked at when the head was put on
        found = self.head(features.detach() if self.stop else features)
        return logits, functional.softplus(found.squeeze(1)).clamp(min=FLOOR)

    def temperature(self, images: Tensor) -> Tensor:
        """Return T(x) of each image."""
        return self.parts(images)[1]

    def forward(self, images: Tensor) -> Tensor:
        """Return z / T(x)."""
        logits, temperature = self.parts(images)
        return logits / temperature.unsqueeze(1)


@dataclass(frozen=True, eq=False)
class Temperatures:
    """Logits of a batch, and T(x) in the place of features: n x 1."""

    module: TemperatureHead

    def __call__(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Run the model as one that is not trained now."""
        with evaluating(self.module):
            logits, temperature = self.module.parts(batch)
        found = temperature.unsqueeze(1)
        return logits / found, found


def open_headed(build: Builder, order: Order) -> VisionModel:
    """Build a model, with a temperature head if its options say so."""
    said = {
        name.removeprefix(HEAD): value
        for name, value in order.options.items()
        if name.startswith(HEAD)
    }
    if not said:
        return finish(build, order)
    _require_options(said, order.source)

    def headed(order: Order) -> Built:
        built, classes = looked_at(order, build)
        last = head_of(built.module, classes)[1]
        if last is None:
            raise InputError(
                f"{order.source}: its last layer is not known, so it cannot have a temperature head"
            )
        stop = said["temperature"] == "stop-grad"
        module = TemperatureHead(built.module, last, width=said.get("width", 128), stop=stop)
        return replace(built, module=module, translate=None)  # names are others now

    options = {name: one for name, one in order.options.items() if not name.startswith(HEAD)}
    model = finish(headed, replace(order, options=options))
    if said.get("features") != "temperature":
        return model
    return replace(model, outputs=Temperatures(model.module))


def _require_options(said: dict[str, Any], source: str) -> None:
    """Raise unless a head may have these options."""
    known = [*_CHOICES, "width"]
    for name, value in said.items():
        if name not in known:
            raise InputError(f"{source}: a head has no option {name!r}; {choose(name, known)}")
        if name in _CHOICES and value not in _CHOICES[name]:
            words = choose(str(value), _CHOICES[name])
            raise InputError(f"{source}: {HEAD}{name} cannot be {value!r}; {words}")
        if name == "width" and (type(value) is not int or value < 1):
            raise InputError(f"{source}: {HEAD}width must be a number, 1 or more; got {value!r}")
    if "temperature" not in said:
        raise InputError(f"{source} has no temperature head; train one with {HEAD}temperature")

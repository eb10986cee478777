"""A temperature head: a network from a model's features to T(x), trained along with it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from smallcal.calibrators.maps.heads import FLOOR
from smallcal.deploy.adapters.torch_batches import logits_of


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
        self.head = nn.Sequential(nn.Linear(inputs, width), nn.GELU(), nn.Linear(width, 1))
        with torch.no_grad():
            self.head[2].bias.fill_(math.log(math.e - 1))

    def get_classifier(self) -> nn.Module:
        """Return the last layer, as models of timm do."""
        return self._last[0]

    def no_weight_decay(self) -> set[str]:
        """Return the names of weights that the backbone wants not to be decayed."""
        asked: Any = getattr(self.backbone, "no_weight_decay", None)
        return {f"backbone.{name}" for name in asked()} if callable(asked) else set()

    def parts(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits before the division, and temperatures."""
        seen: list[Tensor] = []
        hook = self._last[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        try:
            logits = logits_of(self.backbone(images))
        finally:
            hook.remove()
        features = seen[-1].flatten(1) if isinstance(self._last[0], nn.Conv2d) else seen[-1]
        found = self.head(features.detach() if self.stop else features)
        return logits, functional.softplus(found.squeeze(1)).clamp(min=FLOOR)

    def temperature(self, images: Tensor) -> Tensor:
        """Return T(x) of each image."""
        return self.parts(images)[1]

    def forward(self, images: Tensor) -> Tensor:
        """Return z / T(x)."""
        logits, temperature = self.parts(images)
        return logits / temperature.unsqueeze(1)

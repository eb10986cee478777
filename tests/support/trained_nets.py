"""Small networks of images, for tests that train: opened as ``torch:support.trained_nets:NAME``."""

from __future__ import annotations

import torch
from torch import nn


def _seeing(module, size):
    module.input_spec = {"size": size, "mean": 0.4, "std": 0.3}
    return module


def conv(num_classes=10, size=8, width=8, norm=False, dropout=0.0):
    """Return two convolutions and two layers; without ``norm`` nothing depends on the batch."""
    layers = [nn.Conv2d(3, width, 3, 2, 1), *([nn.BatchNorm2d(width)] if norm else []), nn.ReLU()]
    layers += [nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(8 * width, 16), nn.LayerNorm(16), nn.ReLU()]
    layers += [nn.Dropout(dropout), nn.Linear(16, num_classes)]
    return _seeing(nn.Sequential(*layers), size)


def stubborn(size=8):
    """Return a network that has ten columns, whatever is asked for."""
    return conv(10, size)


class Broken(nn.Module):
    """A network whose logits are no numbers after its third batch."""

    def __init__(self, num_classes=10):
        super().__init__()
        self.inner = conv(num_classes)
        self.seen = 0

    def forward(self, images):
        """Return logits."""
        self.seen += self.training
        logits = self.inner(images)
        return logits * torch.nan if self.seen > 3 else logits


def broken(num_classes=10):
    """Return the network whose loss is lost."""
    return _seeing(Broken(num_classes), 8)


class Picky(nn.Module):
    """A network that fails on batches it does not like, and has nothing to learn."""

    def forward(self, images):
        """Return logits, of two images only."""
        if len(images) > 2:
            raise ValueError("Expected more than\n1 value per channel")
        return images.mean((1, 2, 3))[:, None].expand(-1, 10)


def picky(num_classes=10, weights=True):
    """Return the network that fails; it may have weights that it does not use."""
    module = Picky()
    module.unused = nn.Linear(2, num_classes) if weights else None
    return _seeing(module, 8)

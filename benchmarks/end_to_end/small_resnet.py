"""A residual network for 32-pixel images that a laptop trains in minutes.

``torch:small_resnet:resnet8`` names it, with this folder on ``PYTHONPATH``.
"""

from __future__ import annotations

import torch
from torch import nn

#: Means and spreads of CIFAR-10's training images, by colour.
INPUT = {"size": (32, 32), "mean": (0.491, 0.482, 0.447), "std": (0.247, 0.243, 0.262)}


class Block(nn.Module):
    """Two convolutions beside a way past them."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width_in, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.past = nn.Identity()
        if stride > 1 or width_in != width:
            self.past = nn.Sequential(
                nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return what comes out, never below zero."""
        return torch.relu(self.body(images) + self.past(images))


class SmallResNet(nn.Module):
    """A convolution, three blocks at half the size each, and a linear layer."""

    input_spec = INPUT

    def __init__(self, num_classes: int, width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.blocks = nn.Sequential(
            Block(width, 2 * width, 2),
            Block(2 * width, 4 * width, 2),
            Block(4 * width, 8 * width, 2),
        )
        self.head = nn.Linear(8 * width, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        return self.head(self.blocks(self.stem(images)).mean(dim=(2, 3)))


def resnet8(num_classes: int = 10, width: int = 32) -> nn.Module:
    """Build the network, with random weights."""
    return SmallResNet(num_classes, width).to(memory_format=torch.channels_last)

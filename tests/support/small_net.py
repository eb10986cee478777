"""Small torch networks that ``torch:support.small_net:NAME`` opens, with what can go wrong."""

import os
import signal
import time

import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    """Two convolutions and a last layer, with random weights by a seed."""

    def __init__(self, num_classes=3, seed=0, width=8, delay=0.0):
        super().__init__()
        torch.manual_seed(seed)
        self.input_spec = {"size": 16, "mean": 0.5, "std": 0.25}
        self.delay = delay
        self.body = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.BatchNorm2d(8)),
            *(nn.Conv2d(8, width, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
            nn.Dropout(0.5),
        )
        self.fc = nn.Linear(width, num_classes)

    def forward(self, x):
        time.sleep(self.delay)
        return self.fc(self.body(x))


class BrightIsNan(Net):
    """A network that has no answer for images that are white."""

    def forward(self, x):
        out = super().forward(x)
        return torch.where((x.mean((1, 2, 3)) > 1.99)[:, None], torch.nan, out)


class Raises(Net):
    """A network that fails on whatever is not all of one colour."""

    def forward(self, x):
        if x.std() > 0:
            raise RuntimeError("no kernel\nfor this")
        return super().forward(x)


class Preprocess:
    """Pixels as they are."""

    def __call__(self, image):
        pixels = np.asarray(image.resize((16, 16)), dtype=np.float32) / 255
        return torch.from_numpy(pixels.transpose(2, 0, 1))


class Deadly(Preprocess):
    """The process that meets a white image is killed."""

    def __call__(self, image):
        if np.asarray(image).mean() > 254:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(image)


class Uneven(Preprocess):
    """Images keep their size."""

    def __call__(self, image):
        size = image.size if image.size != (320, 256) else (16, 16)
        return torch.zeros(3, size[1], size[0])


def deadly(num_classes=2):
    return Net(num_classes), Deadly()


def uneven(num_classes=2):
    return Net(num_classes), Uneven()

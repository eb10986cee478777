"""Small networks of images, as ``torch:support.small_nets:Small`` names them."""

from torch import nn

from smallcal_lab.vision import InputSpec


class Small(nn.Module):
    """A convolution, a mean over places, a layer."""

    def __init__(self, num_classes=10, width=6):
        super().__init__()
        self.input_spec = {"size": 32, "mean": 0.5, "std": [0.25, 0.25, 0.25], "crop": 0.875}
        self.body = nn.Sequential(nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.ReLU())
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, batch):
        return self.fc(self.drop(self.body(batch).mean((2, 3))))


class Bare(nn.Module):
    """It does not say what it sees, and has no layer with as many outputs as classes."""

    def forward(self, batch):
        return batch.mean((2, 3))


class Wide(Small):
    """It gives more than its logits."""

    def forward(self, batch):
        return {"logits": super().forward(batch), "loss": None}


class Convolved(nn.Module):
    """Its last layer is a convolution over places."""

    input_spec = InputSpec((16, 16))

    def __init__(self, num_classes=4):
        super().__init__()
        self.stem = nn.Conv2d(3, 5, 3)
        self.last = nn.Conv2d(5, num_classes, 1)

    def forward(self, batch):
        return self.last(self.stem(batch)).mean((2, 3))


def grey(image):
    """Return an image as 3 x 24 x 24 numbers."""
    import torch

    return torch.full((3, 24, 24), sum(image.getpixel((0, 0))) / 765)


def pair():
    return Bare(), grey


def fixed():
    return Small(4)


def broken():
    raise RuntimeError("no such\nlayer")


def nothing():
    return 3

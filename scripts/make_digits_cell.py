"""Make the small real cell that tests use: `python scripts/make_digits_cell.py`.

scikit-learn brings 1,797 scans of handwritten digits of 8x8 pixels. Its multi-layer perceptron, one
hidden layer of 64 units, is trained on 150 of them until it is over-confident; its logits on the
other digits, 800 to calibrate with and 847 to test on, are written to
tests/support/cells/digits10__mlp.npz. Nothing is downloaded, and it takes a second.

Every random choice is seeded. Another build of NumPy or scikit-learn may add in another order:
logits then differ in their last digits, which a test allows for, and so does the file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

FILE = Path(__file__).resolve().parents[1] / "tests" / "support" / "cells" / "digits10__mlp.npz"
#: Of the file in the repository.
SHA256 = "9b04a16f8744b44a4e11f57f3e11ce2cd6563c3c1378566515e7f6fd88f437d8"

SPLIT_SEED, TRAIN_SEED = 0, 0
N_TRAIN, N_VAL = 150, 800
EPOCHS = 200


def made() -> dict[str, npt.NDArray[np.float32] | npt.NDArray[np.int64]]:
    """Train the model and return the arrays of the cell."""
    digits = load_digits()
    order = np.random.default_rng(SPLIT_SEED).permutation(len(digits.target))
    pixels, labels = digits.data[order] / 16, digits.target[order].astype(np.int64)
    model = MLPClassifier((64,), learning_rate_init=0.01, random_state=TRAIN_SEED)
    # So many, whether or not the loss still falls: that is what makes it over-confident.
    for _ in range(EPOCHS):
        model.partial_fit(pixels[:N_TRAIN], labels[:N_TRAIN], classes=np.arange(10))
    hidden = np.maximum(pixels @ model.coefs_[0] + model.intercepts_[0], 0)
    logits = (hidden @ model.coefs_[1] + model.intercepts_[1]).astype(np.float32)
    val, test = slice(N_TRAIN, N_TRAIN + N_VAL), slice(N_TRAIN + N_VAL, None)
    return {
        "val_logits": logits[val],
        "val_labels": labels[val],
        "test_logits": logits[test],
        "test_labels": labels[test],
    }


def main() -> None:
    """Write the file, and say what it is."""
    FILE.parent.mkdir(exist_ok=True)
    arrays = made()
    np.savez_compressed(FILE, **arrays)
    right = arrays["test_logits"].argmax(axis=1) == arrays["test_labels"]
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes, accuracy {100 * right.mean():.1f} %")
    print(f"sha256 {hashlib.sha256(FILE.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()

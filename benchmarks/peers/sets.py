"""What calibrators are measured on: shipped, made by scikit-learn's data, simulated, and yours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SHIPPED, DIGITS, SIMULATED, REAL = "demo", "digits", "simulated", "real logits"
TEST_ROWS = 3000
BUDGET = 500


@dataclass(frozen=True)
class Cell:
    """Calibration and test samples of one model."""

    kind: str
    name: str
    z: Any
    y: Any
    z_test: Any
    y_test: Any
    truth: Any = None  # the true probabilities, where they are known


def cells(folder: Path | None) -> Iterator[Cell]:
    """Yield everything there is to be measured on, always in the same order."""
    yield from demo()
    yield from digits()
    yield from simulated()
    if folder is not None:
        yield from real(folder)


def demo() -> Iterator[Cell]:
    """Yield the model that ships with smallcal: 345 classes."""
    import smallcal as sc

    cal, test = sc.load_demo("cal"), sc.load_demo("test")
    z, z_test = cal.logits.astype(np.float64), test.logits.astype(np.float64)
    for n in (250, len(cal.labels)):
        yield Cell(SHIPPED, f"{n} samples", z[:n], cal.labels[:n], z_test, test.labels)


def digits() -> Iterator[Cell]:
    """Yield three models of handwritten digits, which scikit-learn ships."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, cal, test = np.split(order, (300, 300 + BUDGET))
    models = {
        "naive Bayes": GaussianNB(),
        "forest": RandomForestClassifier(100, random_state=0),
        "network": MLPClassifier((32,), alpha=1e-6, max_iter=2000, random_state=0),
    }
    for name, model in models.items():
        model.fit(X[train], y[train])
        p = model.predict_proba(X)
        z = np.log(np.maximum(p, max(p[p > 0].min() / 2, 1e-15)))  # forests and Bayes say 0
        yield Cell(DIGITS, name, z[cal], y[cal], z[test], y[test])


def simulated() -> Iterator[Cell]:
    """Yield models whose true probabilities are known."""
    from smallcal_lab.studies.simulate import World

    for name, classes, structure in (
        ("one temperature is the truth, 10 classes", 10, 0.0),
        ("one temperature is the truth, 100 classes", 100, 0.0),
        ("temperature depends on risk, 10 classes", 10, 0.4),
        ("temperature depends on risk, 100 classes", 100, 0.4),
    ):
        world = World(n_classes=classes, accuracy=0.8, temperature=2.0, structure=structure)
        cal, test = world.draw(BUDGET), world.draw(TEST_ROWS, split="test")
        z, z_test = cal.logits.astype(np.float64), test.logits.astype(np.float64)
        yield Cell(SIMULATED, name, z, cal.labels, z_test, test.labels, test.probabilities)


def real(folder: Path, each: int = 3) -> Iterator[Cell]:
    """Yield up to three files of a folder and of each of its subfolders, evenly spaced by name.

    A file has arrays ``val_logits``, ``val_labels``, ``test_logits``, ``test_labels``.
    """
    for room in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        files = [path for path in sorted(room.glob("*.npz")) if _complete(path)]
        places = np.unique(np.linspace(0, len(files) - 1, each).round().astype(int))
        for path in [files[place] for place in places] if files else []:
            with np.load(path) as arrays:
                z, y = arrays["val_logits"].astype(np.float64), arrays["val_labels"]
                z_test, y_test = arrays["test_logits"].astype(np.float64), arrays["test_labels"]
            rows = np.random.default_rng(0).permutation(len(y))[:BUDGET]
            some = slice(TEST_ROWS)
            yield Cell(REAL, path.stem, z[rows], y[rows], z_test[some], y_test[some])


def _complete(path: Path) -> bool:
    with np.load(path) as arrays:
        wanted = {f"{part}_{what}" for part in ("val", "test") for what in ("logits", "labels")}
        return wanted <= set(arrays.files)


def folder_given() -> Path | None:
    """Return the folder that SMALLCAL_DATA names, if there is one."""
    said = os.environ.get("SMALLCAL_DATA", "")
    return Path(said) if said and Path(said).is_dir() else None

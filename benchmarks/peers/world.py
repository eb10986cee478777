"""The small world that proofs run in: one model, its arrays, and the same in files."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB

CLASSES = 4
SIZES = (600, 800, 1500)  # training, calibration, test


class World:
    """A naive Bayes classifier, which is far too sure of itself, on held-out rows.

    Names are those that proofs ask for: ``z, y, p`` are logits, labels and probabilities of the
    calibration samples, ``z_test, y_test, p_test`` of others; ``score, right`` one number per
    sample and whether the prediction was right.
    """

    def __init__(self, seed: int = 0) -> None:
        X, y = make_classification(
            sum(SIZES),
            n_features=12,
            n_informative=6,
            n_redundant=6,
            n_classes=CLASSES,
            class_sep=1.2,
            random_state=seed,
        )
        ends = np.cumsum(SIZES)[:-1]
        self.X_train, self.X, self.X_test = np.split(X, ends)
        self.y_train, self.y, self.y_test = np.split(y, ends)
        self.model = GaussianNB().fit(self.X_train, self.y_train)
        self.z = self.model.predict_joint_log_proba(self.X)
        self.z_test = self.model.predict_joint_log_proba(self.X_test)
        self.p, self.p_test = np.exp(log_softmax(self.z, 1)), np.exp(log_softmax(self.z_test, 1))
        self.score, self.score_test = self.p.max(axis=1), self.p_test.max(axis=1)
        self.right = (self.p.argmax(axis=1) == self.y).astype(int)
        self.right_test = (self.p_test.argmax(axis=1) == self.y_test).astype(int)
        self.groups = np.where(self.X[:, 0] > 0, "a", "b")
        self.weights = np.random.default_rng(seed).uniform(0.5, 1.5, len(self.y))

    @cached_property
    def folder(self) -> Path:
        """A folder with cal.npz and test.npz, removed when the program ends."""
        path = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, path, ignore_errors=True)
        np.savez(path / "cal.npz", logits=self.z, labels=self.y)
        np.savez(path / "test.npz", logits=self.z_test, labels=self.y_test)
        np.save(path / "new.npy", self.z_test)
        return path

    @cached_property
    def loader(self) -> Any:
        """Calibration logits and labels in batches, as torch packages want them."""
        return self._batches(self.z, self.y)

    @cached_property
    def test_loader(self) -> Any:
        """The same of the test samples."""
        return self._batches(self.z_test, self.y_test)

    @staticmethod
    def _batches(logits: Any, labels: Any) -> Any:
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        rows = torch.as_tensor(logits, dtype=torch.float32), torch.as_tensor(labels)
        return DataLoader(TensorDataset(*rows), batch_size=200)

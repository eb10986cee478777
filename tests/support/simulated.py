"""Logits with known truth, for tests."""

from __future__ import annotations

import numpy as np


def simulate(n, n_classes, *, temperature=1.6, seed=0, signal=4.0):
    """Draw logits whose true calibrated probabilities are softmax(z / temperature)."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, n_classes))
    z[np.arange(n), rng.integers(n_classes, size=n)] += signal * rng.random(n)
    true = z * 1.5
    p = np.exp(true - true.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    labels = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return true * temperature, labels

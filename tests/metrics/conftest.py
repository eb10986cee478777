"""Data that the metric tests share: made by session fixtures, so that hypothesis may use them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

Case = tuple[NDArray[np.int64], NDArray[np.float64]]


@pytest.fixture(scope="session")
def softmax_case() -> Callable[..., Case]:
    """Labels and probabilities of an imperfect model, without ties."""

    def make(n: int = 300, n_classes: int = 5, *, seed: int = 0, sharpness: float = 2.0) -> Case:
        rng = np.random.default_rng(seed)
        logits = sharpness * rng.normal(size=(n, n_classes))
        proba = np.exp(logits - logits.max(axis=1, keepdims=True))
        proba /= proba.sum(axis=1, keepdims=True)
        # Labels follow a flatter distribution than the model says: it is overconfident.
        noise = rng.gumbel(size=(n, n_classes))
        return (0.6 * logits + noise).argmax(axis=1), proba

    return make


@pytest.fixture(scope="session")
def pairs() -> Callable[..., Case]:
    """Labels and probabilities with the confidences and hits that are asked for."""

    def make(confidence: object, correct: object, n_classes: int = 10) -> Case:
        top = np.asarray(confidence, dtype=np.float64)
        proba = np.repeat((1 - top)[:, np.newaxis] / (n_classes - 1), n_classes, axis=1)
        proba[:, 0] = top
        return np.where(np.asarray(correct, dtype=bool), 0, 1), proba

    return make

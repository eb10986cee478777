"""One number per row with an outcome: a judge's marks, and confidences with ties at 0 and 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def marks(n: int, seed: int, *, falling: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Marks from 1 to 5 of a judge who is a little too strict, and whether people agree."""
    rng = np.random.default_rng(seed)
    given = rng.integers(1, 6, n).astype(np.float64)
    agreed = rng.random(n) < 1 / (1 + np.exp(-0.9 * (given - 3) - 0.4))
    return (6 - given if falling else given), agreed.astype(np.int64)


def confidences(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Confidences in tenths, 0 and 1 among them, of a model that is too sure."""
    rng = np.random.default_rng(seed)
    said = np.round(rng.beta(1.2, 0.8, n), 1)
    return said, (rng.random(n) < 0.15 + 0.6 * said).astype(np.int64)


def write(file: str | Path, scores: np.ndarray, outcomes: np.ndarray) -> None:
    """Write a table of two columns."""
    rows = zip(scores.tolist(), outcomes.tolist(), strict=True)
    lines = [f"{score!r},{outcome!r}" for score, outcome in rows]
    Path(file).write_text("\n".join(["score,outcome", *lines]) + "\n")

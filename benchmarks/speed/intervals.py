"""Intervals against the values alone, and the verbs that print them, with every core there is.

Bounds are the seconds promised over those that the values took on the machine of the promise: 0.05
for 10,000 x 100, five times that for five methods.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import softmax

import smallcal as sc
from ratio import Ratio, in_turns, verbs

N, N_CLASSES = 10_000, 100
TEMPERATURES = (1.0, 1.2, 1.4, 1.6, 1.8)
VERBS = {
    "report`, six methods, 10,000 x 100": ("report cal.npz test.npz -o report.html", 4.0),
    "evaluate`, the demo's 3,000 x 345": ("evaluate demo.npz", 1.5),
}


def half_right(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return logits of which about half are right, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(N_CLASSES, size=N)
    z = 2 * rng.normal(size=(N, N_CLASSES))
    z[np.arange(N), labels] += 5 + 2 * rng.normal(size=N)
    return z.astype(np.float32), labels


def rows() -> Iterator[Ratio]:
    z, y = half_right(0)
    probas = {f"m{i}": softmax(z.astype(float) / t, axis=1) for i, t in enumerate(TEMPERATURES)}
    p, alone = probas["m0"], "values alone"
    pair = in_turns(lambda: sc.evaluate(y, p, ci=True), lambda: sc.evaluate(y, p), repeats=3)
    yield Ratio.of("`sc.evaluate(ci=True)`, 10,000 x 100", alone, *pair, 1.5 / 0.05)
    pair = in_turns(
        lambda: sc.compare(y, probas, n_boot=2000),
        lambda: [sc.evaluate(y, own) for own in probas.values()],
        repeats=3,
    )
    what = "`sc.compare`, five methods, 10,000 x 100, 2,000 resamples"
    yield Ratio.of(what, alone, *pair, 4 / 0.25)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo = sc.load_demo("test")
        sets = {"cal": half_right(1), "test": half_right(2), "demo": (demo.logits, demo.labels)}
        for file, (logits, labels) in sets.items():
            np.savez(folder / f"{file}.npz", logits=logits, labels=labels)
        yield from verbs(VERBS, folder, repeats=3)

"""Intervals, and the verbs that print them, with every core there is.

What was promised are seconds, so the reference is a Python that only starts, as it is of verbs. It
was the values without intervals, which are our own code: to make them faster broke the bound.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.special import softmax

import smallcal as sc
from ratio import NOTHING, SECONDS, STARTS, Ratio, in_turns, program, shown, verbs

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
    p = probas["m0"]
    cases = {
        "`sc.evaluate(ci=True)`, 10,000 x 100": (
            lambda: sc.evaluate(y, p, ci=True),
            lambda: sc.evaluate(y, p),
            1.5,
        ),
        "`sc.compare`, five methods, 10,000 x 100, 2,000 resamples": (
            lambda: sc.compare(y, probas, n_boot=2000),
            lambda: [sc.evaluate(y, own) for own in probas.values()],
            4.0,
        ),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        starts = program(NOTHING, folder)
        for what, (whole, values, seconds) in cases.items():
            ours, theirs, alone = in_turns(whole, starts, values, repeats=5)
            row = Ratio.of(what, STARTS, ours, theirs, seconds / SECONDS)
            yield replace(row, detail=f"{row.detail}; values alone {shown(np.median(alone))}")
        demo = sc.load_demo("test")
        sets = {"cal": half_right(1), "test": half_right(2), "demo": (demo.logits, demo.labels)}
        for file, (logits, labels) in sets.items():
            np.savez(folder / f"{file}.npz", logits=logits, labels=labels)
        yield from verbs(VERBS, folder, repeats=3)

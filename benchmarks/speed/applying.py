"""Probabilities against SciPy's softmax, and those of scores against one logistic curve."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import expit, softmax

import smallcal as sc
from ratio import Ratio, logits, own_processes


def srts(z, y):
    cal = sc.SRTS().fit(z[:2500], y[:2500])
    return lambda: cal.predict_proba(z), lambda: softmax(z / np.float32(1.5), axis=1)


def default(z, y):
    cal = sc.Calibrator().fit(z[:2500], y[:2500])
    return lambda: cal.predict_proba(z), lambda: softmax(z / np.float32(1.5), axis=1)


def scores(x, y):
    cal = sc.Calibrator(input="score").fit(x[:500], y[:500])
    return lambda: cal.predict_score(x), lambda: expit(0.7 * x + 0.1)


CASES = (
    ("srts", "SRTS", 10_000, 100, 20, 1.5),
    ("srts", "SRTS", 50_000, 1_000, 3, 1.5),
    ("default", "the default", 10_000, 10, 30, 10.0),
    ("default", "the default", 10_000, 100, 20, 5.0),
)


def rows() -> Iterator[Ratio]:
    for function, name, n, n_classes, repeats, bound in CASES:
        ours, theirs = own_processes("applying", function, *logits(n, n_classes), repeats)
        what = f"{name}, {n:,} x {n_classes:,} float32"
        yield Ratio.of(what, "SciPy's softmax", ours, theirs, bound)
    rng = np.random.default_rng(0)
    x = 2 * rng.standard_normal(10_000_000)
    outcome = rng.random(len(x)) < expit(x)
    for kind, numbers in (("numbers", x), ("probabilities", expit(x))):
        ours, theirs = own_processes("applying", "scores", numbers, outcome, 2)
        what = f"the default for scores, 10,000,000 {kind}"
        yield Ratio.of(what, "`expit(a x + b)`", ours, theirs, 3)

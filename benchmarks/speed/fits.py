"""Fits against scikit-learn's one temperature, and against SRTS as one would first write it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.calibration import _TemperatureScaling
from sklearn.linear_model import LogisticRegression

import smallcal as sc
from ratio import Ratio, logits, own_processes
from smallcal.advice.certify_walk import Counts, Target, walk

sys.path.insert(0, str(Path(__file__).parents[1]))
from reference import ReferenceSRTS

SKLEARN = "scikit-learn's one temperature"


def fits(z, y):
    return (
        lambda: sc.SRTS().fit(z, y),
        lambda: sc.TemperatureScaling().fit(z, y),
        lambda: _TemperatureScaling().fit(z, y),
        lambda: ReferenceSRTS().fit(z, y),
    )


def default(z, y):
    return lambda: sc.Calibrator().fit(z, y), lambda: _TemperatureScaling().fit(z, y)


def certified(confidence, correct):
    target = Target(risk=0.05, delta=0.05)
    return lambda: walk(Counts.of(confidence, correct), target), lambda: np.sort(confidence)


def scores(x, y):
    return (
        lambda: sc.Calibrator(input="score").fit(x, y),
        lambda: LogisticRegression().fit(x[:, None], y),
    )


def rows() -> Iterator[Ratio]:
    routed, scalar, theirs, plain = own_processes("fits", "fits", *logits(2500, 100), 5)
    yield Ratio.of("SRTS, 2,500 x 100", SKLEARN, routed, theirs, 1.5)
    yield Ratio.of("SRTS, 2,500 x 100", "straightforward SRTS", routed, plain, 1 / 15)
    yield Ratio.of("one temperature, 2,500 x 100", SKLEARN, scalar, theirs, 1.0)
    # The default fits C + 40 parameters, their prior scales, and five folds.
    for n, n_classes, repeats, bound in (
        (2_500, 100, 5, 10.0),
        (25_000, 100, 2, 10.0),
        (2_500, 10, 10, 20.0),
    ):
        ours, theirs = own_processes("fits", "default", *logits(n, n_classes), repeats)
        yield Ratio.of(f"the default, {n:,} x {n_classes}", SKLEARN, ours, theirs, bound)
    rng = np.random.default_rng(0)
    x = 2 * rng.standard_normal(500)
    ours, theirs = own_processes("fits", "scores", x, rng.random(len(x)) < expit(x), 20)
    sklearn = "scikit-learn's logistic regression"
    yield Ratio.of("the default for scores, 500 of them", sklearn, ours, theirs, 5)
    confidence = expit(rng.normal(3.0, 1.8, 1_000_000))
    correct = rng.random(len(confidence)) < confidence
    ours, theirs = own_processes("fits", "certified", confidence, correct, 10)
    yield Ratio.of("certify, 1,000,000 confidences", "`np.sort` of them", ours, theirs, 3)

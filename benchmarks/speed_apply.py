"""Applying the default against a plain softmax, both timed in turns in this process.

``rows()`` gives (what, ours in seconds, reference in seconds, bound) for the table of `make bench`.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import time
import warnings

import numpy as np
from scipy.special import softmax

import smallcal as sc

#: Rows, classes and type of what is applied to, the method, turns, and the ratio promised.
CASES = (
    (10_000, 10, np.float32, "default", 40, 1.2),
    (10_000, 100, np.float32, "default", 15, 1.2),
    (10_000, 1_000, np.float32, "default", 4, 3.0),
    (10_000, 100, np.float64, "default", 8, 4.0),
    (10_000, 10, np.float32, "SRTS", 40, 2.5),
    (10_000, 100, np.float32, "SRTS", 15, 2.0),
    (1, 10, np.float32, "default", 300, 20.0),
    (1, 100, np.float32, "default", 300, 20.0),
    (1, 1_000, np.float32, "default", 300, 20.0),
    (1, 100, np.float32, "SRTS", 300, 10.0),
)


def rows():
    """Yield what was timed, the median of each side, and the bound."""
    for n, n_classes, kind, name, turns, bound in CASES:
        fitted = _fitted(n_classes, kind, name)
        z, _ = _logits(n, n_classes, kind, seed=1)
        scale = z.dtype.type(1.5)
        ours, theirs = _in_turns(
            lambda fitted=fitted, z=z: fitted.predict_proba(z),
            lambda z=z, scale=scale: softmax(z / scale, axis=1),
            turns,
        )
        what = f"predict_proba of {name} / scipy softmax, {n:,} x {n_classes:,} {z.dtype}"
        yield what, ours, theirs, bound


def _logits(n, n_classes, kind, seed=0):
    """Draw what `speed.logits` draws."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, n_classes), dtype=np.float32) * 2
    z[np.arange(n), rng.integers(n_classes, size=n)] += 16 * rng.random(n, dtype=np.float32)
    return z.astype(kind), (z / 1.5 + rng.gumbel(size=(n, n_classes))).argmax(axis=1)


def _fitted(n_classes, kind, name):
    made = sc.SRTS() if name == "SRTS" else sc.Calibrator()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        found = made.fit(*_logits(2_500, n_classes, kind)).fitted_
    if name == "default":  # with all its parts, or something else is timed
        assert found.correction is not None
        assert found.correction.reads
        assert found.tail_temperature is not None
        assert found.keep_predictions
        assert found.map.kind == "class_regressed"
    return found


def _in_turns(ours, theirs, turns):
    """Return the median time of each, taken in turns: of the processor, whoever else uses it."""
    times = np.empty((turns, 2))
    for turn in range(-1, turns):  # the first is a warm-up
        for side, function in enumerate((ours, theirs)):
            start = time.process_time()
            function()
            times[turn, side] = time.process_time() - start
    return np.median(times, axis=0)


if __name__ == "__main__":
    for what, ours, theirs, bound in rows():
        shown = f"{1e3 * ours:.3f} ms, {1e3 * theirs:.3f} ms"
        print(f"{what:<62} {ours / theirs:6.2f}  (at most {bound:g})  {shown}", flush=True)

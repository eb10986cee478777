"""Speed of calibrating one number per row, for `make bench`: fitting, and applying.

`python benchmarks/score_speed.py` shows it alone.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import time
import warnings
from types import MappingProxyType

import numpy as np
from scipy.special import expit

import smallcal as sc

N_LABELS, N_APPLIED = 500, 10_000_000
#: Seconds that a fit may take.
FIT_SECONDS = 0.010
KINDS = MappingProxyType({"number": lambda x: 5 + 2 * x, "probability": expit})


def scored(n, kind, dtype=np.float64):
    """Draw scores, and outcomes that are rarer than the scores say."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n) * 2
    outcome = (rng.random(n) < expit(0.6 * x - 0.5)).astype(int)
    return KINDS[kind](x).astype(dtype), outcome


def in_turns(functions, repeats):
    """Return the best time of each function, taken in turns so that none has the quiet minute."""
    times = np.empty((repeats + 1, len(functions)))
    for row in times:
        for place, function in enumerate(functions):
            start = time.perf_counter()
            function()
            row[place] = time.perf_counter() - start
    return times[1:].min(axis=0)  # the first warms up


def score_speed(report):
    """Report the promised ratios."""
    for kind in KINDS:
        scores, outcome = scored(N_LABELS, kind)
        (ours,) = in_turns([lambda: sc.Calibrator(input="score").fit(scores, outcome)], 10)  # noqa: B023
        what = f"default fit of {N_LABELS} scores ({kind}) / {FIT_SECONDS * 1e3:g} ms"
        report(what, ours / FIT_SECONDS, 1.0, f"{ours * 1e3:.1f} ms")
    for kind in KINDS:
        cal = sc.Calibrator(input="score").fit(*scored(N_LABELS, kind))
        x, _ = scored(N_APPLIED, kind)
        ours, plain = in_turns(
            [lambda: cal.predict_score(x), lambda: expit(1.5 * x - 0.5)],  # noqa: B023
            3,
        )
        what = f"predict_score / expit(a * x + b), {N_APPLIED:,} ({kind})"
        report(what, ours / plain, 3.0, f"{ours * 1e3:.0f} ms, {plain * 1e3:.0f} ms")


def show(what, ratio, bound, detail=""):
    holds = "ok " if ratio <= bound else "NO "
    print(f"{holds} {what:<58} {ratio:8.3f}  (at most {bound:g})  {detail}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", sc.FitWarning)
    score_speed(show)

"""What every method costs: `make bench-methods`, or `python benchmarks/methods.py [NAME ...]`.

The paper's efficiency table for all names in `sc.methods()`: fitted on 2,500 samples of 100
classes, applied to 10,000, everything in this one run, single-threaded. Quick methods are repeated
and the median is shown; one that takes seconds is fitted once. Ratios are to `srts-bce`.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import sys
import time
import warnings

import numpy as np

import smallcal as sc
from smallcal.calibrators.catalogue import METHODS
from speed.ratio import logits

REFERENCE = "srts-bce"
REPEATS = 7
SLOW = 1.0
N_FEATURES = 64

#: What the paper's efficiency table gives for the same ratio.
PAPER = {
    "smart-bce": "the paper: 31",
    "sats-logit-nll": "a sweep of 48 heads; the paper, for one head: 37",
    "utemphead": "one head",
}


def median_time(function):
    """Return the median time of several runs after a first; slow ones run once."""
    start = time.perf_counter()
    function()
    first = time.perf_counter() - start
    if first > SLOW:
        return first
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def measure(name, cal, test):
    """Return parameters, seconds to fit, and microseconds for each sample applied."""
    estimator = sc.make(name)
    few = slice(200)  # loads packages, compiles what is compiled
    estimator.fit(cal.z[few], cal.y[few], features=cal.features[few])
    fit_time = median_time(lambda: estimator.fit(cal.z, cal.y, features=cal.features))
    needs = estimator.fitted_.signal.needs
    extra = {"features": test.features} if "features" in needs else {}
    extra |= {"y": test.y} if "labels" in needs else {}
    apply_time = median_time(lambda: estimator.predict_proba(test.z, **extra))
    return estimator.n_parameters_, fit_time, 1e6 * apply_time / len(test.z)


class Data:
    """Logits, labels, and features that say a little about both."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.z, self.y = logits(n, 100, seed=seed)
        mix = np.random.default_rng(7).standard_normal((100, N_FEATURES)) / 10
        self.features = np.tanh(self.z @ mix) + rng.standard_normal((n, N_FEATURES))


def main(names):
    """Print the table as each method is done."""
    cal, test = Data(2_500, 0), Data(10_000, 1)
    known = [name for name, row in METHODS.items() if not row.binary]
    names = [REFERENCE, *(name for name in names or known if name != REFERENCE)]
    print("| method | parameters | fit (s) | fit / srts-bce | apply (µs a sample) |")
    print("|---|---|---|---|---|")
    reference, times = None, {}
    for name in names:
        try:
            count, fit_time, apply_time = measure(name, cal, test)
        except sc.MissingExtraError as error:
            print(f"| `{name}` | not installed: {error} | | | |", flush=True)
            continue
        reference = reference or fit_time
        times[name] = fit_time
        ratio = fit_time / reference
        print(
            f"| `{name}` | {count:,} | {fit_time:.4f} | {ratio:.2f} | {apply_time:.2f} |",
            flush=True,
        )
    for name, paper in PAPER.items():
        if name in times:
            ratio = times[name] / reference
            print(f"{REFERENCE} fits {ratio:,.0f} times faster than {name} ({paper}).")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])

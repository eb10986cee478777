"""Do 95 % intervals hold the truth 95 % of the time? `python benchmarks/coverage_study.py`.

Logits come from a known generator and labels from known probabilities, so that every metric has a
known population value. Many test sets are drawn; each gets its bootstrap intervals; the table
counts how often they hold that value. For a small ece15 percentile intervals do not, because the
estimate is biased upward and resampling adds the bias again: the table shows by how much, and what
`corrected` leaves of it.

Not named coverage.py: that would hide the package coverage from numba and pytest-cov.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np

import smallcal as sc
from smallcal.data.special import log_softmax, softmax
from smallcal.metrics.binned import DEFAULT_BINS, bin_sums, equal_width

METRICS = ("accuracy", "nll", "brier", "top_label_bce", "ece15")
#: Temperatures of the two methods. Labels follow softmax(z / TRUE).
TRUE = 1.6
METHODS = {"raw": 1.0, "near": 1.5}
DIFFERENCE = "near - raw"
N_CLASSES = 10
#: Rows at a time when the population values are computed.
BLOCK = 100_000


def draw_logits(n, rng):
    """Draw logits: noise, and a signal of random strength on one class."""
    z = rng.normal(size=(n, N_CLASSES))
    z[np.arange(n), rng.integers(N_CLASSES, size=n)] += 5.0 * rng.random(n)
    return 2.0 * z


def draw_set(n, rng):
    """Draw a test set: labels, and each method's probabilities."""
    z = draw_logits(n, rng)
    steps = softmax(z / TRUE).cumsum(axis=1)
    labels = (steps > steps[:, -1:] * rng.random((n, 1))).argmax(axis=1)
    return labels, {name: softmax(z / t) for name, t in METHODS.items()}


def expected_sums(z, temperature):
    """Return sums over rows of what each metric expects given the logits, and ECE's bin sums."""
    chance = softmax(z / TRUE)
    logs = log_softmax(z / temperature)
    p = np.exp(logs)
    rows, top = np.arange(len(z)), p.argmax(axis=1)
    hit, confidence = chance[rows, top], p[rows, top]
    p[rows, top] = 0.0
    doubt = p.sum(axis=1)
    squares = (p**2).sum(axis=1) + confidence**2
    on_truth = (chance * p).sum(axis=1) + hit * confidence
    values = {
        "accuracy": hit,
        "nll": -(chance * logs).sum(axis=1),
        "brier": squares - 2 * on_truth + 1,
        "top_label_bce": -hit * np.log(confidence) - (1 - hit) * np.log(doubt),
    }
    bins = bin_sums(equal_width(confidence, DEFAULT_BINS), confidence - hit, DEFAULT_BINS)
    return {name: value.sum() for name, value in values.items()} | {"ece15": bins}


def population(rows, seed=1):
    """Return the true value of every metric by (method, metric), from known probabilities.

    Labels are never drawn: what is left of chance is that of the logits of so many rows.
    """
    rng = np.random.default_rng([seed, rows])
    sums = {(name, metric): 0.0 for name in METHODS for metric in METRICS}
    for start in range(0, rows, BLOCK):
        z = draw_logits(min(BLOCK, rows - start), rng)
        for name, temperature in METHODS.items():
            for metric, total in expected_sums(z, temperature).items():
                sums[name, metric] = sums[name, metric] + total
    # One rule for all: only ece15 has several sums, one per bin, whose sizes add up.
    truth = {
        (name, metric): float(np.abs(total).sum() / rows) for (name, metric), total in sums.items()
    }
    for metric in METRICS:
        truth[DIFFERENCE, metric] = truth["near", metric] - truth["raw", metric]
    return truth


def intervals(n, n_boot, seed):
    """Draw one test set and return its intervals by (method, metric), differences too."""
    rng = np.random.default_rng(seed)
    labels, probas = draw_set(n, rng)
    options = {"n_boot": n_boot, "random_state": int(rng.integers(2**32))}
    found = sc.compare(labels, probas, baseline="raw", metrics=METRICS, **options)
    tables = found.value_intervals | {DIFFERENCE: found.intervals["near"]}
    return {(name, metric): row for name, rows in tables.items() for metric, row in rows.items()}


@dataclass(frozen=True)
class Coverage:
    """How the intervals of one quantity did over test sets.

    Attributes
    ----------
    truth : float
    percentile, basic : float
        Shares of test sets whose interval holds the truth.
    above : float
        Share of test sets whose percentile interval lies wholly above the truth.
    bias : float
        Mean point minus truth.
    bias_error : float
        Monte-Carlo standard error of that mean.
    seen : float
        Mean over test sets of the bias that resampling shows: bootstrap mean minus point.
    left : float
        Mean of ``corrected`` minus truth.
    left_error : float
        Monte-Carlo standard error of that mean.
    sets : int
    """

    truth: float
    percentile: float
    basic: float
    above: float
    bias: float
    bias_error: float
    seen: float
    left: float
    left_error: float
    sets: int

    @classmethod
    def of(cls, rows, truth):
        """Summarise the intervals of many test sets."""
        point = np.array([row.point for row in rows])
        corrected = np.array([row.corrected for row in rows])
        low, high = np.array([tuple(row) for row in rows]).T
        below, top = np.array([row.basic for row in rows]).T
        return cls(
            truth=truth,
            percentile=float(np.mean((low <= truth) & (truth <= high))),
            basic=float(np.mean((below <= truth) & (truth <= top))),
            above=float(np.mean(low > truth)),
            bias=float(point.mean() - truth),
            bias_error=float(point.std(ddof=1) / np.sqrt(len(rows))),
            seen=float(np.mean([row.bias for row in rows])),
            left=float(corrected.mean() - truth),
            left_error=float(corrected.std(ddof=1) / np.sqrt(len(rows))),
            sets=len(rows),
        )

    def share(self, value):
        """Return a share and its Monte-Carlo standard error, in percent."""
        error = np.sqrt(value * (1 - value) / self.sets)
        return f"{100 * value:.1f} ± {100 * error:.1f}"


def study(n, sets, n_boot, *, rows=2_000_000, seed=0):
    """Return the coverage of every quantity, by (method, metric)."""
    truth = population(rows)
    found = [intervals(n, n_boot, [seed, i]) for i in range(sets)]
    return {key: Coverage.of([row[key] for row in found], truth[key]) for key in truth}


def show(found):
    """Print the table."""
    print("| metric | of | truth | percentile % | basic % | wholly above % ", end="")
    print("| bias | seen by resampling | left in `corrected` |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, metric in sorted(found, key=lambda key: METRICS.index(key[1])):
        row = found[name, metric]
        if metric == "accuracy" and name == DIFFERENCE:
            continue  # A temperature never changes the prediction: the difference is always 0.
        shares = " | ".join(row.share(value) for value in (row.percentile, row.basic, row.above))
        print(f"| {metric} | {name} | {row.truth:.4f} | {shares} ", end="")
        print(f"| {row.bias:+.4f} ± {row.bias_error:.4f} | {row.seen:+.4f} ", end="")
        print(f"| {row.left:+.4f} ± {row.left_error:.4f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="samples in a test set")
    parser.add_argument("--sets", type=int, default=500, help="test sets")
    parser.add_argument("--boot", type=int, default=1000, help="resamples of each test set")
    options = parser.parse_args()
    start = time.perf_counter()
    found = study(options.n, options.sets, options.boot)
    print(f"{options.sets:,} test sets of {options.n:,} samples, {options.boot:,} resamples each;")
    print("95 % intervals; ± is one Monte-Carlo standard error\n")
    show(found)
    print(f"\n{time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

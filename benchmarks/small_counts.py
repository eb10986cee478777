"""What few seeds and few samples do to an interval and to ECE: `python benchmarks/small_counts.py`.

Two simulations with known truth. The first draws normal differences with equal spread between and
within seeds, and counts how often 95 % intervals over seeds hold the true mean. The second draws
labels from a model's own probabilities, so that its true calibration error is 0, or shifts them by
a known gap of alternating sign, and compares `debiased_ece` with ECE and the noise floor.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from smallcal.metrics import ece
from smallcal.metrics.debiased import debiased_ece
from smallcal_lab.statistics.nested import nested, student

DRAWS = 20
BINS = 15


def coverage(n_seeds, sets, n_boot, rng):
    """Return the shares of intervals that hold 0, the truth, for `nested` and `student`."""
    held = np.zeros(2)
    for _ in range(sets):
        values = rng.normal(size=(n_seeds, 1)) + rng.normal(size=(n_seeds, DRAWS))
        found = (
            nested(values, n_boot=n_boot, random_state=int(rng.integers(2**32))),
            student(values),
        )
        held += [row.low <= 0 <= row.high for row in found]
    return held / sets


def errors(n, gap, sets, rng):
    """Return mean ECE and mean `debiased_ece` of a binary model with a true gap in each bin."""
    found = np.empty((sets, 2))
    for i in range(sets):
        # Confidences in the seven bins above a half, away from their edges and from 1.
        bins = rng.integers(8, BINS - 1, size=n)
        confidence = (bins + rng.uniform(0.2, 0.8, size=n)) / BINS
        chance = confidence + gap * np.where(bins % 2, 1.0, -1.0)
        proba = np.stack([confidence, 1 - confidence], axis=1)
        labels = (rng.random(n) >= chance).astype(int)
        found[i] = ece(labels, proba, bins=BINS), debiased_ece(labels, proba, bins=BINS)
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(sets)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=2000)
    parser.add_argument("--boot", type=int, default=1000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print("| seeds | `nested` holds the truth % | `student` % |\n|---|---|---|")
    for n_seeds in (3, 5, 10, 20):
        shares = coverage(n_seeds, options.sets, options.boot, rng)
        cells = [
            f"{100 * share:.1f} ± {100 * np.sqrt(share * (1 - share) / options.sets):.1f}"
            for share in shares
        ]
        print(f"| {n_seeds} | {cells[0]} | {cells[1]} |")
    print("\n| samples | true gap % | ECE % | debiased % |\n|---|---|---|---|")
    for n in (300, 800, 5000):
        for gap in (0.0, 0.05):
            means, spread = errors(n, gap, options.sets, rng)
            cells = [f"{100 * m:.2f} ± {100 * s:.2f}" for m, s in zip(means, spread, strict=True)]
            print(f"| {n:,} | {100 * gap:.0f} | {cells[0]} | {cells[1]} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

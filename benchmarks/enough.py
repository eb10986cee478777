"""The stopping rule of the bootstrap, simulated: how many resamples, and how far ends are off.

For laws of resamples that are normal, skew, long-tailed and whole numbers, and for one interval and
18 metrics at once: resamples drawn, and the true standard error of the ends over the width.

    python benchmarks/enough.py
"""

from __future__ import annotations

import numpy as np

from smallcal.statistics.enough import LEAST, MOST, STEP, TOLERANCE, end_errors

REPEATS = 150

LAWS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "chi-squared, 4": lambda rng, shape: rng.chisquare(4, size=shape),
    "t, 4": lambda rng, shape: rng.standard_t(4, size=shape),
    "binomial, 200 x 5 %": lambda rng, shape: rng.binomial(200, 0.05, size=shape).astype(float),
}


def drawn_until_steady(draws):
    """Return how many of the resamples of each row the rule takes."""
    left, taken = np.arange(len(draws)), np.full(len(draws), MOST)
    for k in range(LEAST, MOST, STEP):
        steady = end_errors(draws[left, :k], level=0.95) <= TOLERANCE
        taken[left[steady]] = k
        left = left[~steady]
        if not len(left):
            break
    return taken


def main():
    """Print a row for each law and number of intervals that must be steady together."""
    rng = np.random.default_rng(0)
    print(f"{'law':22} {'together':>8} {'resamples':>9}  error of low, high over width (%)")
    for name, law in LAWS.items():
        for together in (1, 18):
            ends, taken = [], []
            for _ in range(REPEATS):
                draws = law(rng, (together, MOST))
                k = int(drawn_until_steady(draws).max())
                taken.append(k)
                ends.append(np.quantile(draws[0, :k], [0.025, 0.975]))
            spread = np.std(ends, axis=0) / np.mean(np.diff(ends))
            low, high = 100 * spread
            print(f"{name:22} {together:8} {np.mean(taken):9.0f}  {low:.1f}, {high:.1f}")


if __name__ == "__main__":
    main()

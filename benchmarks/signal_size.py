"""Do the p-values of `sc.signal_to_noise` mean what they say? `python benchmarks/signal_size.py`.

Splits come from a world with known truth. With structure 0 one temperature calibrates the model:
every signal should be called guilty in 5 % of splits. With structure the temperature follows the
margin, and the share is the power.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import smallcal as sc
from smallcal_lab.studies.simulate import World

WORLDS = {
    "n = 250, 37 % errors": (250, World(n_classes=10, accuracy=0.63, structure=0.0)),
    "n = 250, 5 % errors": (250, World(n_classes=10, accuracy=0.95, structure=0.0)),
    "n = 1,000, 7 % errors": (1000, World(n_classes=10, accuracy=0.93, structure=0.0)),
    "n = 500, by margin": (500, World(n_classes=10, accuracy=0.7, structure=0.4)),
}
NULLS = ("resample", "permutation")


def rejected(world, n, null, splits, n_null):
    """Return, for each signal, the share of splits with p at most 0.05."""
    found = []
    for draw in range(splits):
        data = world.draw(n, draw=draw)
        table = sc.signal_to_noise(
            data.logits, data.labels, null=null, n_null=n_null, n_partitions=2
        )
        found.append([row.p_value for row in table.rows])
    names = [row.signal for row in table.rows]
    return names, 100 * (np.array(found) <= 0.05).mean(axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--n-null", type=int, default=99)
    options = parser.parse_args()
    for number, (words, (n, world)) in enumerate(WORLDS.items()):
        for null in NULLS:
            names, shares = rejected(world, n, null, options.splits, options.n_null)
            if not number and null == NULLS[0]:
                print(f"{options.splits} splits, {options.n_null} draws under the null; percent\n")
                print(f"| simulation | null | {' | '.join(names)} |")
                print("|---|---|" + "---|" * len(names))
            print(
                f"| {words} | {null} | " + " | ".join(f"{v:.1f}" for v in shares) + " |", flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Score maps whose fixed numbers were chosen on other sets: `score_maps_nested.py FOLDER`.

The scales of the default's priors were chosen once, looking at the sets of
docs/explanation/score-maps.md. Here each family of sets (what stands before `__` in their names) is
left out in turn: the numbers are chosen among some variants by log-loss on the other families, and
measured on the family left out.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import score_maps
from smallcal.calibrators.maps import score_fit

#: One number changed at a time; the first is the default.
VARIANTS = (
    {},
    {"EXPECTED_SLOPE": 0.0},
    {"EXPECTED_SLOPE": 1.0},
    {"LEVEL_SCALE": 1.5},
    {"LEVEL_SCALE": 6.0},
    {"BEND_SCALES": (0.01, 0.03, 0.1)},
    {"BEND_SCALES": (0.1, 0.3, 1.0)},
    {"KEPT": 0.02},
    {"KEPT": 1.0},
    {"SLOPE_SCALES": (0.1, 0.3, 1.0)},
)
RIVALS = tuple(name for name in score_maps.MAPS if name != score_maps.DEFAULT)


def measured(path, draws, variant):
    """Return the metrics of the default with other numbers on one set: (budget, 1, metric)."""
    usual = {name: getattr(score_fit, name) for name in variant}
    for name, value in variant.items():
        setattr(score_fit, name, value)
    try:
        return score_maps.measure(path, score_maps.BUDGETS, draws, (score_maps.DEFAULT,))
    finally:
        for name, value in usual.items():
            setattr(score_fit, name, value)


def main():
    """Print the tables of what was chosen on other families."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=20)
    given = parser.parse_args()
    paths = score_maps.sets_in(given.folder)
    families = np.array([path.name.partition("__")[0] for path in paths])
    budgets, draws = score_maps.BUDGETS, given.draws
    with ProcessPoolExecutor() as pool:
        n, jobs = len(paths), []
        rivals = pool.map(score_maps.measure, paths, [budgets] * n, [draws] * n, [RIVALS] * n)
        for variant in VARIANTS:
            jobs.append(pool.map(measured, paths, [draws] * n, [variant] * n))
        others = np.array(list(rivals))
        ours = np.array([list(job) for job in jobs])[:, :, :, 0]  # variant, set, budget, metric
    nll, nested = list(score_maps.METRICS).index("nll"), np.empty_like(ours[0])
    for family in np.unique(families):
        out = families == family
        best = int(ours[:, ~out, :, nll].mean(axis=(1, 2)).argmin())
        nested[out] = ours[best, out]
        print(f"{family} left out: {VARIANTS[best] or 'the default as it is'}")
    found = np.concatenate([nested[:, :, None], others], axis=2)
    text, beaten = score_maps.tables(found, budgets, draws)
    print(text)
    return int(beaten > 0)


if __name__ == "__main__":
    sys.exit(main())

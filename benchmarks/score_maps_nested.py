"""Score maps whose fixed numbers were chosen on other sets: `score_maps_nested.py FOLDER`.

The scales of the default's priors were chosen once, looking at the sets of
docs/explanation/score-maps.md. Here each family of sets (what stands before `__` in their names;
those that stand alone are one family, `others`) is left out in turn: the numbers are chosen among
some variants by log-loss on the other families, and measured on the family left out. Then once
more, choosing as well whether there are steps and half-way ends at all.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import score_maps
from smallcal.calibrators.maps import score, score_fit


def as_they_are(_x):
    """Leave exact 0 and 1 where they are."""
    return score.ANY


NO_STEPS = {"BASES": {"spline": score_fit.BASES["spline"][:-1]}}
NO_HALVES = {"half_way": as_they_are}
#: One thing changed at a time; the first is the default.
VARIANTS = {
    "the default as it is": {},
    "slope around 0": {"EXPECTED_SLOPE": 0.0},
    "slope around 1": {"EXPECTED_SLOPE": 1.0},
    "level held more": {"LEVEL_SCALE": 1.5},
    "level held less": {"LEVEL_SCALE": 6.0},
    "smaller bends": {"BEND_SCALES": (0.01, 0.03, 0.1)},
    "larger bends": {"BEND_SCALES": (0.1, 0.3, 1.0)},
    "less trust in the score": {"KEPT": 0.02},
    "more trust in the score": {"KEPT": 1.0},
    "smaller slopes": {"SLOPE_SCALES": (0.1, 0.3, 1.0)},
    "smaller steps": {"STEP_SCALES": (0.03, 0.1, 0.3)},
    "larger steps": {"STEP_SCALES": (0.3, 1.0)},
    "fewer steps": {"N_STOPS": 12},
    "no steps": NO_STEPS,
    "exact 0 and 1 not half-way": NO_HALVES,
    "neither steps nor half-way": NO_STEPS | NO_HALVES,
}
#: So many at the end are other kinds, not other numbers.
N_KINDS = 3
RIVALS = tuple(name for name in score_maps.MAPS if name != score_maps.DEFAULT)


def measured(path, draws, variant):
    """Return the metrics of the default with other numbers on one set: (budget, 1, metric)."""
    home = {name: score if name in ("BASES", "half_way") else score_fit for name in variant}
    usual = {name: getattr(home[name], name) for name in variant}
    for name, value in variant.items():
        setattr(home[name], name, value)
    try:
        return score_maps.measure(path, score_maps.BUDGETS, draws, (score_maps.DEFAULT,))
    finally:
        for name, value in usual.items():
            setattr(home[name], name, value)


def main():
    """Print the tables of what was chosen on other families."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=20)
    given = parser.parse_args()
    folders = score_maps.sets_in(given.folder)
    paths = [path for each in folders.values() for path in each]
    names = [path.name.partition("__")[0] for path in paths]
    families = np.array([name if names.count(name) > 1 else "others" for name in names])
    budgets, draws = score_maps.BUDGETS, given.draws
    with ProcessPoolExecutor() as pool:
        n, jobs = len(paths), []
        rivals = pool.map(score_maps.measure, paths, [budgets] * n, [draws] * n, [RIVALS] * n)
        for variant in VARIANTS.values():
            jobs.append(pool.map(measured, paths, [draws] * n, [variant] * n))
        others = np.array(list(rivals))
        ours = np.array([list(job) for job in jobs])[:, :, :, 0]  # variant, set, budget, metric
    nll, nested, beaten = list(score_maps.METRICS).index("nll"), np.empty_like(ours[0]), []
    for what, n in (("numbers", len(VARIANTS) - N_KINDS), ("numbers and kinds", len(VARIANTS))):
        for family in np.unique(families):
            out = families == family
            best = int(ours[:n, ..., nll][:, ~out].mean(axis=(1, 2)).argmin())
            nested[out] = ours[best, out]
            print(f"{what}, {family} left out: {list(VARIANTS)[best]}")
        found, start = np.concatenate([nested[:, :, None], others], axis=2), 0
        for said, each in folders.items():
            part = slice(start, start := start + len(each))
            text, times = score_maps.tables(found[part], budgets, draws)
            moved = np.abs((nested - ours[0])[part].mean(axis=0)).max()
            print(f"\n{what}, {said}, no mean moved by more than {moved:.2f}: {text}\n")
            beaten.append(times)
    return int(max(beaten[: len(folders)]) > 0)


if __name__ == "__main__":
    sys.exit(main())

"""What effects of groups are worth on real groups: `group_study.py FOLDER`.

Every file of FOLDER/options has groups (kinds of question). Each method is fitted on draws of its
calibration split, with groups and without, and measured on all of its test samples. Intervals are
over files, which are the units: a mean over draws for each. --write PAGE puts the table there.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

import smallcal as sc
from no_harm import write
from smallcal.data.groups import as_groups
from smallcal.statistics.gaps import gaps_by_group

METHODS = ("default", "ts-nll", "isotonic")
BUDGETS = (100, 250, 500, None)
MARKS = ("<!-- begin groups -->", "<!-- end groups -->")


def mean_gap(labels, proba, groups):
    """Return the mean size of the gap between confidence and accuracy over groups, by samples."""
    rows = gaps_by_group(labels, proba, groups)
    return np.average([abs(row["gap"]) for row in rows], weights=[row["n"] for row in rows])


def measured(labels, proba, groups):
    """Return log-loss, ECE and the mean gap of groups, times 100."""
    found = sc.evaluate(labels, proba, metrics=["nll", "ece15"])
    return 100 * np.array([found["nll"], found["ece15"], mean_gap(labels, proba, groups)])


def gains(path, method, budget, draws):
    """Return what groups change in each metric, the mean over draws, and how often they did."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    z, y = arrays["val_logits"], arrays["val_labels"]
    groups, where = as_groups(arrays["val_groups"]), as_groups(arrays["test_groups"])
    test, truth = arrays["test_logits"], arrays["test_labels"]
    changes, used = [], []
    for draw in range(draws if budget else 1):
        rows = np.random.default_rng(draw).permutation(len(y))[:budget]
        plain = sc.make(method).fit(z[rows], y[rows])
        other = sc.make(method).fit(z[rows], y[rows], groups=groups[rows])
        before, after = plain.predict_proba(test), other.predict_proba(test, groups=where)
        changes.append(measured(truth, after, where) - measured(truth, before, where))
        used.append(other.fitted_.groups.sigma > 0)
    return np.mean(changes, axis=0), np.mean(used)


def interval(values):
    """Return a mean and a 95 % interval by resampling the files."""
    drawn = np.random.default_rng(0).integers(0, len(values), (4000, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return f"{values.mean():+.2f} ({low:+.2f} to {high:+.2f})"


def table(paths, draws):
    """Yield the rows of the table."""
    yield "| method | labels | log-loss x100 | ECE points | gap of groups, points | effects found |"
    yield "|---|---:|---:|---:|---:|---:|"
    for method in METHODS:
        for budget in BUDGETS:
            found = [gains(path, method, budget, draws) for path in paths]
            changes = np.array([change for change, _ in found])
            share = np.mean([used for _, used in found])
            cells = [interval(column) for column in changes.T]
            name = f"| `{method}` | {budget or 'all'} |"
            yield f"{name} {' | '.join(cells)} | {100 * share:.0f} % |"
            print(method, budget, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--write", type=Path, help="put the table into this page")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    paths = sorted((options.folder / "options").glob("*.npz"))
    if not paths:
        sys.exit(f"{options.folder} has no folder options with .npz files")
    text = "\n".join(table(paths, options.draws))
    print(text)
    if options.write is not None:
        write(options.write, text, MARKS)


if __name__ == "__main__":
    main()

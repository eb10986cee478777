"""How the methods do on real logits: `python benchmarks/cells.py FOLDER`.

FOLDER holds .npz files with val_logits, val_labels, test_logits, test_labels, one per model. Each
method is fitted on random draws of the validation rows and measured on the test rows. The table
is the mean over models; brackets hold a 95 % interval of the difference from tva-ts, from
resampling models. An interval that holds zero is a tie.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

import smallcal as sc

METHODS = (
    "none",
    "ts-nll",
    "tva-ts",
    "srts-bce",
    "srts-shrunk+tail",
    "signal-linear+tail",
)
METRICS = ("ece15", "top_label_bce", "nll", "brier")
BASELINE = "tva-ts"


def cell_means(path, budget, draws):
    """Return each method's metrics on one model, averaged over draws: (methods, metrics)."""
    with np.load(path) as file:
        val, labels = file["val_logits"], file["val_labels"]
        test, truth = file["test_logits"], file["test_labels"]
    total = np.zeros((len(METHODS), len(METRICS)))
    for draw in range(draws):
        rows = np.random.default_rng([budget, draw]).choice(len(val), budget, replace=False)
        for i, name in enumerate(METHODS):
            cal = sc.make(name).fit(val[rows], labels[rows])
            scores = sc.evaluate(truth, cal.predict_proba(test), metrics=METRICS)
            total[i] += [scores[metric] for metric in METRICS]
    return 100 * total / draws


def interval(differences, n_boot=4000):
    """Return a percentile interval of the mean over models."""
    rng = np.random.default_rng(0)
    rows = rng.integers(len(differences), size=(n_boot, len(differences)))
    return np.quantile(differences[rows].mean(axis=1), [0.025, 0.975], axis=0)


def show(budget, table):
    """Print one budget's rows: mean over models, and the interval of the difference."""
    base = METHODS.index(BASELINE)
    for i, name in enumerate(METHODS):
        cells = []
        low, high = interval(table[:, i] - table[:, base])
        for m in range(len(METRICS)):
            text = f"{table[:, i, m].mean():.2f}"
            if i != base:
                text += f" [{low[m]:+.2f}, {high[m]:+.2f}]"
            cells.append(text)
        print(f"| {budget:,} | `{name}` | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--budgets", type=int, nargs="+", default=[250, 625, 2500])
    options = parser.parse_args()
    paths = sorted(options.folder.glob("*.npz"))
    if not paths:
        print(f"no .npz files in {options.folder}", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore", sc.FitWarning)
    print(f"{len(paths)} models, {options.draws} draws each; all numbers x100")
    print("| samples | method | ECE15 | TopBCE | NLL | Brier |")
    print("|---|---|---|---|---|---|")
    for budget in options.budgets:
        table = np.stack([cell_means(path, budget, options.draws) for path in paths])
        show(budget, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A file in CalArena's layout, and our entry on it: `python benchmarks/calarena.py FOLDER`.

FOLDER holds .npz files with val_logits, val_labels, test_logits, test_labels, one per model, and
folders of such files. Twenty of the models are taken, evenly spread over the sorted files; each
becomes a group DATASET/MODEL with `probas_cal`, `labels_cal` (1,000 random validation rows),
`probas_test` and `labels_test`, as that benchmark reads them. Then calibrators are fitted on the
file's own numbers, through the interface that benchmark calls, and measured by its three scores:
log-loss, Brier score and ECE of the largest probability in 15 bins.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import h5py
import numpy as np
from scipy.special import softmax

import smallcal as sc
from no_harm import interval, kinds_in
from smallcal.deploy.adapters.calarena import Entry

ENTRIES = ("default", "class-linear", "ts-nll", "vector-scaling")
PEERS = ("probmetrics:svs", "probmetrics:sms")
NAMES = ("probas_cal", "labels_cal", "probas_test", "labels_test")
SCORES = {"log-loss": "nll", "Brier score": "brier", "ECE": "ece15", "accuracy": "accuracy"}


def chosen(folder, count):
    """Return some models, evenly spread over all of them."""
    paths = [path for found in kinds_in(folder).values() for path in found]
    every = np.linspace(0, len(paths) - 1, min(count, len(paths))).round().astype(int)
    return [paths[i] for i in every]


def build(paths, out, rows):
    """Write the file."""
    with h5py.File(out, "w") as file:
        for path in paths:
            with np.load(path) as arrays:
                val, labels = arrays["val_logits"], arrays["val_labels"]
                test, truth = arrays["test_logits"], arrays["test_labels"]
            take = np.random.default_rng(0).choice(len(val), min(rows, len(val)), replace=False)
            group = file.create_group(path.stem.replace("__", "/", 1))
            group["probas_cal"], group["labels_cal"] = _probabilities(val[take]), labels[take]
            group["probas_test"], group["labels_test"] = _probabilities(test), truth


def _probabilities(logits):
    return softmax(logits.astype(np.float64), axis=1)


def measure(out):
    """Return the scores of each calibrator on each group: (group, score)."""
    warnings.simplefilter("ignore")
    found = {name: [] for name in (*ENTRIES, *PEERS)}
    with h5py.File(out) as file:
        groups = [model for dataset in file.values() for model in dataset.values()]
        for group in groups:
            p, y, test, truth = (group[name][:] for name in NAMES)
            for name in found:
                if name in ENTRIES:
                    made = Entry(name).fit(p, y).predict_proba(test)
                else:
                    peer = sc.Calibrator(method=name, input="probabilities").fit(p, y)
                    made = peer.predict_proba(test)
                scores = sc.evaluate(truth, made, metrics=tuple(SCORES.values()))
                found[name].append([scores[metric] for metric in SCORES.values()])
    return {name: np.array(rows) for name, rows in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("runs/calarena.h5"))
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1000)
    options = parser.parse_args()
    paths = chosen(options.folder, options.count)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    build(paths, options.out, options.rows)
    found = measure(options.out)
    print(
        f"{len(paths)} models, {options.rows:,} calibration rows. In brackets the 95 % interval of"
    )
    print("the difference from the default, models resampled; one that holds zero is a tie.\n")
    print(f"| calibrator | {' | '.join(SCORES)} |\n|---|{'---|' * len(SCORES)}")
    for name, rows in found.items():
        low, high = interval(rows - found["default"])
        cells = [
            f"{rows[:, k].mean():.4f}"
            + ("" if name == "default" else f" [{low[k]:+.4f}, {high[k]:+.4f}]")
            for k in range(len(SCORES))
        ]
        print(f"| `{name}` | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

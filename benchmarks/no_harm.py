"""Does the default do no harm? `python benchmarks/no_harm.py FOLDER [--write docs/no-harm.md]`.

FOLDER holds .npz files with val_logits, val_labels, test_logits, test_labels, one per model. Each
method is fitted on draws of the validation rows, at each budget, and measured on the test rows.
Finished parts are kept in --out, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

import smallcal as sc

OURS = "default"
BASELINE = "tva-ts"
RIVALS = (
    "none",
    "ts-nll",
    "tva-ts",
    "srts-bce",
    "margin-k3",
    "pwlinear-3",
    "hts-bce",
    "probmetrics:svs",
    "probmetrics:sms",
    "smart-bce",
)
#: Other methods of ours, shown beside the default for what they teach.
RELATIVES = ("tva-ts+tail", "srts-shrunk+tail", "signal-linear", "signal-linear+tail")
BUDGETS = (100, 150, 250, 625, 1250, 2500)
METRICS = ("ece15", "adaece15", "smece", "top_label_bce", "nll", "brier")
HEADS = ("ECE15", "AdaECE15", "smECE", "TopBCE", "NLL", "Brier")


def draw_rows(n, budget, draw):
    """Return the validation rows of one draw: the same for every method and model of that size."""
    return np.random.default_rng([budget, draw]).choice(n, budget, replace=False)


def measure(path, budget, draws, names, out):
    """Fit and measure the methods that a part does not have yet; return how many there were."""
    store = out / f"{path.stem}__{budget}.json"
    done = json.loads(store.read_text()) if store.exists() else {}
    missing = [name for name in names if len(done.get(name, ())) < draws]
    if not missing:
        return 0
    warnings.simplefilter("ignore")
    with np.load(path) as file:
        val, labels = file["val_logits"], file["val_labels"]
        test, truth = file["test_logits"], file["test_labels"]
    for name in missing:
        rows = []
        for draw in range(draws):
            take = draw_rows(len(val), budget, draw)
            cal = sc.make(name).fit(val[take], labels[take])
            scores = sc.evaluate(truth, cal.predict_proba(test), metrics=METRICS)
            rows.append([scores[metric] for metric in METRICS])
        done[name] = rows
        part = store.with_suffix(".part")
        part.write_text(json.dumps(done))
        os.replace(part, store)
    return len(missing)


def collect(paths, options, names):
    """Run what is missing, then return the results as (budget, method, model, draw, metric)."""
    options.out.mkdir(parents=True, exist_ok=True)
    parts = [(path, budget) for budget in options.budgets for path in paths]
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = [
            pool.submit(measure, path, budget, options.draws, names, options.out)
            for path, budget in parts
        ]
        for finished, job in enumerate(as_completed(jobs), 1):
            job.result()
            print(f"\r{finished} of {len(parts)} parts", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    stores = {
        (path, budget): json.loads((options.out / f"{path.stem}__{budget}.json").read_text())
        for path, budget in parts
    }
    return np.array(
        [
            [[stores[path, budget][name][: options.draws] for path in paths] for name in names]
            for budget in options.budgets
        ]
    )


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/no-harm"))
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    return parser.parse_args()


def main():
    options = parse()
    paths = sorted(options.folder.glob("*.npz"))
    names = list(dict.fromkeys([*RIVALS, *RELATIVES]))
    collect(paths, options, names)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Is the default right for every kind of model? `python benchmarks/no_harm.py FOLDER [--write PAGE]`.

FOLDER holds .npz files with val_logits, val_labels, test_logits, test_labels, one per model; each
folder inside it that holds such files is a kind of model of its own. Every method is fitted on
draws of the validation rows, at each budget, and measured on the test rows. Finished parts are kept
in --out, so that a run that was stopped goes on where it was; delete that folder when a method has
changed. Exit code 1: a promise was not kept.
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

#: The two views of the default: predictions kept, predictions free.
KEEPING, FREE = "adaptive", "adaptive-free"
RIVALS = (
    "none",
    "ts-nll",
    "tva-ts",
    "srts-bce",
    "margin-k3",
    "pwlinear-3",
    "hts-bce",
    "vector-scaling",
    "probmetrics:svs",
    "probmetrics:sms",
)
#: Other methods of ours, shown beside the default for what they teach.
RELATIVES = ("class-linear+tail", "class-linear+tail+gate")
BUDGETS = (100, 150, 250, 625, 1250, 2500)
METRICS = ("ece15", "top_label_bce", "nll", "brier", "accuracy")
HEADS = ("ECE15", "TopBCE", "NLL", "Brier", "accuracy")
TOP = METRICS.index("top_label_bce")
#: Above the raw model's TopBCE (x100) by more than this is harm.
HARM = 0.5


def kinds_in(folder):
    """Return the models of each kind, by the name of their folder."""
    found = {"classifiers": sorted(folder.glob("*.npz"))}
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        fit = [path for path in sorted(inner.glob("*.npz")) if _is_model(path)]
        if fit:
            found[inner.name] = fit
    return {kind: paths for kind, paths in found.items() if paths}


def _is_model(path):
    with np.load(path) as file:
        return {"val_logits", "test_logits"} <= set(file.files)


def draw_rows(n, budget, draw):
    """Return the validation rows of one draw: the same for every method and model of that size."""
    return np.random.default_rng([budget, draw]).choice(n, min(n, budget), replace=False)


def measure(path, kind, budget, draws, names, out):
    """Fit and measure the methods that a part does not have yet; return how many there were."""
    store = out / f"{kind}__{path.stem}__{budget}.json"
    done = json.loads(store.read_text()) if store.exists() else {}
    missing = [name for name in names if len(done.get(name, ())) < len(draws)]
    if not missing:
        return 0
    warnings.simplefilter("ignore")
    with np.load(path) as file:
        val, labels = file["val_logits"], file["val_labels"]
        test, truth = file["test_logits"], file["test_labels"]
    for name in missing:
        rows = []
        for draw in draws:
            if rows and budget >= len(val):  # every draw is the whole split
                rows.append(rows[0])
                continue
            take = draw_rows(len(val), budget, draw)
            cal = sc.make(name).fit(val[take], labels[take])
            scores = sc.evaluate(truth, cal.predict_proba(test), metrics=METRICS)
            rows.append([scores[metric] for metric in METRICS])
        done[name] = rows
        part = store.with_suffix(".part")
        part.write_text(json.dumps(done))
        os.replace(part, store)
    return len(missing)


def collect(kinds, options, names):
    """Run what is missing; return the results of each kind as (budget, method, model, draw, x)."""
    options.out.mkdir(parents=True, exist_ok=True)
    parts = [
        (path, kind, budget)
        for budget in options.budgets
        for kind, paths in kinds.items()
        for path in paths
    ]
    drawn = range(options.first_draw, options.first_draw + options.draws)
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(measure, *part, drawn, names, options.out) for part in parts]
        for finished, job in enumerate(as_completed(jobs), 1):
            job.result()
            print(f"\r{finished} of {len(parts)} parts", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {kind: _gathered(kind, paths, options, names) for kind, paths in kinds.items()}


def _gathered(kind, paths, options, names):
    def stored(path, budget):
        found = json.loads((options.out / f"{kind}__{path.stem}__{budget}.json").read_text())
        return [found[name][: options.draws] for name in names]

    values = [[stored(path, budget) for path in paths] for budget in options.budgets]
    return 100 * np.array(values).swapaxes(1, 2)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument(
        "--first-draw", type=int, default=0, help="give other draws their own --out"
    )
    parser.add_argument("--only", nargs="+", default=[], help="these methods alone")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/no-harm"))
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    return parser.parse_args()


def main():
    options = parse()
    kinds = kinds_in(options.folder)
    if not kinds:
        print(f"no .npz files in {options.folder}", file=sys.stderr)
        return 2
    names = list(options.only or (KEEPING, FREE, *RIVALS, *RELATIVES))
    collect(kinds, options, names)


if __name__ == "__main__":
    sys.exit(main())

"""Do plans come true? `python benchmarks/plan_study.py FOLDER`.

FOLDER holds .npz files with val_logits, val_labels, test_logits, test_labels, one per model. A
pilot is a few hundred validation rows; its plan predicts what more would give. The truth is the
mean over draws of the validation rows, measured on the test rows. The table says how far off the
plans were and how often their bands held the truth. Beside them stand two ways to do without: the
pilot's plain mean, the held-out value of its largest draws taken for every size; and one number for
all models, the best there is, which nobody can know beforehand.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

import smallcal as sc
from no_harm import kinds_in, write
from smallcal.advice.plan_fits import draw_rows
from smallcal.calibrators.catalogue import ALIASES

SHOWN = ("ece15", "top_label_bce")
METRICS = {
    "ece15": "ECE",
    "top_label_bce": "top-label log-loss",
    "gain": "top-label log-loss gain on uncalibrated",
}
SIZES = (250, 625, 1250, 2500)


def truth(file, method, size, draws):
    """Return means and spreads over draws on the test rows, and the gain by calibration."""
    val, labels = file["val_logits"], file["val_labels"]
    test, answers = file["test_logits"], file["test_labels"]
    raw = sc.make("none").fit(val, labels).predict_proba(test)
    base = sc.evaluate(answers, raw, metrics=SHOWN)["top_label_bce"]
    rows = []
    for draw in range(draws):
        take, _ = draw_rows(len(val), size, draw, seed=1)
        cal = sc.make(method).fit(val[take], labels[take])
        found = sc.evaluate(answers, cal.predict_proba(test), metrics=SHOWN)
        rows.append([found["ece15"], found["top_label_bce"], found["top_label_bce"] - base])
    # Draws of most of the rows are hardly different draws: their spread is no truth.
    spread = np.std(rows, axis=0, ddof=1) if 2 * size <= len(val) else np.full(3, np.nan)
    return np.mean(rows, axis=0), spread


def predicted(row, naive):
    """Return (value, low, high, spread, plain mean) of each metric of a plan's row."""
    ece, bce, gain = row.metrics["ece15"], row.metrics["top_label_bce"], row.gains["top_label_bce"]
    return [
        (ece.value, ece.low, ece.high, ece.spread, naive[0]),
        (bce.value, bce.low, bce.high, bce.spread, naive[1]),
        (gain.point, gain.low, gain.high, bce.spread, naive[1] - naive[2]),
    ]


def plain(logits, labels, method, draws):
    """Return mean held-out ECE and top-label log-loss of fits on four fifths, and the raw loss."""
    rows = []
    for draw in range(draws):
        take, left = draw_rows(len(logits), len(logits) * 4 // 5, draw, seed=0)
        cal = sc.make(method).fit(logits[take], labels[take])
        found = sc.evaluate(labels[left], cal.predict_proba(logits[left]), metrics=SHOWN)
        rows.append([found["ece15"], found["top_label_bce"]])
    raw = sc.make("none").fit(logits, labels).predict_proba(logits)
    return [*np.mean(rows, axis=0), sc.evaluate(labels, raw, metrics=SHOWN)["top_label_bce"]]


def one_model(path, options):
    """Return rows of (pilot size, size, metric, predicted..., truth, true spread)."""
    warnings.simplefilter("ignore", sc.FitWarning)
    with np.load(path) as arrays:
        file = {name: arrays[name] for name in arrays.files}
    val, labels = file["val_logits"], file["val_labels"]
    sizes = [size for size in SIZES if size <= len(val)]
    known = {size: truth(file, options.method, size, options.draws) for size in sizes}
    rows = []
    for n in options.pilots:
        for pilot in range(options.repeats):
            take, _ = draw_rows(len(val), n, pilot, seed=2)
            z, y = val[take], labels[take]
            naive = plain(z, y, options.method, options.draws)
            found = sc.plan(
                z, y, method=options.method, sizes=sizes, test_size=len(file["test_labels"])
            )
            for size in sizes:
                mean, spread = known[size]
                for metric, guess in enumerate(predicted(found.row(size), naive)):
                    rows.append((n, size, metric, *guess, mean[metric], spread[metric]))
    return rows


def show(rows, options):
    """Yield the table, all numbers times 100."""
    yield (
        "| pilot | samples | metric | truth | mean error | bias | plain mean's error "
        "| one number's error | band holds truth % | width | spread: predicted / true |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for n in options.pilots:
        for metric, name in enumerate(METRICS.values()):
            for size in SIZES:
                part = rows[(rows[:, 0] == n) & (rows[:, 1] == size) & (rows[:, 2] == metric)]
                value, low, high, spread, naive, true, true_spread = 100 * part[:, 3:].T
                held = 100 * np.mean((low <= true) & (true <= high))
                beside = "" if np.isnan(true_spread).all() else f"{np.nanmedian(true_spread):.2f}"
                yield (
                    f"| {n} | {size:,} | {name} | {true.mean():.2f} "
                    f"| {np.abs(value - true).mean():.2f} | {(value - true).mean():+.2f} "
                    f"| {np.abs(naive - true).mean():.2f} "
                    f"| {np.abs(np.median(true) - true).mean():.2f} | {held:.0f} "
                    f"| {(high - low).mean():.2f} | {np.median(spread):.2f} / {beside} |"
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--method", default="default")
    parser.add_argument("--pilots", type=int, nargs="+", default=[300])
    parser.add_argument("--repeats", type=int, default=1, help="pilots of each size and model")
    parser.add_argument("--draws", type=int, default=5, help="behind each truth")
    parser.add_argument("--write", type=Path, help="put the table into this page")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    kinds = kinds_in(options.folder)
    paths = [path for found in kinds.values() for path in found]
    if not paths:
        print(f"no .npz files in {options.folder}", file=sys.stderr)
        return 2
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(one_model, path, options) for path in paths]
        for number, job in enumerate(as_completed(jobs), 1):
            rows += job.result()
            print(f"\r{number} of {len(paths)} models", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    name = ALIASES.get(options.method, options.method)
    pilots = "one pilot" if options.repeats == 1 else f"{options.repeats} pilots"
    sizes = f"{len(paths)} models, {pilots} of each size per model, {options.draws} draws"
    text = "\n".join([f"`{name}`: {sizes}.", "", *show(np.array(rows), options)])
    print(text)
    if options.write is not None:
        write(options.write, text, ("<!-- begin plan -->", "<!-- end plan -->"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Does `adapt` keep what it says? On simulated and on real rows: `make study-adapt`.

Simulated, frequencies unchanged and moved: how often it adapts, how often 95 % intervals
hold the true frequencies, and that estimates lie in their intervals. Real: calibrators fitted on a
part of val; rows drawn from test by class (frequencies from a flat Dirichlet distribution), the
log-loss of other such rows before and after; and how often rows of corrupted inputs are refused.
How far frequencies are held back was chosen among three ways by a look at such draws of these sets:
the gains are no blind test.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import sys
import warnings
from pathlib import Path

import numpy as np

import smallcal as sc

REPEATS = 200
SIMULATED = ((2, 500, 500, 1.5), (5, 300, 500, 1.5), (10, 1000, 1000, 2.0), (50, 2000, 2000, 2.5))
REAL = (
    *("fashion10__cnn-ce", "cifar10__ce-resnet20", "pathmnist__medmnist-resnet50"),
    *("cifar100__ce-resnet20", "banking77__tfidf-mlp-seed0", "debian55__minilm-ls"),
    *("tabular/satellite6__hgb", "tabular/spam2__nb", "tabular/income9__forest"),
    *("tabular/income9__logreg", "options/mmbench__monkey-chat"),
)
SHIFTED = ("cifar10__akamaster-resnet20", "fashion10__cnn-ce", "banking77__tfidf-mlp-seed0")


def draw(rng, n, frequencies, signal):
    """Logits of a model that is right where classes are equally frequent, and labels."""
    n_classes = len(frequencies)
    y = rng.choice(n_classes, size=n, p=frequencies)
    return signal * (rng.normal(size=(n, n_classes)) + signal * np.eye(n_classes)[y]), y


def simulated():
    """Print a line for each number of classes; fail where an estimate is outside its interval."""
    ways = ("unchanged", "moved")
    heads = [f"{way}: {what}" for way in ways for what in ("adapted", "intervals hold")]
    print(f"| classes | split | rows | {' | '.join(heads)} |\n|{'---|' * 7}")
    for n_classes, n, rows, signal in SIMULATED:
        rng = np.random.default_rng(n_classes)
        even = np.full(n_classes, 1 / n_classes)
        told = []
        for way in ways:
            adapted, held = [], []
            for _ in range(REPEATS):
                cal = sc.TemperatureScaling().fit(*draw(rng, n, even, signal))
                now = even if way == "unchanged" else rng.dirichlet(np.full(n_classes, 3.0))
                found = sc.adapt(cal, draw(rng, rows, now, signal)[0])
                low, high, estimate = map(np.array, (found.low, found.high, found.now))
                if not ((low <= estimate) & (estimate <= high)).all():
                    raise AssertionError(f"an estimate outside its interval: {found}")
                adapted.append(found.adapted)
                held.append((low <= now) & (now <= high))
            told += [f"{100 * np.mean(each):.1f} %" for each in (adapted, held)]
        print(f"| {n_classes} | {n} | {rows} | {' | '.join(told)} |", flush=True)


def log_loss(p, y):
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)).mean()


def real(folder):
    print("\n| rows of | adapted | refused | log-loss x100 before | after | refused, had it not |")
    print("|---|---|---|---|---|---|")
    for name in REAL:
        with np.load(folder / f"{name}.npz") as data:
            val, known, z, y = (
                data[key] for key in ("val_logits", "val_labels", "test_logits", "test_labels")
            )
        rng, losses, forced, adapted = np.random.default_rng(0), [], [], 0
        for _ in range(20):
            rows = rng.choice(len(known), size=min(1000, len(known)), replace=False)
            cal = sc.Calibrator().fit(val[rows], known[rows])
            chance = rng.dirichlet(np.ones(z.shape[1]))[y]
            some, fresh = (rng.choice(len(y), 2000, p=chance / chance.sum()) for _ in range(2))
            found = sc.adapt(cal, z[some])
            adapted += found.adapted
            new = found if found.adapted else sc.adapt(cal, z[some], force=True)
            pair = [log_loss(c.predict_proba(z[fresh]), y[fresh]) for c in (cal, new.calibrator)]
            (losses if found.adapted else forced).append(pair)
        before, after = 100 * np.mean(losses, axis=0) if losses else (np.nan, np.nan)
        would = f"{100 * np.diff(np.mean(forced, axis=0))[0]:+.1f}" if forced else ""
        told = f"| {name} | {adapted} | {20 - adapted} | {before:.1f} | {after:.1f} | {would} |"
        print(told, flush=True)


def shifted(folder):
    print("\n| corrupted rows of | sets | adapted | more than frequencies | unchanged |")
    print("|---|---|---|---|---|")
    for name in SHIFTED:
        with np.load(folder / f"{name}.npz") as data:
            cal = sc.Calibrator().fit(data["val_logits"][:2500], data["val_labels"][:2500])
        files = sorted((folder / "shift").glob(f"{name}__*.npz"))
        verdicts = [sc.adapt(cal, np.load(file)["logits"][:2000]).verdict for file in files]
        counts = " | ".join(str(verdicts.count(each)) for each in ("moved", "more", "unchanged"))
        print(f"| {name} | {len(files)} | {counts} |", flush=True)


def main(words):
    warnings.simplefilter("ignore")
    simulated()
    folder = Path(words[0]) if words else None
    if folder is not None and folder.is_dir():
        real(folder)
        shifted(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

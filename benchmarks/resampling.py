"""Speed of the bootstrap, as a ratio in this run: `make bench-bootstrap`.

The seed x sample bootstrap of ECE, log-loss, Brier score and top-label log-loss for 8 methods,
5 seeds x 10,000 samples, 20,000 resamples, against the plain loop over resamples, measured on
50 of them and scaled: it calls the metric functions on the resampled probabilities. A frugal loop,
which has each
sample's losses and bins at hand and only gathers and adds, is shown beside it, without a bound.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
from scipy.special import softmax

import smallcal as sc
from smallcal.metrics import METRICS, Scored
from smallcal.statistics.bootstrap import Run, interval, seed_samples
from smallcal_lab.statistics.samples import seeds_then_samples
from speed.ratio import logits

NAMES = ("ece15", "nll", "brier", "top_label_bce")
N, SEEDS, N_METHODS, N_BOOT, LOOPED = 10_000, 5, 8, 20_000, 50


def make_runs():
    """Return five seeds' labels and eight methods' probabilities."""
    found = []
    for seed in range(SEEDS):
        z, y = logits(N, 100, seed=seed)
        probas = {f"m{i}": softmax(z / (1 + 0.1 * i), axis=1) for i in range(N_METHODS)}
        found.append(Run(y, probas))
    return found


def metric_loop(runs, n_boot):
    """Resample rows and call the metrics."""
    rng = np.random.default_rng(0)
    for _ in range(n_boot):
        for seed in rng.integers(SEEDS, size=SEEDS):
            rows = rng.integers(N, size=N)
            labels = runs[seed].y_true[rows]
            for proba in runs[seed].y_probas.values():
                sc.evaluate(labels, proba[rows], metrics=NAMES)


def frugal_loop(prepared, n_boot):
    """Resample what each sample adds: three losses, and the gap in its bin."""
    rng = np.random.default_rng(0)
    for _ in range(n_boot):
        for seed in rng.integers(SEEDS, size=SEEDS):
            rows = rng.integers(N, size=N)
            for losses, gap, index in prepared[seed]:
                for loss in losses:
                    loss[rows].mean()
                np.abs(np.bincount(index[rows], weights=gap[rows], minlength=15)).sum()


def prepare(runs):
    """Return, for each seed and method, per-sample losses, gaps and bins."""
    table = []
    for run in runs:
        views = [Scored.of(run.y_true, proba) for proba in run.y_probas.values()]
        table.append(
            [
                (
                    [METRICS[name].values(view) for name in NAMES[1:]],
                    view.residual,
                    np.minimum((view.confidence * 15).astype(int), 14),
                )
                for view in views
            ]
        )
    return table


def timed(function):
    """Return the seconds a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main():
    """Print both ratios, the memory, and the time of the everyday case."""
    runs = make_runs()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ours = timed(lambda: seed_samples(runs, baseline="m0", metrics=NAMES, n_boot=N_BOOT))
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    scale = N_BOOT / LOOPED
    plain = scale * timed(lambda: metric_loop(runs, LOOPED))
    units = [
        {name: [Scored.of(run.y_true, proba)] for name, proba in run.y_probas.items()}
        for run in runs
    ]
    begun = time.process_time()
    seeds_then_samples(units, NAMES, n_boot=N_BOOT)
    studies = time.process_time() - begun
    prepared = prepare(runs)
    frugal = scale * timed(lambda: frugal_loop(prepared, LOOPED))
    labels, few = runs[0].y_true, dict(list(runs[0].y_probas.items())[:4])
    everyday = timed(lambda: sc.compare(labels, few, metrics=["accuracy", *NAMES], n_boot=2_000))
    single = timed(lambda: interval(labels, few["m0"], "ece15", n_boot=2_000))
    checks = [
        ("plain loop over metric functions / ours, at least 50", plain / ours, plain / ours >= 50),
        ("frugal loop over prepared losses / ours, no bound", frugal / ours, True),
        ("megabytes added, at most 1,500", added, added <= 1_500),
        ("seconds for 4 methods, 2,000 resamples, at most 2", everyday, everyday <= 2),
    ]
    print(f"ours: {ours:.1f} s for {N_BOOT:,} resamples; one metric's interval {single:.2f} s")
    print(f"noise left in, as in studies: {studies:.1f} s of processor time")
    for what, value, holds in checks:
        print(f"{'ok ' if holds else 'NO '} {what:<58} {value:,.1f}")
    return 0 if all(holds for _, _, holds in checks) else 1


if __name__ == "__main__":
    sys.exit(main())

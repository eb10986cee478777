"""Fit the default about 2,000 times on hard cases: `python benchmarks/robust_default.py DATA`.

Real models of the folders saturated, tabular, options and large in DATA, and simulated edge cases.
Counts exceptions, fits that end above temperature scaling on their own calibration samples, and
fits whose log-loss on test samples is more than .02 above that of temperature scaling. Exit code 1
if there is any of the first two, or more than 2 % of the third.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import smallcal as sc
from smallcal.data.special import log_softmax

Case = tuple[str, NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]

#: Test log-loss this far above temperature scaling's counts as harm.
HARM = 0.02
FOLDERS = ("saturated", "tabular", "options", "large")


def real_cases(folder: Path, draws: int) -> Iterator[Case]:
    """Yield calibration draws of the real models, from 30 samples to all."""
    for path in sorted(path for name in FOLDERS for path in (folder / name).glob("*.npz")):
        data = np.load(path)
        z, y = data["val_logits"].astype(np.float64), data["val_labels"]
        test = data["test_logits"].astype(np.float64), data["test_labels"]
        sizes = (30, 60, 150, 400, 1000)
        for size in sizes[-2:] if z.shape[1] > 500 else sizes:
            for seed in range(1 if z.shape[1] > 500 else draws):
                rows = np.random.default_rng([seed, size]).permutation(len(y))[:size]
                yield f"{path.parent.name}", z[rows], y[rows], *test


def simulated_cases(repeats: int) -> Iterator[Case]:
    """Yield edge cases: sizes, scales, shifts, saturation, ties, copies, absent classes."""
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        for n_classes in (2, 3, 10, 100):
            z, y = _sample(rng, 600, n_classes)
            cal, test = (z[:200], y[:200]), (z[200:], y[200:])
            yield "few", cal[0][:10], cal[1][:10], *test
            for scale in (1e-6, 1e-2, 1e2, 1e4):
                yield "scaled", cal[0] * scale, cal[1], test[0] * scale, test[1]
            yield "shifted", cal[0] + 1e8, cal[1], test[0] + 1e8, test[1]
            coarse = np.round(z / 4) * 4
            yield "tied", coarse[:200], cal[1], coarse[200:], test[1]
            hard = np.log(np.clip(np.exp(log_softmax(z * 20)), 1e-9, 1))
            yield "saturated simulated", hard[:200], cal[1], hard[200:], test[1]
            few = np.repeat(np.arange(40), 10)
            yield "copied", z[few], y[few], *test
            jitter = z[few] + rng.normal(size=z[few].shape) * 1e-9
            yield "jittered", jitter, y[few], *test
            one = np.repeat(z[:1], 200, axis=0)
            yield "one distinct row", one, cal[1], *test


def _sample(
    rng: np.random.Generator, n: int, n_classes: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return logits, overconfident and biased, and labels."""
    true = rng.normal(size=(n, n_classes)) * 2 + rng.normal(size=n_classes) * 0.5
    labels = (true + rng.gumbel(size=true.shape)).argmax(axis=1)
    return true * 2 + rng.normal(size=n_classes), labels


def log_loss(proba: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Return the mean log-loss; probabilities count as at least 1e-15."""
    own = proba[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(own, 1e-15)).mean())


def main() -> int:
    """Run all cases and print the counts by kind."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "data", type=Path, help="folder with saturated/, tabular/, options/, large/"
    )
    parser.add_argument("--draws", type=int, default=7, help="draws per real model and size")
    parser.add_argument("--repeats", type=int, default=14, help="repeats of the simulated cases")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    counts, raised, above, harmed = (Counter[str]() for _ in range(4))
    for case in (real_cases(given.data, given.draws), simulated_cases(given.repeats)):
        for kind, z, y, test_z, test_y in case:
            counts[kind] += 1
            try:
                cal = sc.Calibrator().fit(z, y)
                proba, own = cal.predict_proba(test_z), cal.predict_proba(z)
            except Exception as error:  # noqa: BLE001 - that is what is counted
                raised[kind] += 1
                print(f"{kind}: {type(error).__name__}: {error}")
                continue
            # Unpenalised temperature scaling, within bounds relative to the logits.
            size = float(np.sqrt(z.var(axis=1).mean())) or 1.0
            bounds = (size / 1e3, size * 1e3)
            plain = sc.TemperatureScaling(bounds=bounds).fit(z, y)
            if "one_sided" not in cal.flags_:
                above[kind] += log_loss(own, y) > log_loss(plain.predict_proba(z), y) + 1e-6
            rise = log_loss(proba, test_y) - log_loss(plain.predict_proba(test_z), test_y)
            harmed[kind] += rise > HARM
    print(f"{'kind':22} {'fits':>6} {'raised':>7} {'above':>6} {'harmed':>7}")
    for kind, n in counts.items():
        print(f"{kind:22} {n:6} {raised[kind]:7} {above[kind]:6} {harmed[kind]:7}")
    n = counts.total()
    print(f"{'all':22} {n:6} {raised.total():7} {above.total():6} {harmed.total():7}")
    return int(bool(raised.total() or above.total() or harmed.total() > 0.02 * n))


if __name__ == "__main__":
    sys.exit(main())

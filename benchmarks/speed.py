"""Speed as ratios, both sides measured in this run: `make bench`.

Each ratio has the bound that the project promises; the exit code is 1 when one does not hold.
Single-threaded, the best of several repeats after a warm-up.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
from scipy.special import expit, softmax
from sklearn.calibration import _TemperatureScaling

import smallcal as sc
from reference import ReferenceSRTS
from smallcal.advice.certify_walk import Counts, Target, walk

FAILED = []
PROCESSES = 5


def best(function, repeats=7):
    """Return the shortest time of several runs, in seconds."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def report(what, ratio, bound, detail=""):
    holds = ratio <= bound
    if not holds:
        FAILED.append(what)
    print(f"{'ok ' if holds else 'NO '} {what:<58} {ratio:8.3f}  (at most {bound:g})  {detail}")


def logits(n, n_classes, dtype=np.float32, seed=0):
    """Draw logits, and labels from softmax(logits / 1.5): an over-confident model."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, n_classes), dtype=np.float32) * 2
    z[np.arange(n), rng.integers(n_classes, size=n)] += 16 * rng.random(n, dtype=np.float32)
    gumbel = rng.gumbel(size=(n, n_classes))
    return z.astype(dtype), (z / 1.5 + gumbel).argmax(axis=1)


def own_processes(function, z, y, repeats):
    """Time one of this file's functions in five processes that only load data and do that.

    What a process allocated and freed before decides whether its large arrays cost page faults,
    and even equal processes differ in that, for every side: so each side's time is the best in
    its process, ratios are taken within a process, and the median process is reported.
    """
    with tempfile.TemporaryDirectory() as name:
        files = [str(Path(name) / file) for file in ("z.npy", "y.npy")]
        for file, array in zip(files, (z, y), strict=True):
            np.save(file, array)
        command = [sys.executable, "-W", "ignore", __file__, function, *files, str(repeats)]
        runs = [subprocess.run(command, capture_output=True, text=True) for _ in range(PROCESSES)]
    failed = [run.stderr for run in runs if run.returncode]
    if failed:
        raise SystemExit(failed[0])
    return np.array([[float(number) for number in run.stdout.split()] for run in runs])


def in_turns(functions, repeats):
    """Print the best time of each function, taken in turns so that none has the quiet minute."""
    print(*np.min([[best(function, 2) for function in functions] for _ in range(repeats)], axis=0))


def time_fits(z, y, repeats):
    in_turns(
        (
            lambda: sc.SRTS().fit(z, y),
            lambda: sc.TemperatureScaling().fit(z, y),
            lambda: _TemperatureScaling().fit(z, y),
            lambda: ReferenceSRTS().fit(z, y),
        ),
        repeats,
    )


def time_default(z, y, repeats):
    in_turns((lambda: sc.Calibrator().fit(z, y), lambda: _TemperatureScaling().fit(z, y)), repeats)


def time_apply(z, y, repeats):
    cal = sc.SRTS().fit(z[:2500], y[:2500])
    in_turns((lambda: cal.predict_proba(z), lambda: softmax(z / np.float32(1.5), axis=1)), repeats)


def report_median(what, ours, theirs, bound):
    """Report the median ratio, with its range and the median times."""
    ratios = ours / theirs
    report(
        what,
        np.median(ratios),
        bound,
        f"{ratios.min():.3f} to {ratios.max():.3f}; "
        f"{np.median(ours) * 1e3:.1f} ms, {np.median(theirs) * 1e3:.1f} ms",
    )


def fit_speed():
    routed, scalar, theirs, plain = own_processes("time_fits", *logits(2500, 100), 5).T
    report_median("SRTS fit / scikit-learn one-temperature fit", routed, theirs, 1.5)
    report_median("SRTS fit / straightforward SRTS", routed, plain, 1 / 15)
    report_median("one-temperature fit / scikit-learn's", scalar, theirs, 1.0)


def default_speed():
    """Time the default, which does the work of several fits: correction, folds, scales, tail."""
    for n, n_classes, repeats, bound in (
        (2_500, 100, 5, 2.5),
        (25_000, 100, 2, 2.0),
        (2_500, 10, 10, 5.0),
    ):
        ours, theirs = own_processes("time_default", *logits(n, n_classes), repeats).T
        what = f"default fit / scikit-learn one-temperature fit, {n:,} x {n_classes}"
        report_median(what, ours, theirs, bound)


def apply_speed():
    for n, n_classes, repeats in ((10_000, 100, 20), (50_000, 1_000, 3)):
        ours, theirs = own_processes("time_apply", *logits(n, n_classes), repeats).T
        what = f"predict_proba / scipy softmax, {n:,} x {n_classes:,} float32"
        report_median(what, ours, theirs, 1.5)


def time_scores(scores, outcome, repeats):
    few = slice(0, 500)
    cal = sc.Calibrator(input="score").fit(scores[few], outcome[few])
    in_turns(
        (
            lambda: sc.Calibrator(input="score").fit(scores[few], outcome[few]),
            lambda: cal.predict_score(scores),
            lambda: expit(0.7 * scores + 0.1),
        ),
        repeats,
    )


def score_speed():
    """Time the default for scores: a fit on 500 labels, and 10 million scores calibrated."""
    rng = np.random.default_rng(0)
    x = 2 * rng.standard_normal(10_000_000)
    outcome = rng.random(len(x)) < expit(x)
    for kind, scores in (("numbers", x), ("probabilities", expit(x))):
        fit, apply, plain = own_processes("time_scores", scores, outcome, 3).T
        ms = 1e3 * np.median(fit)
        report(f"score fit, 500 {kind}: ms / 10", ms / 10, 1, f"{ms:.1f} ms")
        report_median(f"predict_score / expit(a x + b), 10,000,000 {kind}", apply, plain, 3)


def time_certify(confidence, correct, repeats):
    target = Target(risk=0.05, delta=0.05)
    in_turns(
        (lambda: walk(Counts.of(confidence, correct), target), lambda: np.sort(confidence)), repeats
    )


def certify_speed():
    """Time a threshold for a million confidences: counted, tested from high to low, bounded."""
    rng = np.random.default_rng(0)
    confidence = expit(rng.normal(3.0, 1.8, 1_000_000))
    correct = rng.random(len(confidence)) < confidence
    ours, theirs = own_processes("time_certify", confidence, correct, 10).T
    report_median("certify / np.sort, 1,000,000 confidences", ours, theirs, 3)


def growth(what, sizes, make, bound):
    """Report how much more than proportionally time grows from the first size to the last."""
    times = [best(make(size), 3) for size in sizes]
    rate = (times[-1] / times[0]) / (sizes[-1] / sizes[0])
    detail = ", ".join(f"{s:,}: {t * 1e3:.1f} ms" for s, t in zip(sizes, times, strict=True))
    report(f"{what}, growth beyond linear", rate, bound, detail)


def linear_growth():
    rows, classes = (250, 2_500, 25_000, 50_000), (10, 100, 1_000)

    def fit(n, c):
        z, y = logits(n, c)
        return lambda: sc.SRTS().fit(z, y)

    def use(n, c):
        cal = sc.SRTS().fit(*logits(2500, c))
        z, _ = logits(n, c, seed=1)
        return lambda: cal.predict_proba(z)

    growth("fit, rows (100 classes)", rows, lambda n: fit(n, 100), 1.5)
    growth("fit, classes (2,500 rows)", classes, lambda c: fit(2500, c), 1.5)
    growth("apply, rows (100 classes)", rows, lambda n: use(n, 100), 1.5)
    growth("apply, classes (10,000 rows)", classes, lambda c: use(10_000, c), 1.5)


PEAK_PROGRAM = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-m", "smallcal", *sys.argv[1:]], check=True, capture_output=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""


def command_peak(*arguments):
    """Return the peak memory of one smallcal command, in MB."""
    command = [sys.executable, "-c", PEAK_PROGRAM, *map(str, arguments)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def memory():
    shape = (1_000_000, 100)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cal = sc.SRTS().fit(*logits(2500, 100))
        cal.save(folder / "cal.json")
        np.save(folder / "small.npy", logits(100, 100)[0])
        big = np.lib.format.open_memmap(folder / "z.npy", "w+", dtype=np.float32, shape=shape)
        for start in range(0, shape[0], 100_000):
            big[start : start + 100_000] = logits(100_000, 100, seed=start)[0]
        big.flush()

        def peak(source):
            return command_peak("apply", folder / "cal.json", source, "-o", folder / "p.npy")

        added = peak(folder / "z.npy") - peak(folder / "small.npy")
        report("smallcal apply, 1,000,000 x 100: MB added / 300", added / 300, 1, f"{added:.0f} MB")

        out = np.lib.format.open_memmap(folder / "out.npy", "w+", dtype=np.float32, shape=shape)
        tracemalloc.start()
        cal.predict_proba(np.load(folder / "z.npy", mmap_mode="r"), out=out)
        added = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        report(
            "predict_proba between memory maps: MB added / 300", added / 300, 1, f"{added:.0f} MB"
        )


def import_cost():
    def seconds(statement):
        program = (
            f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
        )
        runs = [
            subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=True
            )
            for _ in range(5)
        ]
        return min(float(run.stdout) for run in runs)

    theirs = seconds("import sklearn.linear_model")
    lazy = seconds("import smallcal")
    full = seconds("import smallcal; smallcal.SRTS; smallcal.evaluate; smallcal.compare")
    report("import smallcal / import sklearn.linear_model", lazy / theirs, 1.3, f"{theirs:.2f} s")
    report("import smallcal with every estimator and metric", full / theirs, 1.3, f"{full:.2f} s")


def image_speed():
    from extraction import extraction_speed  # torch, after everything that is timed without it

    extraction_speed(report)


def main():
    warnings.simplefilter("ignore", sc.FitWarning)  # tiny splits are timed too
    fits = (fit_speed, default_speed, apply_speed, score_speed, certify_speed)
    for part in (*fits, linear_growth, memory, import_cost, image_speed):
        part()
    if FAILED:
        print(f"{len(FAILED)} of the promised ratios do not hold: {'; '.join(FAILED)}")
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:  # one part, in a process of its own
        part, *files, repeats = sys.argv[1:]
        parts = (time_fits, time_default, time_apply, time_scores, time_certify)
        timed = {each.__name__: each for each in parts}[part]
        timed(*(np.load(file) for file in files), int(repeats))
    else:
        sys.exit(main())

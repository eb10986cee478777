"""Speed of intervals: evaluate, compare and the report, as ratios in this run.

References are of the same run: values without intervals for ``sc.evaluate`` and ``sc.compare``, a
process that imports NumPy and typer for the shell. Bounds are the issue's seconds over those of its
machine: 0.05 s for the values of 10,000 x 100 (0.25 s for five methods), 0.16 s for the process.

    python benchmarks/speed_intervals.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.special import softmax

import smallcal as sc

N, N_CLASSES, RUNS = 10_000, 100, 3
TEMPERATURES = (1.0, 1.2, 1.4, 1.6, 1.8)

#: What was measured, ours and the reference in seconds, and the bound of their ratio.
Row = tuple[str, float, float, float]


def logits(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return logits of which about half are right, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(N_CLASSES, size=n)
    z = 2 * rng.normal(size=(n, N_CLASSES))
    z[np.arange(n), labels] += 5 + 2 * rng.normal(size=n)
    return z.astype(np.float32), labels


def interleaved(ours: Callable[[], object], reference: Callable[[], object]) -> tuple[float, float]:
    """Return the medians of both, timed in turn after one unmeasured run of each."""
    taken: tuple[list[float], list[float]] = ([], [])
    for run in range(RUNS + 1):
        for times, work in zip(taken, (ours, reference), strict=True):
            start = time.perf_counter()
            work()
            if run:
                times.append(time.perf_counter() - start)
    return float(np.median(taken[0])), float(np.median(taken[1]))


def python(*arguments: str) -> Callable[[], object]:
    """Return a run of this Python that must end well."""
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, check=True, capture_output=True)


def rows() -> Iterator[Row]:
    """Yield what was measured, ours and the reference in seconds, and the bound of their ratio."""
    z, y = logits(N, 0)
    probas = {f"m{i}": softmax(z.astype(float) / t, axis=1) for i, t in enumerate(TEMPERATURES)}
    p = probas["m0"]
    pair = interleaved(lambda: sc.evaluate(y, p, ci=True), lambda: sc.evaluate(y, p))
    yield "sc.evaluate(ci=True), 10,000 x 100, against values alone", *pair, 1.5 / 0.05
    pair = interleaved(
        lambda: sc.compare(y, probas, n_boot=2000),
        lambda: [sc.evaluate(y, own) for own in probas.values()],
    )
    yield "sc.compare, five methods, 2,000 resamples, against values alone", *pair, 4 / 0.25
    start = python("-c", "import numpy, typer")
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for i, name in enumerate(("cal", "test")):
            files.append(str(Path(folder) / f"{name}.npz"))
            z, y = logits(N, 1 + i)
            np.savez(files[-1], logits=z, labels=y)
        page = str(Path(folder) / "report.html")
        pair = interleaved(python("-m", "smallcal", "report", *files, "-o", page), start)
        yield "smallcal report, six methods, 10,000 x 100, against a process", *pair, 4 / 0.16
        test = str(Path(folder) / "demo.npz")
        demo = sc.load_demo("test")
        np.savez(test, logits=demo.logits, labels=demo.labels)
        pair = interleaved(python("-m", "smallcal", "evaluate", test), start)
        yield "smallcal evaluate, demo's 3,000 x 345, against a process", *pair, 1.5 / 0.16


def main() -> None:
    """Print the table."""
    for what, ours, reference, bound in rows():
        ratio = ours / reference
        said = "holds" if ratio <= bound else "MISSED"
        times = f"{ours:7.2f} s {reference:7.3f} s {ratio:6.1f} x"
        print(f"{what:64} {times} (bound {bound:.1f}) {said}")


if __name__ == "__main__":
    main()

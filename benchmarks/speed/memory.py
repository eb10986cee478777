"""What grows with size: time beyond proportion, and memory where arrays are larger than it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import smallcal as sc
from ratio import Ratio, best, logits, shown

PEAK_PROGRAM = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-m", "smallcal", *sys.argv[1:]], check=True, capture_output=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""
SHAPE = (1_000_000, 100)


def rows() -> Iterator[Ratio]:
    yield from growing()
    yield from large()


def growth(what, sizes, make) -> Ratio:
    """Return how much more than proportionally time grows from the first size to the last."""
    times = [best(make(size), 3) for size in sizes]
    rate = (times[-1] / times[0]) / (sizes[-1] / sizes[0])
    detail = ", ".join(f"{n:,}: {shown(t)}" for n, t in zip(sizes, times, strict=True))
    return Ratio(what, "growth in proportion", rate, 1.5, detail)


def growing() -> Iterator[Ratio]:
    n, classes = (250, 2_500, 25_000, 50_000), (10, 100, 1_000)

    def fit(n, c):
        z, y = logits(n, c)
        return lambda: sc.SRTS().fit(z, y)

    def use(n, c):
        cal = sc.SRTS().fit(*logits(2500, c))
        z, _ = logits(n, c, seed=1)
        return lambda: cal.predict_proba(z)

    yield growth("fit, more rows (100 classes)", n, lambda n: fit(n, 100))
    yield growth("fit, more classes (2,500 rows)", classes, lambda c: fit(2500, c))
    yield growth("apply, more rows (100 classes)", n, lambda n: use(n, 100))
    yield growth("apply, more classes (10,000 rows)", classes, lambda c: use(10_000, c))


def command_peak(*arguments) -> float:
    """Return the peak memory of one smallcal command, in MB."""
    command = [sys.executable, "-c", PEAK_PROGRAM, *map(str, arguments)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def large() -> Iterator[Ratio]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cal = sc.SRTS().fit(*logits(2500, 100))
        cal.save(folder / "cal.json")
        np.save(folder / "small.npy", logits(100, 100)[0])
        big = np.lib.format.open_memmap(folder / "z.npy", "w+", dtype=np.float32, shape=SHAPE)
        for start in range(0, SHAPE[0], 100_000):
            big[start : start + 100_000] = logits(100_000, 100, seed=start)[0]
        big.flush()

        def peak(source):
            return command_peak("apply", folder / "cal.json", source, "-o", folder / "p.npy")

        added = peak(folder / "z.npy") - peak(folder / "small.npy")
        what = "memory of `smallcal apply`, 1,000,000 x 100"
        yield Ratio(what, "300 MB", added / 300, 1, f"{added:.0f} MB")

        out = np.lib.format.open_memmap(folder / "out.npy", "w+", dtype=np.float32, shape=SHAPE)
        tracemalloc.start()
        cal.predict_proba(np.load(folder / "z.npy", mmap_mode="r"), out=out)
        added = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        what = "memory of `predict_proba` between memory maps, 1,000,000 x 100"
        yield Ratio(what, "300 MB", added / 300, 1, f"{added:.0f} MB")

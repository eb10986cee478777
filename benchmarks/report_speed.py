"""Time a report part by part: 10,000 test samples, 100 classes, the six methods of the default.

``python benchmarks/report_speed.py`` prints seconds; it leaves with 1 when they are above 20.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager

import numpy as np

from smallcal.reports import document
from smallcal.reports.content import gather

LIMIT = 20.0

#: What ``gather`` calls, by the name it is known by there.
PARTS = (
    "measure",
    "verdict",
    "facts",
    "bands_of",
    "explained",
    "routing",
    "gate",
    "gap_tables",
    "figure_specs",
)


def split(n: int, n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n)
    logits = rng.normal(size=(n, n_classes)) * 1.5
    logits[np.arange(n), labels] += 5 * rng.random(n)
    return logits.astype(np.float32), labels


@contextmanager
def timed(module, names, seconds):
    """Add up the time spent in some of a module's functions."""
    real = {name: getattr(module, name) for name in names if hasattr(module, name)}

    def wrap(name):
        def call(*args, **options):
            start = time.perf_counter()
            try:
                return real[name](*args, **options)
            finally:
                seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start

        return call

    for name in real:
        setattr(module, name, wrap(name))
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(module, name, function)


def main() -> int:
    cal, test = split(1_000, 100, 0), split(10_000, 100, 1)
    seconds: dict[str, float] = {}
    start = time.perf_counter()
    with timed(gather, PARTS, seconds):
        report = document.report(cal, test)
    gathered = time.perf_counter() - start
    for name in ("to_markdown", "to_json", "to_html"):
        begin = time.perf_counter()
        try:
            getattr(report, name)()
        except ImportError as error:
            print(f"{name}: {error}")
        seconds[name] = time.perf_counter() - begin
    for name, value in seconds.items():
        print(f"{name:14s} {value:7.2f} s")
    total = time.perf_counter() - start
    print(f"{'gathered':14s} {gathered:7.2f} s\n{'in all':14s} {total:7.2f} s (limit {LIMIT:g})")
    print(f"{'processor':14s} {time.process_time():7.2f} s, which a busy machine stretches")
    return int(total > LIMIT)


if __name__ == "__main__":
    sys.exit(main())

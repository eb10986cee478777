"""The torch module against `torch.softmax(z / 1.5, 1)`: a part of `make bench`.

float32, one thread, without gradients asked for; both sides in turns, and of each the best, so that
neither has the quiet minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

import smallcal as sc

#: By method: the bound for a batch, and for one row.
BOUNDS = {"ts-nll": (1.5, 5.0), "srts-bce": (2.5, 5.0), "default": (3.0, 5.0)}
#: Compiled, a module cannot look at its numbers: all guards run on all rows.
COMPILED_BOUND = 20.0
N_FITTED = 2_500

Row = tuple[str, float, float, float]


def logits(n: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw logits, and labels from softmax(logits / 1.5): an over-confident model."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, n_classes), dtype=np.float32) * 2
    z[np.arange(n), rng.integers(n_classes, size=n)] += 16 * rng.random(n, dtype=np.float32)
    return z, (z / 1.5 + rng.gumbel(size=(n, n_classes))).argmax(axis=1)


def in_turns(
    ours: Callable[[], object], theirs: Callable[[], object], repeats: int, calls: int = 1
) -> tuple[float, float]:
    """Return the best seconds of each, taken in turns."""
    found = []
    for function in (ours, theirs):
        function()
    for _ in range(repeats):
        for function in (ours, theirs):
            start = time.perf_counter()
            for _ in range(calls):
                function()
            found.append((time.perf_counter() - start) / calls)
    return min(found[::2]), min(found[1::2])


def rows(*, compiled: bool = True) -> Iterator[Row]:
    """Yield what is timed, our seconds, the reference's, and the bound of their ratio."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for n_classes in (1_000, 100):
            yield from _of(n_classes, compiled=compiled)
    finally:
        torch.set_num_threads(threads)


def _of(n_classes: int, *, compiled: bool) -> Iterator[Row]:
    z, y = logits(10_000, n_classes)
    x = torch.from_numpy(z)
    one = x[:1].clone()
    repeats = 10 if n_classes > 500 else 60
    for method, (bound, bound_of_one) in BOUNDS.items():
        cal = sc.make(method).fit(z[:N_FITTED], y[:N_FITTED])
        module = cal.to_torch()
        times = in_turns(lambda m=module: m(x), lambda: torch.softmax(x / 1.5, 1), repeats)
        yield f"torch {method}, 10,000 x {n_classes:,}", *times, bound
        times = in_turns(lambda m=module: m(one), lambda: torch.softmax(one / 1.5, 1), 50, 50)
        yield f"torch {method}, one row of {n_classes:,}", *times, bound_of_one
        if compiled and method == "default":
            fused = torch.compile(module, fullgraph=True)
            with torch.no_grad():
                times = in_turns(lambda m=fused: m(x), lambda: torch.softmax(x / 1.5, 1), repeats)
            yield f"torch.compile {method}, 10,000 x {n_classes:,}", *times, COMPILED_BOUND


if __name__ == "__main__":
    for what, ours, theirs, bound in rows():
        print(f"{what:<42} {ours / theirs:8.2f}  (at most {bound:g})  {1e3 * ours:.3f} ms")

"""How long fits take, as ratios to smallcal's in the same process."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from peers.claims import quiet
from peers.entrants import ENTRANTS, Entrant
from peers.quality import ONE, RICH, Failed, attempt
from smallcal_lab.studies.simulate import World

SIZES = ((1000, 10), (1000, 100))
ROUNDS = 5


def measured(n: int, classes: int) -> dict[str, float | str]:
    """Return the median seconds of a fit and one row applied, taking turns, or what went wrong."""
    cal = World(n_classes=classes, accuracy=0.8, temperature=2.0, structure=0.0).draw(n)
    z, y = cal.logits.astype(np.float64), cal.labels
    found: dict[str, float | str] = {}
    racing: dict[str, Entrant] = {}
    for label, entrant in ENTRANTS.items():
        first = attempt(entrant, z, y, z[:2])  # loads packages, compiles what is compiled
        if isinstance(first, Failed):
            found[label] = first.why
        else:
            racing[label] = entrant
    took: dict[str, list[float]] = {label: [] for label in racing}
    for _ in range(ROUNDS):
        for label, entrant in racing.items():
            start = time.perf_counter()
            with quiet():
                entrant.run(z, y, z[:2])
            took[label].append(time.perf_counter() - start)
    return found | {label: float(np.median(times)) for label, times in took.items()}


def report() -> Iterator[str]:
    """Yield the table of ratios."""
    heads = [f"{n:,} samples, {classes} classes" for n, classes in SIZES]
    yield f"| time of a fit | {' | '.join(heads)} |"
    yield "|---|---:|---:|"
    found = [measured(*size) for size in SIZES]
    for label, entrant in ENTRANTS.items():
        reference = ONE if entrant.temperature else RICH
        cells = []
        for each in found:
            value, base = each[label], each[reference]
            if isinstance(value, str) or isinstance(base, str):
                cells.append(str(value))
            elif label in (ONE, RICH):
                cells.append(f"1 ({1000 * value:.1f} ms)")
            else:
                ratio = value / base
                cells.append(f"{ratio:.1f}" if ratio < 100 else f"{ratio:,.0f}")
        yield f"| {label} | {' | '.join(cells)} |"

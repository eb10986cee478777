"""What a user waits for before anything is computed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ratio import Ratio, commands, program, verbs

IMPORTS = {
    "`import smallcal`": "import smallcal",
    "`import smallcal`, every estimator and metric": (
        "import smallcal; smallcal.SRTS; smallcal.evaluate; smallcal.compare"
    ),
}
SKLEARN = "import sklearn.linear_model"

VERBS = {
    "inspect`": ("inspect cal.json", 0.5),
    "methods`": ("methods", 0.5),
    "fit`, the demo's 1,250 x 345": ("fit cal.npz -o new.json", 1.0),
}


def imported(*statements: str, folder: Path, repeats: int) -> np.ndarray:
    """Time statements in processes of their own, in turns; the first writes the bytecode."""
    clock, tell = "import time; t = time.perf_counter()", "print(time.perf_counter() - t)"
    run = [program(("-c", f"{clock}; {each}; {tell}"), folder) for each in statements]
    times = np.array([[float(each()) for each in run] for _ in range(repeats + 1)])
    return times[1:].T


def rows() -> Iterator[Ratio]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for words in ("demo --export .", "fit cal.npz -o cal.json"):
            commands(("-m", "smallcal", *words.split()), folder=folder, repeats=0)
        yield from verbs(VERBS, folder, repeats=7)
        *ours, theirs = imported(*IMPORTS.values(), SKLEARN, folder=folder, repeats=5)
    for what, times in zip(IMPORTS, ours, strict=True):
        yield Ratio.of(what, f"`{SKLEARN}`", times, theirs, 1.3)

"""What a user waits for before anything is computed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ratio import Ratio, commands, verbs

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


def imported(*statements: str, repeats: int) -> np.ndarray:
    """Time statements in processes of their own, in turns."""

    def seconds(statement: str) -> float:
        clock = "import time; t = time.perf_counter()"
        program = f"{clock}; {statement}; print(time.perf_counter() - t)"
        command = [sys.executable, "-c", program]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    return np.array([[seconds(each) for each in statements] for _ in range(repeats)]).T


def rows() -> Iterator[Ratio]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for words in ("demo --export .", "fit cal.npz -o cal.json"):
            commands(("-m", "smallcal", *words.split()), folder=folder, repeats=0)
        yield from verbs(VERBS, folder, repeats=7)
    *ours, theirs = imported(*IMPORTS.values(), SKLEARN, repeats=7)
    for what, times in zip(IMPORTS, ours, strict=True):
        yield Ratio.of(what, f"`{SKLEARN}`", times, theirs, 1.3)

"""What a user waits for before anything is computed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from ratio import Ratio

IMPORTS = {
    "`import smallcal`": "import smallcal",
    "`import smallcal`, every estimator and metric": (
        "import smallcal; smallcal.SRTS; smallcal.evaluate; smallcal.compare"
    ),
}
SKLEARN = "import sklearn.linear_model"


def imported(*statements: str, repeats: int) -> np.ndarray:
    """Time statements in processes of their own, in turns."""

    def seconds(statement: str) -> float:
        clock = "import time; t = time.perf_counter()"
        program = f"{clock}; {statement}; print(time.perf_counter() - t)"
        command = [sys.executable, "-c", program]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    return np.array([[seconds(each) for each in statements] for _ in range(repeats)]).T


def rows() -> Iterator[Ratio]:
    *ours, theirs = imported(*IMPORTS.values(), SKLEARN, repeats=7)
    for what, times in zip(IMPORTS, ours, strict=True):
        yield Ratio.of(what, f"`{SKLEARN}`", times, theirs, 1.3)

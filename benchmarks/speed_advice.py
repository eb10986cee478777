"""What select, audit and plan take on the demo, against `python -c "import numpy, typer"`.

Each runs in a process of its own, in turns with the reference; the best of a few is compared, for
they use every core, and whatever else runs on them is not what is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROUNDS = 3

#: What the command line itself is made of.
REFERENCE = ("-c", "import numpy, typer")

#: Five seconds, where the reference takes 0.16.
BOUND = 31.0

VERBS = ("select", "audit", "plan")


def rows() -> Iterator[tuple[str, float, float, float]]:
    """Yield what was timed, our seconds, the reference's and the bound of their ratio."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run(folder, "-m", "smallcal", "demo", "--export", ".")
        _run(folder, *REFERENCE)
        for verb in VERBS:
            ours, theirs = [], []
            for _ in range(ROUNDS):
                theirs.append(_run(folder, *REFERENCE))
                ours.append(_run(folder, "-m", "smallcal", verb, "cal.npz"))
            yield f"smallcal {verb}, 1,250 x 345", min(ours), min(theirs), BOUND


def _run(folder: Path, *words: str) -> float:
    """Return the seconds that a process takes from its start to its end."""
    kept = {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    # A benchmark may hold itself to one thread; a user does not.
    free = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *words], cwd=folder, env={**free, **kept}, capture_output=True, check=True
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    for what, ours, theirs, bound in rows():
        print(f"{what}: {ours:.2f} s, {ours / theirs:.1f} x (bound {bound:g} x)")

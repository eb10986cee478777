"""What a command takes from the shell, against `python -c "import numpy, typer"`.

Each side runs in processes of its own, in turns; medians are compared. Bytecode is kept in a folder
of the benchmark's, as an installed package has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROUNDS = 7

#: What the command line itself is made of.
REFERENCE = ("-c", "import numpy, typer")

#: Commands with their bound: how many times the reference they may take.
COMMANDS = {
    "smallcal inspect": (("inspect", "cal.json"), 3.0),
    "smallcal methods": (("methods",), 3.0),
    "smallcal fit, 1,250 x 345": (("fit", "cal.npz", "-o", "new.json"), 6.25),
}


def rows() -> Iterator[tuple[str, float, float, float]]:
    """Yield what was timed, our seconds, the reference's and the bound of their ratio."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run(folder, "-m", "smallcal", "demo", "--export", ".")
        _run(folder, "-m", "smallcal", "fit", "cal.npz", "-o", "cal.json")
        for what, (words, bound) in COMMANDS.items():
            for warm in (("-m", "smallcal", *words), REFERENCE):
                _run(folder, *warm)
            ours, theirs = [], []
            for _ in range(ROUNDS):
                theirs.append(_run(folder, *REFERENCE))
                ours.append(_run(folder, "-m", "smallcal", *words))
            yield what, median(ours), median(theirs), bound


def _run(folder: Path, *words: str) -> float:
    """Return the seconds that a process takes from its start to its end."""
    kept = {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **kept},
        capture_output=True,
        check=True,
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    for what, ours, theirs, bound in rows():
        print(f"{what:<28} {ours:.2f} s, {ours / theirs:.2f} x {theirs:.2f} s (at most {bound:g})")

"""What every part of `make bench` shares: a ratio with its bound, and ways to time two sides."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
PROCESSES = 3
#: What any program with a command line and arrays pays before its first line.
NOTHING = ("-c", "import numpy, typer")
#: What that is called, and how long it takes on the machine where bounds were set in seconds.
STARTS, SECONDS = "`import numpy, typer`", 0.16


@dataclass(frozen=True)
class Ratio:
    """How long something takes, as a multiple of something else in the same run.

    Attributes
    ----------
    what, reference : str
        The two sides.
    ratio, bound : float
        Measured, and promised.
    detail : str
        The sizes behind the ratio.
    """

    what: str
    reference: str
    ratio: float
    bound: float
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the promise is kept."""
        return self.ratio <= self.bound

    @classmethod
    def of(cls, what, reference, ours, theirs, bound):
        """Take the median ratio of paired times, in seconds, with its range."""
        ours, theirs = np.atleast_1d(ours), np.atleast_1d(theirs)
        ratios = ours / theirs
        sizes = ", ".join(shown(np.median(times)) for times in (ours, theirs))
        spread = f"; {ratios.min():.2f} to {ratios.max():.2f}" if len(ratios) > 1 else ""
        return cls(what, reference, float(np.median(ratios)), bound, sizes + spread)


def shown(seconds: float) -> str:
    """Return a time in words."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def timed(function: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def best(function: Callable[[], object], repeats: int = 7) -> float:
    """Return the shortest time of several runs after a warm-up, in seconds."""
    function()
    return min(timed(function) for _ in range(repeats))


def in_turns(*functions: Callable[[], object], repeats: int, calls: int = 1) -> np.ndarray:
    """Time functions one after another, again and again, so that none has the quiet minute.

    Returns
    -------
    ndarray of shape (functions, repeats)
        Seconds of a call; each the mean of ``calls``, for what takes microseconds.
    """
    for function in functions:
        function()

    def several(function: Callable[[], object]) -> float:
        return timed(lambda: [function() for _ in range(calls)]) / calls

    return np.array([[several(each) for each in functions] for _ in range(repeats)]).T


def program(line: Sequence[str], folder: Path) -> Callable[[], str]:
    """Return a function that runs Python with these words, to its end, and gives what it prints.

    Bytecode is kept beside the data, as an installed package has it, and threads are not held back
    as this benchmark holds its own.
    """
    free = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    kept = {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    how: dict[str, Any] = {"cwd": folder, "env": free | kept, "capture_output": True, "text": True}
    return lambda: subprocess.run([sys.executable, *line], check=True, **how).stdout


def commands(*lines: Sequence[str], folder: Path, repeats: int) -> np.ndarray:
    """Time programs in turns, each from its start to its end; see :func:`in_turns`."""
    return in_turns(*(program(line, folder) for line in lines), repeats=repeats)


def verbs(cases: Mapping[str, tuple[str, float]], folder: Path, *, repeats: int) -> Iterator[Ratio]:
    """Yield what commands take against a Python that only starts.

    Parameters
    ----------
    cases : dict
        What each is called, with its words and its bound in seconds where that Python takes
        ``SECONDS``.
    folder : Path
        Where they run.
    """
    for what, (words, seconds) in cases.items():
        line = ("-m", "smallcal", *words.split())
        ours, theirs = commands(line, NOTHING, folder=folder, repeats=repeats)
        yield Ratio.of(f"`smallcal {what}", STARTS, ours, theirs, seconds / SECONDS)


def logits(n, n_classes, dtype=np.float32, seed=0):
    """Draw logits, and labels from softmax(logits / 1.5): an over-confident model."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, n_classes), dtype=np.float32) * 2
    z[np.arange(n), rng.integers(n_classes, size=n)] += 16 * rng.random(n, dtype=np.float32)
    gumbel = rng.gumbel(size=(n, n_classes))
    return z.astype(dtype), (z / 1.5 + gumbel).argmax(axis=1)


def own_processes(module: str, function: str, z, y, repeats: int) -> Iterator[np.ndarray]:
    """Time functions of a part in processes of their own that only load data and do that.

    What a process allocated and freed before decides whether its large arrays cost page faults,
    and even equal processes differ in that, for every side: so each side's time is the best in
    its process, ratios are taken within a process, and the median process is reported.

    Parameters
    ----------
    module, function : str
        A function of a part that takes ``z`` and ``y`` and gives the functions to time.

    Returns
    -------
    iterator of ndarray of shape (processes,)
        The times of each function.
    """
    program = (
        "import sys, warnings; warnings.simplefilter('ignore'); import numpy as np, ratio;"
        f"import {module} as part; z, y = map(np.load, sys.argv[1:3]);"
        f"print(*ratio.in_turns(*part.{function}(z, y), repeats=int(sys.argv[3])).min(axis=1))"
    )
    with tempfile.TemporaryDirectory() as name:
        files = [str(Path(name) / file) for file in ("z.npy", "y.npy")]
        for file, array in zip(files, (z, y), strict=True):
            np.save(file, array)
        command = [sys.executable, "-c", program, *files, str(repeats)]
        runs = [
            subprocess.run(command, capture_output=True, text=True, cwd=HERE)
            for _ in range(PROCESSES)
        ]
    failed = [run.stderr for run in runs if run.returncode]
    if failed:
        raise SystemExit(failed[0])
    return iter(np.array([[float(number) for number in run.stdout.split()] for run in runs]).T)

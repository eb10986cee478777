"""Plant bugs in the numerical rooms, one at a time, and see whether the nearest tests notice.

`make mutants`, or `python scripts/mutants.py --only statistics/groups --jobs 2`. The bugs are
listed in ``mutants.txt``. Each is written into a copy of ``src`` that the tests import instead of
the real one; the working tree is never touched. A bug that no test notices has survived: a test is
missing, or the line says nothing. More than 3 survivors of 60 make the exit code 1.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
#: Folders of sources.
TREES = ("src", "lab/src")
TABLE = Path(__file__).with_name("mutants.txt")

#: Of so many bugs, so many may survive.
ALLOWED, OUT_OF = 3, 60

#: What pytest answers when all tests pass, and when one fails.
PASSED, FAILED = 0, 1

#: Words for what became of a bug.
KILLED, SURVIVED, BROKEN = "killed", "SURVIVED", "BROKEN"

#: What a line of the table adds to, by its mark.
_FIELDS = {"-": "old", "+": "new", "!": "reason"}


class Mutant(NamedTuple):
    """A bug.

    Attributes
    ----------
    file : str
        Below ``src/smallcal``, or ``lab/src`` where it begins with ``smallcal_lab/``.
    bug : str
        What is wrong with it, in words.
    old, new : str
        The right snippet, which stands once in the file, and the wrong one.
    tests : tuple of str
        The nearest tests: files, or ``file::function``.
    reason : str
        Why it may survive, if it may.
    """

    file: str
    bug: str
    old: str
    new: str
    tests: tuple[str, ...]
    reason: str = ""


class Fate(NamedTuple):
    """What became of a bug, after how many seconds."""

    mutant: Mutant
    word: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant the bugs that are asked for; return 0 unless too many survive."""
    options = _options(arguments)
    chosen = [m for m in read_table() if options.only in f"{m.file}: {m.bug}"]
    stale = [line for mutant in chosen if (line := problem(mutant))]
    if stale or not chosen:
        print("\n".join(stale) or f"no bug matches {options.only!r}")
        return 2
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder) / str(i)) for i in range(options.jobs)]
        tests = sorted({test for mutant in chosen for test in mutant.tests})
        print(f"{len(chosen)} bugs; first, the tests must pass without any ...", flush=True)
        if copies[0].run(tests, shown=True) != PASSED:
            print("the tests fail without a bug; mend that first")
            return 2
        fates = list(_plant_all(chosen, copies, options.timeout))
    return _report(fates)


def read_table(text: str | None = None) -> list[Mutant]:
    """Return the bugs of a table, by default the one beside this script.

    A line begins with a mark and a space: ``@`` a file, ``?`` one of the tests nearest to it, ``*``
    a bug in words, ``-`` and ``+`` the snippet before and after (several lines each, if need be),
    ``!`` why it may survive. Other lines must be empty, or begin with ``#``.
    """
    found: list[Mutant] = []
    file, tests = "", ()
    for line in (text or TABLE.read_text(encoding="utf-8")).splitlines():
        mark, rest = line[:1], line[2:]
        if mark == "@":
            file, tests = rest, ()
        elif mark == "?":
            tests = (*tests, rest)
        elif mark == "*":
            found.append(Mutant(file, rest, "", "", tests))
        elif mark in _FIELDS:
            field = _FIELDS[mark]
            before = getattr(found[-1], field)
            found[-1] = found[-1]._replace(**{field: f"{before}\n{rest}" if before else rest})
        elif line.strip() and mark != "#":
            raise ValueError(f"{TABLE.name}: a line must begin with one of @ ? * - + ! #: {line!r}")
    return found


def problem(mutant: Mutant) -> str:
    """Say why a row no longer fits the source, if it does not."""
    path = source_of(ROOT, mutant.file)
    if not path.is_file():
        return f"{mutant.file}: there is no such file ({mutant.bug})"
    count = path.read_text(encoding="utf-8").count(mutant.old)
    if count != 1:
        return f"{mutant.file}: {mutant.old!r} is there {count} times, not once ({mutant.bug})"
    if mutant.new == mutant.old or not mutant.tests:
        return f"{mutant.file}: nothing is changed, or nothing tested ({mutant.bug})"
    for test in mutant.tests:
        name, _, function = test.partition("::")
        place = ROOT / name
        if not place.is_file() or (function and f"def {function}(" not in place.read_text("utf-8")):
            return f"{mutant.file}: there is no test {test} ({mutant.bug})"
    return ""


def source_of(root: Path, file: str) -> Path:
    """Return where a file of the table is."""
    below = "lab/src" if file.startswith("smallcal_lab/") else "src/smallcal"
    return root / below / file


class Copy:
    """A copy of the sources that bugs are written into and tests are run on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for tree in TREES:
            skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / tree, folder / tree, ignore=skipped)
            # Compiled once: later runs write nothing, so that no bug outlives its turn.
            compileall.compile_dir(folder / tree, quiet=2)

    @contextlib.contextmanager
    def bug(self, mutant: Mutant) -> Iterator[None]:
        """Have the bug in the copy for a while."""
        path = source_of(self.folder, mutant.file)
        right = path.read_text(encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()
        path.write_text(right.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(right, encoding="utf-8")

    def run(
        self, tests: Sequence[str], *, timeout: float | None = None, shown: bool = False
    ) -> int | None:
        """Run tests on the copy; return pytest's exit code, None after the timeout."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        environment = {
            **os.environ,
            **one_thread,
            "PYTHONPATH": os.pathsep.join(str(self.folder / tree) for tree in TREES),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        output = None if shown else subprocess.DEVNULL
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the workers it may have started
            process.wait()
            return None


def _plant_all(mutants: Sequence[Mutant], copies: Sequence[Copy], timeout: float) -> Iterator[Fate]:
    """Plant every bug, as many at a time as there are copies, and say what became of each."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def plant(mutant: Mutant) -> Fate:
        copy, start = free.get(), time.monotonic()
        try:
            with copy.bug(mutant):
                code = copy.run(mutant.tests, timeout=timeout)
        finally:
            free.put(copy)
        # A bug that the program hangs on is noticed; one that it cannot even load is no bug.
        word = {PASSED: SURVIVED, FAILED: KILLED, None: KILLED}.get(code, BROKEN)
        return Fate(mutant, word, time.monotonic() - start)

    with ThreadPoolExecutor(len(copies)) as pool:
        for done in as_completed([pool.submit(plant, mutant) for mutant in mutants]):
            fate = done.result()
            shown = f"{fate.mutant.file}: {fate.mutant.bug}"
            print(f"{fate.word:8} {fate.seconds:5.1f} s  {shown}", flush=True)
            yield fate


def _report(fates: Sequence[Fate]) -> int:
    """Print the sum of it, and each survivor with its reason; return the exit code."""
    lives = [fate.mutant for fate in fates if fate.word == SURVIVED]
    broken = [fate.mutant for fate in fates if fate.word == BROKEN]
    killed = len(fates) - len(lives) - len(broken)
    allowed = ALLOWED * len(fates) // OUT_OF
    print(f"\n{len(fates)} planted, {killed} killed, {len(lives)} survived ({allowed} may)")
    for mutant in lives:
        print(f"survived: {mutant.file}: {mutant.bug}: {mutant.reason or 'no reason is known'}")
    for mutant in broken:
        print(f"cannot be loaded or run: {mutant.file}: {mutant.bug}")
    return int(len(lives) > allowed or bool(broken))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="part of 'FILE: BUG', such as statistics/")
    parser.add_argument("--jobs", type=int, default=2, help="bugs at a time")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for each bug")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

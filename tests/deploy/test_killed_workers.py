"""The real command with its processes killed: one line at most, no hang, and nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from support.simulated import simulate

#: How many runs have their processes killed; `make test-slow` asks for more.
ROUNDS = int(os.environ.get("SMALLCAL_STRESS", "2"))

pytestmark = [
    pytest.mark.hard,
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="children are found in /proc, which Linux has"
    ),
]

COMMAND = ("apply", "cal.json", "z.npy", "-o", "p.npy", "--part-rows", "150", "--jobs", "4")
#: What the command line of a worker has in it.
WORKER = b"popen_loky"
#: A command that takes longer than this hangs.
PATIENCE = 120


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A calibrator, data of forty parts, and what the command makes of them."""
    folder = tmp_path_factory.mktemp("killed")
    sc.SRTS().fit(*simulate(300, 4)).save(folder / "cal.json")
    np.save(folder / "z.npy", simulate(6000, 4, seed=1)[0])
    done = begun(folder).communicate(timeout=PATIENCE)
    assert done == (f"Wrote 6,000 rows of 4 probabilities to {COMMAND[4]}.\n", "")
    whole = (folder / "p.npy").read_bytes()
    (folder / "p.npy").unlink()
    return folder, whole


def begun(folder, *more):
    command = [sys.executable, "-m", "smallcal", *COMMAND, *more]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, **piped)


def workers(parent):
    """Return the processes that work on parts; another child only tidies up after them."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            after = (entry / "stat").read_text().rpartition(")")[2].split()
            words = (entry / "cmdline").read_bytes()
            if int(after[1]) == parent and WORKER in words and after[0] != "Z":
                found.append(int(entry.name))
    return found


def kill_some(process, chance):
    """Kill a few of a command's processes, at moments from their very start on."""
    killed = 0
    most, pause = chance.randint(1, 5), chance.choice([0.003, 0.05, 0.3])
    end = time.monotonic() + PATIENCE
    while process.poll() is None and killed < most and time.monotonic() < end:
        there = workers(process.pid)
        for one in chance.sample(there, min(len(there), chance.choice([1, 1, 2, 4]))):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
                killed += 1
        time.sleep(chance.uniform(0, pause))
    return killed


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_killed_workers_end_in_one_line_at_most_and_the_result_is_the_same(made, seed):
    folder, whole = made
    chance = random.Random(seed)
    with begun(folder) as process:
        try:
            killed = kill_some(process, chance)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert killed
    if process.returncode:
        assert (process.returncode, out, len(err.splitlines())) == (2, "", 1), err
        assert "a process ended before it had finished a task" in err
        with begun(folder) as again:
            out, err = again.communicate(timeout=PATIENCE)
    assert out == f"Wrote 6,000 rows of 4 probabilities to {COMMAND[4]}.\n"
    assert [line for line in err.splitlines() if "rows were done before" not in line] == []
    assert (folder / "p.npy").read_bytes() == whole
    (folder / "p.npy").unlink()
    assert sorted(path.name for path in folder.iterdir()) == ["cal.json", "z.npy"]

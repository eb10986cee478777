"""Tasks in processes: whatever is killed, nothing hangs, and what is done stays done."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import pytest

import smallcal as sc
from smallcal.io.pool import run_tasks
from support.small_tasks import fail, keep, kill_one, nap

#: How many runs the killer gets; a night's work is `SMALLCAL_STRESS=100`.
ROUNDS = int(os.environ.get("SMALLCAL_STRESS", "2"))

posix = pytest.mark.skipif(os.name != "posix", reason="kills are POSIX")


def test_tasks_are_done_and_kept_by_other_processes(tmp_path):
    done = []
    run_tasks(nap, range(12), keep=partial(keep, tmp_path), told=done.append, jobs=2)
    assert sorted(done) == list(range(12))
    told = [(tmp_path / str(task)).read_text().split() for task in range(12)]
    assert [int(task) for task, _ in told] == list(range(12))
    assert str(os.getpid()) not in {pid for _, pid in told}
    assert active_children() == []


def test_nothing_to_do_starts_nothing():
    run_tasks(fail, [], jobs=2)
    assert active_children() == []


def test_an_error_comes_back_and_ends_the_others():
    with pytest.raises(ValueError, match="no such task: 0"):
        run_tasks(fail, range(4), jobs=2)
    assert active_children() == []


@pytest.mark.slow
@posix
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_kills_at_random_lose_nothing_and_hang_nothing(tmp_path, seed):
    """What goes in and out is longer than a pipe, where a kill could leave half a message."""
    todo, chance, killed, told = list(range(40)), random.Random(seed), [], []
    work = partial(nap, ballast=b"x" * 200_000)

    def tell(task):
        told.append(task)
        if len(killed) < 4 and chance.random() < 0.25:
            time.sleep(chance.uniform(0, 0.03))
            killed.append(kill_one(chance))

    run_tasks(work, todo, keep=partial(keep, tmp_path), told=tell, jobs=3)
    assert sorted(told) == todo
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == todo
    assert any(killed)
    assert active_children() == []


UNGUARDED = """
from smallcal.io.pool import run_tasks

def work(task):
    return task

done = []
run_tasks(work, range(6), told=done.append, jobs=2)
print(sorted(done))
"""


def test_a_script_needs_no_guard(tmp_path):
    (tmp_path / "script.py").write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(sc.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("[0, 1, 2, 3, 4, 5]\n", "")

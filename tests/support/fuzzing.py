"""Fuzzers: how much they throw, and what must hold whatever a command is given.

``SMALLCAL_FUZZ=20`` throws twenty times as much, ``SMALLCAL_FUZZ_SEED=7`` other things; without a
seed each run throws the same. Every test that is ``@thrown`` is marked ``hard``: ``make test-slow``
runs those that are, and finds new ones by their mark.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import tempfile
import threading
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, seed, settings

from smallcal.cli import run
from support.nasty_names import RAW

TIMES = int(os.environ.get("SMALLCAL_FUZZ", "1"))
SEED = int(os.environ.get("SMALLCAL_FUZZ_SEED", "0"))
#: Seconds after which something hangs.
PATIENCE = 60


def thrown(examples, *, shrink=True):
    """Throw so many examples at a test, the same ones each time unless a seed is given.

    Without ``shrink`` the first failure is told as it was found: for tests of whole commands, of
    which a smaller failure would take minutes to find.
    """
    phases = (Phase.explicit, Phase.generate, *([Phase.shrink] if shrink else []))
    chosen = settings(
        max_examples=examples * TIMES,
        deadline=None,
        derandomize=not SEED,
        database=None,
        print_blob=False,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )

    def decorate(test):
        return pytest.mark.hard(chosen(seed(SEED)(test) if SEED else test))

    return decorate


def again():
    """Return the words that throw the same again."""
    times = [f"SMALLCAL_FUZZ={TIMES}"] if TIMES != 1 else []
    return " ".join([*times, *([f"SMALLCAL_FUZZ_SEED={SEED}"] if SEED else [])])


def dice(name, number):
    """Give the randomness of one example; ``told`` says which it was."""
    return random.Random(told(name, number))


def told(name, number):
    """Say how to make an example again."""
    return f"SMALLCAL_FUZZ_SEED={SEED}, {name}, example {number}"


@contextlib.contextmanager
def in_time(seconds=PATIENCE):
    """Fail where the block takes too long."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(number, frame):
        raise AssertionError(f"not done after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def contents(folder):
    """Return the bytes of every file in a folder."""
    return {file: file.read_bytes() for file in sorted(Path(folder).rglob("*")) if file.is_file()}


@contextlib.contextmanager
def standing_in():
    """Stand in an empty folder."""
    old = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(old)


def command(*args, folder=None, outputs=()):
    """Run a command in-process and check what holds of every one; return code, stdout, stderr.

    No defect, at most one line of error and that only with code 2, nothing raw on the terminal, no
    input changed, nothing half-written: of what is new in ``folder``, all is in ``outputs``, and a
    command that failed wrote none of it.
    """
    before = {} if folder is None else contents(folder)
    out, err = io.StringIO(), io.StringIO()
    empty = io.TextIOWrapper(io.BytesIO())
    with (
        in_time(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", empty),
    ):
        code = run([str(arg) for arg in args])
    said = out.getvalue() + err.getvalue()
    assert code in (0, 1, 2), said
    assert "Traceback" not in said
    assert not RAW.search(said.replace("\t", "")), repr(said)
    wrong = [line for line in err.getvalue().split("\n") if "smallcal: error: " in line[:20]]
    assert bool(wrong) == (code == 2), said
    assert len(wrong) <= 1 or "study" in args, said  # which tells of each cell
    if folder is not None:
        _require_whole(before, contents(folder), [Path(name) for name in outputs], code)
    return code, out.getvalue(), err.getvalue()


def _require_whole(before, after, outputs, code):
    written = {file for file in after if any(out in (file, *file.parents) for out in outputs)}
    assert {file: after.get(file) for file in before if file not in written} == {
        file: data for file, data in before.items() if file not in written
    }
    new = set(after) - set(before)
    assert new <= written, f"left behind: {sorted(map(str, new - written))}"
    if code == 2:
        assert {file: after.get(file) for file in before} == before
        assert not new, f"failed and wrote {sorted(map(str, new))}"

"""Locks end with the process that took them."""

import os
import signal
import subprocess
import sys

import pytest

from smallcal.io.lock import alone_in

FORKED = """
import os, sys, time
from pathlib import Path
from smallcal.io.lock import alone_in

with alone_in(Path(sys.argv[1])):
    if not os.fork():
        print(os.getpid(), flush=True)  # by now it has let go of the lock
        time.sleep(60)
    os._exit(9)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_process_that_was_started_meanwhile_does_not_hold_the_lock(tmp_path):
    command = [sys.executable, "-c", FORKED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        assert process.wait() == 9
        try:
            with alone_in(tmp_path) as certain:
                assert certain
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_it_is_still_held_by_the_one_that_took_it(tmp_path):
    with alone_in(tmp_path):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        program = "import sys; from pathlib import Path; from smallcal.io.lock import alone_in\n"
        program += "with alone_in(Path(sys.argv[1])): pass"
        command = [sys.executable, "-c", program, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True)
    assert "another process is working on" in done.stderr

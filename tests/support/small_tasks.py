"""Tasks for the tests of processes: functions that another process can import, and a killer."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import contextmanager, suppress
from multiprocessing import active_children
from pathlib import Path


def nap(task, ballast=b""):
    """Do nothing for a moment, and give what was asked for."""
    time.sleep(0.02)
    return task, ballast, os.getpid()


def keep(folder, task, result):
    """Write down who did a task."""
    (Path(folder) / str(task)).write_text(f"{result[0]} {result[2]}")


def fail(task):
    raise ValueError(f"no such task: {task}")


def kill_one(chance):
    """Kill one of the children of this process; return it, if there was any."""
    for child in chance.sample(children := active_children(), min(1, len(children))):
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
            return child.pid
    return None


@contextmanager
def killing(pause, *, most=10**6, seed=0):
    """Kill children of this process, one by one, as long as the block works."""
    chance, over, killed = random.Random(seed), threading.Event(), []

    def kill():
        while not over.wait(pause * chance.random()) and len(killed) < most:
            killed.extend(filter(None, [kill_one(chance)]))

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()

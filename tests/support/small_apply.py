"""Apply a calibrator in ways that a test cannot do to itself: killed at a write, on a cluster.

Run as a script with a folder that holds cal.json and data.parquet; it prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from smallcal import runtime
from smallcal.deploy.apply_in_parts import apply_in_parts
from smallcal.io import Target, atomic, open_source


def once(folder, output, **options):
    fitted = runtime.load(folder / "cal.json")
    source = open_source(folder / "data.parquet")
    target = Target.of(str(folder / output), source.kind)
    return apply_in_parts(fitted, source, target, part_rows=50, **options)


def content(path):
    """The bytes of a file, or of all files in a folder."""
    if path.is_dir():
        return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    return path.read_bytes() if path.exists() else None


def in_fork(function):
    child = os.fork()
    if not child:
        try:
            function()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(folder, output, count, after):
    """Be killed at one of the renames: with the file half done, or once it is there."""
    replace, calls = os.replace, []

    def deadly(source, target):
        calls.append(target)
        if len(calls) == count and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)

    atomic.os.replace = deadly
    once(folder, output)


def kills(folder, output):
    """Kill a run at each of its writes, and let another complete it."""
    once(folder, output)
    whole = content(folder / output)
    wrong, tried = [], 0
    for count in range(1, 20):
        for after in (False, True):
            remove(folder / output)
            code = in_fork(lambda n=count, a=after: die_at(folder, output, n, a))
            if code == 0:
                return {"wrong": wrong, "tried": tried}
            tried += 1
            left = content(folder / output)
            once(folder, output)
            done = content(folder / output) == whole
            if left not in (None, whole) or not done or list(folder.glob("*.parts")):
                wrong.append([count, after])
    return {"wrong": [*wrong, "no end"], "tried": tried}


def remove(path):
    if path.is_dir():
        for entry in path.iterdir():
            entry.unlink()
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def dask(folder, output):
    """Run on a cluster of two workers and kill one of them on the way."""
    from distributed import Client, LocalCluster

    once(folder, "here" + output)
    killed = []
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
        ) as cluster,
        Client(cluster) as client,
    ):

        def advance(rows):
            if rows and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        once(folder, output, dask=cluster.scheduler_address, advance=advance)
    same = content(folder / output) == content(folder / ("here" + output))
    return {"same": same, "killed": len(killed)}


if __name__ == "__main__":
    way, name, out = sys.argv[1:]
    sys.stdout.write(json.dumps({"kills": kills, "dask": dask}[way](Path(name), out)) + "\n")

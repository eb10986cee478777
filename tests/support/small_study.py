"""A small study for the tests of the engine, and a program that runs it in processes of its own.

`python small_study.py WAY COLLECTION OUT ...`; the ways are at the end. A program, because it is
killed, and because the processes it starts import it. It prints one line of JSON.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from smallcal.errors import SmallcalError
from smallcal.io import atomic
from smallcal_lab.studies import Study, engine, load_collection
from smallcal_lab.studies import run as checked_run
from smallcal_lab.studies.study import Entry
from support.simulated import simulate

run = partial(checked_run, force=True)  # of a collection with an odd name

STUDY = Study(
    name="small",
    title="A small study",
    question="Does the engine hold?",
    entries=(Entry("none"), Entry("tva-ts"), Entry("srts-bce")),
    baseline="tva-ts",
    metrics=("ece15", "nll"),
    budgets=(100, 0),
    draws=2,
    tables=("means", "wins", "differences", "seed-samples"),
    n_boot=100,
)
N_TASKS = 3 * (2 + 1)
RESULTS = ("rows.parquet", "tables.md", "tables.tex", "tables.json")


def write_collection(folder, *, n=300, n_classes=5):
    """Write three cells: two seeds of one model, and another whose name is no name of a file."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ['name = "small"']
    for number, (backbone, seed) in enumerate([("a", 0), ("a", 1), ("B/16", 0)]):
        arrays = {}
        for place, split in enumerate(("val", "test")):
            z, y = simulate(n, n_classes, seed=10 * number + place)
            arrays |= {f"{split}_logits": z, f"{split}_labels": y}
        np.savez(folder / f"{number}.npz", **arrays)
        lines += [
            "[[cell]]",
            'dataset = "toy"',
            f'backbone = "{backbone}"',
            f"seed = {seed}",
            f'calibration = "{number}.npz:val"',
            f'test = "{number}.npz:test"',
        ]
    (folder / "collection.toml").write_text("\n".join(lines) + "\n")
    return load_collection(folder)


def parts(out):
    """Return the finished parts of a run."""
    return sorted(Path(out).glob("parts/[!.]*.parquet"))


def results(out):
    """Return the bytes of each result of a run, and of the predictions that it keeps."""
    kept = sorted(Path(out).glob("predictions/[!.]*.parquet"))
    files = [*(Path(out) / name for name in RESULTS), *kept]
    return {file.name: file.read_bytes() for file in files}


def leftovers(out):
    """Return hidden files that should not be there."""
    return [str(path) for path in Path(out).rglob(".*") if path.name != ".lock"]


def plain(source, out, draws="2", jobs="1"):
    """Run the study as a user would."""
    seen = []
    found = run(
        replace(STUDY, draws=int(draws)),
        load_collection(source),
        out,
        jobs=int(jobs),
        advance=seen.append,
    )
    return {"found": seen[0], "failures": found.failures, "notes": found.notes}


def killed_in_writes(source, out):
    """Kill the run as it writes a file, half-way and just after, and run it again each time.

    Every kind of file: the manifest, some tasks' predictions and parts, the rows, each form of the
    tables.
    """
    collection = load_collection(source)
    run(STUDY, collection, f"{out}/whole")
    wanted = results(f"{out}/whole")
    some = [2 * task + file for task, file in ((0, 1), (3, 1), (5, 2), (8, 2))]  # or the part
    last = 1 + 2 * N_TASKS
    writes = [0, *some, *range(last, last + len(RESULTS))]
    wrong = []
    for write in writes:
        for when in ("half", "moved"):
            folder = f"{out}/{write}-{when}"
            killed = _in_fork(lambda w=when, n=write, f=folder: _die(collection, f, n, w))
            left = len(parts(folder))
            log = Path(f"{folder}.log")
            ended = _in_fork(lambda f=folder, g=log: _counted(collection, f, g))
            done = len(log.read_text().split())
            if (
                (killed, ended, done) != (-signal.SIGKILL, 0, N_TASKS - left)
                or results(folder) != wanted
                or leftovers(folder)
            ):
                wrong.append([write, when, killed, ended, done, left, leftovers(folder)])
    return {"points": 2 * len(writes), "wrong": wrong}


def _in_fork(function):
    """Run a function in a copy of this process, which has loaded everything and has no threads."""
    child = os.fork()
    if child == 0:
        function()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _die(collection, folder, write, when):
    """Run until a file is written, and be killed: with half of it on disk, or once it is there."""
    flush, move = atomic._flush, os.replace
    seen = iter(range(10**6))

    def half(path):
        if next(seen) == write and when == "half":
            os.truncate(path, path.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        flush(path)

    moved = iter(range(10**6))

    def replaced(source, target):
        move(source, target)
        if next(moved) == write and when == "moved":
            os.kill(os.getpid(), signal.SIGKILL)

    atomic._flush, os.replace = half, replaced
    run(STUDY, collection, folder)


def _counted(collection, folder, log):
    """Run and write a line for each task that is done."""
    real = engine.measure

    def counted(study, cell, task, kept):
        with log.open("a") as file:
            file.write(f"{task.key}\n")
        return real(study, cell, task, kept)

    log.touch()
    engine.measure = counted
    run(STUDY, collection, folder)


def on_dask(source, out, draws="2"):
    """Run on a cluster of two workers and kill one of them on the way."""
    from distributed import Client, LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
    ) as cluster:
        with Client(cluster, set_as_default=False) as client:
            pids = dict(client.run(os.getpid))
        seen = []

        def advance(n):
            seen.append(n)
            if len(seen) == 4:
                os.kill(next(iter(pids.values())), signal.SIGKILL)

        study = replace(STUDY, draws=int(draws))
        found = run(
            study, load_collection(source), out, dask=cluster.scheduler_address, advance=advance
        )
        with Client(cluster, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=180)
            after = dict(client.run(os.getpid))
    return {
        "found": seen[0],
        "done": len(seen) - 1,
        "failures": found.failures,
        "killed": next(iter(pids.values())),
        "pids": sorted({*pids.values(), *after.values()}),
    }


WAYS = {"plain": plain, "kills": killed_in_writes, "dask": on_dask}

if __name__ == "__main__":
    try:
        print(json.dumps(WAYS[sys.argv[1]](*sys.argv[2:])))  # noqa: T201
    except SmallcalError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)

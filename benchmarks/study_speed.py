"""How long a study takes, and what processes gain: `python benchmarks/study_speed.py FOLDER`.

FOLDER is a collection (a folder with collection.toml), or holds .npz files with val_logits,
val_labels, test_logits, test_labels, one per model. The study runs once in one process and once
in several, from nothing each time; the time to start the processes counts. On a machine that is
busy otherwise the gain means little: processor time tells what the processes cost more. The exit
code is 1 when the two do not give the same bytes.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from smallcal.errors import SmallcalError
from smallcal_lab.studies import load_collection, run, study_named
from smallcal_lab.studies.collection import FILE_NAME, collection_of

RESULTS = ("rows.parquet", "tables.md", "tables.tex", "tables.json")


def cells_of(folder):
    """Return the collection in a folder, described or not."""
    files = sorted(folder.glob("*.npz"))
    if (folder / FILE_NAME).exists() or not files:
        return load_collection(folder)
    cells = []
    for file in files:
        model, _, seed = re.fullmatch(r"(.*?)(-seed(\d+))?", file.stem).groups()
        dataset, _, backbone = model.partition("__")
        cells.append(
            {
                "dataset": dataset,
                "backbone": backbone,
                "seed": int(seed or 0),
                "calibration": f"{file.name}:val",
                "test": f"{file.name}:test",
            }
        )
    return collection_of({"cell": cells}, folder, source=str(folder))


def timed(study, collection, out, jobs):
    """Run a study; return seconds of tasks, tables and processors, the outcome and its bytes."""
    start = last = time.perf_counter()
    used = sum(os.times()[:4])
    done = 0

    def advance(n):
        nonlocal done, last
        done, last = done + n, time.perf_counter()
        print(f"\r{done} tasks, {jobs} at a time ", end="", file=sys.stderr, flush=True)

    found = run(study, collection, out, jobs=jobs, advance=advance)
    end = time.perf_counter()
    print(file=sys.stderr)
    written = {name: (out / name).read_bytes() for name in RESULTS}
    return last - start, end - last, sum(os.times()[:4]) - used, found, written


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--study", default="budget")
    parser.add_argument("--draws", type=int, help="fewer than the study's own")
    parser.add_argument("--cells", type=int, help="only so many, spread over the collection")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    try:
        study = study_named(options.study).with_options(draws=options.draws)
        collection = cells_of(options.folder)
        if options.cells:
            step = max(1, len(collection.cells) // options.cells)
            collection = replace(collection, cells=collection.cells[::step][: options.cells])
        with tempfile.TemporaryDirectory() as name:
            alone = timed(study, collection, Path(name) / "alone", 1)
            several = timed(study, collection, Path(name) / "several", options.jobs)
    except SmallcalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return show(study, collection, options.jobs, alone, several)


def show(study, collection, jobs, alone, several):
    n_tasks = len(study.tasks(collection))
    n_fits = n_tasks * len(study.entries)
    print(
        f"{study.name}: {len(collection.cells)} cells, {n_tasks:,} tasks, {n_fits:,} fits, "
        f"{len(alone[3].frame):,} rows, {len(alone[3].failures)} failures; {os.cpu_count()} cores"
    )
    for count, (tasks, tables, used, *_) in ((1, alone), (jobs, several)):
        print(
            f"  {count} process{'es' * (count > 1)}: tasks {tasks:.1f} s, tables {tables:.1f} s; "
            f"processor time {used:.1f} s"
        )
    whole = sum(alone[:2]) / sum(several[:2])
    print(f"  {jobs} processes are {whole:.2f} times as fast (tasks: {alone[0] / several[0]:.2f})")
    same = alone[4] == several[4]
    print(f"  {'the same bytes' if same else 'NOT the same bytes'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())

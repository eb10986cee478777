"""Speed and memory of `smallcal apply` on data that grow: `make bench-streaming`.

Each row is one run of the command in a process of its own, beside a plain copy of the same file in
the same run. Files stay below 500 MB and are removed. The exit code is 1 when ten times the rows
take more than 1.2 times the memory.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import smallcal as sc

CLASSES = 10
SIZES = (1_000_000, 3_000_000, 10_000_000)
BLOCK = 250_000
BOUND = 1.2

#: Runs a command and prints the largest memory of any of its processes, in MB.
PEAK = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "smallcal", *sys.argv[1:]], stdout=subprocess.PIPE)
sys.stdout.buffer.write(done.stdout)
print("PEAK", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
sys.exit(done.returncode)
"""


def logits(seed):
    """Draw rows of an over-confident model."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((BLOCK, CLASSES), dtype=np.float32) * 2
    z[np.arange(BLOCK), rng.integers(CLASSES, size=BLOCK)] += 8 * rng.random(BLOCK, np.float32)
    return z


def make_npy(file, rows):
    shape = (rows, CLASSES)
    with file.open("wb") as handle:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(handle, header)
        for seed in range(rows // BLOCK):
            handle.write(logits(seed).data)


def make_parquet(file, rows):
    schema = pa.schema([("logits", pa.list_(pa.float32(), CLASSES)), ("id", pa.int64())])
    with pq.ParquetWriter(file, schema, use_dictionary=False) as writer:
        for seed in range(rows // BLOCK):
            flat = pa.array(logits(seed).reshape(-1))
            ids = pa.array(np.arange(BLOCK) + seed * BLOCK)
            lists = pa.FixedSizeListArray.from_arrays(flat, CLASSES)
            writer.write_table(pa.table([lists, ids], schema=schema), row_group_size=BLOCK)


def copied(file):
    """Return the seconds of a plain copy, on the disk when it ends, as results are."""
    start = time.perf_counter()
    copy = file.with_name("copy" + file.suffix)
    shutil.copyfile(file, copy)
    with copy.open("rb") as handle:
        os.fsync(handle.fileno())
    seconds = time.perf_counter() - start
    copy.unlink()
    return seconds


def applied(folder, file, target, *options):
    """Return seconds and peak MB of the command."""
    command = [sys.executable, "-c", PEAK, "apply", folder / "cal.json", file, "-o", target]
    done = subprocess.run(
        [*map(str, command), *options, "--json"], stdout=subprocess.PIPE, text=True, check=True
    )
    told, _, peak = done.stdout.rpartition("PEAK")
    remove(target)
    return json.loads(told)["seconds"], float(peak)


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


RUNS = (
    ("z.npy", "p.npy", ()),
    ("z.parquet", "p.parquet", ()),
    ("z.parquet", "out", ()),
    ("z.parquet", "out", ("--jobs", "2")),
)


def main(sizes):
    print("| data | output | rows | rows/s | time / plain copy | peak MB |")
    print("|---|---|---|---|---|---|")
    peaks = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        z = logits(99)[:2500]
        gumbel = np.random.default_rng(0).gumbel(size=z.shape)
        sc.Calibrator().fit(z, (z / 1.5 + gumbel).argmax(axis=1)).save(folder / "cal.json")
        for rows in sizes:
            for suffix, make in ((".npy", make_npy), (".parquet", make_parquet)):
                file = folder / f"z{suffix}"
                make(file, rows)
                copy = copied(file)
                for source, target, options in RUNS:
                    if source != file.name:
                        continue
                    seconds, peak = applied(folder, file, folder / target, *options)
                    what = " ".join((target, *options))
                    peaks.setdefault((source, what), []).append(peak)
                    print(
                        f"| {source} | {what} | {rows:,} | {rows / seconds:,.0f} "
                        f"| {seconds / copy:.1f} | {peak:.0f} |",
                        flush=True,
                    )
                file.unlink()
    grown = {run: values[-1] / values[0] for run, values in peaks.items()}
    worst = max(grown.values())
    print(f"\nMemory at {sizes[-1]:,} rows is at most {worst:.2f} times that at {sizes[0]:,}.")
    return int(worst > BOUND)


if __name__ == "__main__":
    sys.exit(main([int(size) for size in sys.argv[1:]] or SIZES))

"""Speed and memory of `smallcal adapt` on rows that grow: `make bench-adapt`.

Rows of 100 classes, some of them far more frequent than in the calibration split, from .npy and
from Parquet; each run is one of the command in a process of its own. Files are removed. The exit
code is 1 when ten times the rows take more than 1.2 times the memory.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import smallcal as sc

CLASSES = 100
SIZES = (100_000, 1_000_000)
BLOCK = 50_000
BOUND = 1.2
SHIFT = np.geomspace(1, 10, CLASSES)

#: Runs a command and prints the largest memory of any of its processes, in MB.
PEAK = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "smallcal", *sys.argv[1:]], stdout=subprocess.PIPE)
sys.stdout.buffer.write(done.stdout)
print("PEAK", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
sys.exit(done.returncode)
"""


def rows(n, seed, frequencies):
    """Draw logits of a model, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.choice(CLASSES, size=n, p=frequencies / frequencies.sum())
    z = 3 * rng.standard_normal((n, CLASSES), dtype=np.float32)
    z[np.arange(n), y] += 9
    return z, y


def make_npy(file, n):
    with file.open("wb") as handle:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n, CLASSES)}
        np.lib.format.write_array_header_1_0(handle, header)
        for seed in range(n // BLOCK):
            handle.write(rows(BLOCK, seed, SHIFT)[0].data)


def make_parquet(file, n):
    schema = pa.schema([("logits", pa.list_(pa.float32(), CLASSES))])
    with pq.ParquetWriter(file, schema, use_dictionary=False) as writer:
        for seed in range(n // BLOCK):
            flat = pa.array(rows(BLOCK, seed, SHIFT)[0].reshape(-1))
            lists = pa.FixedSizeListArray.from_arrays(flat, CLASSES)
            writer.write_table(pa.table([lists], schema=schema), row_group_size=BLOCK)


def adapted(folder, file):
    """Return seconds, peak MB, and the largest error of a frequency in points."""
    command = [sys.executable, "-c", PEAK, "adapt", folder / "cal.json", file]
    start = time.perf_counter()
    done = subprocess.run(
        [*map(str, command), "-o", str(folder / "new.json"), "--json"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - start
    told, _, peak = done.stdout.rpartition("PEAK")
    off = np.abs(np.array(json.loads(told)["now"]) - SHIFT / SHIFT.sum()).max()
    return seconds, float(peak), 100 * float(off)


def main(sizes):
    print("| data | rows | seconds | rows/s | peak MB | largest error of a frequency, points |")
    print("|---|---|---|---|---|---|")
    peaks = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sc.Calibrator().fit(*rows(2500, 10**6 + 1, np.ones(CLASSES))).save(folder / "cal.json")
        for n in sizes:
            for suffix, make in ((".npy", make_npy), (".parquet", make_parquet)):
                file = folder / f"z{suffix}"
                make(file, n)
                seconds, peak, off = adapted(folder, file)
                peaks.setdefault(suffix, []).append(peak)
                told = f"| {file.name} | {n:,} | {seconds:.1f} | {n / seconds:,.0f} | {peak:.0f} "
                print(f"{told}| {off:.2f} |", flush=True)
                file.unlink()
    worst = max(values[-1] / values[0] for values in peaks.values())
    print(f"\nMemory at {sizes[-1]:,} rows is at most {worst:.2f} times that at {sizes[0]:,}.")
    return int(worst > BOUND)


if __name__ == "__main__":
    sys.exit(main([int(size) for size in sys.argv[1:]] or SIZES))

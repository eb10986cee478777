"""Every speed that smallcal promises, as a ratio with its bound: `make bench`.

Both sides of a ratio are measured in the same run, single-threaded where they are functions; a
command is timed from its start to its end. Each part runs in a process of its own. The exit code
is 1 when a bound does not hold. ``--write docs/explanation/speed.md`` puts the table there,
``--only PART`` runs some parts.
"""

from __future__ import annotations

import os

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
os.environ |= {name: os.environ.get(name, "1") for name in THREADS}

import argparse
import importlib
import json
import subprocess
import sys
import time
import warnings
from dataclasses import asdict
from pathlib import Path

from ratio import HERE, Ratio

#: The parts in the order of the page, with their headings.
PARTS = {
    "fits": "Fitting",
    "applying": "Applying",
    "torch_module": "The torch module",
    "onnx_graph": "The ONNX graph",
    "intervals": "Intervals and reports",
    "advice": "select, audit, plan",
    "start": "Starting",
    "studies": "Studies",
    "memory": "Memory, and growth with size",
    "images": "Extracting logits from images",
}
BEGIN, END = "<!-- begin speed -->", "<!-- end speed -->"


def measured(part: str) -> list[Ratio]:
    """Run a part in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--part", part]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{part} failed")
    return [Ratio(**json.loads(line)) for line in done.stdout.splitlines()]


def run_part(part: str) -> None:
    warnings.simplefilter("ignore")  # tiny splits are timed too
    for row in importlib.import_module(part).rows():
        print(json.dumps(asdict(row)), flush=True)


def table(found: dict[str, list[Ratio]]) -> str:
    """Return the page's tables."""
    lines = []
    for part, rows in found.items():
        head = "| what | against | times as long | at most | |\n|---|---|---:|---:|---|"
        lines += [f"## {PARTS[part]}", "", head]
        for row in rows:
            times = f"{row.ratio:.3g}" if row.holds else f"**{row.ratio:.3g}**"
            cells = (row.what, row.reference, times, f"{row.bound:.3g}", row.detail)
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def write(path: Path, text: str) -> None:
    page = path.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    path.write_text(f"{before}{BEGIN}\n{text}{END}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--write", type=Path, help="the page whose table to replace")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        run_part(asked.part)
        return 0
    start, found, missed = time.perf_counter(), {}, []
    for part in asked.only:
        found[part] = measured(part)
        print(f"{part}, {(time.perf_counter() - start) / 60:.1f} minutes after the start")
        for row in found[part]:
            what = f"{row.what} / {row.reference}"
            said = "ok " if row.holds else "NO "
            print(f"{said} {what:<86} {row.ratio:8.3f}  (at most {row.bound:.3g})  {row.detail}")
            if not row.holds:
                missed.append(what)
        sys.stdout.flush()
    if asked.write:
        write(asked.write, table(found))
    if missed:
        print(f"{len(missed)} of the promised ratios do not hold: {'; '.join(missed)}")
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes")
    return bool(missed)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))  # the references that several benchmarks share
    sys.exit(main())

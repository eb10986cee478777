"""From images to answers on one machine: `python benchmarks/end_to_end/run.py FOLDER`.

Trains the networks of cells.toml, takes their logits on clean and corrupted images, runs the
studies and writes a report, all in FOLDER. Every step is a command that is printed before it runs.
What is finished is kept: after any stop the same command goes on where it was. --write PAGE puts
the tables into a page.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
CELLS = HERE / "cells.toml"
METHODS = ("none", "ts-nll", "tva-ts", "margin-k3", "srts-bce", "smallcal")
SHIFTED = {"ece15": "ECE", "top_label_bce": "top-label log-loss"}
#: Which of the resamplings of a study of shifts decides.
TIER = "seed x corruption x severity"
STUDIES = ("clean", "budget", "shift", "routing-signal")
BEGIN, END = "<!-- begin end-to-end -->", "<!-- end end-to-end -->"


def smallcal(*words):
    """Run a command of smallcal, and say so; stop where it stops."""
    words = [str(word) for word in words]
    print("$ smallcal", " ".join(words), flush=True)
    # The network is a module of this folder.
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-m", "smallcal", *words], env=environment)
    if done.returncode:
        raise SystemExit(done.returncode)


def run(folder, data, file, options):
    """Train, take logits, study and report."""
    smallcal("paper", "--file", file, "--data", data, "--output", folder)
    logits = folder / "logits"
    smallcal("study", "check", logits)
    for study in STUDIES:
        own = options if study in ("clean", "budget") else []
        smallcal("study", study, logits, "--out", folder / study, "--jobs", 2, *own)
    cell = sorted(path for path in logits.iterdir() if path.is_dir())[0]
    smallcal(
        "report", cell / "calibration.npz", cell / "test.npz", "--output", folder / "report.html"
    )


def table(folder, study, name):
    """Return one table of a finished study: its rows as dicts."""
    document = json.loads((folder / study / "tables.json").read_text(encoding="utf-8"))
    found = next(one for one in document["tables"] if one["name"] == name)
    return [dict(zip(found["header"], row, strict=True)) for row in found["rows"]]


def mean(cell, digits=2):
    """Return a mean with the spread of seeds."""
    spread = f" ± {cell['spread']:.{digits}f}" if cell.get("spread") is not None else ""
    return f"{cell['value']:.{digits}f}{spread}"


def difference(cell, digits=2):
    """Return a difference with its interval; bold where that does not hold zero."""
    text = f"{cell['value']:+.{digits}f} [{cell['low']:+.{digits}f}, {cell['high']:+.{digits}f}]"
    return text if cell["low"] <= 0 <= cell["high"] else f"**{text}**"


def markdown(head, rows):
    """Return a table; the first column is text, the others are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def networks(folder):
    """Return what training gave, seed by seed."""
    rows = []
    for log in sorted(folder.glob("runs/*/log.csv")):
        with log.open(encoding="utf-8") as stream:
            epochs = list(csv.DictReader(stream))
        seconds = median(float(epoch["seconds"]) for epoch in epochs)
        loss, accuracy = (float(epochs[-1][key]) for key in ("loss", "accuracy"))
        row = [log.parent.name, str(len(epochs)), f"{seconds:.0f}", f"{loss:.3f}"]
        rows.append([*row, f"{100 * accuracy:.1f} %"])
    head = ["run", "epochs", "seconds an epoch (median)", "training loss", "right of calibration"]
    return markdown(head, rows)


def by_budget(folder):
    """Return the ECE by budget, and what is gained over one temperature."""
    means, gains = table(folder, "budget", "means"), table(folder, "budget", "differences")
    budgets = list(dict.fromkeys(row["samples"] for row in means))
    ece = {(row["method"], row["samples"]): row["ECE %"] for row in means}
    gain = {(row["method"], row["samples"]): row["ECE points"] for row in gains}
    bce = {(row["method"], row["samples"]): row["top-label log-loss points"] for row in gains}
    head = ["samples", *budgets]
    others = [method for method in METHODS if method != "tva-ts"]
    return (
        markdown(head, [[f"`{m}`", *(mean(ece[m, b]) for b in budgets)] for m in METHODS]),
        markdown(head, [[f"`{m}`", *(difference(gain[m, b]) for b in budgets)] for m in others]),
        markdown(head, [[f"`{m}`", *(difference(bce[m, b]) for b in budgets)] for m in others]),
    )


def by_signal(folder):
    """Return what grouping by another signal, or by none, gives."""
    means = {row["method"]: row for row in table(folder, "routing-signal", "means")}
    gains = {row["method"]: row for row in table(folder, "routing-signal", "differences")}
    rows = [
        [
            f"`{method}`",
            mean(row["ECE %"]),
            difference(gains[method]["ECE points"]) if method in gains else "",
            difference(gains[method]["top-label log-loss points"]) if method in gains else "",
        ]
        for method, row in means.items()
    ]
    heads = ["grouped by", "ECE", "minus `tva-ts`", "top-label log-loss minus `tva-ts`"]
    return markdown(heads, rows)


def by_severity(folder):
    """Return the ECE under shift, and how methods differ there."""
    severities = table(folder, "shift", "severity")
    ours = [row for row in severities if row["method"] in METHODS]
    columns = [key for key in severities[0] if key not in ("samples", "models", "method")]
    rows = [[f"`{row['method']}`", *(mean(row[key]) for key in columns)] for row in ours]
    return markdown(["ECE", *columns], rows), under_shift(folder)


def under_shift(folder):
    """Return by how much `srts-bce` differs from others on all corrupted sets together."""
    tiers = [row for row in table(folder, "shift", "tiers") if row["method"] == "srts-bce"]
    sets = list(dict.fromkeys(row["sets"] for row in tiers))[:2]  # all, and the worst
    asked = list(product(SHIFTED, sets))
    found = {(row["minus"], row["metric"], row["sets"]): row[TIER] for row in tiers}
    rows = [
        [f"`{other}`", *(difference(found[(other, *one)]) for one in asked)]
        for other in METHODS
        if (other, *asked[0]) in found
    ]
    return markdown(["minus", *(f"{SHIFTED[metric]}, {sets}" for metric, sets in asked)], rows)


def page(folder):
    """Return the tables of the page."""
    ece, gain, bce = by_budget(folder)
    severity, tiers = by_severity(folder)
    clean = {row["method"]: row for row in table(folder, "clean", "means")}
    raw = clean["none"]
    return f"""
### The networks

{networks(folder)}

On the test images {mean(raw["accuracy %"])} % are right; the raw confidences are off by
{mean(raw["confidence gap %"])} points on average, with an ECE of {mean(raw["ECE %"])} %.

### How many samples does it take?

ECE in % on the test images, mean ± standard deviation over seeds:

{ece}

ECE minus that of one temperature (`tva-ts`), in points, with 95 % intervals; bold where the
interval does not hold zero:

{gain}

The same for top-label log-loss (x100):

{bce}

### Does it matter what samples are grouped by?

With all calibration samples:

{by_signal(folder)}

### Under corruption

ECE in % by severity, of calibrators that were fitted on clean images:

{severity}

ECE and top-label log-loss (x100) of `srts-bce` minus those of others, mean over corrupted sets,
with 95 % intervals from resamples of seeds, corruptions and severities:

{tiers}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="where cifar10 lies; else FOLDER/data")
    parser.add_argument("--file", type=Path, default=CELLS)
    parser.add_argument("--study", action="append", default=[], help="options of clean and budget")
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    options = parser.parse_args()
    extra = [word for text in options.study for word in text.split()]
    run(options.folder, options.data or options.folder / "data", options.file, extra)
    text = page(options.folder)
    if options.write:
        whole = options.write.read_text(encoding="utf-8")
        before, _, rest = whole.partition(BEGIN)
        after = rest.partition(END)[2]
        options.write.write_text(f"{before}{BEGIN}{text}{END}{after}", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()

"""What honest confidences save: `python benchmarks/decisions_costs.py FOLDER [--write PAGE]`.

FOLDER holds .npz files of logits with val_logits, val_labels, test_logits and test_labels, its
folder `options` more of them, and `scores` files of scores and outcomes. The default is fitted on
500 validation rows, decisions are made by costs that were fixed before, and what they cost is seen
on the test rows. --write PAGE puts the table into a page. Exit code 1: on more cells than one in
twenty the calibrated decisions are dearer than the raw ones beyond chance.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np

import smallcal as sc
from smallcal.advice.cost_words import costs_of

ROWS = 500
OF_CLASSES = ("wrong=10,review=4", "wrong=10,review=2", "wrong=100,review=5")
OF_SCORES = ("wrong=10,review=2", "miss=4,false_alarm=1", "miss=1,false_alarm=4")
BEGIN, END = "<!-- begin costs -->", "<!-- end costs -->"


def cells(folder):
    """Yield the kind of each file, and what is measured on it: labels, calibrated and raw."""
    for file in [*sorted(folder.glob("*.npz")), *sorted(folder.glob("options/*.npz"))]:
        data = np.load(file)
        rows = drawn(len(data["val_labels"]))
        val, labels = data["val_logits"][rows], data["val_labels"][rows]
        both = (sc.Calibrator(), sc.Identity())
        after, raw = (cal.fit(val, labels).predict_proba(data["test_logits"]) for cal in both)
        yield "classes", (data["test_labels"], after, raw)
    for file in sorted(folder.glob("scores/*.npz")):
        data = np.load(file)
        rows = drawn(len(data["val_scores"]))
        cal = sc.Calibrator(input="score").fit(data["val_scores"][rows], data["val_outcomes"][rows])
        raw = data["test_scores"].astype(np.float64)
        yield "scores", (data["test_outcomes"], cal.predict_score(raw), raw)


def drawn(n):
    """Return the rows to fit on."""
    return np.random.default_rng(0).permutation(n)[:ROWS]


def table(folder):
    """Return the lines of a table, and whether the calibrated decisions were seldom dearer."""
    lines = [
        "| cells | costs | cheaper, more expensive, neither beyond chance | cost, calibrated / raw "
        "| promised / paid, calibrated | the same, raw |",
        "|---|---|---|---|---|---|",
    ]
    fine, known = True, list(cells(folder))
    for kind, several in (("classes", OF_CLASSES), ("scores", OF_SCORES)):
        own = [arrays for each, arrays in known if each == kind]
        for text in several if own else ():
            costs = costs_of(text)
            found = [sc.expected_cost(y, p, costs, raw=raw) for y, p, raw in own]
            before = [sc.expected_cost(y, raw, costs, n_boot=0) for y, _, raw in own]
            verdicts = [row.gains["raw"].verdict("higher") for row in found]
            counts = [verdicts.count(word) for word in ("better", "worse", "tie")]
            ratios = [row.cost.point / row.others["raw"].point for row in found]
            kept = [row.promised / row.cost.point for row in found]
            raw_kept = [row.promised / row.cost.point for row in before]
            middle = [f"{np.median(values):.2f}" for values in (ratios, kept, raw_kept)]
            shown = ", ".join(map(str, counts))
            lines.append(f"| {len(own)} of {kind} | `{text}` | {shown} | {' | '.join(middle)} |")
            fine = fine and counts[1] <= len(own) / 20
    return lines, fine


def main():
    """Measure, print, and write into a page if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", sc.FitWarning)
    lines, fine = table(asked.folder)
    print("\n".join(lines))
    if asked.write:
        page = asked.write.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN)
        tail = rest.split(END)[1]
        text = "\n".join([head + BEGIN, *lines, END + tail])
        asked.write.write_text(text, encoding="utf-8")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()

"""Which map for one number? `python benchmarks/score_maps.py FOLDER`.

FOLDER, or each of its folders `scores` and `judges`, holds .npz files with val_scores,
val_outcomes, test_scores and test_outcomes. Every map is fitted on draws of the validation rows, at
each budget, and measured on the test rows. Means over sets; a star marks a map that is worse than
the default for scores by a 95 % interval of the paired differences with sets as units, an
exclamation mark one that is better by that interval, or by more than 5 % of its mean: it beats the
default, which is neither first nor tied there. --write PAGE puts the tables into a page. Exit code
1: the default is beaten.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np
from scipy.special import expit, logit
from sklearn.calibration import _SigmoidCalibration
from sklearn.linear_model import LogisticRegression

import smallcal as sc
from smallcal.data.score import NEAREST
from smallcal_lab.statistics.nested import student

DEFAULT = "spline"
OURS = (DEFAULT, "platt", "beta", "ts-shrunk", "venn-abers")
PLAIN = {
    "none": "the score as it is",
    "ts-nll": "temperature scaling",
    "isotonic": "isotonic regression",
}
BUDGETS = (30, 50, 100, 250, 1000)
METRICS = {"nll": "Log-loss", "brier": "Brier score", "ece15": "ECE"}
#: Isotonic regression says 0 and 1. In log-loss they count as this near, for every map.
SUREST = 1e-3
#: A mean that is smaller by less than this share of it is a tie, if the interval says so too.
TIED = 0.05
#: What the folders hold.
FOLDERS = {
    "scores": "Confidences of language models in their answers",
    "judges": "Language models as judges, stated confidences, rain, credit, games, risk",
}
BEGIN, END = "<!-- begin score-maps -->", "<!-- end score-maps -->"


def odds_of(scores):
    """Return log-odds, as ``input="score"`` has them."""
    return logit(np.clip(scores.astype(float), NEAREST, 1 - NEAREST))


def plain_platt(scores, outcomes, test):
    """Platt's own: smoothed targets, no prior, as scikit-learn has it."""
    return _SigmoidCalibration().fit(odds_of(scores), outcomes).predict(odds_of(test))


def plain_beta(scores, outcomes, test):
    """Beta calibration as published: no prior, negative slopes left out."""

    def columns(values, kept):
        x = odds_of(values)
        return np.column_stack([np.log(expit(x)), -np.log(expit(-x))])[:, kept]

    if outcomes.min() == outcomes.max():
        return np.full(len(test), (outcomes.sum() + 1) / (len(outcomes) + 2))
    kept = [0, 1]
    while True:
        model = LogisticRegression(C=1e9, max_iter=10_000, tol=1e-8)
        model.fit(columns(scores, kept), outcomes)
        negative = np.flatnonzero(model.coef_[0] < 0)
        if len(kept) == 1 or not len(negative):
            return model.predict_proba(columns(test, kept))[:, 1]
        kept.pop(int(negative[0]))


REFERENCES = {"Platt, plain": plain_platt, "beta, plain": plain_beta}
MAPS = (*OURS, *PLAIN, *REFERENCES)


def predicted(name, scores, outcomes, test):
    """Return the probabilities of outcome 1 that a map gives the test scores."""
    if name in REFERENCES:
        return REFERENCES[name](scores, outcomes, test)
    cal = sc.Calibrator(method=name, input="score").fit(scores, outcomes)
    return cal.predict_score(test)


def measure(path, budgets, draws, maps=MAPS):
    """Return the metrics of maps on one set: (budget, map, metric), means over draws."""
    warnings.simplefilter("ignore")
    with np.load(path) as file:
        val, hits = file["val_scores"], file["val_outcomes"].astype(int)
        test, truth = file["test_scores"], file["test_outcomes"].astype(int)
    found = np.zeros((len(budgets), len(maps), len(METRICS)))
    for i, budget in enumerate(budgets):
        for draw in range(draws):
            rows = np.random.default_rng([budget, draw]).permutation(len(val))[:budget]
            for j, name in enumerate(maps):
                p = predicted(name, val[rows], hits[rows], test)
                values = sc.evaluate(truth, p, metrics=["brier", "ece15"])
                held = np.clip(p, SUREST, 1 - SUREST)
                values["nll"] = -np.log(np.where(truth == 1, held, 1 - held)).mean()
                found[i, j] += [100 * values[metric] / draws for metric in METRICS]
    return found


def tables(found, budgets, draws):
    """Return the tables in Markdown, and how often the default is beaten."""
    first, beaten = MAPS.index(DEFAULT), 0
    lines = []
    for k, title in enumerate(METRICS.values()):
        lines += ["", f"| {title} x 100 | " + " | ".join(f"{b:,}" for b in budgets) + " |"]
        lines += ["|---|" + "---|" * len(budgets)]
        for j, name in enumerate(MAPS):
            cells = []
            for i in range(len(budgets)):
                value, mark = found[:, i, j, k].mean(), ""
                if j != first:
                    gap = student(found[:, i, j, k] - found[:, i, first, k])
                    ahead = gap.high < 0 or (1 + TIED) * value < found[:, i, first, k].mean()
                    mark = "*" if gap.low > 0 else "!" if ahead else ""
                    beaten += mark == "!"
                cells.append(f"{value:.2f}{mark}")
            shown = f"{name} ({PLAIN[name]})" if name in PLAIN else name
            lines.append(f"| {shown} | " + " | ".join(cells) + " |")
    lines += ["", *against(found, budgets)]
    n = len(METRICS) * len(budgets)
    verdict = f"{DEFAULT}: first or tied in every one of {n} columns."
    if beaten:
        verdict = f"{DEFAULT}: beaten {beaten} times by one of {len(MAPS) - 1} maps in {n} columns."
    head = f"{len(found)} sets, {draws} draws at each number of labels. {verdict}"
    return "\n".join([head, *lines]), beaten


def against(found, budgets, rivals=("platt", "beta", "venn-abers")):
    """Return a table of differences of the default from some maps, with their intervals."""
    first, shown = MAPS.index(DEFAULT), list(METRICS)
    lines = [f"| {DEFAULT} less | " + " | ".join(f"{b:,}" for b in budgets) + " |"]
    lines += ["|---|" + "---|" * len(budgets)]
    for metric, name in product(("nll", "ece15"), rivals):
        k, cells = shown.index(metric), []
        for i in range(len(budgets)):
            gap = student(found[:, i, first, k] - found[:, i, MAPS.index(name), k])
            cells.append(f"{gap.point:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]")
        lines.append(f"| {name}, {METRICS[metric]} | " + " | ".join(cells) + " |")
    return lines


def sets_in(folder):
    """Return the files of a folder, or of each of its folders ``scores`` and ``judges``."""
    inner = {said: sorted((folder / name).glob("*.npz")) for name, said in FOLDERS.items()}
    found = {said: paths for said, paths in inner.items() if paths}
    found = found or {folder.name: sorted(folder.glob("*.npz"))}
    if min(map(len, found.values())) < 2:
        sys.exit(f"{folder} holds fewer than two sets of scores")
    return found


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--write", type=Path, help="a page to put the tables into")
    given = parser.parse_args()
    parts, beaten = [], 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for said, paths in sets_in(given.folder).items():
            n = len(paths)
            found = list(pool.map(measure, paths, [given.budgets] * n, [given.draws] * n))
            part, times = tables(np.array(found), given.budgets, given.draws)
            parts.append(f"**{said}**: {part}")
            beaten += times
    text = "\n\n".join(parts)
    print(text)
    if given.write:
        page = given.write.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        after = rest.partition(END)[2]
        given.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
    return int(beaten > 0)


if __name__ == "__main__":
    sys.exit(main())

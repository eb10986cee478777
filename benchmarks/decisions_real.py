"""Thresholds and prediction sets on real logits: part of `benchmarks/decisions_study.py`.

Of each model's validation rows some are drawn to fit the default calibrator and others to certify;
what was promised is compared with the test rows.
"""

from __future__ import annotations

import math
import warnings

import numpy as np

import smallcal as sc
from smallcal.statistics.interval import binomial_interval

RISKS = (0.01, 0.02, 0.05, 0.1)
SCORES = ("lac", "aps", "raps")
ALPHA = 0.1
#: Rows to fit on and to certify on; where there are fewer, two and three fifths of them.
FIT, CERTIFY = 500, 1000
KINDS = {"": "fine-tuned", "options": "options", "tabular": "tabular", "scores": "scores"}

_KNOWN: dict[tuple[str, int], dict] = {}


def cells(folder):
    """Return the files of each kind."""
    return {
        kind: sorted((folder / place).glob("*.npz"))
        for place, kind in KINDS.items()
        if (folder / place).is_dir()
    }


def loaded(path):
    """Return validation rows with labels, and test rows with labels."""
    with np.load(path) as arrays:
        names = ("scores", "outcomes") if "val_scores" in arrays else ("logits", "labels")
        split = {part: [arrays[f"{part}_{name}"] for name in names] for part in ("val", "test")}
    return split["val"], split["test"], {"input": "score"} if names[0] == "scores" else {}


def measured(job):
    """Fit, certify and check on test rows: by risk (found, accepted, rate, beyond, surely)."""
    path, draw = job
    (rows, labels), (new, answers), options = loaded(path)
    order = np.random.default_rng(draw).permutation(len(labels))
    fit = min(FIT, 2 * len(labels) // 5)
    first, second = order[:fit], order[fit : fit + CERTIFY]
    answers = answers.astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cal = sc.Calibrator(**options).fit(rows[first], labels[first])
        found = sc.certify(cal, rows[second], labels[second], risk=RISKS).calibrator
        sets = {
            score: sc.prediction_sets(cal, rows[second], labels[second], alpha=ALPHA, score=score)
            for score in SCORES
        }
    sure, claimed = found.claims(found.predict_proba(new), found.logits_of(new))
    right = claimed == answers
    told = {
        each.risk: checked(each.accept(sure, claimed), right, each.risk) for each in found.decisions
    }
    inside = {score: each.predict(new) for score, each in sets.items()}
    return told, {score: sized(each, answers) for score, each in inside.items()}


def checked(accepted, right, risk):
    """Return what became of the test rows that a threshold accepts."""
    k, errors = int(accepted.sum()), int((accepted & ~right).sum())
    low = float(binomial_interval(np.array([errors * 1.0]), np.array([max(k, 1.0)]))[0][0])
    rate = errors / k if k else 0.0
    return accepted.mean(), rate, rate > risk, low > risk


def sized(inside, answers):
    sizes = inside.sum(axis=1)
    return inside[np.arange(len(answers)), answers].mean(), sizes.mean(), (sizes == 1).mean()


def results(folder, draws, pool):
    """Return what was found by kind, cell and draw; computed once."""
    key = str(folder), draws
    if key not in _KNOWN:
        files = cells(folder)
        jobs = [(path, draw) for paths in files.values() for path in paths for draw in range(draws)]
        found = dict(zip(jobs, pool.map(measured, jobs, chunksize=4), strict=True))
        _KNOWN[key] = {
            kind: [[found[path, draw] for draw in range(draws)] for path in paths]
            for kind, paths in files.items()
        }
    return _KNOWN[key]


def percent(share, digits=1):
    return f"{100 * share:.{digits}f}"


def thresholds(folder, draws, pool):
    lines = [
        f"**Thresholds on real logits.** The default fitted on {FIT} validation rows, certified on "
        f"{CERTIFY:,} others (of fewer rows two and three fifths), checked on the test rows; "
        f"{draws} draws of each model. In %: draws with a threshold, and of those the test rows "
        "that it accepts and their error rate, means; of all draws, those whose test error rate is "
        "beyond the risk, and those where it is so beyond the doubt of the test rows (97.5 %).",
        "",
        "| kind | models | risk | found | accepted | error rate | beyond | beyond doubt |",
        "|---|---|---|---|---|---|---|---|",
    ]
    failures = []
    for kind, by_cell in results(folder, draws, pool).items():
        for risk in RISKS:
            told = [one[0][risk] for cell in by_cell for one in cell if risk in one[0]]
            total = sum(map(len, by_cell))
            if not told:
                lines.append(f"| {kind} | {len(by_cell)} | {percent(risk, 0)} | 0.0 | | | | |")
                continue
            share, means = len(told) / total, np.mean(told, axis=0)
            means[2:] *= share  # a promise is about all draws, not those where one was found
            cells_ = [percent(share), *map(percent, means[:1])]
            cells_ += [percent(means[1], 2), *map(percent, means[2:])]
            lines.append(f"| {kind} | {len(by_cell)} | {percent(risk, 0)} | {' | '.join(cells_)} |")
            # Draws of a model share its test rows: they count as one; the test has its own 2.5 %.
            allowed = 0.075 + 3 * math.sqrt(0.07 / len(by_cell))
            if means[3] > allowed:
                failures.append(f"real thresholds, {kind}, risk {percent(risk, 0)} %")
    return lines, failures


def sets(folder, draws, pool):
    lines = [
        f"**Prediction sets on real logits.** The same rows, alpha {percent(ALPHA, 0)} %. In %: "
        "test rows covered, mean over models and draws, and of the models whose mean is lowest and "
        "highest; classes in a set; sets with one class.",
        "",
        "| kind | models | score | covered | lowest | highest | size | single |",
        "|---|---|---|---|---|---|---|---|",
    ]
    failures = []
    for kind, by_cell in results(folder, draws, pool).items():
        for score in SCORES:
            each = np.array([[one[1][score] for one in cell] for cell in by_cell])
            by_model = each[:, :, 0].mean(axis=1)
            hit, size, single = each.mean(axis=(0, 1))
            cells_ = map(percent, (hit, by_model.min(), by_model.max()))
            lines.append(
                f"| {kind} | {len(by_cell)} | {score} | {' | '.join(cells_)} | {size:.2f} "
                f"| {percent(single)} |"
            )
            if hit < 1 - ALPHA - 0.01:
                failures.append(f"real sets, {kind}, {score}: {percent(hit)} % covered")
    return lines, failures

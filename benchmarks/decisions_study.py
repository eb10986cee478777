"""Do decisions keep what they promise? `python benchmarks/decisions_study.py [FOLDER]`.

By simulation, with everything known: thresholds of `certify` (walks over counts, and whole runs),
prediction sets, the monitor's watch over thresholds, `adapt` and `refresh`. If FOLDER holds real
logits, all of it on those too: fitted on one part of the validation rows, certified on another,
checked on the test rows. `--repeats 100` is quick, `--only sets` runs one part, `--write PAGE` puts
the tables into a page. Exit code 1: a promise is broken more often than chance allows.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np
from scipy.special import expit

import certify_simulation
import decisions_later
import decisions_real
import smallcal as sc
from certify_simulation import MODELS, broken, broken_by_group
from monitor_study import starts_at
from smallcal.advice.certify_walk import Counts, Target, one_of_each, p_value, walk
from smallcal.advice.prediction_sets import coverage_of
from smallcal.calibrators.prediction_set import class_scores
from smallcal.data.special import softmax
from smallcal.deploy.monitor import promises
from smallcal_lab.studies.simulate import World

#: The rows of a population: samples are drawn from them with replacement, labels by their chances.
POOL = 40_000
#: A promise at confidence 95 % may be broken in 5 % of repetitions, and by chance in a few more.
DELTA = 0.05
# A million rows for each model: once is enough.
certify_simulation.true_rates = functools.cache(certify_simulation.true_rates)

LOOKS = np.unique(np.geomspace(10, 20_000, 60).round().astype(int))
BEGIN, END = "<!-- begin decisions -->", "<!-- end decisions -->"


class Part(NamedTuple):
    """A table of the study, and what went wrong in it."""

    lines: list[str]
    failures: list[str]


class Population(NamedTuple):
    """Rows as a calibrator takes them, and the true chance of each class or outcome."""

    rows: np.ndarray
    chances: np.ndarray

    def draw(self, rng, n):
        """Return new rows with new labels."""
        chosen = rng.integers(len(self.rows), size=n)
        steps = self.chances[chosen].cumsum(axis=1)
        labels = (steps > steps[:, -1:] * rng.random((n, 1))).argmax(axis=1)
        return self.rows[chosen], labels


def classes(n_classes=10, accuracy=0.8, **options):
    drawn = World(n_classes=n_classes, accuracy=accuracy, **options).draw(POOL)
    return Population(drawn.logits, drawn.probabilities)


def judge():
    """Return marks from 0 to 10, many of them the same; a ten is right 97 times in 100."""
    rng = np.random.default_rng(0)
    marks = rng.choice(11, size=POOL, p=np.r_[np.full(8, 0.05), 0.15, 0.2, 0.25]) / 10
    right = np.array([0.2, 0.25, 0.3, 0.4, 0.45, 0.5, 0.6, 0.7, 0.88, 0.99, 0.97])
    chance = right[np.rint(10 * marks).astype(int)]
    return Population(marks, np.column_stack([1 - chance, chance]))


def uneven(n_classes=10):
    """Return a model whose classes are hard to easy, and that is too sure of all of them."""
    rng, ease = np.random.default_rng(0), np.linspace(1.0, 4.0, n_classes)
    seen = rng.normal(size=(POOL, n_classes))
    seen[np.arange(POOL), rng.integers(n_classes, size=POOL)] += 1
    logits = ease * seen
    return Population(1.5 * logits, softmax(logits))


def fitted_on(population, method, n=500, seed=1, **options):
    rng = np.random.default_rng([seed, n])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        cal = sc.Calibrator(method=method, **options)
        return cal.fit(*population.draw(rng, n))


def error_of(repeats, share=DELTA):
    """Three standard errors of a share, that of repetitions."""
    return 3 * math.sqrt(share * (1 - share) / repeats)


def percent(share, digits=1):
    return f"{100 * share:.{digits}f}"


# ---------------------------------------------------------------------------------- thresholds


def naive(model, n, target, repeats):
    """Return how often two rules without a fixed sequence break the promise.

    The lowest threshold whose errors are at most the risk; and the lowest whose bound is.
    """
    rates, rng = certify_simulation.true_rates(model), np.random.default_rng(0)
    wrong = np.zeros((repeats, 2))
    for repeat in range(repeats):
        drawn = model(n, rng)
        counts = Counts.of(drawn.confidence, rng.random(n) < drawn.right)
        some = counts.accepted > 0
        plain = some & (counts.errors <= target.risk * counts.accepted)
        bound = some & (p_value(counts.errors, counts.accepted, target.risk) <= target.delta)
        for column, passed in enumerate((plain, bound)):
            places = np.flatnonzero(passed)
            if len(places):
                wrong[repeat, column] = rates[places[-1]] > target.risk
    return wrong.mean(axis=0)


def walked(job):
    """Return the outcome of walks in one model, of one size, by both rules, and the naive ones."""
    (name, n), repeats = job
    model = MODELS[name]
    targets = [Target(risk=0.02, delta=DELTA, rule=rule) for rule in ("accepted", "all")]
    found = [broken(model, n, target, repeats=repeats) for target in targets]
    return *found, naive(model, n, targets[0], repeats)


def walks(repeats, pool):
    lines = [
        f"**Thresholds, counts alone.** Risk 2 %, confidence 95 %; {repeats:,} repetitions a line, "
        "models whose true error rates are known. In %: repetitions in which the error rate above "
        "the threshold is beyond the risk, repetitions in which a threshold was found, and rows "
        "accepted; the same for accepted and wrong among all rows. The last two columns are what "
        "people do without a fixed sequence: the lowest threshold whose errors stay within the "
        "risk, and the lowest whose own 95 % bound does.",
        "",
        "| model | rows | broken | found | accepted | of all: broken | found | accepted "
        "| lowest by errors: broken | by bound: broken |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    failures, cases = [], [(name, n) for name in MODELS for n in (160, 400, 1_000, 3_000)]
    found = pool.map(walked, [(case, repeats) for case in cases])
    for (name, n), (accepted, of_all, others) in zip(cases, found, strict=True):
        cells = " | ".join(percent(each) for each in (*accepted, *of_all, *others))
        lines.append(f"| {name} | {n:,} | {cells} |")
        for rule, outcome in (("accepted", accepted), ("all", of_all)):
            if outcome.broken > DELTA + error_of(repeats):
                failures.append(f"walk, {name}, {n:,} rows, {rule}: {percent(outcome.broken)} %")
    return Part(lines, failures)


def walks_by_group(repeats):
    flat, ties, saturated, calibrated = (
        MODELS[name] for name in ("flat", "ties", "saturated", "calibrated")
    )
    mixes = {"four flat": [flat] * 4, "mixed": [calibrated, flat, ties, saturated]}
    lines = [
        f"**By group, counts alone.** Four groups of 600 rows, {repeats:,} repetitions: broken "
        "where the promise fails in any group.",
        "",
        "| groups | correction | broken | some found | accepted |",
        "|---|---|---|---|---|",
    ]
    failures = []
    for name, models in mixes.items():
        for correction in ("bonferroni", "holm"):
            target = Target(risk=0.02, delta=DELTA)
            found = broken_by_group(
                models, [600] * 4, target, correction=correction, repeats=repeats
            )
            cells = [percent(found.broken), percent(found.found), percent(found.coverage)]
            lines.append(f"| {name} | {correction} | {' | '.join(cells)} |")
            if found.broken > DELTA + error_of(repeats):
                failures.append(f"by group, {name}, {correction}: {percent(found.broken)} %")
    return Part(lines, failures)


def copies(k, rng):
    """Return clusters that are five copies of one sample, and whether each is wrong."""
    sure = expit(rng.normal(3.0, 1.8, k))
    rows = np.repeat(np.arange(k), 5)
    return rows, sure[rows], (rng.random(k) > sure)[rows]


def alike(sizes, spread):
    """Return clusters whose samples are confident alike and right alike."""

    def draw(k, rng):
        rows = np.repeat(np.arange(k), sizes(k, rng))
        odds = rng.normal(3.0, 1.5, len(rows)) + rng.normal(0, 1, k)[rows]
        right = expit(odds + rng.normal(0, spread, k)[rows])
        return rows, expit(odds), rng.random(len(rows)) > right

    return draw


CLUSTERS = [
    ("200 items x 5 copies", copies, 200, 0.02),
    ("200 items x 5 copies", copies, 200, 0.05),
    ("2,000 items x 5 copies", copies, 2_000, 0.02),
    ("300 patients, 1 to 9 samples", alike(lambda k, rng: rng.integers(1, 10, k), 1), 300, 0.05),
    ("90 seasons x 200 games", alike(lambda k, rng: 200, 1), 90, 0.1),
]


def certified_clusters(job):
    """Return outcomes of walks over all samples of clusters, and over one of each."""
    place, repeats = job
    _, draw, k, risk = CLUSTERS[place]
    rng, target = np.random.default_rng([place, k]), Target(risk=risk, delta=DELTA)
    _, sure, wrong = draw(5_000 if place == len(CLUSTERS) - 1 else 300_000, rng)
    truth = Counts.of(sure, ~wrong)
    rates = truth.errors / np.maximum(truth.accepted, 1)
    outcomes = np.zeros((repeats, 2, 3))
    for repeat in range(repeats):
        clusters, sure, wrong = draw(k, rng)
        drawn = one_of_each(clusters, seed=repeat)
        for column, rows in enumerate((np.arange(len(sure)), drawn)):
            counts = Counts.of(sure[rows], ~wrong[rows])
            end = walk(counts, target)
            if end is not None:
                outcomes[repeat, column] = rates[end] > risk, 1, counts.accepted[end] / counts.n
    return outcomes.mean(axis=0)


def clusters(repeats, pool):
    lines = [
        f"**Thresholds, samples in clusters.** {repeats:,} repetitions a line: all samples taken "
        "as independent, and `--cluster`, which tests at most one of each cluster. In %.",
        "",
        "| samples | risk | all: broken | found | accepted | `--cluster`: broken | found "
        "| accepted |",
        "|---|---|---|---|---|---|---|---|",
    ]
    failures = []
    found = pool.map(certified_clusters, [(place, repeats) for place in range(len(CLUSTERS))])
    for (name, _, _, risk), outcome in zip(CLUSTERS, found, strict=True):
        cells = " | ".join(percent(each) for each in outcome.ravel())
        lines.append(f"| {name} | {percent(risk, 0)} | {cells} |")
        if outcome[1, 0] > DELTA + error_of(repeats):
            failures.append(f"clusters, {name}: {percent(outcome[1, 0])} %")
    return Part(lines, failures)


class Run(NamedTuple):
    """A line of whole runs: what is drawn, fitted and asked for."""

    name: str
    population: Population
    method: str
    n: int
    options: dict
    fit: dict


def runs():
    easy, hard, two, odd = classes(), classes(50, 0.6, structure=0.4), classes(2, 0.85), uneven()
    marks, score = judge(), {"input": "score"}
    return [
        Run("10 classes, default", easy, "default", 300, {"risk": 0.05}, {}),
        Run("10 classes, default", easy, "default", 1000, {"risk": 0.05}, {}),
        Run("10 classes, default", easy, "default", 3000, {"risk": 0.02}, {}),
        Run("10 classes, raw", easy, "none", 1000, {"risk": 0.05}, {}),
        Run("10 classes, default", easy, "default", 1000, {"risk": 0.05, "rule": "all"}, {}),
        Run("10 uneven classes", odd, "default", 3000, {"risk": 0.1, "by": "class"}, {}),
        Run("50 classes, srts-bce", hard, "srts-bce", 1000, {"risk": 0.1}, {}),
        Run("2 classes, platt", two, "platt", 1000, {"risk": 0.05}, {}),
        Run("marks of a judge, 11 values", marks, "default", 300, {"risk": 0.05}, score),
        Run("marks of a judge, 11 values", marks, "default", 1000, {"risk": 0.025}, score),
        Run("marks of a judge, raw", marks, "none", 3000, {"risk": 0.025}, score),
    ]


def beyond(decision, risk, sure, claimed, wrong):
    """Whether the true rate of errors is beyond the risk, in any entry; and rows accepted."""
    accepted = decision.accept(sure, claimed)
    codes = claimed if decision.by == "class" else np.zeros(len(claimed), dtype=int)
    for code in range(len(decision.names)):
        rows = codes == code
        taken = accepted & rows
        rate = wrong[taken].sum() / max(
            taken.sum() if decision.rule == "accepted" else len(wrong), 1
        )
        if rate > risk:
            return True, accepted.mean()
    return False, accepted.mean()


def certified(place, repeats):
    """Certify on new rows again and again, as a user does, and compare with the truth."""
    run = runs()[place]
    fitted = fitted_on(run.population, run.method, **run.fit).fitted_
    sure, claimed = fitted.claims(
        fitted.predict_proba(run.population.rows), fitted.logits_of(run.population.rows)
    )
    wrong = 1 - run.population.chances[np.arange(POOL), claimed]
    rng, outcomes = np.random.default_rng([run.n, place]), np.zeros((repeats, 3))
    for repeat in range(repeats):
        found = sc.certify(fitted, *run.population.draw(rng, run.n), **run.options).calibrator
        if found.decisions:
            bad, share = beyond(found.decisions[0], run.options["risk"], sure, claimed, wrong)
            outcomes[repeat] = bad, 1, share
    return outcomes.mean(axis=0)


def whole_runs(repeats, pool):
    lines = [
        f"**Thresholds, whole runs.** A calibrator fitted once on 500 rows, then `sc.certify` on "
        f"{repeats:,} new draws of labelled rows; the truth is that of {POOL:,} rows with known "
        "chances. In %.",
        "",
        "| model | rows | asked for | broken | found | accepted |",
        "|---|---|---|---|---|---|",
    ]
    failures, every = [], runs()
    found = pool.map(certified, range(len(every)), [repeats] * len(every))
    for run, (bad, told, share) in zip(every, found, strict=True):
        asked = ", ".join(f"{name} {value}" for name, value in run.options.items())
        cells = " | ".join(percent(each) for each in (bad, told, share))
        lines.append(f"| {run.name} | {run.n:,} | {asked} | {cells} |")
        if bad > DELTA + error_of(repeats):
            failures.append(f"certify, {run.name}, {run.n:,} rows, {asked}: {percent(bad)} %")
    return Part(lines, failures)


def crossed(job):
    """Fit and certify on the same rows, out of fold."""
    (name, n, risk), seeds = job
    population = judge() if name == "marks of a judge" else classes()
    score = {"input": "score"} if name == "marks of a judge" else {}
    outcomes = np.zeros((len(seeds), 3))
    for place, seed in enumerate(seeds):
        rows, labels = population.draw(np.random.default_rng([seed, n]), n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sc.FitWarning)
            cal = sc.Calibrator(**score).fit(rows, labels)
            found = sc.certify(cal, rows, labels, risk=risk, cross=True).calibrator
        if found.decisions:
            sure, claimed = found.claims(
                found.predict_proba(population.rows), found.logits_of(population.rows)
            )
            wrong = 1 - population.chances[np.arange(POOL), claimed]
            bad, share = beyond(found.decisions[0], risk, sure, claimed, wrong)
            outcomes[place] = bad, 1, share
    return outcomes


def cross_runs(repeats, pool):
    repeats = max(repeats // 10, 10)
    cases = [("10 classes", 500, 0.05), ("10 classes", 1000, 0.05), ("marks of a judge", 500, 0.05)]
    lines = [
        f"**Thresholds on the rows of the fit** (`cross=True`, approximate): {repeats:,} fits a "
        "line, by the default method. In %.",
        "",
        "| model | rows | risk | broken | found | accepted |",
        "|---|---|---|---|---|---|",
    ]
    failures = []
    jobs = [(case, seeds) for case in cases for seeds in np.array_split(np.arange(repeats), 2)]
    found = list(pool.map(crossed, jobs))
    for place, (name, n, risk) in enumerate(cases):
        bad, told, share = np.concatenate(found[2 * place : 2 * place + 2]).mean(axis=0)
        cells = " | ".join(percent(each) for each in (bad, told, share))
        lines.append(f"| {name} | {n:,} | {percent(risk, 0)} | {cells} |")
        if bad > DELTA + error_of(repeats):
            failures.append(f"certify --cross, {name}, {n:,} rows: {percent(bad)} %")
    return Part(lines, failures)


# -------------------------------------------------------------------------------------- sets


def covered_by(population, fitted, score, penalty, k_reg):
    """Return a function from quantiles to the share of rows that they cover, exactly."""
    proba = fitted.predict_proba(population.rows.astype(np.float64))
    scores = class_scores(proba, score, penalty=penalty, k_reg=k_reg)
    by_class = []
    for code in range(scores.shape[1]):
        order = np.argsort(scores[:, code])
        mass = np.append(0.0, population.chances[order, code].cumsum())
        by_class.append((scores[order, code], mass))

    def coverage(quantiles):
        limits = np.broadcast_to(quantiles, (len(by_class),))
        found = [
            mass[np.searchsorted(values, limit + 1e-12, side="right")]
            for (values, mass), limit in zip(by_class, limits, strict=True)
        ]
        each = np.array(found) / [mass[-1] for _, mass in by_class]
        return sum(found) / POOL, each

    return coverage


SETS = [
    (name, score, n, alpha)
    for name in ("10 classes", "50 classes", "marks of a judge")
    for score in ("lac", "aps", "raps")
    for n, alpha in ((50, 0.1), (200, 0.1), (1000, 0.05))
    if name != "marks of a judge" or score == "lac"
]


def sets_of(name):
    if name == "marks of a judge":
        return judge(), {"input": "score"}
    return (classes() if name == "10 classes" else classes(50, 0.6, structure=0.4)), {}


def covered(job):
    (name, score, n, alpha), repeats = job
    population, options = sets_of(name)
    fitted = fitted_on(population, "default", **options).fitted_
    weight = {"penalty": 0.05, "k_reg": 2} if score == "raps" else {"penalty": 0.0, "k_reg": 0}
    coverage = covered_by(population, fitted, score, **weight)
    rng, found, sizes = np.random.default_rng(n), [], []
    for _ in range(repeats):
        sets = sc.prediction_sets(
            fitted, *population.draw(rng, n), alpha=alpha, score=score, empty=True, **weight
        )
        found.append(coverage(sets.rule.quantiles[0])[0])
        sizes.append(sets.mean_size)
    band = coverage_of(n, alpha)
    found = np.array(found)
    return found.mean(), (found < band.low).mean(), (found > band.high).mean(), np.mean(sizes)


def set_coverage(repeats, pool):
    lines = [
        f"**Prediction sets.** A calibrator fitted once on 500 rows, `sc.prediction_sets` on "
        f"{repeats:,} new draws; coverage is exact, from known chances. In %: coverage promised, "
        "expected of n rows, and found on average; draws whose coverage is below and above the "
        "95 % band (2.5 each, but for ties, where all may be above). Sets may be empty here.",
        "",
        "| model | score | rows | promised | expected | found | below band | above band | size |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    failures = []
    found = pool.map(covered, [(case, repeats) for case in SETS])
    for (name, score, n, alpha), (mean, below, above, size) in zip(SETS, found, strict=True):
        expected = coverage_of(n, alpha).expected
        cells = [percent(each, 2) for each in (1 - alpha, expected, mean)]
        cells += [percent(below), percent(above), f"{size:.2f}"]
        lines.append(f"| {name} | {score} | {n:,} | {' | '.join(cells)} |")
        spread = math.sqrt(alpha * (1 - alpha) / (n + 2) / repeats)
        if mean < 1 - alpha - 3 * spread or below > 0.025 + error_of(repeats, 0.025):
            failures.append(f"sets, {name}, {score}, {n:,} rows: {percent(mean, 2)} % covered")
    return Part(lines, failures)


def covered_each(job):
    n, repeats = job
    population = uneven()
    fitted = fitted_on(population, "default").fitted_
    coverage = covered_by(population, fitted, "lac", 0.0, 0)
    rng, found = np.random.default_rng(n), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)  # of classes with too few rows
        for _ in range(repeats):
            drawn = population.draw(rng, n)
            for per_class in (False, True):
                sets = sc.prediction_sets(fitted, *drawn, per_class=per_class, empty=True)
                limits = [math.inf if q is None else q for q in sets.rule.quantiles]
                found.append(coverage(limits)[1])
    return np.array(found).reshape(repeats, 2, -1).mean(axis=0)


def class_coverage(repeats, pool):
    sizes = (300, 1000, 3000)
    lines = [
        f"**Sets by class.** 10 classes that are hard to easy, alpha 10 %, lac, {repeats:,} draws: "
        "coverage in the class that is covered least and most, in %, with one quantile for all and "
        "with one for each.",
        "",
        "| rows | one quantile: least | most | per class: least | most |",
        "|---|---|---|---|---|",
    ]
    failures = []
    for n, each in zip(sizes, pool.map(covered_each, [(n, repeats) for n in sizes]), strict=True):
        cells = [percent(end) for row in each for end in (row.min(), row.max())]
        lines.append(f"| {n:,} | {' | '.join(cells)} |")
        if each[1].min() < 0.9 - 3 * math.sqrt(0.09 / (n / 10) / repeats):
            failures.append(f"sets by class, {n:,} rows: {percent(each[1].min())} % in one")
    return Part(lines, failures)


# ------------------------------------------------------------------------------------- watch


def watch(repeats):
    lines = [
        f"**The monitor's watch over a threshold.** {repeats:,} streams a line, looked at "
        f"{len(LOOKS)} times up to {LOOKS[-1]:,} labelled accepted rows. In %: alarms ever, at "
        "alpha 1 % and 5 %; and the median rows at the first alarm, at 1 %.",
        "",
        "| promised | true error rate | alarms at 1 % | at 5 % | rows |",
        "|---|---|---|---|---|",
    ]
    failures, rng = [], np.random.default_rng(0)
    n = np.array([0, *LOOKS])
    steps = np.diff(n)
    for risk in (0.005, 0.02, 0.1):
        for times in (0.5, 1, 1.25, 1.5, 2, 3):
            errors = np.zeros((len(LOOKS) + 1, repeats), dtype=np.int64)
            errors[1:] = rng.binomial(steps, times * risk, size=(repeats, len(LOOKS))).T.cumsum(0)
            evidence = np.array(
                [
                    (
                        promises.log_evidence(
                            errors[look] - errors[begun], (n[look] - n[begun])[:, None], risk
                        )
                        + np.log(shares)[:, None]
                    ).max(axis=0)
                    for look, (shares, begun) in enumerate(starts_at(LOOKS), 1)
                ]
            ).T
            one, five = ((evidence >= -math.log(alpha)) for alpha in (0.01, 0.05))
            first = np.where(one.any(axis=1), LOOKS[one.argmax(axis=1)], np.inf)
            middle = np.median(first)
            cells = [percent(each.any(axis=1).mean()) for each in (one, five)]
            shown = "-" if math.isinf(middle) else f"{middle:,.0f}"
            lines.append(
                f"| {100 * risk:g} | {100 * times * risk:.4g} | {' | '.join(cells)} | {shown} |"
            )
            if times <= 1 and five.any(axis=1).mean() > 0.05 + error_of(repeats):
                failures.append(f"watch, risk {100 * risk:g} %: {cells[1]} % false alarms")
    return Part(lines, failures)


def parts(folder, repeats, pool):
    """Yield each part of the study by its name; what is not asked for is not computed."""
    yield "walks", lambda: walks(repeats, pool)
    yield "groups", lambda: walks_by_group(repeats)
    yield "clusters", lambda: clusters(repeats, pool)
    yield "certify", lambda: whole_runs(repeats, pool)
    yield "cross", lambda: cross_runs(repeats, pool)
    yield "sets", lambda: set_coverage(repeats, pool)
    yield "classes", lambda: class_coverage(max(repeats // 4, 10), pool)
    yield "watch", lambda: watch(repeats)
    yield "adapt", lambda: Part(*decisions_later.adapted(max(repeats // 50, 5), pool))
    yield "refresh", lambda: Part(*decisions_later.refreshed(max(repeats // 100, 5), pool))
    if folder is not None:
        draws = max(repeats // 100, 2)
        yield "real", lambda: Part(*decisions_real.thresholds(folder, draws, pool))
        yield "real-sets", lambda: Part(*decisions_real.sets(folder, draws, pool))
        yield (
            "real-adapt",
            lambda: Part(*decisions_later.adapted_real(folder, max(draws // 5, 2), pool)),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="real logits")
    parser.add_argument("--repeats", type=int, default=2_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="+", help="parts: walks, certify, sets, watch, ...")
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        print(f"{options.folder} is not there: no real logits")
        options.folder = None
    start, lines, failures = time.perf_counter(), [], []
    with ProcessPoolExecutor(options.jobs) as pool:
        for name, made in parts(options.folder, options.repeats, pool):
            if options.only and name not in options.only:
                continue
            part = made()
            print("\n".join(["", *part.lines]), flush=True)
            print(f"\n({name}: {time.perf_counter() - start:.0f} s so far)", flush=True)
            lines += ["", *part.lines]
            failures += part.failures
    kept = "Every promise was kept as often as it says, up to three standard errors of the study."
    lines += ["", "; ".join(["Broken more often than promised", *failures]) if failures else kept]
    print("\n" + lines[-1])
    if options.write:
        before, rest = options.write.read_text().split(BEGIN)
        after = rest.split(END)[1]
        options.write.write_text("\n".join([before + BEGIN, *lines, "", END + after]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""`adapt` and `refresh` against known truth: part of `benchmarks/decisions_study.py`."""

from __future__ import annotations

import math
import warnings

import numpy as np

import smallcal as sc
from decisions_real import cells, loaded
from smallcal_lab.studies.simulate import World

#: Classes that are hard to easy, seen through noise: rows of a class always look alike.
EASE = np.linspace(1.0, 4.0, 8)
METRICS = ("nll", "ece15")


def rows_of(rng, n, frequencies, weaker=1.0):
    """Draw rows whose classes have these frequencies; the model is too sure by half."""
    labels = rng.choice(len(EASE), size=n, p=frequencies)
    seen = rng.normal(size=(n, len(EASE)))
    seen[np.arange(n), labels] += weaker * EASE[labels]
    return 1.5 * (EASE * seen - EASE**2 / 2), labels


def frequencies_of(rng, ratio, n=8):
    """Return frequencies, the largest so many times the smallest, in random order."""
    shares = rng.permutation(np.geomspace(1, ratio, n))
    return shares / shares.sum()


def quiet(function, *given, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*given, **options)


def metrics_of(cal, rows, labels):
    p = cal.predict_proba(rows)
    if p.shape[1] == 2 and rows.ndim == 1:
        p = p[:, 1]
    found = sc.evaluate(labels.astype(int), p, metrics=METRICS)
    return [float(found[name]) for name in METRICS]


def percent(share, digits=1):
    return f"{100 * share:.{digits}f}"


# ------------------------------------------------------------------------------------- adapt

CASES = [
    (*case, n)
    for case in ((1, 1.0), (3, 1.0), (10, 1.0), (30, 1.0), (1, 0.8), (10, 0.8))
    for n in (500, 5000)
]


def adapted_once(job):
    """Fit on even classes, adapt to rows of others, and compare with what is known."""
    (ratio, weaker, n), seed = job
    rng = np.random.default_rng([seed, ratio, n])
    cal = quiet(sc.Calibrator().fit, *rows_of(rng, 1000, frequencies_of(rng, 1)))
    truth = frequencies_of(rng, ratio)
    found = quiet(sc.adapt, cal, rows_of(rng, n, truth, weaker)[0])
    check = rows_of(rng, 5000, truth, weaker)
    held = np.mean(
        [low <= t <= high for low, t, high in zip(found.low, truth, found.high, strict=True)]
    )
    off = [np.abs(np.array(shares) - truth).sum() / 2 for shares in (found.before, found.now)]
    losses = metrics_of(cal, *check) + metrics_of(found.calibrator, *check)
    return [found.adapted, found.verdict == "more", held, *off, *losses]


def adapted(repeats, pool):
    lines = [
        "**Adapting to frequencies.** 8 classes that are hard to easy, the default fitted on 1,000 "
        "rows of even classes, then `sc.adapt` on rows without labels whose most frequent class is "
        f"so many times the least frequent; {repeats} fits a line. Evidence below 1: rows got "
        "harder as well, which is not a matter of frequencies. In %: fits that were adapted, that "
        '"more than frequencies moved" was said of, true frequencies inside their 95 % interval; '
        "half the sum of errors of all frequencies, those of the split and the estimated; x100: "
        "log-loss and ECE on 5,000 new rows, before and after.",
        "",
        "| ratio | evidence | rows | adapted | more moved | held | off before | off after "
        "| log-loss | ECE |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    failures = []
    jobs = [(case, seed) for case in CASES for seed in range(repeats)]
    found = np.array(list(pool.map(adapted_once, jobs, chunksize=4)), dtype=float)
    by_case = zip(CASES, found.reshape(len(CASES), repeats, -1).mean(axis=1), strict=True)
    for (ratio, weaker, n), means in by_case:
        told, more, held, before, after, nll, ece, nll_after, ece_after = means
        cells_ = [percent(each) for each in (told, more, held, before, after)]
        cells_ += [
            f"{percent(nll)} to {percent(nll_after)}",
            f"{percent(ece)} to {percent(ece_after)}",
        ]
        lines.append(f"| {ratio} | {weaker:g} | {n:,} | {' | '.join(cells_)} |")
        error = 3 * math.sqrt(0.05 * 0.95 / repeats)
        if ratio == 1 and weaker == 1 and told > 0.05 + error:
            failures.append(f"adapt, nothing moved, {n:,} rows: {percent(told)} % adapted")
        if weaker == 1 and ratio > 1 and n == 5000 and (after > before / 3 or held < 0.9):
            failures.append(
                f"adapt, ratio {ratio}: off by {percent(after)}, held {percent(held)} %"
            )
    return lines, failures


def adapted_to_real(job):
    """Draw test rows by class, adapt to half of them, and measure on the other half."""
    path, draw = job
    (rows, labels), (new, answers), options = loaded(path)
    rng = np.random.default_rng(draw)
    answers = answers.astype(int)
    order = rng.permutation(len(labels))[:1000]
    cal = quiet(sc.Calibrator(**options).fit, rows[order], labels[order])
    weight = frequencies_of(rng, 10, cal.fitted_.n_classes)[answers]
    drawn = rng.choice(len(answers), size=4000, p=weight / weight.sum())
    first, second = drawn[:2000], drawn[2000:]
    found = quiet(sc.adapt, cal, new[first])
    truth = np.bincount(answers[first], minlength=cal.fitted_.n_classes) / len(first)
    off = [np.abs(np.array(shares) - truth).sum() / 2 for shares in (found.before, found.now)]
    check = new[second], answers[second]
    return [found.adapted, *off, *metrics_of(cal, *check), *metrics_of(found.calibrator, *check)]


def adapted_real(folder, draws, pool):
    lines = [
        "**Adapting on real logits.** The default fitted on 1,000 validation rows; test rows drawn "
        "so that the most frequent class counts ten times as much as the least, in random order: "
        f"adapted to 2,000 without labels, measured on 2,000 others; {draws} draws of each model. "
        "Columns as above.",
        "",
        "| kind | models | adapted | off before | off after | log-loss | ECE |",
        "|---|---|---|---|---|---|---|",
    ]
    failures = []
    for kind, paths in cells(folder).items():
        jobs = [(path, draw) for path in paths for draw in range(draws)]
        found = np.array(list(pool.map(adapted_to_real, jobs, chunksize=4)), dtype=float)
        told, before, after, nll, ece, nll_after, ece_after = found.mean(axis=0)
        cells_ = [percent(each) for each in (told, before, after)]
        cells_ += [
            f"{percent(nll)} to {percent(nll_after)}",
            f"{percent(ece)} to {percent(ece_after)}",
        ]
        lines.append(f"| {kind} | {len(paths)} | {' | '.join(cells_)} |")
        if nll_after > nll:
            failures.append(f"real adapt, {kind}: log-loss {percent(nll)} to {percent(nll_after)}")
    return lines, failures


# ----------------------------------------------------------------------------------- refresh


WORLD = World(n_classes=20, accuracy=0.75, temperature=1.5, structure=0.3)
#: Rows of the fit; the world afterwards as severity and what logits are multiplied by; new rows.
FITTED = 500
AFTER = [
    (severity, louder, n)
    for severity, louder in ((0, 1.0), (2, 1.0), (0, 1.5))
    for n in (50, 250, 1000)
]


def refreshed_once(job):
    """Refresh at once and in pieces of any order, and fit anew: what each is worth on new rows."""
    (severity, louder, n), seed = job
    old = WORLD.draw(FITTED, draw=seed)
    new = WORLD.draw(n, split="new", severity=severity, draw=seed)
    test = WORLD.draw(5000, split="test", severity=severity, draw=seed)
    logits, check = louder * new.logits, louder * test.logits
    cal = quiet(sc.TemperatureScaling().fit, old.logits, old.labels)
    at_once = quiet(sc.refresh, cal, logits, new.labels)
    pieces, order = cal.fitted_, np.random.default_rng(seed).permutation(n)
    for rows in np.array_split(order, 50 if n == 50 else 10):
        pieces = quiet(sc.refresh, pieces, logits[rows], new.labels[rows]).calibrator
    p, q = (each.predict_proba(check) for each in (at_once.calibrator, pieces))
    alone = quiet(sc.TemperatureScaling().fit, logits, new.labels)
    both = np.concatenate([old.logits, logits]), np.concatenate([old.labels, new.labels])
    joint = quiet(sc.TemperatureScaling().fit, *both)
    proba = [cal.predict_proba(check), p, alone.predict_proba(check), joint.predict_proba(check)]
    losses = [test.expected(each)["top_label_bce"] for each in proba]
    return [at_once.applied, np.abs(p - q).max(), *losses]


def refreshed(repeats, pool):
    lines = [
        f"**Refreshing.** 20 classes, one temperature fitted on {FITTED} rows; then new labelled "
        "rows, at a severity of shift, or of a model whose logits are multiplied. The new rows are "
        "taken in at once, and in ten pieces in random order, 50 rows one by one: the largest "
        f"difference of any probability between the two, over {repeats} fits. In %: refreshes that "
        "were applied. "
        "Top-label log-loss x100 on 5,000 rows of the shifted data, labels averaged out: the old "
        "calibrator, the refreshed one, a temperature fitted on the new rows alone, and one on old "
        "and new together.",
        "",
        "| severity | logits | new rows | difference | applied | old | refreshed | new alone "
        "| together |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    failures = []
    jobs = [(case, seed) for case in AFTER for seed in range(repeats)]
    found = np.array(list(pool.map(refreshed_once, jobs, chunksize=4)), dtype=float)
    for (severity, louder, n), each in zip(
        AFTER, found.reshape(len(AFTER), repeats, -1), strict=True
    ):
        applied, _, *losses = each.mean(axis=0)
        apart = each[:, 1].max()
        cells_ = [f"{apart:.0e}", percent(applied), *map(percent2, losses)]
        lines.append(f"| {severity} | x {louder:g} | {n:,} | {' | '.join(cells_)} |")
        if apart > 1e-6:
            failures.append(f"refresh in pieces, {n:,} rows: apart by {apart:.1e}")
        if losses[1] > losses[0] + 0.002:
            failures.append(f"refresh, severity {severity}, x {louder:g}, {n:,} rows: harm")
    return lines, failures


def percent2(value):
    return percent(value, 2)

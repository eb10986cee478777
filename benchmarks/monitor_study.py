"""False alarms, power and delay of the monitor: `python benchmarks/monitor_study.py [FOLDER]`.

By simulation: calibrators fitted on draws of a known world, then streams of new rows from it, clean
or shifted, looked at sixty times between 10 and 20,000 rows; how long an alarm takes where the
shift begins after many clean rows. Then what its diagnosis says where only frequencies of classes
moved, and where more did. If FOLDER holds real logits with a folder shift/ beside them, both on
those too. `--class-shift` runs the diagnosis alone, `--late` shifts after clean rows.
"""

from __future__ import annotations

import argparse
import itertools
import math
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

import smallcal as sc
from smallcal.calibrators.catalogue import ALIASES
from smallcal.calibrators.reference import Bins, Reference
from smallcal.deploy.monitor import label_free
from smallcal.deploy.monitor.state import State
from smallcal_lab.studies.simulate import World

ALPHA, TOLERANCE = 0.01, 0.02
SIZES = (250, 625, 2500)
METHODS = ("srts-bce", ALIASES["default"])
LOOKS = np.unique(np.geomspace(10, 20_000, 60).round().astype(int))
FAR_LOOKS = np.unique(np.geomspace(10, 1_000_000, 60).round().astype(int))
#: Clean rows before a change, and how many of them are taken in at once.
CLEAN, CLEAN_BATCH = (0, 1000, 3000, 6000, 20_000), 250
#: Rows that splits and streams are drawn from, with replacement: the whole population.
POOL = 20_000
SHIFTS = (
    "cifar10__akamaster-resnet56__fog-s",
    "cifar10__akamaster-resnet56__gaussian_noise-s",
    "banking77__tfidf-mlp-seed0__",
    "clinc150__tfidf-mlp-seed0__",
    "cities158__",
    "debian55__",
    "fashion10__",
)


#: Models whose frequencies of classes are moved, and their files of rows that moved otherwise.
CLASS_SHIFTS = {
    "cifar10__akamaster-resnet56": ("fog-s3", "fog-s5", "gaussian_noise-s1", "gaussian_noise-s5"),
    "fashion10__cnn-ce": ("shift",),
    "debian55__minilm-ls": ("shift_typos",),
    "banking77__tfidf-mlp-seed0": ("typo05", "typo15"),
    "cities158__mlp-ls": ("shift",),
}


def first_alarms(fitted, rows, looks, *, after=None):
    """Return the rows at the first alarm of both checks, or infinity; clean rows may come before.

    `rows` and `after` are logits and labels.
    """
    monitor = sc.Monitor(fitted, alpha=ALPHA, tolerance=TOLERANCE)
    for part in () if after is None else range(0, len(after[1]), CLEAN_BATCH):
        monitor.update(*(each[part : part + CLEAN_BATCH] for each in after))
    found = [math.inf, math.inf]
    for start, stop in itertools.pairwise([0, *looks]):
        report = monitor.update(*(each[start:stop] for each in rows))
        for check, alarm in enumerate((report.drifted, report.miscalibrated)):
            if alarm:
                found[check] = min(found[check], float(stop))
        if math.inf not in found:
            break
    return found


def true_gap(fitted, logits, labels):
    proba = fitted.predict_proba(logits)
    return float((proba.argmax(axis=1) == labels).mean() - proba.max(axis=1).mean())


def fit(name, logits, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.make(name).fit(logits, labels).fitted_


def simulated(name, size, severity, n_fits, *, clean_rows=0, truth_too=True):
    """Return rows at first alarm of both checks, for each fit, and the true gaps."""
    world = World(n_classes=20, accuracy=0.75, temperature=1.5, structure=0.3)
    clean = world.draw(POOL)
    pool = world.draw(POOL, severity=severity)
    alarms, truth = [], []
    for number in range(n_fits):
        rng = np.random.default_rng([severity, size, number])
        cal = rng.integers(POOL, size=size)
        fitted = fit(name, clean.logits[cal], clean.labels[cal])
        rows, before = rng.integers(POOL, size=LOOKS[-1]), rng.integers(POOL, size=clean_rows)
        shifted = pool.logits[rows], pool.labels[rows]
        after = clean.logits[before], clean.labels[before]
        alarms.append(first_alarms(fitted, shifted, LOOKS, after=after))
        truth.append(true_gap(fitted, pool.logits, pool.labels) if truth_too else np.nan)
    return *np.array(alarms).T, np.array(truth)


def percent(hits):
    return f"{100 * np.mean(hits):.1f}" if len(hits) else "-"


def delay(rows):
    """Return the median rows at the alarm, over all streams."""
    middle = np.median(rows)
    return "-" if math.isinf(middle) else f"{middle:,.0f}"


def starts_at(looks):
    """Yield for each look the shares of the starts there are, and after which look each begins."""
    empty = State.empty("", Reference(Bins((0.0,), (1, 1))), alpha=ALPHA, tolerance=TOLERANCE)
    state, places = empty, [0, *looks]
    for step in np.diff(places).tolist():
        sums = replace(empty.sums, rows=step, confidence=(step, 0))
        state = state + replace(empty, sums=sums)
        begun = [places.index(start.before.rows) for start in state.starts]
        yield np.array([start.share for start in state.starts]), begun


def counts_alone(n_streams):
    """Show false alarms of one watched number, whatever it is: only its ranks matter."""
    print(
        f"\nNo drift, one continuous number; {n_streams:,} splits and streams a line, "
        f"{len(FAR_LOOKS)} looks each, the last at {FAR_LOOKS[-1]:,} rows. Alarms in %.\n"
    )
    print("| samples | looks | alarms at alpha 1 % | at 5 % | at 20 % |")
    print("|---|---|---|---|---|")
    for size in SIZES:
        rng = np.random.default_rng(size)
        bins = [Bins.of(rng.random(size)) for _ in range(n_streams)]
        steps = np.diff([0, *FAR_LOOKS])
        counts = np.zeros((len(FAR_LOOKS) + 1, n_streams, len(bins[0].counts)))
        for stream, each in enumerate(bins):
            chances = np.diff([0, *each.edges, 1])
            counts[1:, stream] = rng.multinomial(steps, chances).cumsum(axis=0)
        prior, highest = bins[0].spacings, np.full(n_streams, -np.inf)  # of that size all the same
        for look, (shares, begun) in enumerate(starts_at(FAR_LOOKS), 1):
            evidence = label_free.log_evidence(counts[look] - counts[begun], prior)
            highest = np.maximum(highest, (evidence + np.log(shares)[:, None]).max(axis=0))
        rates = [percent(highest >= -math.log(a)) for a in (0.01, 0.05, 0.2)]
        print(f"| {size:,} | {n_streams * len(FAR_LOOKS):,} | {' | '.join(rates)} |", flush=True)


def false_alarms(n_fits):
    print(
        f"\nNo drift; {n_fits} fits and streams a line, {len(LOOKS)} looks each. Alarms in %, "
        f"alpha {100 * ALPHA:g} %; share of fits whose true gap is beyond {100 * TOLERANCE:g} "
        "points, and labelled alarms among the others.\n"
    )
    print("| method | samples | looks | label-free alarms | true gap beyond | labelled alarms |")
    print("|---|---|---|---|---|---|")
    for name in METHODS:
        for size in SIZES:
            drift, gap, truth = simulated(name, size, 0, n_fits)
            inside = np.abs(truth) <= TOLERANCE
            print(
                f"| {name} | {size:,} | {n_fits * len(LOOKS):,} | {percent(np.isfinite(drift))} | "
                f"{percent(~inside)} | {percent(np.isfinite(gap[inside]))} |",
                flush=True,
            )


def power(n_fits):
    print(
        f"\nDrift by severity; {n_fits} fits and streams a line. Alarms within 500 and 20,000 rows "
        "in %, and the median rows at the alarm.\n"
    )
    print(
        "| method | samples | severity | true gap | label-free 500 | 20,000 | rows | labelled 500 "
        "| 20,000 | rows |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in METHODS:
        for size in SIZES:
            for severity in range(1, 6):
                drift, gap, truth = simulated(name, size, severity, n_fits)
                cells = [
                    text
                    for found in (drift, gap)
                    for text in (percent(found <= 500), percent(np.isfinite(found)), delay(found))
                ]
                mean = f"{100 * truth.mean():+.1f}"
                line = f"| {name} | {size:,} | {severity} | {mean} | {' | '.join(cells)} |"
                print(line, flush=True)


def late(n_fits, size=2500):
    print(
        f"\nDrift after clean rows, all of them labelled; {METHODS[1]} fitted on {size:,} samples, "
        f"{n_fits} fits and streams a line. Median rows from the change to the alarm; alarms on "
        "the clean rows count as 10.\n"
    )
    print(f"| severity | check | {' | '.join(f'after {n:,}' for n in CLEAN)} |")
    print(f"|---|---|{'---|' * len(CLEAN)}")
    for severity in (2, 3, 5):
        each = [
            simulated(METHODS[1], size, severity, n_fits, clean_rows=n, truth_too=False)
            for n in CLEAN
        ]
        for name, check in (("label-free", 0), ("labelled", 1)):
            cells = " | ".join(delay(found[check]) for found in each)
            print(f"| {severity} | {name} | {cells} |", flush=True)


def real(folder, size=625):
    print(
        f"\nReal logits, {METHODS[1]} fitted on {size} samples: rows at the first alarm in one "
        "random order.\n"
    )
    print("| model | rows from | rows | gap, points | label-free alarm | labelled alarm |")
    print("|---|---|---|---|---|---|")
    files = sorted((folder / "shift").glob("*.npz"))
    chosen = [path for path in files if path.name.startswith(SHIFTS)]
    shown: set[str] = set()
    for path in chosen:
        dataset, model, kind = path.stem.split("__")
        home = folder / f"{dataset}__{model}.npz"
        with np.load(home) as arrays:
            rows = np.random.default_rng(0).permutation(len(arrays["val_labels"]))[:size]
            fitted = fit(METHODS[1], arrays["val_logits"][rows], arrays["val_labels"][rows])
            clean = arrays["test_logits"], arrays["test_labels"]
        with np.load(path) as arrays:
            shifted = arrays["logits"], arrays["labels"]
        if home.stem not in shown:
            print(real_line(home.stem, "test", fitted, *clean), flush=True)
            shown.add(home.stem)
        print(real_line(home.stem, kind, fitted, *shifted), flush=True)


def real_line(model, kind, fitted, logits, labels):
    order = np.random.default_rng(1).permutation(len(labels))
    looks = np.unique([*LOOKS[len(labels) > LOOKS], len(labels)])
    drift, gap = first_alarms(fitted, (logits[order], labels[order]), looks)
    mean = 100 * true_gap(fitted, logits, labels)
    return f"| {model} | {kind} | {len(labels):,} | {mean:+.1f} | {delay(drift)} | {delay(gap)} |"


def uneven(rng, n, signal, factors, weaker=1.0):
    """Draw rows of classes that are easy to different degrees; the truth is known.

    Evidence is `weaker` than the model thinks: 1 is what it was made for.
    """
    labels = rng.choice(len(signal), size=n, p=factors / factors.sum())
    seen = rng.standard_normal((n, len(signal)))
    seen[np.arange(n), labels] += weaker * signal[labels]
    return 1.5 * (signal * seen - signal**2 / 2), labels


def moved(rng, classes, ratio):
    """Return factors of classes, the largest `ratio` times the smallest, in random order."""
    return rng.permutation(np.geomspace(1, ratio, classes))


def errors(fitted, logits, labels):
    """Return gap, ECE and top-label log-loss of the calibrated rows, x100."""
    proba = fitted.predict_proba(logits)
    found = sc.evaluate(labels, proba, metrics=("ece15", "top_label_bce"))
    gap = np.mean(proba.argmax(axis=1) == labels) - proba.max(axis=1).mean()
    return 100 * np.array([gap, found["ece15"], found["top_label_bce"]])


def diagnosed(draw, n_fits):
    """Return for each fit what the monitor says at 2,000 rows, and what is so."""
    said, sizes = [], []
    for number in range(n_fits):
        rng = np.random.default_rng([number, 7])
        cal, clean, rows = draw(rng)
        fitted = fit(METHODS[-1], *cal)
        report = sc.Monitor(fitted).update(rows[0])
        shift = report.class_shift
        said.append("" if shift is None else f"{shift.kind} {report.verdict}")
        likely = np.nan if shift is None else 100 * shift.gap
        sizes.append([likely, *errors(fitted, *rows), *errors(fitted, *clean)])
    return np.array(said), np.array(sizes)


def show_diagnosed(world, kind, draw, n_fits):
    said, sizes = diagnosed(draw, n_fits)
    alarms = said[said != ""]
    rates = [percent(alarms == "frequencies fine"), percent(alarms == "frequencies label")]
    rates += [percent([each.startswith(word) for each in alarms]) for word in ("more", "unclear")]
    likely, gap, ece, bce, _, ece_0, bce_0 = (
        np.nanmean(each) if np.isfinite(each).any() else np.nan for each in sizes.T
    )
    guess = "-" if np.isnan(likely) else f"{likely:+.1f}"
    print(
        f"| {world} | {kind} | {percent(said != '')} | {' | '.join(rates)} | {guess} "
        f"| {gap:+.1f} | {ece_0:.1f}, {ece:.1f} | {bce_0:.1f}, {bce:.1f} |",
        flush=True,
    )


def class_shift(n_fits, folder, size=625, rows=2000):
    print(
        f"\nWhere only frequencies of classes moved, and where more did: {METHODS[-1]} fitted on "
        f"{size} samples, one look at {rows:,} rows without labels, {n_fits} fits a line. Ratio: "
        "of the most frequent class to the least. Alarms in %; what is said in % of the alarms; "
        "gaps in points, likely as said at alarms, true in all; "
        "ECE and top-label log-loss x100 on clean "
        "rows, then on these.\n"
    )
    print(
        "| simulation | shift | alarms | frequencies, fine | frequencies, act | more | cannot tell "
        "| likely gap | true gap | ECE | top-label log-loss |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for classes, signal in ((20, np.linspace(1.5, 4.5, 20)), (2, np.array([1.0, 2.0]))):
        class_shift_simulated(f"simulated, {classes} classes", signal, n_fits, size, rows)
    for name in () if folder is None else CLASS_SHIFTS:
        class_shift_real(folder, name, n_fits, size, rows)


def class_shift_simulated(world, signal, n_fits, size, rows):
    """Show a world in which the hard classes become the frequent ones, and one that blurs."""

    def drawing(ratio, weaker=1.0):
        def draw(rng):
            even, uneasy = np.ones(len(signal)), np.geomspace(ratio, 1, len(signal))
            cal, clean = (uneven(rng, n, signal, even) for n in (size, rows))
            return cal, clean, uneven(rng, rows, signal, uneasy, weaker)

        return draw

    for ratio in (1, 3, 10, 100):
        show_diagnosed(world, f"ratio {ratio}", drawing(ratio), n_fits)
    for weaker in (0.9, 0.8, 0.7):
        show_diagnosed(world, f"evidence x {weaker}", drawing(1, weaker), n_fits)
    show_diagnosed(world, "evidence x 0.8, ratio 3", drawing(3, 0.8), n_fits)


def class_shift_real(folder, name, n_fits, size, rows):
    with np.load(folder / f"{name}.npz") as arrays:
        val = arrays["val_logits"], arrays["val_labels"]
        test = arrays["test_logits"], arrays["test_labels"]

    def drawing(pool, ratio):
        def draw(rng):
            cal = rng.permutation(len(val[1]))[:size]
            clean = rng.integers(len(test[1]), size=rows)
            factors = moved(rng, val[0].shape[1], ratio)[pool[1]]
            new = rng.choice(len(pool[1]), size=rows, p=factors / factors.sum())
            return [
                [each[some] for each in of] for of, some in ((val, cal), (test, clean), (pool, new))
            ]

        return draw

    for ratio in (1, 10, 100):
        show_diagnosed(name, f"ratio {ratio}", drawing(test, ratio), n_fits)
    for kind in CLASS_SHIFTS[name]:
        with np.load(folder / "shift" / f"{name}__{kind}.npz") as arrays:
            pool = arrays["logits"], arrays["labels"]
        show_diagnosed(name, kind, drawing(pool, 1), n_fits)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--fits", type=int, default=200, help="fits without drift")
    parser.add_argument("--shifted-fits", type=int, default=30, help="fits for each severity")
    parser.add_argument("--class-shift", action="store_true", help="the diagnosis alone")
    parser.add_argument("--late", action="store_true", help="drift after clean rows alone")
    given = parser.parse_args()
    found = given.folder is not None and (given.folder / "shift").is_dir()
    if given.late:
        late(given.shifted_fits)
        return
    if given.class_shift:
        class_shift(given.shifted_fits, given.folder if found else None)
        return
    counts_alone(10 * given.fits)
    false_alarms(given.fits)
    power(given.shifted_fits)
    late(given.shifted_fits)
    class_shift(given.shifted_fits, given.folder if found else None)
    if found:
        real(given.folder)
    else:
        print("\nNo real shifted logits here: name their folder.")


if __name__ == "__main__":
    main()

"""Does a certified threshold keep its promise, and where should the walk begin: by simulation.

    python benchmarks/certify_simulation.py            all tables, 2,000 repetitions (ten minutes)
    python benchmarks/certify_simulation.py --repeats 200

Every model is known, so the true error rate above each threshold is known too: the promise is
broken where that exceeds the risk. ``broken`` is what `make study-decisions` calls.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit

import smallcal as sc
from smallcal.advice.certify_walk import (
    GRID,
    Counts,
    Target,
    counts_by,
    rows_to_pass,
    start_rows,
    walk,
    walk_each,
)

#: Rows from which true error rates are taken.
MANY = 1_000_000


class Drawn(NamedTuple):
    """Confidences of rows, and how probable it is that each is right."""

    confidence: np.ndarray
    right: np.ndarray


def calibrated(n, rng, centre=3.0, spread=1.8):
    sure = expit(rng.normal(centre, spread, n))
    return Drawn(sure, sure)


def overconfident(n, rng):
    odds = rng.normal(3.0, 1.8, n)
    return Drawn(expit(1.6 * odds), expit(odds))


def flat(n, rng):
    """Confidence says nothing, and the error rate is just above the risk of 2 %."""
    return Drawn(expit(rng.normal(3.0, 1.8, n)), np.full(n, 0.9795))


def worst_at_the_top(n, rng):
    """Let the surest rows be wrong more often than those below them."""
    odds = rng.normal(3.0, 1.8, n)
    right = np.where(odds > 4.5, 0.97, expit(odds))
    return Drawn(expit(odds), np.where((odds > 3.8) & (odds <= 4.5), 0.995, right))


def zigzag(n, rng):
    odds = rng.normal(3.0, 1.8, n)
    return Drawn(expit(odds), np.where(np.floor(10 * odds) % 2 == 0, 0.9999, 0.955))


def ties(n, rng):
    """Four values only, as of marks that a judge gives."""
    mark = rng.choice(4, n, p=[0.3, 0.3, 0.2, 0.2])
    values, right = np.array([[0.999, 0.98, 0.9, 0.6], [0.979, 0.985, 0.95, 0.6]])
    return Drawn(values[mark], right[mark])


def saturated(n, rng):
    """Half of the rows claim to be certain."""
    odds = rng.normal(3.0, 1.8, n)
    sure = odds > 3.0
    return Drawn(np.where(sure, 1.0, expit(odds)), np.where(sure, 0.9799, 0.975))


MODELS: dict[str, Callable[..., Drawn]] = {
    model.__name__.replace("_", " "): model
    for model in (calibrated, overconfident, flat, worst_at_the_top, zigzag, ties, saturated)
}


def true_rates(model, rule="accepted"):
    """Return the true error rate that each threshold of the grid gives."""
    drawn = model(MANY, np.random.default_rng(0))
    order = np.argsort(-drawn.confidence, kind="stable")
    wrong = np.append(0.0, np.cumsum(1 - drawn.right[order]))
    accepted = np.searchsorted(-drawn.confidence[order], -GRID, side="right")
    return wrong[accepted] / (np.maximum(accepted, 1) if rule == "accepted" else MANY)


class Outcome(NamedTuple):
    """Shares of repetitions in which the promise is broken, and in which there is one; coverage."""

    broken: float
    found: float
    coverage: float


def broken(model, n, target, *, repeats=2_000, seed=0) -> Outcome:
    """Certify on new rows again and again, and compare with the truth."""
    rates, rng = true_rates(model, target.rule), np.random.default_rng(seed)
    outcomes = np.zeros((repeats, 3))
    for repeat in range(repeats):
        drawn = model(n, rng)
        counts = Counts.of(drawn.confidence, rng.random(n) < drawn.right)
        place = walk(counts, target)
        if place is not None:
            outcomes[repeat] = rates[place] > target.risk, 1, counts.accepted[place] / n
    return Outcome(*outcomes.mean(axis=0).tolist())


def broken_by_group(models, sizes, target, *, correction="holm", repeats=2_000, seed=0) -> Outcome:
    """Do the same for groups, each of a model: broken where the promise fails in any of them."""
    rates, rng = [true_rates(model, target.rule) for model in models], np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(models)), sizes)
    outcomes = np.zeros((repeats, 3))
    for repeat in range(repeats):
        drawn = [model(n, rng) for model, n in zip(models, sizes, strict=True)]
        sure, right = (np.concatenate(part) for part in zip(*drawn, strict=True))
        parts = counts_by(sure, rng.random(len(sure)) < right, codes, len(models))
        places = [place for place, _ in walk_each(parts, target, correction=correction)]
        told = [group for group, place in enumerate(places) if place is not None]
        wrong = any(rates[group][places[group]] > target.risk for group in told)
        accepted = sum(parts[group].accepted[places[group]] for group in told)
        outcomes[repeat] = wrong, bool(told), accepted / len(codes)
    return Outcome(*outcomes.mean(axis=0).tolist())


def logits(n, rng, n_classes=6):
    """Draw logits of an overconfident model, and labels from their softmax at temperature 1.5."""
    z = 2 * rng.standard_normal((n, n_classes))
    z[np.arange(n), rng.integers(n_classes, size=n)] += 10 * rng.random(n)
    return z, (z / 1.5 + rng.gumbel(size=z.shape)).argmax(axis=1)


def broken_cross(method, n, *, risk=0.1, repeats=200, seed=0) -> Outcome:
    """Certify on the rows of the fit, out of fold, and judge the calibrator of all rows."""
    rng = np.random.default_rng(seed)
    z, y = logits(50_000, rng)
    outcomes = np.zeros((repeats, 3))
    for repeat in range(repeats):
        rows = logits(n, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sc.FitWarning)
            cal = sc.make(method).fit(*rows)
        found = sc.certify(cal, *rows, risk=risk, cross=True)
        if found.found:
            taken = found.calibrator.accept(z)
            wrong = cal.predict_proba(z).argmax(axis=1) != y
            outcomes[repeat] = wrong[taken].mean() > risk, 1, taken.mean()
    return Outcome(*outcomes.mean(axis=0).tolist())


#: Where a walk may begin: up to so many errors in this share of the rows, up to so many in that.
STARTS = {
    "no error": (0, 0.5, 0, 0.2),
    "3 errors, half of the rows": (3, 0.5, 0, 0.2),
    "5 errors, half of the rows": (5, 0.5, 0, 0.2),
    "3 in half, else 20 in a tenth": (3, 0.5, 20, 0.1),
    "3 in half, else 20 in a fifth": (3, 0.5, 20, 0.2),
    "3 in half, any in a tenth": (3, 0.5, 1_000, 0.1),
}
#: Centre and spread of log-odds, and how much of their differences is true.
SHAPES = (
    (1.8, 1.6, 1.0),
    (3.0, 1.8, 1.0),
    (4.5, 2.2, 1.0),
    (4.0, 1.0, 1.0),
    (5.5, 2.0, 1.0),
    (3.5, 1.0, 0.3),
    (4.0, 1.5, 0.15),
    (5.0, 1.5, 0.15),
)


def rows_at_start(rule, n, target) -> int:
    few, half, many, share = rule
    for errors in range(max(few, many), 0, -1):
        rows = rows_to_pass(errors, target.risk, target.delta)
        if rows <= (share if errors > few else half) * n:
            return rows
    return target.fewest()


def start_coverages(repeats, sizes=(300, 1_000, 3_000, 10_000)) -> Iterator[tuple[str, int, float]]:
    """Yield the share of rows that each rule accepts, of each size, over models and risks."""
    found = {(name, n): [] for name in STARTS for n in sizes}
    rng = np.random.default_rng(2)
    for centre, spread, slope in SHAPES:
        for n in sizes:
            drawn = []
            for _ in range(repeats):
                odds = rng.normal(centre, spread, n)
                right = expit(centre + slope * (odds - centre))
                drawn.append(Counts.of(expit(odds), rng.random(n) < right))
            for risk in (0.01, 0.02, 0.05, 0.1):
                target = Target(risk=risk, delta=0.05)
                for name, rule in STARTS.items():
                    start = rows_at_start(rule, n, target)
                    places = [walk(counts, target, start=start) for counts in drawn]
                    pairs = zip(drawn, places, strict=True)
                    accepted = [0 if at is None else c.accepted[at] for c, at in pairs]
                    found[name, n].append(np.mean(accepted) / n)
    yield from ((name, n, float(np.mean(values))) for (name, n), values in found.items())


def show(name, n, more, found) -> None:
    shares = f"{100 * found.broken:8.2f}{100 * found.found:8.1f}{100 * found.coverage:10.1f}"
    print(f"{name:<18}{n:7,}{more:>12}{shares}", flush=True)


def show_models(repeats) -> None:
    print(f"Risk 2 %, confidence 95 %, {repeats:,} repetitions: in percent of them\n")
    print(f"{'model':<18}{'rows':>7}{'rule':>12}{'broken':>8}{'found':>8}{'coverage':>10}")
    for name, model in MODELS.items():
        for n in (160, 400, 1_000, 3_000):
            for rule in ("accepted", "all"):
                target = Target(risk=0.02, delta=0.05, rule=rule)
                show(name, n, rule, broken(model, n, target, repeats=repeats))


def show_groups(repeats) -> None:
    print("\nFour groups of 600 rows: broken where the promise fails in any\n")
    mixes = {"all flat": [flat] * 4, "mixed": [calibrated, flat, ties, saturated]}
    for name, models in mixes.items():
        for correction in ("bonferroni", "holm"):
            how = {"correction": correction, "repeats": repeats}
            target = Target(risk=0.02, delta=0.05)
            show(name, 2_400, correction, broken_by_group(models, [600] * 4, target, **how))


def show_cross(repeats) -> None:
    print(f"\nOn the rows of the fit, out of fold, risk 10 %, {repeats:,} repetitions\n")
    for method in ("ts-nll", "srts-bce", "default"):
        for n in (400, 1_500):
            show(method, n, "", broken_cross(method, n, repeats=repeats))


def show_starts(repeats) -> None:
    print("\nWhere the walk begins: rows accepted, percent, over eight models and four risks\n")
    rules: dict[str, list[float]] = {}
    for name, _, coverage in start_coverages(repeats):
        rules.setdefault(name, []).append(coverage)
    print(f"{'':<32}{'300':>8}{'1,000':>8}{'3,000':>8}{'10,000':>8}")
    for name, coverages in rules.items():
        print(f"{name:<32}" + "".join(f"{100 * coverage:8.1f}" for coverage in coverages))
    rule, target = STARTS["3 in half, else 20 in a fifth"], Target(risk=0.02, delta=0.05)
    assert all(rows_at_start(rule, n, target) == start_rows(n, 0.02, 0.05) for n in (200, 9_000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2_000)
    repeats = parser.parse_args().repeats
    show_models(repeats)
    show_groups(repeats)
    show_cross(max(20, repeats // 10))
    show_starts(max(20, repeats // 10))


if __name__ == "__main__":
    main()

"""Do 95 % intervals hold the truth 95 % of the time? `python benchmarks/coverage_study.py`.

In each world logits come from a known generator and labels from known probabilities, so that every
metric has a known population value. Many test sets are drawn; each gets its intervals, of two
methods and of their difference; the table counts how often they hold that value. Worlds with few
errors have a table of their own: there some sets are given no interval.

Not named coverage.py: that would hide the package coverage from numba and pytest-cov.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import smallcal as sc
from smallcal.data.special import softmax
from smallcal.metrics.binned import DEFAULT_BINS, bin_sums, equal_mass, equal_width
from smallcal.metrics.proper import FLOOR
from smallcal.metrics.scored import Scored
from smallcal.metrics.smooth import smece_exact

MEANS = ("accuracy", "nll", "brier", "top_label_bce")
BINNED = ("ece15", "adaece15")
OTHERS = ("cwece15", "smece_exact")
SIZES = (500, 3_000, 10_000)
#: Rows at a time when the population values are computed.
BLOCK = 50_000


@dataclass(frozen=True)
class World:
    """What is drawn: from rows and a generator to true chances and two methods' probabilities.

    ``sizes`` are its own test sets, where those of all worlds are not meant.
    """

    name: str
    draw: Callable
    sizes: tuple[int, ...] = ()


def temperatures(classes, scale, strength, first, second, true=1.6):
    """Labels follow softmax(z / true); the methods divide by other temperatures."""

    def draw(n, rng):
        z = rng.normal(size=(n, classes))
        z[np.arange(n), rng.integers(classes, size=n)] += strength * rng.random(n)
        return [softmax(scale * z / t) for t in (true, first, second)]

    return draw


def two_columns(confidence):
    return np.column_stack([confidence, 1 - confidence])


def wavy(n, rng):
    """Two classes; the first method is too sure and not sure enough in turn, the other exact."""
    confidence = 0.5 + 0.5 * rng.beta(2, 1.2, size=n)
    gap = 0.09 * np.sin(2 * np.pi * (confidence - 0.5) / 0.13)
    chance = np.clip(confidence - gap * np.minimum(1, (1 - confidence) / 0.1), 0, 1)
    return [two_columns(values) for values in (chance, confidence, chance)]


def rounded(n, rng):
    """Two classes and two calibrated methods; the second one knows less."""
    chance = 0.5 + 0.5 * rng.random(n)
    cell = np.minimum((10 * (chance - 0.5)).astype(int), 4)
    return [two_columns(values) for values in (chance, chance, 0.55 + cell / 10)]


def posteriors(frequencies, distance, first, second, noise=0.0):
    """Classes are normal; the methods multiply the true log-odds, the second adds noise before."""

    def draw(n, rng):
        z = rng.normal(size=(n, len(frequencies)))
        z[np.arange(n), rng.choice(len(frequencies), size=n, p=frequencies)] += distance
        z = np.log(frequencies) + distance * z
        noisy = z + noise * rng.normal(size=z.shape)
        return [softmax(z), softmax(first * z), softmax(second * noisy)]

    return draw


#: What confidences are like: log-odds as they should be, too large, or so large that many are 1.
CONFIDENCES = {
    "calibrated, overconfident": (1, 2.5),
    "overconfident, saturated": (2.5, 12, 1.5),
    "calibrated, a noisy one": (1, 1, 1.5),
}
FEW = tuple(
    World(f"{name}: {kind}", posteriors(*drawn, *given), sizes)
    for name, drawn, sizes in (
        ("99 % right", ([0.2] * 5, 3.95), (200, 3_000)),
        ("99.5 % right", ([0.2] * 5, 4.3), (300, 6_000)),
        ("95 % in one class", ([0.95, *[0.0125] * 4], 2.0), (200, 1_000)),
    )
    for kind, given in CONFIDENCES.items()
)
WORLDS = (
    World("10 classes: raw, better", temperatures(10, 2, 5, 1.0, 1.5)),
    World("10 classes: raw, calibrated", temperatures(10, 2, 5, 1.0, 1.6)),
    World("100 classes: raw, calibrated", temperatures(100, 2, 7, 1.0, 1.6)),
    World("10 classes: near tie of two bad", temperatures(10, 2, 5, 1.0, 1.03)),
    World("100 classes: near tie, opposite errors", temperatures(100, 2, 7, 1.5, 1.7)),
    World("88 % right: raw, calibrated", temperatures(10, 4, 8, 1.0, 1.6)),
    World("2 classes: wavy, calibrated", wavy),
    World("2 classes: both calibrated", rounded),
)
PAIR = ("first", "second")
DIFFERENCE = "difference"


def draw_set(world, n, rng):
    """Draw a test set: labels, and each method's probabilities."""
    chance, *probas = world.draw(n, rng)
    steps = chance.cumsum(axis=1)
    labels = (steps > steps[:, -1:] * rng.random((n, 1))).argmax(axis=1)
    return labels, dict(zip(PAIR, probas, strict=True))


def gap_sums(chance, p, edges):
    """Return the sums over rows of what each metric expects; several where they are added up."""
    rows, top = np.arange(len(p)), p.argmax(axis=1)
    hit, confidence = chance[rows, top], p[rows, top]
    logs = np.log(np.maximum(p, FLOOR))
    others = np.where(np.arange(p.shape[1]) == top[:, None], 0, p).sum(axis=1)
    doubt = np.log(np.maximum(others, FLOOR))  # 1 - confidence has lost its digits
    cells = equal_width(p, DEFAULT_BINS) + DEFAULT_BINS * np.arange(p.shape[1])
    mass = np.minimum(np.searchsorted(edges, confidence, side="right"), DEFAULT_BINS - 1)
    gap = confidence - hit
    return {
        "accuracy": hit.sum(),
        "nll": -(chance * logs).sum(),
        "brier": ((p**2).sum(axis=1) - 2 * (chance * p).sum(axis=1) + 1).sum(),
        "top_label_bce": -(hit * np.log(confidence) + (1 - hit) * doubt).sum(),
        "ece15": bin_sums(equal_width(confidence, DEFAULT_BINS), gap, DEFAULT_BINS),
        "adaece15": bin_sums(mass, gap, DEFAULT_BINS),
        "cwece15": bin_sums(cells.ravel(), (p - chance).ravel(), p.shape[1] * DEFAULT_BINS)
        / p.shape[1],
    }


def population(world, rows, seed=1):
    """Return the true value of every metric by (method, metric), from known probabilities.

    Labels are never drawn: what is left of chance is that of the logits of so many rows.
    """
    rng = np.random.default_rng([seed, rows])
    pilot = world.draw(BLOCK, rng)
    edges = [_mass_edges(p.max(axis=1)) for p in pilot[1:]]
    sums, smooth = {}, {}
    for start in range(0, rows, BLOCK):
        chance, *probas = world.draw(min(BLOCK, rows - start), rng)
        for name, p, cut in zip(PAIR, probas, edges, strict=True):
            for metric, total in gap_sums(chance, p, cut).items():
                sums[name, metric] = sums.get((name, metric), 0.0) + total
            if start < 4 * BLOCK:
                smooth.setdefault(name, []).append(_smooth_error(chance, p))
    # One rule for all: where there are several sums, one per bin, their sizes add up.
    truth = {key: float(np.abs(total).sum() / rows) for key, total in sums.items()}
    truth |= {(name, "smece_exact"): float(np.mean(found)) for name, found in smooth.items()}
    for metric in (*MEANS, *BINNED, *OTHERS):
        first, second = (truth[name, metric] for name in PAIR)
        truth[DIFFERENCE, metric] = second - first
    return truth


def _mass_edges(confidence):
    """Return the largest confidence of each bin of equal count but the last."""
    index = equal_mass(confidence, DEFAULT_BINS)
    return np.array([confidence[index == i].max() for i in range(DEFAULT_BINS - 1)])


def _smooth_error(chance, p):
    """Return the smooth error of expected residuals: the metric reads nothing else."""
    scored = Scored.of(np.zeros(len(p), dtype=int), p)
    hit = chance[np.arange(len(p)), p.argmax(axis=1)]
    object.__setattr__(scored, "residual", scored.confidence - hit)
    return smece_exact.of(scored)


def intervals(world, n, n_boot, metrics, seed):
    """Draw one test set and return its intervals by (method, metric), differences too."""
    rng = np.random.default_rng(seed)
    labels, probas = draw_set(world, n, rng)
    options = {"n_boot": n_boot, "random_state": int(rng.integers(2**32))}
    found = sc.compare(labels, probas, baseline="first", metrics=metrics, **options)
    tables = found.value_intervals | {DIFFERENCE: found.intervals["second"]}
    return {(name, metric): row for name, rows in tables.items() for metric, row in rows.items()}


@dataclass(frozen=True)
class Coverage:
    """How the intervals of one quantity did over test sets.

    Attributes
    ----------
    truth : float
    held : float
        Share of test sets whose interval holds the truth.
    width : float
        Mean width of the intervals.
    plain, point : float
        Mean of the metric as it is, and of the estimate that the interval is about.
    bias_error : float
        Monte-Carlo standard error of the mean of the metric.
    inside : bool
        Whether every estimate lay in its interval.
    sets : int
    told : float
        Share of test sets that have an interval; all else is of these.
    """

    truth: float
    held: float
    width: float
    plain: float
    point: float
    bias_error: float
    inside: bool
    sets: int
    told: float

    @classmethod
    def of(cls, rows, truth):
        """Summarise the intervals of many test sets."""
        sets = len(rows)
        rows = [row for row in rows if not np.isnan(row.low)]
        if not rows:
            return cls(truth, *[np.nan] * 5, inside=True, sets=sets, told=0.0)
        plain, point = (np.array([getattr(row, key) for row in rows]) for key in ("plain", "point"))
        low, high = np.array([tuple(row) for row in rows]).T
        # A difference that is always the same has no width; its sums differ by rounding.
        held = (low <= truth + 1e-12) & (truth <= high + 1e-12)
        return cls(
            truth=truth,
            held=float(held.mean()),
            width=float((high - low).mean()),
            plain=float(plain.mean()),
            point=float(point.mean()),
            bias_error=float(plain.std() / np.sqrt(len(rows))),
            inside=bool(((low <= point) & (point <= high)).all()),
            sets=sets,
            told=len(rows) / sets,
        )

    @property
    def share(self):
        """Return the share that held, in percent."""
        return f"{100 * self.held:.1f}"


def study(world, truth, n, sets, n_boot, metrics=BINNED):
    """Return the coverage of every quantity, by (method, metric)."""
    found = [intervals(world, n, n_boot, metrics, [n, i]) for i in range(sets)]
    return {key: Coverage.of([row[key] for row in found], truth[key]) for key in found[0]}


def _job(task):
    place, options, metrics = task
    world = (*FEW, *WORLDS)[place]
    truth, sizes = population(world, options.rows), world.sizes or options.sizes
    return {n: study(world, truth, n, options.sets, options.boot, metrics) for n in sizes}


def table(found, sizes, metrics):
    """Return the lines of a Markdown table: by world and size, first / second / difference."""
    lines = [
        f"| simulation | metric | truth % | {' | '.join(f'{n:,} samples' for n in sizes)} |",
        "|---|---|---|" + "---|" * len(sizes),
    ]
    for world, by_size in zip(WORLDS, found, strict=True):
        for metric in metrics:
            rows = [[by_size[n][name, metric] for name in (*PAIR, DIFFERENCE)] for n in sizes]
            truth = " / ".join(f"{100 * row.truth:.2f}" for row in rows[0])
            # A temperature never changes the prediction: accuracies do not differ.
            shares = [" / ".join(row.share if row.width else "–" for row in of) for of in rows]
            lines.append(f"| {world.name} | {metric} | {truth} | {' | '.join(shares)} |")
    return lines


def few_table(found, metrics):
    """Return the lines of the table of worlds with few errors: a row for each size."""
    lines = [
        f"| simulation | samples | {' | '.join(metrics)} |",
        "|---|---|" + "---|" * len(metrics),
    ]
    for world, by_size in zip(FEW, found, strict=True):
        for n, by_key in by_size.items():
            cells = [
                " / ".join(_told(by_key[name, metric]) for name in (*PAIR, DIFFERENCE))
                for metric in metrics
            ]
            lines.append(f"| {world.name} | {n:,} | {' | '.join(cells)} |")
    return lines


def _told(row):
    """Write a coverage, and of which share of test sets where that is not all."""
    if row.told < 0.02:
        return "–"
    return row.share + (f" ({100 * row.told:.0f})" if row.told < 0.995 else "")


def worst(found, metrics):
    """Return the range of coverages of some metrics, and whether estimates lay inside."""
    rows = [
        row
        for by_size in found
        for by_key in by_size.values()
        for (_, metric), row in by_key.items()
        if metric in metrics and row.width > 0 and row.told > 0.5
    ]
    held = [row.held for row in rows]
    return min(held), max(held), all(row.inside for row in rows)


MARKS = ("<!-- coverage -->", "<!-- end of coverage -->")
FEW_MARKS = ("<!-- few errors -->", "<!-- end of few errors -->")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="samples in a test set")
    parser.add_argument("--sets", type=int, default=800, help="test sets")
    parser.add_argument("--boot", type=int, default=500, help="resamples of each test set")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows behind the truth")
    parser.add_argument("--metrics", nargs="+", default=BINNED, help="what to look at")
    parser.add_argument("--few", action="store_true", help="only the worlds with few errors")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path, help="put the table into this page, between marks")
    options = parser.parse_args()
    start = time.perf_counter()
    few_metrics = (*MEANS, "ece15")
    tasks = [(place, options, few_metrics) for place in range(len(FEW))]
    if not options.few:
        tasks += [(len(FEW) + place, options, options.metrics) for place in range(len(WORLDS))]
    with ProcessPoolExecutor(options.jobs) as pool:
        found = list(pool.map(_job, tasks))
    few, found = found[: len(FEW)], found[len(FEW) :]
    tables = [(FEW_MARKS, few_table(few, few_metrics), few, few_metrics)]
    if found:
        own = table(found, options.sizes, options.metrics)
        tables.append((MARKS, own, found, options.metrics))
    for marks, lines, rows, metrics in tables:
        for metric in metrics:
            low, high, inside = worst(rows, [metric])
            kept = "lies in its interval every time" if inside else "is left out of some intervals"
            lines += ["", f"{metric}: {100 * low:.1f} to {100 * high:.1f} %; the estimate {kept}."]
        print("\n".join(lines))
        if options.write:
            text = options.write.read_text()
            before, rest = text.split(marks[0])
            _, after = rest.split(marks[1])
            body = "\n".join(["", *lines, ""])
            options.write.write_text(before + marks[0] + body + marks[1] + after)
    print(f"\n{options.sets:,} test sets each, {options.boot:,} resamples; ", end="")
    print(f"{time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

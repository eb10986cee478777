"""Is the default right for every kind of model? `python benchmarks/no_harm.py FOLDER`.

FOLDER holds .npz files with val_logits, val_labels, test_logits, test_labels, one per model; each
folder inside it that holds such files is a kind of model of its own. Every method is fitted on
draws of the validation samples, at each size, and measured on the test samples. Finished parts are
kept in --out, so that a run that was stopped goes on where it was; delete that folder when a method
has changed. --write PAGE puts the tables into a page. Exit code 1: the default is behind somewhere.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse
import json
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

import smallcal as sc
from smallcal.calibrators.catalogue import METHODS
from smallcal.calibrators.maps.temperature import ScalarMap

DEFAULT, SCALING = "smallcal", "ts-nll"
RIVALS = (
    "none",
    SCALING,
    "tva-ts",
    "srts-bce",
    "vector-scaling",
    "signal-linear",
    "class-linear",
    "probmetrics:svs",
    "probmetrics:sms",
)
#: Those among them that never change a prediction.
KEEPERS = tuple(name for name in RIVALS if METHODS[name].keeps_argmax)
BUDGETS = (150, 250, 1000, 2500)
#: Of the probabilities, and of the confidence that they give to the model's own prediction.
METRICS = ("ece15", "top_label_bce", "nll", "brier")
OF_OWN = ("ece15", "top_label_bce")
HEADS = ("ECE", "top-label log-loss", "log-loss", "Brier score", "own ECE", "own log-loss")
TOP = METRICS.index("top_label_bce")
NLL = METRICS.index("nll")
#: After the six that are compared: accuracy, log-loss on the calibration samples themselves, and
#: whether the default fell back to temperature scaling.
ACCURACY, ON_OWN_SAMPLES, FELL_BACK = len(HEADS), len(HEADS) + 1, len(HEADS) + 2
#: What ties: the interval includes 0, and the mean is worse by at most this share.
MARGIN = 0.05
#: A test log-loss (x100) further above temperature scaling's than this is harm.
HARM = 2.0
#: Kinds that are shown but too small to judge by.
SHOWN_ONLY = ("large",)
FINE_TUNED = "fine-tuned"
BEGIN, END = "<!-- begin no-harm -->", "<!-- end no-harm -->"


def kinds_in(folder):
    """Return the models of each kind, by the name of their folder."""
    found = {FINE_TUNED: sorted(folder.glob("*.npz"))}
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        fit = [path for path in sorted(inner.glob("*.npz")) if _is_model(path)]
        if fit:
            found[inner.name] = fit
    last = {kind: found.pop(kind) for kind in SHOWN_ONLY if kind in found}
    return {kind: paths for kind, paths in (found | last).items() if paths}


def _is_model(path):
    with np.load(path) as file:
        return {"val_logits", "test_logits"} <= set(file.files)


def draw_rows(n, budget, draw):
    """Return the calibration samples of one draw: the same for every method."""
    return np.random.default_rng([budget, draw]).choice(n, min(n, budget), replace=False)


def scores_of(calibrator, fitted_on, test, truth):
    """Return the numbers of one fit: see ``HEADS`` and what follows them."""
    proba = calibrator.predict_proba(test)
    found = sc.evaluate(truth, proba, metrics=(*METRICS, "accuracy"))
    predicted = test.argmax(axis=1)
    own = np.minimum(proba[np.arange(len(test)), predicted].astype(np.float64), 1)
    of_own = sc.evaluate((predicted == truth).astype(int), own, metrics=OF_OWN)
    z, y = fitted_on
    there = sc.evaluate(y, calibrator.predict_proba(z), metrics=("nll",))
    fell_back = calibrator.method_ == DEFAULT and isinstance(calibrator.fitted_.map, ScalarMap)
    return [
        *(found[metric] for metric in METRICS),
        *(of_own[metric] for metric in OF_OWN),
        found["accuracy"],
        there["nll"],
        float(fell_back),
    ]


def measure(path, kind, budget, draws, names, out):
    """Fit and measure the methods that a part does not have yet."""
    store = out / f"{kind}__{path.stem}__{budget}.json"
    done = json.loads(store.read_text()) if store.exists() else {}
    missing = [name for name in names if len(done.get(name, ())) < draws]
    if not missing:
        return
    warnings.simplefilter("ignore")
    with np.load(path) as file:
        val, labels = file["val_logits"].astype(np.float64), file["val_labels"]
        test, truth = file["test_logits"].astype(np.float64), file["test_labels"]
    for name in missing:
        rows = []
        for draw in range(draws):
            if rows and budget >= len(val):  # every draw is the whole split
                rows.append(rows[0])
                continue
            take = draw_rows(len(val), budget, draw)
            given = val[take], labels[take]
            rows.append(scores_of(sc.make(name).fit(*given), given, test, truth))
        done[name] = rows
    part = store.with_suffix(".part")
    part.write_text(json.dumps(done))
    os.replace(part, store)


def collect(kinds, options, names):
    """Run what is missing; return the results of each kind as (budget, method, model, draw, x)."""
    options.out.mkdir(parents=True, exist_ok=True)
    parts = [
        (path, kind, budget)
        for budget in options.budgets
        for kind, paths in kinds.items()
        for path in paths
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(measure, *part, options.draws, names, options.out) for part in parts]
        for finished, job in enumerate(as_completed(jobs), 1):
            job.result()
            print(f"\r{finished} of {len(parts)} parts", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {kind: gathered(kind, paths, options, names) for kind, paths in kinds.items()}


def gathered(kind, paths, options, names):
    """Return the stored results of one kind, x100, as (budget, method, model, draw, x)."""

    def stored(path, budget):
        found = json.loads((options.out / f"{kind}__{path.stem}__{budget}.json").read_text())
        return [found[name][: options.draws] for name in names]

    values = [[stored(path, budget) for path in paths] for budget in options.budgets]
    return 100 * np.array(values).swapaxes(1, 2)


def interval(differences, n_boot=4000):
    """Return a 95 % percentile interval of the mean over models, by resampling models."""
    rng = np.random.default_rng(0)
    rows = rng.integers(len(differences), size=(n_boot, len(differences)))
    return np.quantile(differences[rows].mean(axis=1), [0.025, 0.975], axis=0)


class Results:
    """Percent metrics of every method: (model, draw, metric) at each budget, of one kind."""

    def __init__(self, values, options, names):
        self.values, self.names, self.budgets = values, names, list(options.budgets)
        self.rivals = [name for name in names if name != DEFAULT]

    def of(self, budget, name):
        """Return one method's metrics at one budget."""
        return self.values[self.budgets.index(budget), self.names.index(name)]

    def against(self, budget, rival):
        """Return for each metric: ahead, tied or behind; by how much; and the interval."""
        ours, theirs = (
            self.of(budget, name)[..., : len(HEADS)].mean(axis=1) for name in (DEFAULT, rival)
        )
        low, high = interval(ours - theirs)
        gap, allowed = (ours - theirs).mean(axis=0), MARGIN * theirs.mean(axis=0)
        tied = (low <= 0) & (gap <= allowed)
        words = np.where(high < 0, "ahead", np.where(tied, "tied", "behind"))
        return list(zip(words, gap, low, high, strict=True))

    def harm(self, budget):
        """Return whether the test log-loss is above temperature scaling's by over HARM, by fit."""
        ours, theirs = (self.of(budget, name)[..., NLL] for name in (DEFAULT, SCALING))
        return ours > theirs + HARM

    def above(self, budget):
        """Return whether log-loss on the fit's own samples is above temperature scaling's."""
        ours, theirs = (self.of(budget, name)[..., ON_OWN_SAMPLES] for name in (DEFAULT, SCALING))
        return ours > theirs + 1e-4


def table(results, budget):
    """Yield every method's means at one budget, with what the intervals say of the default."""
    yield f"| method | {' | '.join(HEADS)} | accuracy |"
    yield "|---" * (len(HEADS) + 2) + "|"
    marks = {"ahead": "", "tied": " =", "behind": " <"}
    for name in (*results.rivals, DEFAULT):
        mean = results.of(budget, name).mean(axis=(0, 1))
        cells = [f"{value:.2f}" for value in mean[: len(HEADS)]]
        if name != DEFAULT:
            found = results.against(budget, name)
            cells = [cell + marks[row[0]] for cell, row in zip(cells, found, strict=True)]
        yield f"| `{name}` | {' | '.join(cells)} | {mean[ACCURACY]:.2f} |"


def standing(results, budget):
    """Return first, tied or behind for each metric, judged against every rival."""
    rows = [results.against(budget, name) for name in results.rivals]
    for each in zip(*rows, strict=True):
        words = [row[0] for row in each]
        if "behind" in words:
            yield "**behind**"
        else:
            yield "first" if all(row[1] <= 0 for row in each) else "tied"


def verdicts(kinds):
    """Yield where the default is first, tied or behind, by kind and budget."""
    yield f"| kind | samples | {' | '.join(HEADS)} |"
    yield "|---" * (len(HEADS) + 2) + "|"
    for kind, results in kinds.items():
        for budget in results.budgets:
            yield f"| {kind} | {budget:,} | {' | '.join(standing(results, budget))} |"


def losses(kinds):
    """Yield every comparison in which the default is behind."""
    for kind, results in kinds.items():
        for budget in results.budgets:
            for name in results.rivals:
                found = results.against(budget, name)
                for head, (word, gap, low, high) in zip(HEADS, found, strict=True):
                    if word == "behind":
                        theirs = results.of(budget, name)[..., HEADS.index(head)].mean()
                        yield (
                            f"{kind}, {budget:,} samples, {head}: {theirs + gap:.2f} against "
                            f"{theirs:.2f} of `{name}` ({gap:+.2f}, {low:+.2f} to {high:+.2f})"
                        )


def robustness(kinds):
    """Yield how many fits end above temperature scaling, and how many fell back to it."""
    yield (
        f"| kind | fits | test log-loss more than {HARM / 100:.2f} above temperature scaling's | "
        "log-loss on the calibration set above it | fell back to temperature scaling |"
    )
    yield "|---|---|---|---|---|"
    whole = np.zeros(4, dtype=int)
    for kind, results in kinds.items():
        parts = [
            (
                results.harm(budget).size,
                results.harm(budget).sum(),
                results.above(budget).sum(),
                (results.of(budget, DEFAULT)[..., FELL_BACK] > 0).sum(),
            )
            for budget in results.budgets
        ]
        counts = np.sum(parts, axis=0)
        whole += counts
        yield f"| {kind} | {' | '.join(map(str, counts))} |"
    yield f"| all | {' | '.join(map(str, whole))} |"


def report(kinds, draws):
    """Return everything as Markdown."""
    judged = {kind: results for kind, results in kinds.items() if kind not in SHOWN_ONLY}
    behind = list(losses(judged))
    sizes = ", ".join(f"{results.values.shape[2]} {kind}" for kind, results in kinds.items())
    lines = [
        f"{sizes}; {draws} draws per size (a split smaller than the size is used whole, once). All "
        "numbers x100; lower is better, except accuracy.",
        "\n### First, tied or behind\n",
        f"`{DEFAULT}` against {len(RIVALS)} other methods. First: the lowest mean. Tied: against "
        "each method with a lower mean, the paired 95 % interval over models includes 0 and the "
        f"mean is at most {100 * MARGIN:.0f} % worse. *Own* is the confidence of the model's own "
        "predictions.\n",
        *verdicts(judged),
        "\nBehind (mean of the default, mean of the other, difference with 95 % interval):\n"
        if behind
        else "\nThe default is behind nowhere.",
        *(f"- {line}" for line in behind),
        "\n### Robustness\n",
        *robustness(kinds),
    ]
    for kind, results in kinds.items():
        shown = 250 if 250 in results.budgets else results.budgets[0]
        lines += [
            f"\n### {kind.capitalize()}, {shown:,} samples\n",
            f"= tied with `{DEFAULT}`; < `{DEFAULT}` is behind; no mark: `{DEFAULT}` is ahead."
            if results.values.shape[2] > 1
            else "One model: marks mean little.",
            "",
            *table(results, shown),
        ]
        for budget in results.budgets:
            if budget != shown:
                lines += [
                    "\n<details>",
                    f"<summary>{kind.capitalize()}, {budget:,} samples</summary>\n",
                    *table(results, budget),
                    "\n</details>",
                ]
    return "\n".join(lines)


def write(page, text, marks=(BEGIN, END)):
    """Put the tables between the page's marks."""
    begin, end = marks
    whole = page.read_text(encoding="utf-8")
    before, _, rest = whole.partition(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], help="these methods alone")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/no-harm"))
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    return parser.parse_args()


def main():
    options = parse()
    kinds = kinds_in(options.folder)
    if not kinds:
        print(f"no .npz files in {options.folder}", file=sys.stderr)
        return 2
    names = list(dict.fromkeys((*(options.only or RIVALS), SCALING, DEFAULT)))
    values = collect(kinds, options, names)
    results = {kind: Results(values[kind], options, names) for kind in kinds}
    text = report(results, options.draws)
    print(text)
    if options.write is not None:
        write(options.write, text)
    judged = {kind: found for kind, found in results.items() if kind not in SHOWN_ONLY}
    return 1 if any(losses(judged)) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Is the default right for every kind of model? `python benchmarks/no_harm.py FOLDER`.

FOLDER holds .npz files with val_logits, val_labels, test_logits, test_labels, one per model; each
folder inside it that holds such files is a kind of model of its own. Every method is fitted on
draws of the validation rows, at each budget, and measured on the test rows. Finished parts are kept
in --out, so that a run that was stopped goes on where it was; delete that folder when a method has
changed. --write PAGE puts the tables into a page. Exit code 1: a promise was not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

import smallcal as sc
from smallcal.calibrators.catalogue import METHODS

#: The two views of the default: predictions kept, predictions free.
KEEPING, FREE = "adaptive", "adaptive-free"
RIVALS = (
    "none",
    "ts-nll",
    "tva-ts",
    "srts-bce",
    "margin-k3",
    "pwlinear-3",
    "hts-bce",
    "vector-scaling",
    "probmetrics:svs",
    "probmetrics:sms",
)
#: Other methods of ours, shown beside the default for what they teach.
RELATIVES = ("class-linear+tail", "class-linear+tail+gate")
BUDGETS = (100, 150, 250, 625, 1250, 2500)
METRICS = ("ece15", "top_label_bce", "nll", "brier", "accuracy")
HEADS = ("ECE", "top-label log-loss", "log-loss", "Brier score", "accuracy")
TOP = METRICS.index("top_label_bce")
#: Above the raw model's top-label log-loss (x100) by more than this is harm.
HARM = 0.5
#: Differences below this are rounding: a model left alone is as good as itself.
TINY = 1e-6
BEGIN, END = "<!-- begin no-harm -->", "<!-- end no-harm -->"
#: Those among the methods that never change a prediction.
KEEPERS = tuple(name for name in (*RIVALS, *RELATIVES) if METHODS[name].keeps_argmax)


def kinds_in(folder):
    """Return the models of each kind, by the name of their folder."""
    found = {"classifiers": sorted(folder.glob("*.npz"))}
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        fit = [path for path in sorted(inner.glob("*.npz")) if _is_model(path)]
        if fit:
            found[inner.name] = fit
    return {kind: paths for kind, paths in found.items() if paths}


def _is_model(path):
    with np.load(path) as file:
        return {"val_logits", "test_logits"} <= set(file.files)


def draw_rows(n, budget, draw):
    """Return the validation rows of one draw: the same for every method and model of that size."""
    return np.random.default_rng([budget, draw]).choice(n, min(n, budget), replace=False)


def measure(path, kind, budget, draws, names, out):
    """Fit and measure the methods that a part does not have yet; return how many there were."""
    store = out / f"{kind}__{path.stem}__{budget}.json"
    done = json.loads(store.read_text()) if store.exists() else {}
    missing = [name for name in names if len(done.get(name, ())) < len(draws)]
    if not missing:
        return 0
    warnings.simplefilter("ignore")
    with np.load(path) as file:
        val, labels = file["val_logits"], file["val_labels"]
        test, truth = file["test_logits"], file["test_labels"]
    for name in missing:
        rows = []
        for draw in draws:
            if rows and budget >= len(val):  # every draw is the whole split
                rows.append(rows[0])
                continue
            take = draw_rows(len(val), budget, draw)
            cal = sc.make(name).fit(val[take], labels[take])
            scores = sc.evaluate(truth, cal.predict_proba(test), metrics=METRICS)
            rows.append([scores[metric] for metric in METRICS])
        done[name] = rows
        part = store.with_suffix(".part")
        part.write_text(json.dumps(done))
        os.replace(part, store)
    return len(missing)


def collect(kinds, options, names):
    """Run what is missing; return the results of each kind as (budget, method, model, draw, x)."""
    options.out.mkdir(parents=True, exist_ok=True)
    parts = [
        (path, kind, budget)
        for budget in options.budgets
        for kind, paths in kinds.items()
        for path in paths
    ]
    drawn = range(options.first_draw, options.first_draw + options.draws)
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(measure, *part, drawn, names, options.out) for part in parts]
        for finished, job in enumerate(as_completed(jobs), 1):
            job.result()
            print(f"\r{finished} of {len(parts)} parts", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {kind: _gathered(kind, paths, options, names) for kind, paths in kinds.items()}


def _gathered(kind, paths, options, names):
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
        self.rivals = [name for name in names if name not in (KEEPING, FREE)]

    def of(self, budget, name):
        """Return one method's metrics at one budget."""
        return self.values[self.budgets.index(budget), self.names.index(name)]

    def keepers(self):
        """Return the rivals that never change a prediction."""
        return [name for name in self.rivals if name in KEEPERS]

    def against(self, budget, view, rival):
        """Return the verdict on each metric: better, tie or worse, and by how much."""
        ours, theirs = (self.of(budget, name)[..., :4].mean(axis=1) for name in (view, rival))
        low, high = interval(ours - theirs)
        words = np.where(high < 0, "better", np.where(low > 0, "worse", "tie"))
        return list(zip(words, (ours - theirs).mean(axis=0), strict=True))

    def harm(self, budget, view=KEEPING):
        """Return the share of draws whose top-label log-loss is above the raw one by over HARM."""
        return 100 * np.mean(
            self.of(budget, view)[..., TOP] > self.of(budget, "none")[..., TOP] + HARM
        )


def table(results, budget):
    """Yield every method's means at one budget, with what the intervals say of the free view."""
    yield "| method | ECE | top-label log-loss | log-loss | Brier score | accuracy |"
    yield "|---|---|---|---|---|---|"
    for name in (FREE, KEEPING, *results.rivals):
        mean = results.of(budget, name).mean(axis=(0, 1))
        cells = [f"{value:.2f}" for value in mean]
        if name in results.rivals:
            marks = {"better": "", "tie": " =", "worse": " <"}
            found = results.against(budget, FREE, name)
            cells = [
                cell + marks[word] for cell, (word, _) in zip(cells, found, strict=False)
            ] + cells[4:]
        yield f"| `{name}` | " + " | ".join(cells) + " |"


def verdicts(kinds):
    """Yield how often each view is better, tied or worse, by kind and budget."""
    yield "| kind | samples | free: better / tie / worse | kept: better / tie / worse | harm |"
    yield "|---|---|---|---|---|"
    for kind, results in kinds.items():
        for budget in results.budgets:
            counts = []
            for view, rivals in ((FREE, results.rivals), (KEEPING, results.keepers())):
                words = [word for name in rivals for word, _ in results.against(budget, view, name)]
                counts.append(" / ".join(str(words.count(w)) for w in ("better", "tie", "worse")))
            yield f"| {kind} | {budget:,} | {' | '.join(counts)} | {results.harm(budget):.1f} % |"


def losses(kinds):
    """Yield every comparison that is lost beyond chance."""
    for kind, results in kinds.items():
        for budget in results.budgets:
            for view, rivals in ((FREE, results.rivals), (KEEPING, results.keepers())):
                for name in rivals:
                    for metric, (word, gap) in enumerate(results.against(budget, view, name)):
                        if word == "worse":
                            yield kind, budget, view, name, HEADS[metric], gap


def report(kinds, draws):
    """Return everything as Markdown."""
    lost = list(losses(kinds))
    sizes = ", ".join(f"{results.values.shape[2]} {kind}" for kind, results in kinds.items())
    lines = [
        f"{sizes}; {draws} draws at each budget (a split smaller than a budget is used whole, "
        "once); everything x100, lower is better but for accuracy.",
        "\n### In all\n",
        "Each view against its rivals in ECE, top-label log-loss, log-loss and Brier score: "
        f"`{FREE}` against all of "
        f"them, `{KEEPING}` against those that keep predictions. Tie: the 95 % interval, models "
        "resampled, holds zero. Harm: draws in which top-label log-loss "
        f"of `{KEEPING}` ends more than {HARM} "
        "above the raw model's.\n",
        *verdicts(kinds),
        "\nLost beyond chance:\n" if lost else "\nNo comparison is lost beyond chance.",
        *(
            f"- {kind}, {budget:,} samples: `{view}` to `{name}`, {metric} {gap:+.2f}"
            for kind, budget, view, name, metric, gap in lost
        ),
    ]
    for kind, results in kinds.items():
        shown = 250 if 250 in results.budgets else results.budgets[0]
        lines += [
            f"\n### {kind.capitalize()}, {shown} samples\n",
            f"= marks a tie with `{FREE}`, < where `{FREE}` is worse.\n",
            *table(results, shown),
        ]
    return "\n".join(lines)


def promises(kinds):
    """Yield what the default promises, and whether it holds: (what, kept)."""
    lost = [row for row in losses(kinds) if row[1] >= 150]
    for view in (FREE, KEEPING):
        mine = [row for row in lost if row[2] == view]
        yield f"{view} loses nothing beyond chance from 150 samples on", not mine
    if all(250 in results.budgets for results in kinds.values()):
        sizes = [results.values.shape[2] for results in kinds.values()]
        harm = np.average([results.harm(250) for results in kinds.values()], weights=sizes)
        yield f"harm in at most 2 % of draws at 250 ({harm:.1f} %)", harm <= 2


def write(page, text, marks=(BEGIN, END)):
    """Put the tables between the page's marks."""
    begin, end = marks
    whole = page.read_text(encoding="utf-8")
    before, _, rest = whole.partition(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument(
        "--first-draw", type=int, default=0, help="give other draws their own --out"
    )
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
    names = list(dict.fromkeys((KEEPING, FREE, *(options.only or RIVALS + RELATIVES))))
    values = collect(kinds, options, names)
    results = {kind: Results(values[kind], options, names) for kind in kinds}
    text = report(results, options.draws)
    print(text)
    if options.write is not None:
        write(options.write, text)
    kept = list(promises(results))
    for what, holds in kept:
        print(f"{'kept' if holds else 'NOT KEPT'}: {what}", file=sys.stderr)
    return 0 if all(holds for _, holds in kept) else 1


if __name__ == "__main__":
    sys.exit(main())

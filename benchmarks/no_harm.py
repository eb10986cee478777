"""Does the default do no harm? `python benchmarks/no_harm.py FOLDER [--write docs/no-harm.md]`.

FOLDER holds .npz files with val_logits, val_labels, test_logits, test_labels, one per model. Each
method is fitted on draws of the validation rows, at each budget, and measured on the test rows.
Finished parts are kept in --out, so that a run that was stopped goes on where it was; delete that
folder when a method has changed. Exit code 1: a promise was not kept.
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

OURS = "default"
BASELINE = "tva-ts"
RIVALS = (
    "none",
    "ts-nll",
    "tva-ts",
    "srts-bce",
    "margin-k3",
    "pwlinear-3",
    "hts-bce",
    "probmetrics:svs",
    "probmetrics:sms",
    "smart-bce",
)
#: Other methods of ours, shown beside the default for what they teach.
RELATIVES = (
    "tva-ts+tail",
    "srts-shrunk",
    "srts-shrunk+tail",
    "signal-linear",
    "signal-linear+tail",
    "signal-linear+tail+gate",
    "class-linear",
    "class-linear+tail",
)
BUDGETS = (100, 150, 250, 625, 1250, 2500)
METRICS = ("ece15", "adaece15", "smece", "top_label_bce", "nll", "brier")
HEADS = ("ECE15", "AdaECE15", "smECE", "TopBCE", "NLL", "Brier")
TOP = METRICS.index("top_label_bce")
#: Differences below this are rounding: a model left alone is as good as itself.
TINY = 1e-6
BEGIN, END = "<!-- begin no-harm -->", "<!-- end no-harm -->"


def draw_rows(n, budget, draw):
    """Return the validation rows of one draw: the same for every method and model of that size."""
    return np.random.default_rng([budget, draw]).choice(n, budget, replace=False)


def measure(path, budget, draws, names, out):
    """Fit and measure the methods that a part does not have yet; return how many there were."""
    store = out / f"{path.stem}__{budget}.json"
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
            take = draw_rows(len(val), budget, draw)
            cal = sc.make(name).fit(val[take], labels[take])
            scores = sc.evaluate(truth, cal.predict_proba(test), metrics=METRICS)
            rows.append([scores[metric] for metric in METRICS])
        done[name] = rows
        part = store.with_suffix(".part")
        part.write_text(json.dumps(done))
        os.replace(part, store)
    return len(missing)


def collect(paths, options, names):
    """Run what is missing, then return the results as (budget, method, model, draw, metric)."""
    options.out.mkdir(parents=True, exist_ok=True)
    parts = [(path, budget) for budget in options.budgets for path in paths]
    drawn = range(options.first_draw, options.first_draw + options.draws)
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = [
            pool.submit(measure, path, budget, drawn, names, options.out) for path, budget in parts
        ]
        for finished, job in enumerate(as_completed(jobs), 1):
            job.result()
            print(f"\r{finished} of {len(parts)} parts", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    stores = {
        (path, budget): json.loads((options.out / f"{path.stem}__{budget}.json").read_text())
        for path, budget in parts
    }
    return np.array(
        [
            [[stores[path, budget][name][: options.draws] for path in paths] for name in names]
            for budget in options.budgets
        ]
    )


def interval(differences, n_boot=4000):
    """Return a 95 % percentile interval of the mean over models, by resampling models."""
    rng = np.random.default_rng(0)
    rows = rng.integers(len(differences), size=(n_boot, len(differences)))
    return np.quantile(differences[rows].mean(axis=1), [0.025, 0.975], axis=0)


class Results:
    """Percent metrics of every method: (method, model, draw, metric) at each budget."""

    def __init__(self, values, options, names, models):
        self.values = 100 * values
        self.budgets, self.names, self.models = list(options.budgets), names, models
        self.draws = options.draws

    def of(self, budget, name):
        """Return one method's metrics at one budget: (model, draw, metric)."""
        return self.values[self.budgets.index(budget), self.names.index(name)]

    def harm(self, budget, name):
        """Return the share of draws in which a method's TopBCE is above the raw model's."""
        return share(self.of(budget, name)[..., TOP] > self.of(budget, "none")[..., TOP] + TINY)

    def wins(self, budget, name):
        """Return the share of draws in which a method's TopBCE is below one temperature's."""
        return share(self.of(budget, name)[..., TOP] < self.of(budget, BASELINE)[..., TOP] - TINY)


def share(found):
    return f"{100 * found.mean():.1f} %"


def tables(results):
    """Yield, for each budget, every method's means and how far they are from the default's."""
    for budget in results.budgets:
        yield f"\n### {budget:,} samples\n"
        yield f"| method | {' | '.join(HEADS)} | worse than raw | better than `{BASELINE}` |"
        yield "|---|" + "---|" * (len(HEADS) + 2)
        ours = results.of(budget, OURS).mean(axis=1)
        for name in [OURS, *(name for name in results.names if name != OURS)]:
            theirs = results.of(budget, name).mean(axis=1)
            low, high = interval(theirs - ours)
            cells = [
                f"{theirs[:, m].mean():.2f}"
                + ("" if name == OURS else f" [{low[m]:+.2f}, {high[m]:+.2f}]")
                for m in range(len(METRICS))
            ]
            cells += [results.harm(budget, name), results.wins(budget, name)]
            yield f"| `{name}` | " + " | ".join(cells) + " |"


def bars(results):
    """Yield each promise with what was measured: (promise, measured, kept)."""
    budgets = [budget for budget in results.budgets if budget >= 150]
    rivals = [name for name in RIVALS if name in results.names]
    mean = {
        (budget, name): results.of(budget, name).mean(axis=(0, 1))
        for budget in results.budgets
        for name in (OURS, *rivals)
    }
    for metric in ("ece15", "top_label_bce", "nll"):
        m = METRICS.index(metric)
        gaps = {
            (budget, name): mean[budget, name][m] - mean[budget, OURS][m]
            for budget in budgets
            for name in rivals
        }
        (budget, name), gap = min(gaps.items(), key=lambda entry: entry[1])
        yield (
            f"{HEADS[m]} at or below every rival's, from 150 samples on",
            f"nearest: `{name}` at {budget:,}, {gap:+.3f} behind",
            gap >= 0,
        )
    m = METRICS.index("brier")
    behind = max(
        mean[budget, OURS][m] - min(mean[budget, name][m] for name in rivals) for budget in budgets
    )
    yield "Brier at most 0.1 behind the best rival's", f"at most {behind:+.3f}", behind <= 0.1
    for budget, bar in ((250, 60), (2500, 80)):
        if budget in results.budgets:
            found = results.wins(budget, OURS)
            yield (
                f"TopBCE below `{BASELINE}`'s in over {bar} % of draws at {budget:,}",
                found,
                float(found[:-2]) > bar,
            )
    worse = np.mean([float(results.harm(budget, OURS)[:-2]) for budget in results.budgets])
    yield "TopBCE above the raw model's in under 2 % of all draws", f"{worse:.1f} %", worse < 2


def losses(results, most=8):
    """Yield where the default is furthest behind one temperature or the raw model in TopBCE."""
    rows = []
    for budget in results.budgets:
        ours = results.of(budget, OURS)[..., TOP].mean(axis=1)
        for name in (BASELINE, "none"):
            behind = ours - results.of(budget, name)[..., TOP].mean(axis=1)
            rows += [
                (gap, model, budget, name)
                for gap, model in zip(behind, results.models, strict=True)
                if gap > TINY
            ]
    yield "| model | samples | behind | by TopBCE |\n|---|---|---|---|"
    for gap, model, budget, name in sorted(rows, reverse=True)[:most]:
        yield f"| {model} | {budget:,} | `{name}` | {gap:.2f} |"
    total = 2 * len(results.budgets) * len(results.models)
    yield f"\nIn all, {len(rows)} of {total} such comparisons (model, budget, rival) are losses."


def report(results):
    """Return everything as Markdown."""
    lines = [
        f"`{OURS}` is `{sc.make(OURS).fit(*sample()).method_}`. {len(results.models)} models, "
        f"{results.draws} draws at each budget; everything x100, lower is better. Brackets: 95 % "
        "interval of the difference from the default, resampling models; one that holds zero is "
        "a tie.",
        "\n| promise | measured | kept |\n|---|---|---|",
        *(
            f"| {what} | {found} | {'yes' if kept else '**no**'} |"
            for what, found, kept in bars(results)
        ),
        *tables(results),
        "\n### Where it loses most\n",
        *losses(results),
    ]
    return "\n".join(lines)


def sample():
    """Return a split that any calibrator accepts, for the default's true name."""
    demo = sc.load_demo("cal")
    return demo.logits, demo.labels


def write(page, text, marks=(BEGIN, END)):
    """Put the tables between the page's marks."""
    begin, end = marks
    whole = page.read_text(encoding="utf-8")
    before, _, rest = whole.partition(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument(
        "--first-draw", type=int, default=0, help="give other draws their own --out"
    )
    parser.add_argument("--only", nargs="+", default=[], help="these rivals alone")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/no-harm"))
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    return parser.parse_args()


def main():
    options = parse()
    paths = sorted(options.folder.glob("*.npz"))
    if not paths:
        print(f"no .npz files in {options.folder}", file=sys.stderr)
        return 2
    names = [OURS, *(RIVALS + RELATIVES if not options.only else options.only)]
    values = collect(paths, options, names)
    results = Results(values, options, names, [path.stem for path in paths])
    text = report(results)
    print(text)
    if options.write is not None:
        write(options.write, text)
    return 0 if all(kept for _, _, kept in bars(results)) else 1


if __name__ == "__main__":
    sys.exit(main())

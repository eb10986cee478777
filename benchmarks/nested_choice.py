"""The default on a kind of model that its constants never saw: `nested_choice.py FOLDER`.

Run `benchmarks/no_harm.py FOLDER` first: the results of its rivals are read. Few of the default's
numbers are fixed and not the split's to decide. For each kind of model in turn, that kind is left
out, every fixed number is chosen among some values by the other kinds (the lowest mean of log-loss
and top-label log-loss over models, draws and budgets; one number at a time, the others as shipped,
which also wins ties), and the default with the chosen numbers is measured against all rivals on the
kind left out.
Finished parts are kept in --out. Exit code 1: the view that may change predictions loses there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

import no_harm
import smallcal as sc
from smallcal.calibrators.maps import correction_fit

BUDGETS = (150, 250, 625, 1250, 2500)
#: What is fixed: where it is kept, and its values, the shipped one first. Those without a module
#: are options of the method.
FIXED = {
    "directions": (correction_fit, "RANK", (5, 3, 8)),
    "size of biases seen": (correction_fit, "_BIAS_SEEN", (0.1, 0.03, 0.3)),
    "size of entries seen": (correction_fit, "_MIXING_SEEN", (0.02, 0.007, 0.06)),
    "degrees of freedom": (correction_fit, "_DEGREES", (4.0, 1e9)),
    "share of absent classes": (correction_fit, "_ABSENT", (0.2, 0.05, 1e-9)),
    "size of coefficients seen": (None, "prior_scale", (0.05, 0.02, 0.15)),
    "size of effects seen": (None, "class_scale", (0.1, 0.03, 0.3)),
}
SHIPPED = {name: values[0] for name, (_, _, values) in FIXED.items()}
CRITERION = [no_harm.METRICS.index(name) for name in ("nll", "top_label_bce")]


@contextmanager
def numbers(choice):
    """Let the default have these numbers; yield the options that go to the method."""
    options, before = {}, []
    for name, value in choice.items():
        module, key, _ = FIXED[name]
        if module is None:
            options[key] = value
        else:
            before.append((module, key, getattr(module, key)))
            setattr(module, key, value)
    try:
        yield options
    finally:
        for module, key, value in before:
            setattr(module, key, value)


def measure(task):
    """Return the metrics of both views with one choice of numbers, on one model at one budget."""
    path, budget, draws, choice, store = task
    if store.exists():
        return json.loads(store.read_text())
    warnings.simplefilter("ignore")
    with np.load(path) as file:
        val, labels = file["val_logits"], file["val_labels"]
        test, truth = file["test_logits"], file["test_labels"]
    rows = []
    for draw in range(draws):
        if rows and budget >= len(val):
            rows.append(rows[0])
            continue
        take = no_harm.draw_rows(len(val), budget, draw)
        both = []
        with numbers(choice) as options:
            fitted = sc.make(no_harm.FREE, **options).fit(val[take], labels[take]).fitted_
            for keep in (True, False):
                proba = replace(fitted, keep_predictions=keep).predict_proba(test)
                scores = sc.evaluate(truth, proba, metrics=no_harm.METRICS)
                both.append([scores[metric] for metric in no_harm.METRICS])
        rows.append(both)
    part = store.with_suffix(".part")
    part.write_text(json.dumps(rows))
    os.replace(part, store)
    return rows


def run(kind, paths, choice, draws, options, pool):
    """Return the percent metrics of one kind: (budget, view, model, draw, metric)."""
    changed = {name: value for name, value in choice.items() if value != SHIPPED[name]}
    key = "_".join(f"{FIXED[name][1]}={value:g}" for name, value in changed.items()) or "shipped"
    tasks = [
        (
            path,
            budget,
            draws,
            choice,
            options.out / f"{kind}__{path.stem}__{budget}__{draws}__{key}.json",
        )
        for budget in BUDGETS
        for path in paths
    ]
    found = np.array(list(pool.map(measure, tasks)))
    print(f"{kind}: {key}", file=sys.stderr, flush=True)
    # (budget, model, draw, view, metric) as it comes.
    return 100 * found.reshape(len(BUDGETS), len(paths), *found.shape[1:]).transpose(0, 3, 1, 2, 4)


def choose(others, costs):
    """Return for each number the value that the other kinds like best."""
    chosen = {}
    for name, (_, _, values) in FIXED.items():
        by_value = [np.mean([costs[kind][name, value] for kind in others]) for value in values]
        chosen[name] = values[int(np.argmin(by_value))]
    return chosen


def costs_of(kind, paths, options, pool):
    """Return the mean cost of each value of each number on one kind, the others as shipped."""
    found = {}
    for name, (_, _, values) in FIXED.items():
        for value in values:
            got = run(kind, paths, {**SHIPPED, name: value}, options.draws, options, pool)
            found[name, value] = float(got[..., CRITERION].mean())
    return found


def judged(kind, paths, mine, options):
    """Return the comparisons with every rival on the kind that was left out."""
    names = [*no_harm.RIVALS, *no_harm.RELATIVES]
    asked = argparse.Namespace(out=options.rivals, budgets=BUDGETS, draws=options.final_draws)
    theirs = no_harm._gathered(kind, paths, asked, names)
    names = [no_harm.KEEPING, no_harm.FREE, *names]
    return no_harm.Results(np.concatenate([mine, theirs], axis=1), asked, names)


def report(kinds, costs, chosen, results):
    """Yield the tables."""
    yield "| fixed number | values | " + " | ".join(f"without {kind}" for kind in kinds) + " |"
    yield "|---|---|" + "---|" * len(kinds)
    for name, (_, _, values) in FIXED.items():
        rows = [name, ", ".join(f"{value:g}" for value in values)]
        yield f"| {' | '.join([*rows, *(f'{chosen[kind][name]:g}' for kind in kinds)])} |"
    yield "\nMean of log-loss and top-label log-loss, by value, minus that of the value shipped:\n"
    yield "| fixed number | value | " + " | ".join(kinds) + " |"
    yield "|---|---|" + "---|" * len(kinds)
    for name, (_, _, values) in FIXED.items():
        for value in values[1:]:
            gaps = [costs[kind][name, value] - costs[kind][name, values[0]] for kind in kinds]
            yield f"| {name} | {value:g} | {' | '.join(f'{gap:+.3f}' for gap in gaps)} |"
    yield "\nWith the chosen numbers, on the kind left out:\n"
    yield from no_harm.verdicts(results)
    lost = list(no_harm.losses(results))
    yield "\nLost beyond chance:\n" if lost else "\nNo comparison is lost beyond chance."
    for kind, budget, view, name, metric, gap in lost:
        yield f"- {kind}, {budget:,} samples: `{view}` to `{name}`, {metric} {gap:+.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=3, help="for choosing")
    parser.add_argument("--final-draws", type=int, default=10, help="for judging")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/nested-choice"))
    parser.add_argument("--rivals", type=Path, default=Path("runs/no-harm"))
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    kinds = no_harm.kinds_in(options.folder)
    with ProcessPoolExecutor(options.jobs) as pool:
        costs = {kind: costs_of(kind, paths, options, pool) for kind, paths in kinds.items()}
        chosen, results = {}, {}
        for kind, paths in kinds.items():
            chosen[kind] = choose([other for other in kinds if other != kind], costs)
            mine = run(kind, paths, chosen[kind], options.final_draws, options, pool)
            results[kind] = judged(kind, paths, mine, options)
    text = "\n".join(report(kinds, costs, chosen, results))
    print(text)
    if options.write is not None:
        marks = "<!-- begin nested-choice -->", "<!-- end nested-choice -->"
        no_harm.write(options.write, text, marks)
    return 1 if any(row[2] == no_harm.FREE for row in no_harm.losses(results)) else 0


if __name__ == "__main__":
    sys.exit(main())

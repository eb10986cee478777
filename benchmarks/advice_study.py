"""Is the advice good, and is it one? `python benchmarks/advice_study.py FOLDER`.

Run `benchmarks/no_harm.py FOLDER` first: what every method gives on test is read from it. On draws
of the validation rows of every model, each verb that recommends is asked (`fit`, `select`, `plan`,
`audit`, `report`), and the table says how often any two disagree. The regret of a recommendation is
its test top-label log-loss, or log-loss, above that of the best method: the one method that is best
on average for that kind of model and budget, which nobody can know beforehand; and, further right,
whichever method is best on the test rows of each single draw, which is partly luck. Finished parts
are kept in --out.
--write PAGE puts the tables into a page. Exit code 1: a promise was not kept.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

import no_harm
import smallcal as sc
from smallcal.advice.recommend import DEFAULT

BUDGETS = no_harm.BUDGETS
#: What is promised, x100: the mean regret in log-loss, and fits whose test log-loss is far above
#: that of temperature scaling.
REGRET, HARM_SHARE = 0.1, 2.0
BEGIN, END = "<!-- begin advice -->", "<!-- end advice -->"


def recommendations(z, y, test, truth):
    """Return what each verb recommends for a split."""
    quick = {"n_boot": 0, "methods": ["none", "ts-nll", "default"]}
    samples = (z, y), (test[:2000], truth[:2000])
    return {
        "fit": sc.Calibrator().fit(z, y).method_,
        "select": sc.select(z, y, n_repeats=2).choice,
        "plan": sc.plan(z, y, draws=5, sizes=[4 * len(y)]).recommendation.method,
        "audit": sc.audit(z, y, n_refits=2, n_null=0).recommendation.method,
        "report": sc.report(*samples, **quick).recommended,
    }


def ask(path, kind, budget, draws, out):
    """Ask every verb about draws of one model, unless that was done."""
    store = out / f"{kind}__{path.stem}__{budget}.json"
    done = json.loads(store.read_text()) if store.exists() else []
    if len(done) >= draws:
        return done[:draws]
    warnings.simplefilter("ignore")
    with np.load(path) as file:
        val, labels = file["val_logits"], file["val_labels"]
        test, truth = file["test_logits"], file["test_labels"]
    for draw in range(len(done), draws):
        take = no_harm.draw_rows(len(val), budget, draw)
        done.append(recommendations(val[take], labels[take], test, truth))
    part = store.with_suffix(".part")
    part.write_text(json.dumps(done))
    os.replace(part, store)
    return done


def asked(kinds, options):
    """Return what the verbs said, by kind, model, budget and draw."""
    options.out.mkdir(parents=True, exist_ok=True)
    parts = [
        (path, kind, budget)
        for budget in options.budgets
        for kind, paths in kinds.items()
        for path in paths
    ]
    found = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = {pool.submit(ask, *part, options.draws, options.out): part for part in parts}
        for number, job in enumerate(as_completed(jobs), 1):
            path, kind, budget = jobs[job]
            found[kind, path.stem, budget] = job.result()
            print(f"\r{number} of {len(parts)} parts", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def disagreements(found):
    """Return how often each two verbs recommend different methods, and of how many draws.

    Only `select` may recommend to fit nothing: those draws are left out.
    """
    draws = [said for many in found.values() for said in many if said["select"] != "none"]
    pairs = itertools.combinations(draws[0], 2)
    return {pair: sum(said[pair[0]] != said[pair[1]] for said in draws) for pair in pairs}, len(
        draws
    )


def results_of(kinds, options):
    """Return the stored results of all methods."""
    names = list(dict.fromkeys([DEFAULT, *no_harm.RIVALS]))
    asked_for = argparse.Namespace(out=options.rivals, budgets=options.budgets, draws=3)
    return {
        kind: no_harm.Results(no_harm.gathered(kind, paths, asked_for, names), asked_for, names)
        for kind, paths in kinds.items()
    }


def regrets(results, kind, paths, budget, found):
    """Return regrets (model, metric) against the best on average and the best of each draw.

    What a draw was not asked about is taken to be recommended as in the first.
    """
    metrics = [no_harm.TOP, no_harm.NLL]
    every = np.array([results.of(budget, name)[..., metrics] for name in results.names])
    own = np.empty(every.shape[1:])
    for i, path in enumerate(paths):
        said = [each["select"] for each in found[kind, path.stem, budget]]
        for draw in range(own.shape[1]):
            name = said[draw] if draw < len(said) else said[0]
            own[i, draw] = every[results.names.index(name), i, draw]
    best = every.mean(axis=(1, 2)).argmin(axis=0)
    fixed = np.stack([every[name, ..., m] for m, name in enumerate(best)], axis=-1)
    names = [results.names[name] for name in best]
    return (own - fixed).mean(axis=1), (own - every.min(axis=0)).mean(axis=1), names


def report(kinds, results, found, options):
    """Yield the tables."""
    pairs, n = disagreements(found)
    differ = sum(pairs.values())
    asked = sum(map(len, found.values()))
    yield (
        f"{asked:,} splits; `fit`, `select`, `plan`, `audit` and `report` asked about each. "
        f"`select` left {asked - n:,} models alone. "
        f"Pairs of commands that disagreed about the others: {differ} of {n * len(pairs):,}."
    )
    yield ""
    heads = ["kind", "samples", "best on average: top-label log-loss, log-loss"]
    heads += ["regret top-label log-loss", "regret log-loss"]
    heads += ["regret to the best of each draw: top-label log-loss, log-loss", "harm"]
    yield f"| {' | '.join(heads)} |"
    yield "|---|---|---|---|---|---|---|"
    for kind, paths in kinds.items():
        for budget in options.budgets:
            mean, lucky, names = regrets(results[kind], kind, paths, budget, found)
            low, high = no_harm.interval(mean)
            cells = [
                f"{value:+.2f} [{a:+.2f}, {b:+.2f}]"
                for value, a, b in zip(mean.mean(axis=0), low, high, strict=True)
            ]
            harm = 100 * results[kind].harm(budget).mean()
            by_draw = ", ".join(f"{value:.2f}" for value in lucky.mean(axis=0))
            yield (
                f"| {kind} | {budget:,} | `{names[0]}`, `{names[1]}` | {' | '.join(cells)} | "
                f"{by_draw} | {harm:.1f} % |"
            )


def promises(kinds, results, found, options):
    """Yield what is promised, and whether it holds."""
    pairs, _ = disagreements(found)
    yield "no two verbs disagree", not sum(pairs.values())
    for budget in options.budgets:
        parts = [
            regrets(results[kind], kind, paths, budget, found)[0][:, 1]
            for kind, paths in kinds.items()
        ]
        mean = float(np.concatenate(parts).mean())
        yield f"mean regret at {budget} at most {REGRET} ({mean:+.2f})", mean <= REGRET
    sizes = [len(paths) for paths in kinds.values()]
    by_kind = [
        100 * np.mean([results[kind].harm(budget).mean() for budget in options.budgets])
        for kind in kinds
    ]
    harm = float(np.average(by_kind, weights=sizes))
    yield (
        f"log-loss far above temperature scaling's in at most {HARM_SHARE} % ({harm:.1f} %)",
        harm <= HARM_SHARE,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=1, help="that every verb is asked about")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/advice"))
    parser.add_argument("--rivals", type=Path, default=Path("runs/no-harm"))
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    options = parser.parse_args()
    kinds = no_harm.kinds_in(options.folder)
    found = asked(kinds, options)
    results = results_of(kinds, options)
    text = "\n".join(report(kinds, results, found, options))
    print(text)
    if options.write is not None:
        no_harm.write(options.write, text, (BEGIN, END))
    kept = list(promises(kinds, results, found, options))
    for what, holds in kept:
        print(f"{'kept' if holds else 'NOT KEPT'}: {what}", file=sys.stderr)
    return 0 if all(holds for _, holds in kept) else 1


if __name__ == "__main__":
    sys.exit(main())

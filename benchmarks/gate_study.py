"""What the gate picks, and what that costs: `python benchmarks/gate_study.py [FOLDER]`.

First by simulation: logits from a known generator and labels from known probabilities, so that the
right answer and every map's true loss are known. Then, if FOLDER holds .npz files with val_logits,
val_labels, test_logits, test_labels, on real models: each rule against always the same candidate,
always the default, and an oracle that saw the test labels.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import smallcal as sc
from smallcal.advice.cross_validate import held_out_losses, rarer, repeated_folds, single_split
from smallcal.advice.select import candidates_for
from smallcal.advice.select_walk import MIN_EACH, RULES, chosen_row, walk
from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.data.predictions import Predictions
from smallcal.data.special import softmax
from smallcal.metrics.table import chosen_metrics

LOSS = "top_label_bce"
#: From simple to rich: what a rule walks through.
LADDER = ("none", "tva-ts", "signal-linear+tail", "srts-shrunk+tail", "pwlinear-3", "smart-bce")
#: Samples at which the true loss of a fitted map is computed.
POPULATION = 20_000
#: The rule "sample" without the raw model among the candidates.
FROM_ONE = "sample, from tva-ts"
POLICIES = (*RULES, FROM_ONE)
#: The simplest candidate that can be right, in each world.
WORLDS = {"calibrated": "none", "one temperature": "tva-ts", "by risk": "signal-linear+tail"}


def draw_logits(n, rng, classes=10):
    """Draw logits: noise, and a signal of random strength on one class."""
    z = rng.normal(size=(n, classes))
    z[np.arange(n), rng.integers(classes, size=n)] += 5.0 * rng.random(n)
    return 2.0 * z


def picks(z, y, names, seed):
    """Return what each rule picks; the three that cross-validate share their fits."""
    preds = Predictions.of(z.astype(np.float64), y)
    tried, _ = candidates_for(preds, names, random_state=seed)
    methods = {label: candidate.method for label, candidate in tried.items()}
    metrics = chosen_metrics([LOSS, "nll"])
    crossed = held_out_losses(
        preds, methods, repeated_folds(preds, n_repeats=5, n_folds=5, seed=seed), metrics
    )
    single = held_out_losses(preds, methods, single_split(preds, seed=seed), metrics)
    enough = rarer(preds) >= MIN_EACH

    def pick(found, rule):
        return chosen_row(walk(found, loss=LOSS, rule=rule, enough=enough)).candidate

    made = {rule: pick(single if rule == "holdout" else crossed, rule) for rule in RULES}
    made[FROM_ONE] = pick({k: v for k, v in crossed.items() if k != "none"}, "sample")
    return made


def true_chances(z, world):
    """Return the probabilities that labels are drawn from."""
    if world == "calibrated":
        return softmax(z)
    if world == "one temperature":
        return softmax(z / 1.6)
    ordered = np.sort(z, axis=1)
    margin = ordered[:, -1] - ordered[:, -2]
    return softmax(z / (1 + 1.2 * np.exp(-margin / 2))[:, None])


def draw(n, world, rng):
    z = draw_logits(n, rng)
    steps = true_chances(z, world).cumsum(axis=1)
    return z, (steps > steps[:, -1:] * rng.random((n, 1))).argmax(axis=1)


def expected_loss(p, chance):
    """Return the mean top-label log-loss of p when labels follow the chances."""
    top, rows = p.argmax(axis=1), np.arange(len(p))
    confidence, hit = p[rows, top], chance[rows, top]
    rest = p.copy()
    rest[rows, top] = 0
    logs = [np.log(np.clip(side, 1e-12, 1)) for side in (confidence, rest.sum(axis=1))]
    return float(-(hit * logs[0] + (1 - hit) * logs[1]).mean())


def simulated(world, n, sets, names):
    """Print how often each rule picks too much or too little, and the loss that costs."""
    big = draw_logits(POPULATION, np.random.default_rng(20260721))
    chance = true_chances(big, world)
    made = {rule: Counter() for rule in POLICIES}
    excess = {policy: [] for policy in [*POLICIES, *names]}
    for i in range(sets):
        z, y = draw(n, world, np.random.default_rng([n, i]))
        fitted = {name: sc.make(name).fit(z, y) for name in names}
        losses = {k: expected_loss(cal.predict_proba(big), chance) for k, cal in fitted.items()}
        lowest = min(losses.values())
        for rule, pick in picks(z, y, names, seed=0).items():
            made[rule][pick] += 1
            excess[rule].append(losses[pick] - lowest)
        for name in names:
            excess[name].append(losses[name] - lowest)
    right = names.index(WORLDS[world])
    for policy, values in excess.items():
        mean, error = 100 * np.mean(values), 100 * np.std(values, ddof=1) / np.sqrt(sets)
        cells = ["", ""]
        if policy in POLICIES:
            more = sum(made[policy][name] for name in names[right + 1 :])
            less = sum(made[policy][name] for name in names[:right])
            cells = [share(more, sets), share(less, sets)]
        label = f"rule `{policy}`" if policy in POLICIES else f"always `{policy}`"
        print(f"| {world} | {n} | {label} | {cells[0]} | {cells[1]} | {mean:.2f} ± {error:.2f} |")


def share(count, sets):
    rate = count / sets
    return f"{100 * rate:.0f} ± {100 * np.sqrt(rate * (1 - rate) / sets):.0f}"


def real(paths, budget, draws, names):
    """Print each policy's test loss above the oracle's, over models."""
    fixed = list(dict.fromkeys([*names, ALIASES["default"]]))
    regret = {policy: np.zeros((len(paths), draws)) for policy in [*POLICIES, *fixed]}
    made = {rule: Counter() for rule in POLICIES}
    for i, path in enumerate(paths):
        with np.load(path) as file:
            val, labels = file["val_logits"], file["val_labels"]
            test, truth = file["test_logits"], file["test_labels"]
        for j in range(draws):
            rows = np.random.default_rng([budget, j]).choice(len(val), budget, replace=False)
            z, y = val[rows], labels[rows]
            losses = {}
            for name in fixed:
                p = sc.make(name).fit(z, y).predict_proba(test)
                losses[name] = sc.evaluate(truth, p, metrics=[LOSS])[LOSS]
            lowest = min(losses[name] for name in names)
            for rule, pick in picks(z, y, names, seed=0).items():
                made[rule][pick] += 1
                regret[rule][i, j] = losses[pick] - lowest
            for name in fixed:
                regret[name][i, j] = losses[name] - lowest
        print(f"\r{i + 1} of {len(paths)} models", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(paths), size=(4000, len(paths)))
    base = 100 * regret["sample"].mean(axis=1)
    for policy, table in regret.items():
        means = 100 * table.mean(axis=1)
        low, high = np.quantile((means - base)[drawn].mean(axis=1), [0.025, 0.975])
        against = (
            "" if policy == "sample" else f"{(means - base).mean():+.2f} [{low:+.2f}, {high:+.2f}]"
        )
        counts = made.get(policy, {})
        chosen = "; ".join(f"{name} {counts[name]}" for name in names if counts.get(name))
        label = f"rule `{policy}`" if policy in POLICIES else f"always `{policy}`"
        cells = [f"{budget}", label, f"{means.mean():.2f}", against, f"{means.max():.2f}", chosen]
        print(f"| {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--sets", type=int, default=100, help="simulated splits of each kind")
    parser.add_argument("--draws", type=int, default=3, help="draws of each real split")
    parser.add_argument("--budgets", type=int, nargs="+", default=[150, 625])
    parser.add_argument("--smart", action="store_true", help="try smart-bce too: far slower")
    options = parser.parse_args()
    warnings.simplefilter("ignore", sc.FitWarning)
    names = [name for name in LADDER if options.smart or METHODS[name].map != "smart"]
    start = time.perf_counter()
    if options.sets:
        print(f"{options.sets} simulated splits; loss above the best candidate's, x100\n")
        print("| simulation | samples | rule | too rich % | too poor % | excess |")
        print("|---|---|---|---|---|---|")
        for world in WORLDS:
            for n in options.budgets:
                simulated(world, n, options.sets, names)
    if options.folder is not None:
        paths = sorted(options.folder.glob("*.npz"))
        print(
            f"\n{len(paths)} models, {options.draws} draws; "
            "test top-label log-loss above the oracle's, x100\n"
        )
        print("| samples | policy | mean | above rule `sample` [95 %, models] | worst | picks |")
        print("|---|---|---|---|---|---|")
        for budget in options.budgets:
            real(paths, budget, options.draws, names)
    print(f"\n{time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

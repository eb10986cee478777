"""What was tried: `python benchmarks/ablation.py FOLDER [--write docs/explanation/ablation.md]`.

FOLDER holds .npz files with val_logits, val_labels, test_logits, test_labels, one per model. The
parts of the default are swapped for others, one at a time, fitted on draws of the validation rows
(other draws than those of benchmarks/no_harm.py) and measured on the test rows. What the variants
are is in benchmarks/ablation_variants.py. Nothing is kept between runs.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import smallcal as sc
from ablation_variants import (
    Case,
    Part,
    gates,
    mixes,
    one_temperature,
    regressed,
    shrunk_groups,
    tails,
)
from no_harm import BUDGETS, TINY, interval, write
from smallcal.calibrators.objectives import sigmoid
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.binned import ece

BEGIN, END = "<!-- begin ablation -->", "<!-- end ablation -->"
#: Draws are counted from here: those before are the no-harm study's.
FIRST_DRAW = 100
RAW = "the raw model"
CHOSEN = "`signal-linear`: spread prior 0.05"


@dataclass(frozen=True)
class Section:
    """One table: what is varied, the row it is compared with, and what is measured."""

    title: str
    variants: object
    chosen: str = CHOSEN
    metrics: tuple[str, ...] = ("ECE", "top-label log-loss")
    harm: bool = False


SECTIONS = (
    Section("One temperature", one_temperature),
    Section("Groups with shrinkage", shrunk_groups),
    Section("A regressed temperature", regressed),
    Section("Mixes", mixes),
    Section("The gate", gates, chosen="the rule kept", harm=True),
    Section("The tail", tails, "one tail temperature, prior 0.25", ("log-loss", "Brier score")),
)


def top_label_scores(odds, correct):
    """Return ECE and top-label log-loss from the log-odds of the confidence."""
    confidence, doubt = sigmoid(odds), sigmoid(-odds)
    view = Scored(
        proba=np.column_stack([confidence, doubt]),
        labels=np.where(correct, 0, 1),
        confidence=confidence,
        doubt=doubt,
        correct=correct,
    )
    return 100 * ece.of(view, bins=15), 100 * METRICS["top_label_bce"].of(view)


def measure(case):
    """Return (section, variant) -> two metrics, for one draw."""
    truth, logits = case.test.preds.labels, case.test.preds.logits
    raw = top_label_scores(case.raw, case.test.gaps.correct)
    chosen = top_label_scores(case.odds(case.chosen_temperature), case.test.gaps.correct)
    found = {}
    for section in SECTIONS:
        if section.metrics == ("log-loss", "Brier score"):
            rows = [(RAW, case.make("none").predict_proba(logits)), *section.variants(case)]
            for name, proba in rows:
                scores = sc.evaluate(truth, proba, metrics=("nll", "brier"))
                found[section.title, name] = 100 * scores["nll"], 100 * scores["brier"]
            continue
        found[section.title, RAW], found[section.title, CHOSEN] = raw, chosen
        for name, odds in section.variants(case):
            found[section.title, name] = top_label_scores(odds, case.test.gaps.correct)
    return found


def one_model(path, budgets, draws):
    """Return (section, variant) -> array (budgets, draws, 2) of one model."""
    warnings.simplefilter("ignore", sc.FitWarning)
    with np.load(path) as file:
        val, labels = file["val_logits"], file["val_labels"]
        test = Part(file["test_logits"], file["test_labels"])
    found = {}
    for b, budget in enumerate(budgets):
        for draw in range(draws):
            rng = np.random.default_rng([budget, FIRST_DRAW + draw])
            rows = rng.choice(len(val), budget, replace=False)
            for key, values in measure(Case(Part(val[rows], labels[rows]), test)).items():
                found.setdefault(key, np.full((len(budgets), draws, 2), np.nan))[b, draw] = values
    return found


def collect(paths, options):
    """Return (section, variant) -> array (models, budgets, draws, 2)."""
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(one_model, path, options.budgets, options.draws) for path in paths]
        for finished, _ in enumerate(as_completed(jobs), 1):
            print(f"\r{finished} of {len(paths)} models", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    models = [job.result() for job in jobs]
    return {key: np.stack([model[key] for model in models]) for key in models[0]}


def table(section, results, budgets):
    """Yield one section's table."""
    rows = {name: values for (title, name), values in results.items() if title == section.title}
    chosen, raw = rows[section.chosen], rows[RAW]
    heads = [f"{budget:,}" for budget in budgets]
    heads += [f"{metric} minus the chosen's" for metric in section.metrics]
    yield f"\n### {section.title}\n"
    shown = " / ".join(section.metrics) + (" / worse than raw" if section.harm else "")
    yield f"Each cell: {shown}. Chosen: {section.chosen}.\n"
    yield f"| variant | {' | '.join(heads)} | worse than raw |"
    yield "|---|" + "---|" * (len(heads) + 1)
    for name, values in rows.items():
        second = values[..., 1] > raw[..., 1] + TINY  # by top-label log-loss, or Brier for tails
        cells = [
            " / ".join(f"{mean:.2f}" for mean in values[:, b].mean(axis=(0, 1)))
            + (f" / {100 * second[:, b].mean():.1f} %" if section.harm else "")
            for b in range(len(budgets))
        ]
        cells += [verdict((values - chosen)[..., m].mean(axis=(1, 2))) for m in range(2)]
        bold = "**" if name == section.chosen else ""
        yield f"| {bold}{name}{bold} | {' | '.join(cells)} | {100 * second.mean():.1f} % |"


def verdict(differences):
    """Return a difference over models in words: mean, interval, and tie where that holds zero."""
    if not differences.any():
        return ""
    low, high = interval(differences)
    word = "better" if high < 0 else "worse" if low > 0 else "tie"
    return f"{differences.mean():+.3f} [{low:+.3f}, {high:+.3f}] {word}"


def report(results, paths, options):
    """Return all tables as Markdown."""
    lines = [
        f"`python benchmarks/ablation.py FOLDER --draws {options.draws}`: {len(paths)} models, "
        f"{options.draws} draws at each budget, means over models, everything x100, lower is "
        "better. Differences are means over all budgets, with a 95 % interval from resampling "
        'models; "tie" where it holds zero. The last column is the share of draws in which '
        "top-label log-loss "
        "(for tails, Brier) is above the raw model's.",
    ]
    for section in SECTIONS:
        lines += table(section, results, options.budgets)
    return "\n".join(lines)


def validation_rows(path):
    with np.load(path) as file:
        return len(file["val_labels"])


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    return parser.parse_args()


def main():
    options = parse()
    paths = sorted(options.folder.glob("*.npz"))
    if not paths:
        print(f"no .npz files in {options.folder}", file=sys.stderr)
        return 2
    short = [path.stem for path in paths if validation_rows(path) < max(options.budgets)]
    if short:
        print(f"fewer validation rows than --budgets asks for: {', '.join(short)}", file=sys.stderr)
        return 2
    start = time.monotonic()
    text = report(collect(paths, options), paths, options)
    print(text)
    print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    if options.write is not None:
        write(options.write, text, marks=(BEGIN, END))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a refresh is worth on real logits: `refresh_study.py FOLDER`.

The default is fitted on 400 rows of the calibration split, then refreshed with some more: other
rows of the split, judged on all test rows; or rows from one half of a shifted test set, judged on
the other half. Beside it stand the old calibrator, the default fitted on the new rows alone, and on
old and new together. Intervals are over models. `--choose` shows how the two numbers of the prior
were chosen, on calibration splits alone, each family of models by the others. --write PAGE puts the
table there.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

import smallcal as sc
from group_study import interval
from no_harm import write
from smallcal.calibrators.objectives import softplus
from smallcal.deploy.refresh import posterior as prior
from smallcal.deploy.refresh.refresh import knowledge
from smallcal.deploy.refresh.rows import Rows

FITTED = 400
SIZES = (20, 100, 400)
MARKS = ("<!-- begin refresh -->", "<!-- end refresh -->")
KINDS = {".": "classifiers", "options": "multiple choice", "tabular": "tabular", "scores": "scores"}

CALM = (0.03, 0.05, 0.1, 0.15, 0.2)
MOVED = (0.1, 0.3, 1.0, 3.0, 10.0)


def split(path, name):
    """Return rows, labels and the options of a calibrator of them."""
    with np.load(path) as file:
        if f"{name}_scores" in file.files:
            outcomes = file[f"{name}_outcomes"].astype(int)
            return file[f"{name}_scores"], outcomes, {"input": "score"}
        return file[f"{name}_logits"].astype(float), file[f"{name}_labels"], {}


def cells(folder):
    """Yield the kind and the path of each model."""
    for place, kind in KINDS.items():
        for path in sorted((Path(folder) / place).glob("*.npz")):
            yield kind, path


def fitted(rows, labels, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sc.Calibrator(**options).fit(rows, labels).fitted_


def log_loss(cal, rows, labels):
    """Return the mean log-loss, times 100."""
    p = cal.predict_proba(rows)
    return -100 * float(np.log(np.maximum(p[np.arange(len(labels)), labels], 1e-12)).mean())


def compared(old_rows, new_rows, test, options):
    """Return the log-loss of the old calibrator, the refreshed, one of new rows alone, of all."""
    old = fitted(*old_rows, **options)
    done = sc.refresh(old, *new_rows)
    alone = fitted(*new_rows, **options)
    both = fitted(
        *(np.concatenate(each) for each in zip(old_rows, new_rows, strict=True)), **options
    )
    return [*(log_loss(each, *test) for each in (old, done.calibrator, alone, both)), done.applied]


def real(folder, draws):
    """Return what was measured, by kind of data and number of new rows, for each model."""
    found = defaultdict(lambda: defaultdict(list))
    for kind, path in cells(folder):
        rows, labels, options = split(path, "val")
        test = split(path, "test")[:2]
        for n, draw in itertools.product(SIZES, range(draws)):
            order = np.random.default_rng(draw).permutation(len(labels))
            old, new = order[:FITTED], order[FITTED : FITTED + n]
            measured = compared((rows[old], labels[old]), (rows[new], labels[new]), test, options)
            found[kind, n][path.stem].append(measured)
    for path in sorted((Path(folder) / "shift").glob("*.npz")):
        model = "__".join(path.stem.split("__")[:2])
        rows, labels, options = split(Path(folder) / f"{model}.npz", "val")
        with np.load(path) as file:
            z, y = file["logits"].astype(float), file["labels"]
        for n in SIZES:
            rng = np.random.default_rng(0)
            old, order = rng.permutation(len(labels))[:FITTED], rng.permutation(len(y))
            new, rest = order[:n], order[len(y) // 2 :]
            given = (rows[old], labels[old]), (z[new], y[new]), (z[rest], y[rest])
            found["shifted", n][model].append(compared(*given, options))
    return found


def table(found):
    """Return the table of what was measured."""
    yield (
        "| rows are of | models | new rows | taken % | old | refreshed | change | new rows alone "
        "| old and new |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for (kind, n), models in found.items():
        each = np.array([np.mean(runs, axis=0) for runs in models.values()])
        change = interval(each[:, 1] - each[:, 0])
        old, new, alone, both, taken = each.mean(axis=0)
        yield (
            f"| {kind} | {len(each)} | {n} | {100 * taken:.0f} | {old:.2f} | {new:.2f} | {change} "
            f"| {alone:.2f} | {both:.2f} |"
        )


def pairs(folder):
    """Yield a family of models, whether rows are the fit's model's own, a calibrator and rows."""
    rng, families = np.random.default_rng(0), defaultdict(list)
    for kind, path in cells(folder):
        families[kind, path.stem.split("__")[0]].append(path)
    for family, paths in families.items():
        data = [split(path, "val") for path in paths]
        for i, fitted_rows in itertools.product(range(len(paths)), (100, 400)):
            rows, labels, options = data[i]
            order = rng.permutation(len(labels))
            cal = fitted(rows[order[:fitted_rows]], labels[order[:fitted_rows]], **options)
            yield family, True, cal, rows[order[fitted_rows:]], labels[order[fitted_rows:]]
            others = [j for j in range(len(paths)) if j != i]
            if others:
                rows, labels, _ = data[rng.choice(others)]
                order = rng.permutation(len(labels))
                yield family, False, cal, rows[order], labels[order]


def tried(cal, rows, labels, sizes=(5, 20, 60, 200)):
    """Return the change of the claims' log-loss for each size and each pair of numbers."""
    test = Rows.of(cal, rows[-400:], labels[-400:], None, None).counted(cal)
    odds, right, wrong = test.arrays()
    known, changes = knowledge(cal), []
    for n in sizes:
        evidence = Rows.of(cal, rows[:n], labels[:n], None, None).counted(cal)
        for prior.CALM, prior.MOVED in itertools.product(CALM, MOVED):
            found = prior.posterior(evidence, known)
            new = odds + (found.slope - 1) * np.clip(odds, -prior.FAR, prior.FAR) + found.bias
            lost = [softplus(-each) @ right + softplus(each) @ wrong for each in (new, odds)]
            changes.append((lost[0] - lost[1]) / 400)
    return np.reshape(changes, (len(sizes), -1))


def choose(folder):
    """Print which numbers the families of models choose for one another."""
    found = defaultdict(list)
    for family, own, *given in pairs(folder):
        found[family, own].append(tried(*given))
    means = {key: np.mean(each, axis=0) for key, each in found.items()}
    names = list(itertools.product(CALM, MOVED))
    families = sorted({family for family, _ in means})
    for left_out in families:
        # An unmoved model is the usual case: what is lost there counts ten times.
        score = sum(
            (10 if own else 1) * mean.mean(axis=0)
            for (family, own), mean in means.items()
            if family != left_out
        )
        best = int(np.argmin(score))
        worth = {own: means[left_out, own].mean(axis=0)[best] for own in (True, False)
                 if (left_out, own) in means}  # fmt: skip
        told = ", ".join(f"{'own' if own else 'other'} {100 * x:+.2f}" for own, x in worth.items())
        print(f"{' '.join(left_out):28s} CALM {names[best][0]}, MOVED {names[best][1]}: {told}")


def main():
    """Run the study."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("folder")
    asked.add_argument("--draws", type=int, default=2)
    asked.add_argument("--choose", action="store_true")
    asked.add_argument("--write", type=Path, help="put the table into this page")
    given = asked.parse_args()
    if given.choose:
        return choose(given.folder)
    text = "\n".join(table(real(given.folder, given.draws)))
    print(text)
    if given.write is not None:
        write(given.write, text, MARKS)
    return None


if __name__ == "__main__":
    sys.exit(main())

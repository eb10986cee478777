"""Binary models: CalibratedModel beside scikit-learn's CalibratedClassifierCV.

Six data sets that scikit-learn ships or makes, four models, five halves to fit on and to measure
on. Every way is given the same half, folds it five times, and is measured on the other half; `raw`
is fitted on all of it. A pair of data set and model is one unit of the intervals.

    python benchmarks/binary_models.py [--write docs/guides/scikit-learn.md]

--splits N for another number of halves; --out FOLDER keeps what is measured (runs/binary-models),
so that a run goes on where it was stopped.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse
import json
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    make_classification,
)
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import smallcal as sc
from no_harm import interval, write

MARKS = "<!-- begin binary models -->", "<!-- end binary models -->"
METRICS = {"nll": "log-loss", "brier": "Brier score", "ece15": "ECE"}
OURS = "`spline`"


def _diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X, y > np.median(y)


def _digits(chosen):
    X, y = load_digits(return_X_y=True)
    return X, np.isin(y, chosen)


#: Four real ones, of which one is imbalanced, and two that are made.
DATA = {
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "diabetes, above the median": _diabetes,
    "digits, odd or even": lambda: _digits([1, 3, 5, 7, 9]),
    "digits, an 8 or not": lambda: _digits([8]),
    "made, 5 % positive": lambda: make_classification(
        2000, n_informative=6, weights=[0.95], flip_y=0.02, random_state=0
    ),
    "made, 30 % of labels redrawn": lambda: make_classification(
        1000, n_informative=6, flip_y=0.3, random_state=1
    ),
}
MODELS = {
    "naive Bayes": GaussianNB(),
    "forest": RandomForestClassifier(100, random_state=0),
    "SVC": make_pipeline(StandardScaler(), SVC()),
    "boosting": GradientBoostingClassifier(n_estimators=50, random_state=0),
}


def _theirs(method, *, ensemble):
    return lambda model: CalibratedClassifierCV(model, method=method, cv=5, ensemble=ensemble)


def _ours(method):
    return lambda model: sc.CalibratedModel(model, method=method, cv=5)


#: "five" are five models, each with a calibrator, averaged; all others are one model and one
#: calibrator.
WAYS = {
    "raw": lambda model: model,
    "sigmoid": _theirs("sigmoid", ensemble=False),
    "isotonic": _theirs("isotonic", ensemble=False),
    "temperature": _theirs("temperature", ensemble=False),
    "sigmoid, five": _theirs("sigmoid", ensemble=True),
    "isotonic, five": _theirs("isotonic", ensemble=True),
    "temperature, five": _theirs("temperature", ensemble=True),
    OURS: _ours("default"),
    "`smallcal`": _ours("smallcal"),
}


def probability(model, X):
    """Return the probability of class 1; a margin counts as log-odds, for want of better."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)[:, 1]
    return 1 / (1 + np.exp(-model.decision_function(X)))


def measured(data, name, seed, ways):
    """Return the metrics of some ways on one half of a data set."""
    warnings.simplefilter("ignore")
    X, y = DATA[data]()
    y = y.astype(int)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    found = {}
    for way in ways:
        model = WAYS[way](clone(MODELS[name])).fit(X, y)
        values = sc.evaluate(y_test, probability(model, X_test))
        found[way] = {metric: float(values[metric]) for metric in METRICS}
    return found


def kept(data, name, seed, out):
    """Return what was measured before, and measure what was not."""
    file = out / f"{data}-{name}-{seed}.json".replace(" ", "_").replace(",", "")
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    missing = [way for way in WAYS if way not in found]
    if missing:
        found.update(measured(data, name, seed, missing))
        file.write_text(json.dumps(found), encoding="utf-8")
    return found


def collect(splits, out):
    """Return percent metrics (unit, way, metric), the mean over halves, and the units."""
    units = list(product(DATA, MODELS))
    jobs = [(*unit, seed, out) for unit in units for seed in range(splits)]
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(kept, *zip(*jobs, strict=True)))
    values = [[[each[way][m] for m in METRICS] for way in WAYS] for each in found]
    shape = len(units), splits, len(WAYS), len(METRICS)
    return 100 * np.array(values).reshape(shape).mean(axis=1), units


def tables(values, units, splits):
    """Yield the lines of the page."""
    ways, ours = list(WAYS), list(WAYS).index(OURS)
    yield (
        f"Mean over {len(units)} pairs of data set and model, {splits} halves each, all x100. In "
        f"brackets {OURS} less that way, with the 95 % interval that resampling pairs gives; below "
        f"0 is better, and **bold** where the interval is all on one side."
    )
    yield ""
    yield f"| way | {' | '.join(METRICS.values())} |"
    yield "|---" * (1 + len(METRICS)) + "|"
    for place, way in enumerate(ways):
        cells = [compared(values, ours, place, metric) for metric in range(len(METRICS))]
        yield f"| {way} | {' | '.join(cells)} |"
    yield ""
    one = [way for way in ways if "five" not in way]
    yield f"Log-loss of each pair, x100, of the ways that keep one model ({OURS} is the default):"
    yield ""
    yield f"| data, model | {' | '.join(one)} |"
    yield "|---" * (1 + len(one)) + "|"
    for unit, row in zip(units, values[:, :, 0], strict=True):
        cells = [f"{row[ways.index(way)]:.1f}" for way in one]
        yield f"| {', '.join(unit)} | {' | '.join(cells)} |"


def compared(values, ours, place, metric):
    """Return a mean, and how far ours lies from it."""
    mean = f"{values[:, place, metric].mean():.2f}"
    if place == ours:
        return mean
    difference = values[:, ours, metric] - values[:, place, metric]
    low, high = interval(difference)
    text = f"{difference.mean():+.2f}, {low:+.2f} to {high:+.2f}"
    return f"{mean} ({f'**{text}**' if low > 0 or high < 0 else text})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/binary-models"))
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    values, units = collect(options.splits, options.out)
    text = "\n".join(tables(values, units, options.splits))
    print(text)
    if options.write:
        write(options.write, text, MARKS)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Fit and apply any method by name: what it needs beside logits is made up from the logits."""

from __future__ import annotations

import importlib.util
import warnings
from functools import cache

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.catalogue import ALIASES, METHODS, method
from smallcal_lab.methods.peers import PEERS
from support.simulated import simulate


def drawn(name, n, n_classes=12, **options):
    """A simulated split that a method can be fitted on: of two classes, where it takes no more."""
    return simulate(n, 2 if method(name).binary else n_classes, **options)


def trains_a_head(name):
    """Whether a method trains a network with torch, as its map or as its signal."""
    row = method(name)
    return row.map == "head" or row.signal.endswith("head_temperature")


#: Options that make a slow method quick enough to be fitted many times in a test.
QUICK = {
    **{name: {"epochs": 100} for name, row in METHODS.items() if row.map == "smart"},
    "semantic-groups": {"n_partitions": 3},
    "dirichlet-odir": {"lambdas": (0.01, 1.0), "mus": (0.01, 1.0)},
    **{name: {"epochs": 5} for name in METHODS if trains_a_head(name)},
}
QUICK |= {alias: QUICK[name] for alias, name in ALIASES.items() if name in QUICK}

RANDOM_CONTROLS = {"random-k3", "shuffled-k3"}
#: Methods whose numbers can be saved.
DEPLOYABLE = [name for name, row in METHODS.items() if row.deployable]
#: Those that run in other languages too.
EXPORTABLE = [
    name for name in DEPLOYABLE if name not in {*RANDOM_CONTROLS, "isotonic", "histogram"}
]


def features_of(z):
    """Features that depend on each row alone, and not on the order of its classes; finite."""
    z = np.asarray(z, dtype=np.float64)
    z = np.where(np.abs(z) <= 1e15, z, 0.0)
    return np.column_stack([z.max(axis=1), z.min(axis=1), np.abs(z).mean(axis=1), z.std(axis=1)])


def answers_of(z):
    """Labels that depend on each row alone; about a third of the predictions are wrong."""
    z = np.asarray(z, dtype=np.float64)
    wrong = np.sin(40 * z.max(axis=1)) > 0.5
    return np.where(wrong, np.argsort(z, axis=1)[:, -2], z.argmax(axis=1))


def make(name, **options):
    return sc.make(name, **{**QUICK.get(name, {}), **options})


def fit(name, z, y, **options):
    """Fit quietly: thin evidence is told by flags, which tests look at where they matter."""
    estimator = make(name, **options)
    require_package(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return refit(estimator, z, y)


def missing_package(name):
    """What a method needs and is not installed, if anything."""
    row = method(name)
    module = "sklearn" if row.map == "peer" else "torch" if trains_a_head(name) else "numpy"
    if row.map == "peer":
        module = PEERS[true_name(name)].module.partition(".")[0]
    return "" if importlib.util.find_spec(module) else module


def require_package(name):
    if missing := missing_package(name):
        pytest.skip(f"{missing} is not installed")


def refit(estimator, z, y, **extra):
    return estimator.fit(z, y, features=features_of(z), **extra)


def inputs_of(fitted, z):
    """What a fitted calibrator must be given beside logits."""
    needs = fitted.fitted_.signal.needs
    made = {"features": features_of, "labels": answers_of}
    keys = {"features": "features", "labels": "y"}
    return {keys[need]: made[need](z) for need in needs}


def predict(fitted, z):
    return fitted.predict_proba(z, **inputs_of(fitted, z))


@cache
def fitted_once(name):
    """The method, fitted on the split of the fixture ``split``."""
    return fit(name, *drawn(name, 600))


def true_name(name):
    return ALIASES.get(name, name)

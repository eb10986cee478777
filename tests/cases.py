"""Fit and apply any method by name: what it needs beside logits is made up from the logits."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np

import smallcal as sc
from simulated import simulate
from smallcal.catalogue import METHODS, method

#: Options that make a slow method quick enough to be fitted many times in a test.
QUICK = {}

RANDOM_CONTROLS = {"random-k3", "shuffled-k3"}
#: Methods whose numbers can be saved.
DEPLOYABLE = [name for name, row in METHODS.items() if row.deployable]


def features_of(z):
    """Features that depend on each row alone, and not on the order of its classes."""
    z = np.asarray(z, dtype=np.float64)
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return refit(estimator, z, y)


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
    return fit(name, *simulate(600, 12))


def true_name(name):
    return next(key for key, row in METHODS.items() if row is method(name))

"""Labels that cannot be those of the predictions, and models that must not be stopped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smallcal.statistics.agreement import Agreement
from support import real


def verdict(labels, predicted, n_classes, names=None):
    return Agreement(n_classes).add(np.array(labels, int), np.array(predicted, int)).verdict(names)


def right(n: int, n_classes: int, accuracy: float, seed: int = 0):
    """Labels and predictions of a model that is right so often, wrong ones spread evenly."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    other = (y + rng.integers(1, n_classes, size=n)) % n_classes
    return y, np.where(rng.random(n) < accuracy, y, other)


@pytest.mark.parametrize(("n", "n_classes"), [(60, 2), (250, 3), (250, 10), (2500, 100)])
def test_columns_in_another_order_stop(n, n_classes):
    y, predicted = right(n, n_classes, 0.95)
    found = verdict(y, (predicted + 1) % n_classes, n_classes, [f"c{i}" for i in range(n_classes)])
    assert found.stop
    assert "of predictions are right, where always saying 'c" in found.text


def test_one_class_that_is_nearly_everything_does_not_hide_it():
    rng = np.random.default_rng(0)
    y = (rng.random(250) < 0.05).astype(int)
    predicted = np.where(rng.random(250) < 0.98, y, 1 - y)
    assert verdict(y, 1 - predicted, 2).stop


@given(
    n_classes=st.integers(2, 20),
    n=st.integers(10, 2000),
    skew=st.floats(0.05, 5),
    preference=st.floats(0.05, 5),
    seed=st.integers(0, 1000),
)
def test_predictions_that_know_nothing_are_not_stopped(n_classes, n, skew, preference, seed):
    """However labels and predictions are spread: biased models are what calibration mends."""
    rng = np.random.default_rng(seed)
    y = rng.choice(n_classes, size=n, p=rng.dirichlet(np.full(n_classes, skew)))
    said = rng.choice(n_classes, size=n, p=rng.dirichlet(np.full(n_classes, preference)))
    assert not verdict(y, said, n_classes).stop


def test_a_model_below_the_most_frequent_class_is_noted():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(500) < 0.5, 0, rng.integers(1, 5, size=500))
    said = np.where(rng.random(500) < 0.05, y, rng.integers(5, size=500))
    found = verdict(y, said, 5, ["cat", "a", "b", "c", "d"])
    assert not found.stop
    assert "where always saying 'cat' would be right in" in found.text
    assert verdict(y, y, 5).text == ""


def test_nothing_is_said_of_few_or_no_rows():
    assert verdict([], [], 3).text == ""
    assert verdict([0, 1, 2], [1, 2, 0], 3).text == ""


@pytest.mark.parametrize("cell", real.SHIPPED)
def test_real_models_are_not_stopped(cell):
    arrays = real.cell(cell)
    z, y = arrays["val_logits"], arrays["val_labels"]
    assert verdict(y, z.argmax(axis=1), z.shape[1]).text == ""

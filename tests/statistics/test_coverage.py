"""Intervals hold the truth as often as they say, where the metric is a mean; ece15's do not.

The large run is `make study-coverage`; this is the same study, small.
"""

from __future__ import annotations

import numpy as np
import pytest

import smallcal as sc
from coverage_study import DIFFERENCE, METHODS, draw_set, population, study

MEANS = ("accuracy", "nll", "brier", "top_label_bce")


@pytest.fixture(scope="module")
def found():
    return study(400, 200, 300, rows=400_000)


def test_population_values_are_those_of_a_large_sample():
    truth = population(400_000)
    labels, probas = draw_set(200_000, np.random.default_rng(3))
    for name in METHODS:
        values = sc.evaluate(labels, probas[name], metrics=[*MEANS, "ece15"])
        for metric, value in values.items():
            assert value == pytest.approx(truth[name, metric], abs=0.01)


@pytest.mark.parametrize(
    "key", [*((name, metric) for name in METHODS for metric in MEANS), (DIFFERENCE, "nll")]
)
def test_intervals_of_means_hold_the_truth(found, key):
    row = found[key]
    assert 0.90 <= row.percentile <= 0.99
    assert 0.90 <= row.basic <= 0.99
    assert abs(row.bias) < 4 * row.bias_error


@pytest.mark.parametrize("name", METHODS)
def test_ece_is_biased_upward_and_resampling_sees_some_of_it(found, name):
    row = found[name, "ece15"]
    assert row.bias > 2 * row.bias_error
    assert row.seen > 0
    assert abs(row.left) < row.bias


def test_percentile_intervals_of_a_small_ece_lie_above_it(found):
    row = found["near", "ece15"]
    assert row.percentile < 0.5 < row.above
    assert row.percentile < row.basic

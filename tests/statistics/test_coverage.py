"""Intervals hold the truth as often as they say, calibration errors' too.

The large run is `make study-coverage`; this is the same study, small.
"""

from __future__ import annotations

import numpy as np
import pytest

import smallcal as sc
from coverage_study import (
    BINNED,
    DIFFERENCE,
    FEW,
    FEW_MARKS,
    MARKS,
    MEANS,
    PAIR,
    WORLDS,
    draw_set,
    population,
    study,
)

ROWS = 200_000
#: A temperature misfit, a calibrated side with 100 classes, opposite errors, both calibrated.
LOOKED_AT = (0, 2, 4, 7)


@pytest.fixture(scope="module", params=LOOKED_AT, ids=lambda i: WORLDS[i].name)
def found(request):
    world = WORLDS[request.param]
    metrics = (*MEANS, *BINNED) if request.param == 0 else BINNED
    return study(world, population(world, ROWS), 500, 120, 200, metrics)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_population_values_are_those_of_a_large_sample(world):
    truth = population(world, ROWS)
    labels, probas = draw_set(world, 50_000, np.random.default_rng(3))
    for name in PAIR:
        values = sc.evaluate(labels, probas[name], metrics=[*MEANS, *BINNED])
        for metric, value in values.items():
            assert value == pytest.approx(truth[name, metric], abs=0.02)


@pytest.mark.slow
def test_intervals_hold_the_truth(found):
    """At 120 test sets a share of 95 % is seen as 89 to 99 %."""
    for (name, metric), row in found.items():
        if row.width > 0:
            assert 0.87 <= row.held <= 1.0, (name, metric, row)
        if metric in MEANS and name != DIFFERENCE:
            assert abs(row.plain - row.truth) < 4 * row.bias_error + 0.004


@pytest.mark.slow
def test_estimates_lie_in_their_intervals_and_noise_is_off_them(found):
    for (name, metric), row in found.items():
        assert row.inside
        if metric in BINNED and name != DIFFERENCE and row.truth < 0.05:
            assert abs(row.point - row.truth) < row.plain - row.truth


@pytest.mark.slow
@pytest.mark.parametrize("world", FEW, ids=lambda world: world.name)
def test_few_errors_have_intervals_that_hold_the_truth_or_none(world):
    """At 120 test sets; resamples alone held accuracy in 76 to 91 %, log-loss in 65 to 90 %."""
    few, many = world.sizes
    metrics = ("accuracy", "nll", "top_label_bce", "ece15")
    found = study(world, population(world, ROWS), few, 120, 60, metrics)
    for (name, metric), row in found.items():
        assert row.inside
        if metric == "accuracy" and row.told:
            assert 0.9 <= row.held <= 1.0, (name, row)
        elif metric != "accuracy":
            assert row.told < 0.1, (name, metric, row)
    if world is FEW[-1]:
        found = study(world, population(world, ROWS), many, 120, 200, metrics)
        for key, row in found.items():
            assert row.held >= 0.87, (key, row)
            assert row.told > 0.9


@pytest.mark.parametrize(("marks", "worlds"), [(MARKS, WORLDS), (FEW_MARKS, FEW)])
def test_the_docs_have_the_table(request, marks, worlds):
    page = (request.config.rootpath / "docs" / "explanation" / "statistics.md").read_text()
    before, rest = page.split(marks[0])
    shown, _ = rest.split(marks[1])
    assert all(world.name in shown for world in worlds)
    assert "make study-coverage" in before

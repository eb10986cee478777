"""How many resamples are enough: known errors of quantiles, and the first of all resamples."""

import math

import numpy as np
import pytest

import smallcal as sc
from smallcal.statistics.enough import LEAST, MOST, TOLERANCE, Enough, end_errors, stages
from support.simulated import simulate


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def two():
    z, y = simulate(400, 5)
    return y, {"raw": softmax(z), "scaled": softmax(z / 1.6)}


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_estimate_is_the_standard_error_of_an_end(level):
    draws = np.random.default_rng(0).normal(size=(400, 1000))
    tail = (1 - level) / 2
    ends = np.quantile(draws, [tail, 1 - tail], axis=1)
    known = ends.std(axis=1) / (ends[1] - ends[0]).mean()
    found = end_errors(draws, level=level).mean()  # of the worse end, so a little more
    assert 1.0 < found / known.mean() < 1.45


def test_undefined_resamples_are_left_out_and_what_never_moves_is_steady():
    rng = np.random.default_rng(1)
    whole = rng.normal(size=900)
    holes = np.insert(whole, [0, 10, 900], np.nan)
    alone, holed = end_errors([whole], level=0.9), end_errors([holes], level=0.9)
    assert holed == pytest.approx(alone, rel=1e-12)
    never, nothing = np.full(50, 0.25), np.full(50, np.nan)
    assert end_errors([never, nothing], level=0.95).tolist() == [0.0, 0.0]
    one = np.concatenate([np.zeros(499), [1.0]])  # a single other value, beyond both ends
    assert end_errors([one], level=0.95).tolist() == [0.0]


def test_differences_must_be_steady_too():
    rng = np.random.default_rng(2)
    steady, rare = rng.normal(size=2000), 50.0 * (rng.random(2000) < 0.026)
    values = {("a", "nll"): steady, ("b", "nll"): steady + 1e-6 * rare}
    assert Enough().unsteady(values) == set()
    assert Enough(baseline="a").unsteady(values) == {"nll"}
    assert Enough().unsteady({}) == set()


def test_where_an_interval_lies_plays_no_part():
    draws = np.random.default_rng(3).normal(size=(20, 600))
    near, far = (end_errors(draws + shift, level=0.95) for shift in (0.0, 40.0))
    np.testing.assert_allclose(near, far, rtol=1e-9)


def test_stages_add_up():
    assert sum(stages(None)) == MOST
    assert next(stages(None)) == LEAST
    assert list(stages(7)) == [7]


def test_without_a_number_resamples_are_the_first_of_those_with_one(two):
    y, probas = two
    seen = []
    some = sc.compare(y, probas, advance=seen.append)
    every = sc.compare(y, probas, n_boot=MOST)
    drawn = {row.n_boot for own in some.value_intervals.values() for row in own.values()}
    assert drawn <= set(range(LEAST, MOST + 1, 250))
    assert min(drawn) < MOST  # or nothing is tested here
    assert some.n_boot == max(drawn) == some.to_dict()["n_boot"]
    assert sum(seen) == MOST  # what is not needed counts as done
    for (name, metric), draws in some.drawn.items():
        whole = every.drawn[name, metric].values[: len(draws.values)]
        np.testing.assert_allclose(draws.values, whole, atol=1e-9, err_msg=metric)
    for row in some.intervals["scaled"].values():
        if row.n_boot < MOST and len(row.values):
            spread = end_errors([row.values], level=0.95)[0]
            assert spread <= TOLERANCE or math.isnan(spread)


def test_intervals_agree_with_all_resamples_within_their_error(two):
    y, probas = two
    some = sc.evaluate(y, probas["raw"], ci=True)
    every = sc.evaluate(y, probas["raw"], ci=True, n_boot=MOST)
    for metric, row in every.items():
        if METRIC_WIDTHS.get(metric, True) and row.high > row.low:
            moved = abs(some[metric].low - row.low), abs(some[metric].high - row.high)
            assert max(moved) < 0.15 * (row.high - row.low), metric


#: Shares of few errors jump from one whole number of them to the next.
METRIC_WIDTHS = {"hcfp90": False, "hcfp95": False, "hcfp99": False, "risk_at90": False}


def test_the_same_seed_gives_the_same_number(two):
    y, probas = two
    one, other = (sc.evaluate(y, probas["raw"], metrics=["nll", "ece15"], ci=True) for _ in "ab")
    assert one == other
    found = sc.statistics.bootstrap.interval(y, probas["raw"], "nll")
    assert tuple(found) == pytest.approx(tuple(one["nll"]), rel=1e-12)
    assert found.n_boot == one["nll"].n_boot

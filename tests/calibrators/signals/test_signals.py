"""The six statistics against a plain loop, and the laws of fitted signals."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from smallcal.calibrators.signals import (
    STATISTICS,
    Risk,
    Rows,
    logit_statistics,
    statistics,
)
from smallcal.calibrators.signals.statistic import Statistic
from smallcal.errors import InputError
from smallcal_lab.methods.signals import RandomScore, ShuffledRisk
from support.refused import refused

logit_rows = st.integers(2, 8).flatmap(
    lambda c: arrays(np.float64, (3, c), elements=st.floats(-60, 60, width=32))
)


def by_hand(row):
    top, second = sorted(row, reverse=True)[:2]
    e = [math.exp(v - top) for v in row]
    p = sorted((v / sum(e) for v in e), reverse=True)
    return [
        p[0],
        top - second,
        p[0] - p[1],
        -sum(v * math.log(max(v, 1e-12)) for v in p),
        math.sqrt(sum(v * v for v in row)),
        top,
    ]


@given(logit_rows)
def test_statistics_equal_a_plain_loop(z):
    expected = [by_hand(row) for row in z.tolist()]
    np.testing.assert_allclose(statistics(z), expected, rtol=1e-9, atol=1e-9)


@given(logit_rows, st.randoms())
def test_statistics_do_not_depend_on_the_order_of_classes(z, random):
    order = list(range(z.shape[1]))
    random.shuffle(order)
    np.testing.assert_allclose(statistics(z[:, order]), statistics(z), rtol=1e-12, atol=1e-12)


@given(logit_rows, st.floats(-20, 20))
def test_a_shift_moves_only_norm_and_top_logit(z, shift):
    before, after = statistics(z), statistics(z + shift)
    np.testing.assert_allclose(after[:, :4], before[:, :4], rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(after[:, 5], before[:, 5] + shift, rtol=1e-12, atol=1e-12)


def test_float32_agrees_with_float64():
    z = np.random.default_rng(0).normal(size=(500, 40)) * 5
    np.testing.assert_allclose(
        statistics(z.astype(np.float32)), statistics(z), rtol=2e-4, atol=2e-6
    )


def test_blocks_do_not_change_the_result(monkeypatch):
    z = np.random.default_rng(1).normal(size=(101, 7))
    whole = statistics(z)
    monkeypatch.setattr(logit_statistics, "_BLOCK_BYTES", 240)
    np.testing.assert_array_equal(statistics(z), whole)


def test_memory_stays_bounded_for_many_rows():
    z = np.zeros((400_000, 50), dtype=np.float32)
    z[:, 0] = 1
    tracemalloc.start()
    statistics(z)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    result = 400_000 * 6 * 8
    assert peak < result + 8e6  # the result, and a few blocks


def test_bad_rows_in_a_later_block_are_named_by_their_own_number():
    z = np.zeros((50_000, 10))
    z[:, 0] = 1
    z[49_000, 3] = np.nan
    with refused("not-finite", "row 49000", "3"):
        statistics(z)


@settings(max_examples=25)
@given(arrays(np.float64, (6,), elements=st.floats(-3, 3)), st.floats(-3, 3))
def test_risk_is_the_logistic_of_standardised_statistics(coef, intercept):
    z = np.random.default_rng(2).normal(size=(20, 5)) * 3
    stats = statistics(z)
    mean, scale = stats.mean(axis=0), stats.std(axis=0)
    risk = Risk(tuple(coef), intercept, tuple(mean), tuple(scale))
    expected = 1 / (1 + np.exp(-((stats - mean) / scale @ coef + intercept)))
    np.testing.assert_allclose(risk.scores(Rows(z)), expected, rtol=1e-9)


def test_controls_repeat_for_a_seed_and_shuffle_keeps_the_scores():
    rows = Rows(np.random.default_rng(3).normal(size=(40, 5)))
    risk = Risk((1.0,), 0.0, (0.0,), (1.0,), ("entropy",))
    shuffled = ShuffledRisk(risk, seed=4)
    np.testing.assert_array_equal(shuffled.scores(rows), shuffled.scores(rows))
    np.testing.assert_array_equal(np.sort(shuffled.scores(rows)), np.sort(risk.scores(rows)))
    assert not np.array_equal(shuffled.scores(rows), risk.scores(rows))
    np.testing.assert_array_equal(RandomScore(4).scores(rows), RandomScore(4).scores(rows))
    assert not np.array_equal(RandomScore(4).scores(rows), RandomScore(5).scores(rows))


def test_unknown_statistics_and_uneven_risk_models_are_refused():
    with pytest.raises(InputError, match=f"among {STATISTICS[0]}.*got \\('x',\\)"):
        Statistic("x")
    with pytest.raises(InputError, match="equally long"):
        Risk((1.0, 2.0), 0.0, (0.0,), (1.0,), ("entropy",))
    with refused("option-range"):
        Risk((1.0,), 0.0, (0.0,), (0.0,), ("entropy",))

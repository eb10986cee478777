"""The decision curve: by a plain loop, by a closed form, and against acting on all or on none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smallcal as sc
from smallcal import plots
from smallcal.advice.cost_words import costs_of


def plain(y, p, t):
    """Net benefit as it is defined, row by row."""
    hits = sum(1 for came, q in zip(y, p, strict=True) if q >= t and came)
    alarms = sum(1 for came, q in zip(y, p, strict=True) if q >= t and not came)
    return hits / len(y) - alarms / len(y) * t / (1 - t)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 60), ties=st.booleans())
def test_the_curve_is_that_of_a_plain_loop(seed, n, ties):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    p = p.round(2) if ties else p  # on the thresholds themselves
    y = rng.random(n) < p
    row = plots.net_benefit_data(y, p, n_boot=3)["probs"]
    assert row.benefit == pytest.approx([plain(y, p, t) for t in row.threshold])
    everyone = np.ones(n)
    assert row.all == pytest.approx([plain(y, everyone, t) for t in row.threshold])
    assert row.gain == pytest.approx(row.benefit - np.maximum(row.all, 0))
    assert row.rate == y.mean()


def test_of_right_probabilities_that_are_spread_evenly_it_is_half_of_what_is_left():
    """TP = (1 - t^2) / 2 and FP = (1 - t)^2 / 2 of all, so that the net benefit is (1 - t) / 2."""
    rng = np.random.default_rng(0)
    p = rng.random(400_000)
    row = plots.net_benefit_data(rng.random(400_000) < p, p, n_boot=2)["probs"]
    middle = row.threshold <= 0.9
    assert row.benefit[middle] == pytest.approx((1 - row.threshold[middle]) / 2, abs=4e-3)
    assert row.all[middle] == pytest.approx(
        0.5 - 0.5 * (row.threshold / (1 - row.threshold))[middle], abs=2e-2
    )


def test_bands_are_percentiles_of_resamples_and_the_gain_is_paired():
    rng = np.random.default_rng(3)
    p = rng.random(150)
    y = rng.random(150) < p
    row = plots.net_benefit_data(y, p, n_boot=50, random_state=8)["probs"]
    again = np.random.default_rng(8)
    rows = [again.integers(150, size=150, dtype=np.uint32) for _ in range(50)]
    drawn = np.array([[plain(y[i], p[i], t) for t in row.threshold] for i in rows])
    every = np.array([[plain(y[i], np.ones(150), t) for t in row.threshold] for i in rows])
    assert row.low == pytest.approx(np.quantile(drawn, 0.025, axis=0))
    assert row.high == pytest.approx(np.quantile(drawn, 0.975, axis=0))
    paired = drawn - np.where(row.all > 0, every, 0)
    assert row.gain_low == pytest.approx(np.quantile(paired, 0.025, axis=0))


def test_two_columns_are_the_probability_of_the_second():
    p, y = np.linspace(0, 1, 50), np.arange(50) % 3 == 0
    one = plots.net_benefit_data(y, p, n_boot=5)["probs"]
    two = plots.net_benefit_data(y.astype(int), np.column_stack([1 - p, p]), n_boot=5)["probs"]
    assert (one.benefit == two.benefit).all()
    assert (one.kind, two.kind) == ("score", "logits")


def test_it_is_what_costs_say_in_other_units():
    """Acting at t = f / (f + m) costs, per miss avoided: rate - net benefit = cost / m."""
    rng = np.random.default_rng(5)
    p = rng.random(500)
    y = rng.random(500) < p
    row = plots.net_benefit_data(y, p, n_boot=2)["probs"]
    for i in (9, 24, 49):
        t = row.threshold[i]
        costs = sc.Costs(miss=1 - t, false_alarm=t)
        cost = sc.expected_cost(y, p, costs, n_boot=0).cost.point
        assert row.rate - row.benefit[i] == pytest.approx(cost / (1 - t))


@pytest.mark.parametrize("outcome", [0, 1])
def test_one_outcome_alone_and_one_row_can_be_drawn(outcome):
    pytest.importorskip("matplotlib")
    for n in (1, 30):
        y, p = np.full(n, outcome), np.linspace(0.1, 1, n)
        plots.net_benefit(y, p, n_boot=5).figure.draw_without_rendering()
        costs = sc.Costs(miss=5, false_alarm=2, review=1)
        plots.cost_curve(y, p, costs=costs, n_boot=5).figure.draw_without_rendering()


def test_a_cost_curve_says_what_its_threshold_is_on():
    pytest.importorskip("matplotlib")
    y, p = [1, 0, 1, 0], [0.9, 0.2, 0.4, 0.1]
    said = {
        "miss=4,false_alarm=1": "decided for 1 where its probability is at least (%)",
        "miss=4,review=1": "answered where the answer's probability is at least (%)",
        "miss=4,false_alarm=2,review=1": "answered where that is expected to save at least",
    }
    for text, label in said.items():
        assert plots.cost_curve(y, p, costs=costs_of(text), n_boot=5).get_xlabel() == label

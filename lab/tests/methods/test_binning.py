"""Scaling-binning: against a plain reference, calibrated on fresh data, exact in hard places."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps import ScalarMap, Split, fit_temperature
from smallcal.calibrators.maps.binning import BinnedMap, keep_argmax
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from smallcal_lab.methods.partitions import fit_binning, stratified_halves
from support.simulated import simulate


def make_split(z, y, *, goal="nll", weight=None, **discipline):
    preds = Predictions.of(z, y, weight=weight)
    gaps, chosen = Gaps.of(preds), objective(goal)
    pooled = fit_temperature(chosen, gaps, bounds=(0.05, 20.0))
    return Split(preds, gaps, chosen, pooled, np.zeros(preds.n), Discipline(**discipline))


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def apply(fitted, z):
    return fitted.probabilities(np.asarray(z, dtype=np.float64), np.zeros(len(z)))


def plain_probabilities(fitted, z):
    """Row by row, as the definition reads, in extended precision."""
    result = []
    for row in np.asarray(z, dtype=np.longdouble):
        p = softmax(row[None] / np.longdouble(fitted.temperature))[0]
        top = p.argmax()
        b = sum(p[top] >= edge for edge in fitted.edges)
        share = np.delete(p, top) / np.delete(p, top).sum()
        c = max(np.longdouble(fitted.values[b]), share.max() / (1 + share.max()))
        result.append(np.insert((1 - c) * share, top, c))
    return np.array(result)


def test_probabilities_equal_the_plain_reference():
    z, _ = simulate(400, 9)
    fitted = BinnedMap(1.7, (0.3, 0.5, 0.8), (0.05, 0.45, 0.6, 0.97))
    p = apply(fitted, z)
    np.testing.assert_allclose(p, plain_probabilities(fitted, z).astype(float), rtol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-15)


def test_the_other_classes_keep_their_proportions():
    z, y = simulate(500, 7)
    fit = fit_binning(make_split(z, y))
    p, scaled = apply(fit.map, z), softmax(z / fit.map.temperature)
    top = z.argmax(axis=1)
    others = np.arange(7) != top[:, None]
    ratio = (p / scaled)[others].reshape(500, 6)
    np.testing.assert_allclose(ratio, ratio[:, :1].repeat(6, axis=1), rtol=1e-9)


@pytest.mark.parametrize("n_bins", [2, 5, 10])
def test_the_fit_equals_a_plain_reference(n_bins):
    z, y = simulate(900, 8)
    split = make_split(z, y)
    fit = fit_binning(split, n_bins=n_bins)
    first, second = halves_by_hand(z.argmax(axis=1) == y)
    alone = make_split(z[first], y[first]).pooled.value
    assert fit.map.temperature == pytest.approx(alone, rel=1e-7)
    confidence = np.sort(softmax(z[second] / fit.map.temperature).max(axis=1))
    bins = np.array_split(confidence, n_bins)
    assert fit.map.values == pytest.approx([b.mean() for b in bins], rel=1e-2)
    sizes = np.histogram(confidence, [0, *fit.map.edges, 1])[0]
    assert np.ptp(sizes) <= 1
    cut = np.split(confidence, np.cumsum(sizes)[:-1])
    assert fit.map.values == pytest.approx([b.mean() for b in cut], rel=1e-12)
    assert (fit.counts, fit.flags, fit.map.n_parameters) == ((900,), {}, 1 + n_bins)


def halves_by_hand(right):
    rng = np.random.default_rng([0, 5])
    a, b = rng.permutation(np.flatnonzero(right)), rng.permutation(np.flatnonzero(~right))
    i, j = -(-len(a) // 2), len(b) // 2
    return np.r_[a[:i], b[:j]], np.r_[a[i:], b[j:]]


@pytest.mark.parametrize(("right", "wrong"), [(10, 10), (11, 3), (3, 11), (2, 2), (7, 2)])
def test_halves_are_equal_and_each_has_its_share_of_errors(right, wrong):
    correct = np.r_[np.ones(right, dtype=bool), np.zeros(wrong, dtype=bool)]
    rows = np.arange(right + wrong)
    first, second = stratified_halves(correct, rows, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(np.r_[first, second]), rows)
    assert abs(len(first) - len(second)) <= 1
    assert abs(int(correct[first].sum()) - int(correct[second].sum())) <= 1
    assert (~correct[first]).any()
    assert (~correct[second]).any()


def test_bins_are_calibrated_on_fresh_data():
    fit = fit_binning(make_split(*simulate(4000, 8, seed=1)))
    z, y = simulate(40_000, 8, seed=2)
    p = apply(fit.map, z)
    confidence, right = p.max(axis=1), z.argmax(axis=1) == y
    assert len(np.unique(confidence)) <= 10 + (confidence < 0.5).sum()
    for value in fit.map.values:
        here = confidence == value
        assert here.mean() > 0.05
        assert right[here].mean() == pytest.approx(value, abs=0.035)


@settings(max_examples=150)
@given(
    arrays(np.float32, (4, 6), elements=st.floats(-30, 30, width=32)),
    st.sampled_from([0.05, 1.0, 20.0]),
    st.sampled_from([(0.0, 0.1, 0.3), (0.2, 0.5, 1.0)]),
    st.integers(0, 3),
)
def test_the_argmax_never_changes_even_a_hair_from_a_tie(z, temperature, values, ulps):
    z = z.astype(np.float64)
    rival = z.max(axis=1)
    for _ in range(ulps):
        rival = np.nextafter(rival, np.inf)
    z[:, -1] = rival
    p = apply(BinnedMap(temperature, (0.3, 0.6), values), z)
    np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)


def test_keeping_the_argmax_moves_earlier_rivals_only():
    p = np.array([[0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [0.2, 0.4, 0.4]])
    keep_argmax(p, np.array([0, 1, 1]))
    np.testing.assert_array_equal(p[[0, 2]], [[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]])
    assert 0.4 - 1e-15 < p[1, 0] < p[1, 1] == 0.4


def test_a_low_value_is_raised_until_no_class_overtakes():
    z = np.log([[0.5, 0.45, 0.05]])
    p = apply(BinnedMap(1.0, (), (0.3,)), z)
    assert p[0] == pytest.approx([0.9 / 1.9, 0.9 / 1.9, 0.1 / 1.9])
    two = apply(BinnedMap(1.0, (), (0.3,)), [[0.0, 3.0]])
    assert two[0] == pytest.approx([0.5, 0.5])
    assert two[0].argmax() == 1


def test_a_confidence_on_an_edge_goes_up():
    p = apply(BinnedMap(1.0, (0.5,), (0.6, 0.9)), [[0.0, 0.0]])
    assert p[0] == pytest.approx([0.9, 0.1])


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e15])
def test_shares_are_right_where_the_doubt_underflows(scale):
    z = np.array([[scale, 1.0, 0.0, -1.0], [-scale, 1.0, 0.0, 2000.0]])
    p = apply(BinnedMap(1.0, (0.5,), (0.4, 0.9)), z)
    assert p[:, [0, 3]].max(axis=1) == pytest.approx([0.9, 0.9])
    share = np.exp([1.0, 0.0, -1.0]) / np.exp([1.0, 0.0, -1.0]).sum()
    assert p[0, 1:] == pytest.approx(0.1 * share)
    assert p[1, 1] / p[1, 2] == pytest.approx(np.e)


def test_saturated_confidences_rule_no_class_out():
    z, y = simulate(600, 5, signal=9)
    z[:300] = 0
    z[np.arange(300), y[:300]] = 500
    fit = fit_binning(make_split(z, y))
    assert "fewer_bins" in fit.flags
    assert max(fit.map.values) < 1
    assert (apply(fit.map, z) > 0).all(axis=1)[:300].all()


def test_float32_logits_agree_away_from_the_edges():
    fit = fit_binning(make_split(*simulate(900, 8)))
    z, _ = simulate(3000, 8, seed=5)
    scaled = softmax(z / fit.map.temperature).max(axis=1)
    clear = np.abs(scaled[:, None] - fit.map.edges).min(axis=1) > 1e-5
    assert clear.mean() > 0.99
    single = apply(fit.map, z.astype(np.float32))
    np.testing.assert_allclose(single[clear], apply(fit.map, z)[clear], atol=1e-5)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_row_does_not_depend_on_its_batch(order):
    fit = fit_binning(make_split(*simulate(900, 37)))
    z = np.array(simulate(257, 37, seed=5)[0], order=order)
    whole = apply(fit.map, z)
    for rows in (slice(0, 1), slice(3, 10), slice(256, 257), slice(None, None, 3)):
        np.testing.assert_array_equal(apply(fit.map, z[rows]), whole[rows])


def test_the_input_is_left_alone():
    z, _ = simulate(50, 4)
    kept = z.copy()
    apply(BinnedMap(1.0, (0.5,), (0.4, 0.9)), z)
    np.testing.assert_array_equal(z, kept)


def test_a_round_trip_through_json_changes_nothing():
    fitted = fit_binning(make_split(*simulate(900, 8))).map
    text = json.dumps([fitted.temperature, fitted.edges, fitted.values])
    again = BinnedMap(*json.loads(text))
    assert again == fitted
    assert isinstance(again.edges, tuple)
    z, _ = simulate(100, 8, seed=3)
    np.testing.assert_array_equal(apply(again, z), apply(fitted, z))


def test_the_same_seed_gives_the_same_bits_and_another_one_does_not():
    z, y = simulate(900, 8)
    one, two, other = (fit_binning(make_split(z, y, seed=seed)).map for seed in (0, 0, 1))
    assert one == two != other


def test_samples_of_weight_zero_are_left_out():
    z, y = simulate(900, 8)
    weight = np.r_[np.ones(600), np.zeros(300)]
    weighted = fit_binning(make_split(z, y, weight=weight))
    without = fit_binning(make_split(z[:600], y[:600]))
    assert weighted.map.values == pytest.approx(without.map.values, rel=1e-8)


@pytest.mark.parametrize(("n", "bins"), [(60, 3), (150, 7), (40, 2)])
def test_few_samples_make_fewer_bins(n, bins):
    fit = fit_binning(make_split(*simulate(n, 4)))
    assert len(fit.map.values) == bins
    assert fit.flags["fewer_bins"] == []


@pytest.mark.parametrize("kind", ["ten", "30", "all right", "all wrong", "one wrong", "constant"])
def test_where_nothing_can_be_binned_one_temperature_serves_all(kind):
    z, y = simulate(300, 5)
    if kind in ("ten", "30"):
        n = 10 if kind == "ten" else 30
        z, y = z[:n], y[:n]
    elif kind == "constant":
        z = np.tile([2.0, 0, 0, 0, 1], (300, 1))
    elif kind == "all wrong":
        y = (z.argmax(axis=1) + 1) % 5
    else:
        y = z.argmax(axis=1)
        y[0] = (y[0] + (kind == "one wrong")) % 5
    split = make_split(z, y)
    fit = fit_binning(split)
    assert fit.map == ScalarMap(split.pooled.value)
    assert fit.counts == (len(y),)
    assert fit.flags["scalar_fallback"] == []


def test_coinciding_confidences_share_a_bin():
    rng = np.random.default_rng(0)
    z = rng.permutation(np.repeat([[3.0, 0, 0], [1.0, 0, 0], [0.5, 0, 0]], [200, 60, 40], axis=0))
    y = np.where(rng.random(300) < 0.7, 0, 1)
    fit = fit_binning(make_split(z, y))
    levels = np.unique(softmax(z / fit.map.temperature).max(axis=1))
    assert fit.map.values == pytest.approx(levels)
    assert fit.flags == {"fewer_bins": []}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((0.0, [0.5], [0.4, 0.9]), "temperatures must be finite and positive"),
        ((1.0, [0.5], [0.4]), "1 bins need 0 edges; got 1"),
        ((1.0, [0.5, 0.5], [0.1, 0.4, 0.9]), "edges must be finite and ascending"),
        ((1.0, [float("nan")], [0.4, 0.9]), "edges must be finite and ascending"),
        ((1.0, [0.5], [0.4, 1.1]), "values must lie between 0 and 1"),
        ((1.0, [0.5], [float("nan"), 0.5]), "values must lie between 0 and 1"),
    ],
)
def test_broken_numbers_are_refused(parts, message):
    with pytest.raises(InputError, match=message):
        BinnedMap(*parts)


def test_one_bin_is_refused():
    with pytest.raises(InputError, match="n_bins must be at least 2; got 1"):
        fit_binning(make_split(*simulate(300, 5)), n_bins=1)

"""Ensemble temperature scaling: optimal weights by two routes, and the kept prediction."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize
from scipy.special import softmax as scipy_softmax

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps import Split, fit_temperature
from smallcal.calibrators.maps.mixture import MixtureMap, fit_mixture, mixture_weights
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from support.simulated import simulate


def make_split(z, y, weight=None, goal="nll"):
    preds, discipline = Predictions.of(z, y, weight=weight), Discipline()
    gaps, goal = Gaps.of(preds), objective(goal)
    pooled = fit_temperature(goal, gaps, bounds=discipline.bounds)
    return Split(preds, gaps, goal, pooled, np.zeros(len(z)), discipline)


def likelihoods(z, y, temperature):
    every = np.arange(len(y))
    z = np.asarray(z, dtype=np.float64)
    scaled = scipy_softmax(z / temperature, axis=1)[every, y]
    raw = scipy_softmax(z, axis=1)[every, y]
    return np.column_stack([scaled, raw, np.full(len(y), 1 / z.shape[1])])


def mean_nll(likelihood, weights, share=None):
    return -np.average(np.log(likelihood @ np.asarray(weights)), weights=share)


def random_likelihoods(rng, kind):
    """Three models' likelihoods: ordinary, two alike, nearly alike, with zeros, tiny."""
    n = int(rng.integers(4, 300))
    table = rng.random((n, 3)) ** rng.choice([1, 3, 20])
    if kind == "alike":
        table[:, 1] = table[:, 0]
    elif kind == "nearly alike":
        table[:, 1] = table[:, 0] * (1 + 1e-9 * rng.normal(size=n))
    elif kind == "zeros":
        table[:, :2] *= rng.random((n, 2)) < 0.7
    elif kind == "tiny":
        table[:, :2] = 10.0 ** rng.uniform(-300, 0, size=(n, 2))
    table[:, 2] = 1 / rng.integers(2, 200)
    return table


# The map.


@pytest.mark.parametrize(
    ("temperature", "weights", "message"),
    [
        (0.0, (1, 0, 0), "temperatures must be"),
        (np.inf, (1, 0, 0), "temperatures must be"),
        (1.0, (0.5, 0.5), "weights must be three"),
        (1.0, (), "weights must be three"),
        (1.0, (0.5, 0.5, 0.5), "sum 1"),
        (1.0, (1.5, -0.5, 0.0), "not negative"),
        (1.0, (np.nan, 0.5, 0.5), "weights must be three"),
    ],
)
def test_a_bad_map_is_refused(temperature, weights, message):
    with pytest.raises(InputError, match=message):
        MixtureMap(temperature, weights)


def test_a_map_survives_json():
    fitted = MixtureMap(1.3, (0.7, 0.2, 0.1))
    again = MixtureMap(**json.loads(json.dumps({"temperature": 1.3, "weights": fitted.weights})))
    assert again == fitted
    assert fitted.n_parameters == 3
    assert fitted.preserves_argmax


def test_probabilities_follow_the_formula():
    z, _ = simulate(80, 6)
    got = MixtureMap(1.9, (0.5, 0.3, 0.2)).probabilities(z, np.zeros(80))
    expected = 0.5 * scipy_softmax(z / 1.9, axis=1) + 0.3 * scipy_softmax(z, axis=1) + 0.2 / 6
    np.testing.assert_allclose(got, expected, rtol=1e-13)
    np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 101, 260])
def test_a_row_has_the_same_bits_in_every_batch(n_classes):
    z, _ = simulate(300, n_classes)
    fitted = MixtureMap(1.4, (0.6, 0.3, 0.1))
    whole = fitted.probabilities(z, np.zeros(300))
    for start, size in [(0, 1), (7, 1), (299, 1), (13, 2), (100, 3), (1, 64), (33, 267)]:
        rows = slice(start, start + size)
        np.testing.assert_array_equal(fitted.probabilities(z[rows], np.zeros(size)), whole[rows])
    np.testing.assert_array_equal(fitted.probabilities(np.asfortranarray(z), None), whole)


@settings(max_examples=60)
@given(
    st.integers(0, 10_000),
    st.sampled_from([1e-300, 1e-17, 1e-15, 1e-8, 1.0, 30.0, 1e4]),
    st.sampled_from([(1, 0, 0), (0, 1, 0), (0, 0, 1), (1e-16, 0, 1), (0.3, 0.3, 0.4)]),
    st.sampled_from([0.05, 1.0, 20.0]),
)
def test_the_prediction_never_changes(seed, spread, weights, temperature):
    rng = np.random.default_rng(seed)
    z = rng.choice([0.0, 1.0, 1e3]) + spread * rng.normal(size=(20, 5))
    z[::4, 3] = z[::4, 1]  # exact ties go to the first column
    p = MixtureMap(temperature, weights).probabilities(z, np.zeros(20))
    np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


def test_ties_that_rounding_makes_are_undone_by_one_unit():
    z = np.array([[0.0, 1.0, 2.0], [5.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    p = MixtureMap(1.0, (0, 0, 1)).probabilities(z, np.zeros(3))
    below = np.nextafter(1 / 3, 0)
    assert p.tolist() == [[below, below, 1 / 3], [1 / 3] * 3, [1 / 3] * 3]


# The weights.


@pytest.mark.parametrize("kind", ["ordinary", "alike", "nearly alike", "zeros", "tiny"])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_meet_the_conditions_of_an_optimum(kind, weighted):
    """A model in the blend has mean likelihood ratio 1, the others at most 1."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        table = random_likelihoods(rng, kind)
        share = rng.random(len(table)) + 1e-3 if weighted else None
        weights = np.array(mixture_weights(table, share))
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1, abs=1e-15)
        ratio = np.average(table / (table @ weights)[:, None], axis=0, weights=share)
        assert ratio.max() <= 1 + 1e-11
        np.testing.assert_allclose(weights * ratio, weights, atol=1e-11)


def test_the_conditions_are_those_of_the_slope():
    table = random_likelihoods(np.random.default_rng(1), "ordinary")
    weights = np.array([0.2, 0.3, 0.5])
    slope = approx_fprime(weights, lambda w: mean_nll(table, w), 1e-7)
    ratio = (table / (table @ weights)[:, None]).mean(axis=0)
    np.testing.assert_allclose(slope, -ratio, rtol=1e-5)


@pytest.mark.parametrize("kind", ["ordinary", "alike", "zeros"])
def test_weights_are_as_good_as_those_of_slsqp(kind):
    rng = np.random.default_rng(2)
    for _ in range(10):
        table = random_likelihoods(rng, kind)
        found = minimize(
            lambda w, t=table: mean_nll(np.maximum(t, 1e-300), np.maximum(w, 1e-300)),
            (0.4, 0.3, 0.3),
            method="SLSQP",
            bounds=[(0, 1)] * 3,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        weights = mixture_weights(table)
        assert mean_nll(table, weights) <= found.fun + 1e-12
        if kind == "ordinary":
            np.testing.assert_allclose(weights, found.x, atol=1e-4)


def test_weights_are_as_good_as_the_best_of_a_fine_grid():
    table = random_likelihoods(np.random.default_rng(3), "ordinary")
    ticks = np.linspace(0, 1, 101)
    grid = [(a, b, max(0.0, 1 - a - b)) for a in ticks for b in ticks if a + b <= 1 + 1e-12]
    best = min(mean_nll(table, np.array(w) + 1e-300) for w in grid)
    got = mean_nll(table, mixture_weights(table))
    assert got <= best
    assert got == pytest.approx(best, abs=1e-3)


# The fit.


def test_a_known_blend_is_recovered():
    rng = np.random.default_rng(0)
    z, _ = simulate(40_000, 5, temperature=3.0)
    true = MixtureMap(4.0, (0.5, 0.3, 0.2))
    p = true.probabilities(z, np.zeros(len(z)))
    y = (p.cumsum(axis=1) > rng.random((len(z), 1))).argmax(axis=1)
    weights = mixture_weights(likelihoods(z, y, true.temperature))
    assert weights == pytest.approx(true.weights, abs=0.03)


@pytest.mark.parametrize("goal", ["nll", "bce"])
@pytest.mark.parametrize(("n", "n_classes", "temperature"), [(200, 10, 2.5), (2000, 3, 0.4)])
def test_the_fit_is_never_worse_than_the_temperature(goal, n, n_classes, temperature):
    z, y = simulate(n, n_classes, temperature=temperature)
    split = make_split(z, y, goal=goal)
    got = fit_mixture(split)
    assert got.map.temperature == split.pooled.value
    assert got.counts == (n,)
    assert got.flags == {}
    table = likelihoods(z, y, got.map.temperature)
    fitted = got.map.probabilities(z, np.zeros(n))[np.arange(n), y]
    assert -np.log(fitted).mean() == pytest.approx(mean_nll(table, got.map.weights), abs=1e-12)
    for corner in np.eye(3):
        assert -np.log(fitted).mean() <= mean_nll(table, corner + 1e-300) + 1e-12


def test_renaming_the_classes_changes_nothing():
    z, y = simulate(300, 4)
    order = np.array([2, 0, 3, 1])
    straight = fit_mixture(make_split(z, y)).map
    renamed = fit_mixture(make_split(z[:, order], np.argsort(order)[y])).map
    assert renamed.weights == pytest.approx(straight.weights, abs=1e-7)


def test_fits_are_repeatable():
    split = make_split(*simulate(300, 7))
    assert fit_mixture(split).map == fit_mixture(split).map


def test_single_precision_gives_the_same_probabilities():
    z, y = simulate(400, 4)
    exact = fit_mixture(make_split(z, y)).map.probabilities(z, None)
    rounded = z.astype(np.float32)
    single = fit_mixture(make_split(rounded, y)).map.probabilities(rounded, None)
    np.testing.assert_allclose(single, exact, atol=1e-5)


def test_weight_two_is_the_sample_twice_and_weight_zero_none():
    z, y = simulate(150, 4)
    weight = np.arange(150) % 3.0
    weighted = fit_mixture(make_split(z, y, weight)).map
    rows = np.repeat(np.arange(150), weight.astype(int))
    repeated = fit_mixture(make_split(z[rows], y[rows])).map
    assert weighted.weights == pytest.approx(repeated.weights, abs=1e-7)


def test_an_idle_sample_that_no_model_explains_is_no_obstacle():
    table = np.array([[0.9, 0.5, 0.1], [0.8, 0.5, 0.1], [0.0, 0.0, 0.1]])
    assert mixture_weights(table, np.array([1.0, 1.0, 0.0])) == pytest.approx((1, 0, 0), abs=1e-12)


@pytest.mark.parametrize("right", [True, False])
def test_predictions_all_alike_are_fitted_and_flagged(right):
    z, _ = simulate(30, 3)
    top = z.argmax(axis=1)
    split = make_split(z, top if right else (top + 1) % 3)
    got = fit_mixture(split)
    assert "unidentified" in got.flags
    p = got.map.probabilities(z, np.zeros(30))
    np.testing.assert_array_equal(p.argmax(axis=1), top)
    if not right:
        assert got.map.weights[2] == pytest.approx(1, abs=0.5)


def test_ten_samples_and_missing_classes_are_enough():
    z, y = simulate(10, 40, seed=2)
    p = fit_mixture(make_split(z, y)).map.probabilities(z, np.zeros(10))
    np.testing.assert_allclose(p.sum(axis=1), 1)


@pytest.mark.parametrize("scale", [1e-4, 1e6])
def test_logits_of_any_scale_are_fitted_without_a_warning(scale):
    z, y = simulate(120, 3)
    got = fit_mixture(make_split(z * scale, y)).map
    assert np.isfinite(got.probabilities(z * scale, np.zeros(120))).all()

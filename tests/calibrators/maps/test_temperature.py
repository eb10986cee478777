"""The one-dimensional fit against SciPy's bounded search, and its conventions at the edges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from smallcal.calibrators.maps import fit_temperature
from smallcal.calibrators.maps.temperature import PLATEAU, Evaluated
from smallcal.calibrators.objectives import OBJECTIVES, Gaps, moments, objective
from smallcal.data.predictions import Predictions
from support.simulated import simulate

BOUNDS = (0.05, 20.0)


def gaps_of(z, y, weight=None):
    return Gaps.of(Predictions.of(z, y, weight=weight))


def reference_temperature(name, z, y):
    """SciPy's bounded search over log-sum-exp, as the paper describes."""
    right = z.argmax(axis=1) == y

    def loss(t):
        scaled = z / t
        log_p = scaled - logsumexp(scaled, axis=1, keepdims=True)
        log_c = log_p.max(axis=1)
        doubt = -np.expm1(log_c)
        return {
            "nll": -log_p[np.arange(len(z)), y].mean(),
            "bce": -np.where(right, log_c, np.log(np.maximum(doubt, 1e-300))).mean(),
            "brier": ((right - np.exp(log_c)) ** 2).mean(),
        }[name]

    best = minimize_scalar(loss, bounds=BOUNDS, method="bounded", options={"xatol": 1e-10})
    return best.x


@pytest.mark.parametrize("name", ["nll", "bce", "brier"])
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.3, 6), st.sampled_from([2, 5, 30]))
def test_temperature_equals_a_bounded_search(name, seed, temperature, n_classes):
    z, y = simulate(400, n_classes, temperature=temperature, seed=seed)
    got = fit_temperature(objective(name), gaps_of(z, y), bounds=BOUNDS)
    assert not got.unidentified
    if got.at_bound:
        assert reference_temperature(name, z, y) == pytest.approx(got.value, rel=1e-3)
    else:
        assert got.value == pytest.approx(reference_temperature(name, z, y), rel=2e-6)


@pytest.mark.parametrize("name", ["nll", "bce"])
def test_the_fit_is_exact_to_1e_8_in_a_handful_of_evaluations(name):
    z, y = simulate(2000, 50, temperature=2.0)
    gaps = gaps_of(z, y)
    got = fit_temperature(objective(name), gaps, bounds=BOUNDS)
    assert got.evaluations <= 8
    slope = objective(name).terms(gaps, moments(gaps, 1 / got.value))
    # One more Newton step from the answer moves it by less than the tolerance.
    assert abs(slope.slope.sum() / slope.curvature.sum()) * got.value**2 < 1e-8


def test_a_known_temperature_is_recovered():
    z, y = simulate(40_000, 10, temperature=2.5)
    for name in OBJECTIVES:
        got = fit_temperature(objective(name), gaps_of(z, y), bounds=BOUNDS)
        assert got.value == pytest.approx(2.5, rel=0.05), name


@pytest.mark.parametrize("name", ["nll", "bce"])
@pytest.mark.parametrize("temperature", [0.01, 0.06, 0.5, 3.0, 19.0, 30.0])
def test_the_start_does_not_matter(name, temperature):
    z, y = simulate(500, 20)
    gaps = gaps_of(z, y)
    goal = OBJECTIVES[name]
    start = Evaluated(temperature, goal.terms(gaps, moments(gaps, 1 / temperature)))
    cold = fit_temperature(goal, gaps, bounds=BOUNDS)
    warm = fit_temperature(goal, gaps, bounds=BOUNDS, start=start)
    assert warm.value == pytest.approx(cold.value, rel=1e-9)


def test_scaling_the_logits_scales_the_temperature():
    z, y = simulate(500, 20)
    one = fit_temperature(OBJECTIVES["bce"], gaps_of(z, y), bounds=BOUNDS)
    two = fit_temperature(OBJECTIVES["bce"], gaps_of(3 * z, y), bounds=BOUNDS)
    assert two.value == pytest.approx(3 * one.value, rel=1e-8)


@pytest.mark.parametrize(("factor", "bound"), [(1000, 20.0), (0.001, 0.05)])
@pytest.mark.parametrize("name", ["nll", "bce"])
def test_an_optimum_beyond_the_bounds_gives_the_bound_and_says_so(name, factor, bound):
    z, y = simulate(300, 5, seed=3)
    got = fit_temperature(objective(name), gaps_of(factor * z, y), bounds=BOUNDS)
    assert got.value == bound
    assert got.at_bound


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_without_errors_the_largest_temperature_of_the_plateau_is_taken(name):
    z, _ = simulate(200, 6, seed=1)
    z[np.arange(200), z.argmax(axis=1)] += 1.0
    gaps = gaps_of(z, z.argmax(axis=1))
    got = fit_temperature(objective(name), gaps, bounds=BOUNDS)
    assert got.unidentified
    if got.at_bound:
        assert moments(gaps, 1 / got.value).doubt.max() > PLATEAU
    else:
        assert moments(gaps, 1 / got.value).doubt.max() == pytest.approx(PLATEAU, rel=1e-6)


def test_the_plateau_is_found_inside_the_bounds():
    z = np.tile([12.0, 0.0, 1.0], (60, 1))
    got = fit_temperature(OBJECTIVES["bce"], gaps_of(z, np.zeros(60, dtype=int)), bounds=BOUNDS)
    assert not got.at_bound
    doubt = np.exp(-12 / got.value) + np.exp(-11 / got.value)
    assert doubt == pytest.approx(PLATEAU, rel=1e-9)


def test_the_plateau_at_each_bound():
    sure = np.tile([9000.0, 0.0], (60, 1))
    unsure = np.tile([0.01, 0.0], (60, 1))
    zeros = np.zeros(60, dtype=int)
    assert fit_temperature(OBJECTIVES["bce"], gaps_of(sure, zeros), bounds=BOUNDS).value == 20.0
    assert fit_temperature(OBJECTIVES["bce"], gaps_of(unsure, zeros), bounds=BOUNDS).value == 0.05
    tied = np.tile([1.0, 1.0, 0.0], (60, 1))  # log-odds of a tie never rise
    assert fit_temperature(OBJECTIVES["bce"], gaps_of(tied, zeros), bounds=BOUNDS).value == 0.05


def test_all_wrong_gives_the_upper_bound_and_says_so():
    z, _ = simulate(100, 6)
    wrong = (z.argmax(axis=1) + 1) % 6
    for name in OBJECTIVES:
        got = fit_temperature(objective(name), gaps_of(z, wrong), bounds=BOUNDS)
        assert (got.value, got.at_bound, got.unidentified) == (20.0, True, True)


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_weight_two_is_the_sample_twice_and_weight_zero_is_no_sample(name):
    z, y = simulate(300, 8)
    weight = np.random.default_rng(0).integers(0, 4, size=300)
    weighted = fit_temperature(objective(name), gaps_of(z, y, weight), bounds=BOUNDS)
    again = np.repeat(np.arange(300), weight)
    repeated = fit_temperature(objective(name), gaps_of(z[again], y[again]), bounds=BOUNDS)
    assert weighted.value == pytest.approx(repeated.value, rel=1e-8)


def test_softece_finds_the_lowest_point_of_a_fine_grid():
    z, y = simulate(400, 10, temperature=0.6, seed=5)
    gaps = gaps_of(z, y)
    goal = OBJECTIVES["softece"]
    got = fit_temperature(goal, gaps, bounds=BOUNDS)
    grid = np.geomspace(*BOUNDS, 2000)
    losses = [goal.terms(gaps, moments(gaps, 1 / t)).loss.mean() for t in grid]
    best = goal.terms(gaps, moments(gaps, 1 / got.value)).loss.mean()
    assert best <= min(losses) + 1e-4

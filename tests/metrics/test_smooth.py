import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.optimize import brentq

from smallcal.metrics import Scored, confidence_gap, smece, smece_exact
from smallcal.metrics.smooth import (
    NARROWEST,
    _cosine_sums,
    _error_at,
    reflected_smooth,
    waves_left,
)

KINDS = ("calibrated", "overconfident", "many_ones", "sharp", "coarse")


def draw(kind, n, seed=0):
    """Confidences and hits of a model of the given kind."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.3, 1, n)
    if kind == "many_ones":
        confidence[rng.random(n) < 0.33] = 1.0
    if kind == "sharp":
        confidence = 1 - 0.7 * rng.beta(0.1, 3, n)
    if kind == "coarse":
        confidence = np.round(confidence, 1)
    chance = confidence - 0.1 if kind == "overconfident" else confidence
    return confidence, rng.random(n) < chance


def brute_force_error(confidence, correct, width, points=100_001):
    """E(width) by adding up every sample's mirror images and the trapezoid rule."""
    place = np.linspace(0, 1, points)
    smoothed = np.zeros(points)
    for c, b in zip(confidence, correct, strict=True):
        for image in range(-3, 4):
            for centre in (2 * image + c, 2 * image - c):
                if max(-centre, centre - 1) > 10 * width:  # adds less than 1e-21
                    continue
                smoothed += (c - b) * np.exp(-(((place - centre) / width) ** 2) / 2)
    smoothed /= np.sqrt(2 * np.pi) * width * len(confidence)
    return trapezoid(np.abs(smoothed), place)


def exact_error(confidence, correct, width):
    residual = (confidence - correct) / len(confidence)
    return _error_at(width, _cosine_sums(confidence, residual, waves_left(width)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [0.004, 0.03, 0.2, 0.9])
def test_the_smoothed_error_equals_brute_force_quadrature(kind, width):
    confidence, correct = draw(kind, 25)
    expected = brute_force_error(confidence, correct, width)
    assert exact_error(confidence, correct, width) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_smece_exact_equals_a_root_search_over_brute_force_quadrature(kind, pairs):
    confidence, correct = draw(kind, 12, seed=1)
    expected = brentq(
        lambda s: brute_force_error(confidence, correct, s, points=20_001) - s,
        1e-3,
        1.0,
        xtol=1e-9,
    )
    assert smece_exact(*pairs(confidence, correct)) == pytest.approx(expected, abs=3e-8)


#: What relplot 1.0.3 gives for 200 samples of each kind.
RELEASED = {
    "calibrated": 0.04755294656047899,
    "overconfident": 0.13761860858210992,
    "many_ones": 0.04449927827646773,
    "sharp": 0.021530054361574357,
    "coarse": 0.05406824654637094,
}


@pytest.mark.parametrize("kind", KINDS)
def test_smece_is_what_the_released_estimator_gave(kind, pairs):
    assert smece(*pairs(*draw(kind, 200))) == pytest.approx(RELEASED[kind], abs=1e-12)


@pytest.mark.parametrize("width", [0.02, 0.3])
def test_smoothed_masses_are_the_sum_of_their_mirror_images(width):
    """On nodes of the grid, the two ends among them: there sharing between nodes is exact."""
    rng = np.random.default_rng(0)
    position = np.array([0.0, 0.0, 1.0, *rng.integers(0, 401, size=20) / 400])
    mass = rng.normal(size=23)
    place = np.linspace(0, 1, 401)
    expected = np.zeros(401)
    for c, m in zip(position, mass, strict=True):
        for centre in (2 * image + sign * c for image in range(-3, 4) for sign in (1, -1)):
            expected += m * np.exp(-(((place - centre) / width) ** 2) / 2)
    expected /= np.sqrt(2 * np.pi) * width
    found = reflected_smooth(position, mass, width, nodes=401)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_the_smoothed_error_does_not_increase_with_the_width():
    confidence, correct = draw("sharp", 500)
    errors = [exact_error(confidence, correct, s) for s in np.geomspace(1e-3, 1, 40)]
    assert (np.diff(errors) <= 1e-10).all()


def test_the_cosine_sums_equal_the_plain_sums():
    rng = np.random.default_rng(0)
    place, mass = np.append(rng.random(500), [0.0, 1.0]), rng.normal(size=502)
    sums = _cosine_sums(place, mass / np.abs(mass).sum(), 3000)
    expected = np.cos(np.pi * np.outer(np.arange(3000), place)) @ mass / np.abs(mass).sum()
    np.testing.assert_allclose(sums, expected, atol=1e-11)


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(KINDS), n=st.integers(1, 60), seed=st.integers(0, 10**6))
def test_smece_exact_lies_between_the_mean_gap_and_the_mean_absolute_gap(pairs, kind, n, seed):
    confidence, correct = draw(kind, n, seed)
    case = pairs(confidence, correct)
    value = smece_exact(*case)
    assert value >= abs(confidence_gap(*case)) - 1e-9
    assert value <= np.abs(confidence - correct).mean() + 2e-9


@pytest.mark.parametrize("hit", [True, False])
def test_residuals_of_one_sign_make_smece_exact_the_mean_gap(hit, pairs):
    confidence, _ = draw("calibrated", 200)
    case = pairs(confidence, np.full(200, hit))
    assert smece_exact(*case) == pytest.approx(abs(confidence_gap(*case)), abs=1e-12)
    assert smece(*case) == pytest.approx(abs(confidence_gap(*case)), abs=2e-3)


def test_the_released_estimator_breaks_the_bound_that_the_exact_one_keeps(pairs):
    # Everything is overconfident: 3 % among the third at exactly 1.0, 1 % elsewhere. The
    # released grid gives that third half its weight: (12 + 16) / (400 + 1600).
    confidence = np.repeat([1.0, 0.75], [800, 1600])
    correct = np.concatenate([np.arange(800) >= 24, np.arange(1600) < 1184])
    case = pairs(confidence, correct)
    assert confidence_gap(*case) == pytest.approx(40 / 2400)
    assert smece(*case) == pytest.approx(28 / 2000, rel=0.01)
    assert smece_exact(*case) == pytest.approx(40 / 2400)


def test_equal_confidences_that_are_right_as_often_as_they_say_cost_nothing(pairs):
    case = pairs(np.full(8, 0.75), [1, 1, 1, 0, 1, 1, 1, 0])
    assert smece_exact(*case) == 0.0
    assert smece(*case) == pytest.approx(0.0, abs=1e-12)


def test_far_apart_ties_that_do_not_cancel_cost_their_mean_absolute_gap(pairs):
    confidence = np.repeat([0.25, 0.75], 1000)
    correct = np.concatenate([np.arange(1000) < 248, np.arange(1000) < 752])
    assert smece_exact(*pairs(confidence, correct)) == pytest.approx(0.002, abs=2e-9)


def test_below_the_narrowest_width_the_value_is_a_lower_bound(pairs):
    # Right and wrong alternate within 1e-7: they cancel at every width that is looked at.
    confidence = 0.5 + 1e-9 * np.arange(100)
    case = pairs(confidence, np.arange(100) % 2 == 0)
    assert abs(confidence_gap(*case)) <= smece_exact(*case) < NARROWEST


def test_a_very_sure_model_with_one_error_costs_about_its_mean_gap(pairs):
    confidence = np.full(50_000, 1 - 1e-7) - 1e-9 * np.arange(50_000) / 50_000
    correct = np.arange(50_000) > 0
    case = pairs(confidence, correct)
    assert smece_exact(*case) == pytest.approx(abs(confidence_gap(*case)), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_both_estimators_are_close_on_large_data(kind, pairs):
    case = pairs(*draw(kind, 50_000))
    assert smece(*case) == pytest.approx(smece_exact(*case), abs=2e-3)


def test_smooth_errors_use_the_clipped_confidence():
    scored = Scored.of([0, 1], [[1.0005, 0.0], [0.3, 0.7]])
    assert scored.confidence.max() == 1.0
    assert smece_exact(scored.labels, scored.proba) == pytest.approx(0.15)

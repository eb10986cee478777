"""Losses against direct formulas, derivatives against finite differences, in extended precision."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from smallcal.calibrators.objectives import (
    OBJECTIVES,
    SOFTECE_BANDWIDTH,
    SOFTECE_BINS,
    SOFTECE_DELTA,
    Gaps,
    mixed,
    moments,
    objective,
)
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError

L = np.longdouble
ADDITIVE = ["nll", "bce", "brier", "mixed(1)"]


def problem(seed, n=7, n_classes=5, spread=3.0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, n_classes)) * spread
    return z, rng.integers(n_classes, size=n)


def reference_losses(name, z, y, beta):
    """Per-sample losses written plainly, in long double."""
    z = np.asarray(z, dtype=L)
    every = np.arange(len(z))
    top = z.argmax(axis=1)
    scaled = np.asarray(beta, dtype=L).reshape(-1, 1) * (z - z.max(axis=1, keepdims=True))
    weight = np.exp(scaled)
    total = weight.sum(axis=1)
    rest = np.where(np.arange(z.shape[1]) == top[:, None], L(0), weight).sum(axis=1)
    log_c, log_doubt = -np.log1p(rest), np.log(rest) - np.log1p(rest)
    right = top == y
    nll = np.log1p(rest) - scaled[every, y]
    bce = -np.where(right, log_c, log_doubt)
    c = np.exp(log_c)
    brier = np.where(right, rest / total, c) ** 2
    return {"nll": nll, "bce": bce, "brier": brier, "mixed(1)": nll + bce}[name]


def central(f, x, h):
    """Fourth-order finite difference."""
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


def central2(f, x, h):
    """Fourth-order second difference."""
    return (-f(x + 2 * h) + 16 * f(x + h) - 30 * f(x) + 16 * f(x - h) - f(x - 2 * h)) / (12 * h * h)


def gaps_of(z, y, weight=None):
    return Gaps.of(Predictions.of(z, y, weight=weight))


@pytest.mark.parametrize("name", ADDITIVE)
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 20), st.sampled_from([0.1, 1.0, 5.0, 30.0]))
def test_losses_and_derivatives_agree_with_extended_precision(name, seed, beta, spread):
    z, y = problem(seed, spread=spread)
    gaps = gaps_of(z, y)
    terms = objective(name).terms(gaps, moments(gaps, beta))
    with np.errstate(divide="ignore"):
        reference = reference_losses(name, z, y, L(beta))
    assume(np.isfinite(reference.astype(float)).all())
    np.testing.assert_allclose(terms.loss, reference.astype(float), rtol=1e-11, atol=1e-300)

    h = L(beta) * L(1e-3) / max(1.0, spread)
    f = lambda b: reference_losses(name, z, y, b)  # noqa: E731
    scale = np.abs(reference).astype(float) + 1e-30
    slope = central(f, L(beta), h).astype(float)
    np.testing.assert_allclose(terms.slope, slope, rtol=1e-6, atol=1e-9 * scale.max())
    curvature = central2(f, L(beta), h).astype(float)
    tolerance = 1e-6 * (1 + np.abs(curvature).max()) + 1e-8 * scale.max() / float(h)
    np.testing.assert_allclose(terms.curvature, curvature, atol=tolerance, rtol=1e-4)


@pytest.mark.parametrize("name", ADDITIVE)
def test_a_vector_of_inverse_temperatures_is_row_by_row(name):
    z, y = problem(3, n=9)
    gaps = gaps_of(z, y)
    betas = np.linspace(0.2, 4, 9)
    together = objective(name).terms(gaps, moments(gaps, betas))
    for i, beta in enumerate(betas):
        alone = gaps_of(z[i : i + 1], y[i : i + 1])
        single = objective(name).terms(alone, moments(alone, beta))
        assert together.loss[i] == pytest.approx(single.loss[0], rel=1e-13)
        assert together.slope[i] == pytest.approx(single.slope[0], rel=1e-12)
        assert together.curvature[i] == pytest.approx(single.curvature[0], rel=1e-12)


def test_the_tails_are_exact_where_confidence_rounds_to_one():
    z, y = np.array([[800.0, 0.0, -5.0], [800.0, 0.0, -5.0]]), np.array([0, 1])
    gaps = gaps_of(z, y)
    state = moments(gaps, 2.0)
    bce = OBJECTIVES["bce"].terms(gaps, state)
    assert state.confidence[0] == 1.0
    # -log(1 - c) = -log(exp(-1600) + exp(-1610)), far below the smallest double
    assert bce.loss[1] == pytest.approx(1600 - np.log1p(np.exp(-10)), rel=1e-12)
    assert bce.slope[1] == pytest.approx(800 + 5 / (1 + np.exp(10)), rel=1e-12)
    for name in ADDITIVE:
        terms = objective(name).terms(gaps, state)
        assert all(np.isfinite(part).all() for part in (terms.loss, terms.slope, terms.curvature))


def plain_softece(c, b, weight):
    """The loss of a soft-binned split, written bin by bin."""
    centres = (np.arange(SOFTECE_BINS) + 0.5) / SOFTECE_BINS
    total = 0.0
    kernel = np.exp(-((c[:, None] - centres) ** 2) / (2 * SOFTECE_BANDWIDTH**2))
    kernel = kernel / kernel.sum(axis=1, keepdims=True) * weight[:, None]
    for m in range(SOFTECE_BINS):
        mass = kernel[:, m].sum()
        conf, acc = (kernel[:, m] * c).sum() / mass, (kernel[:, m] * b).sum() / mass
        total += mass / weight.sum() * np.sqrt((conf - acc) ** 2 + SOFTECE_DELTA**2)
    return total


@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.floats(0.1, 5))
def test_softece_value_slope_and_curvature(weighted, seed, beta):
    z, y = problem(seed, n=40, n_classes=4)
    weight = np.random.default_rng(seed).random(40) + 0.1 if weighted else None
    gaps = gaps_of(z, y, weight)
    w = np.ones(40) if weight is None else weight

    def value(b):
        state = moments(gaps, b)
        return plain_softece(state.confidence, gaps.correct, w)

    terms = OBJECTIVES["softece"].terms(gaps, moments(gaps, beta))
    assert w @ terms.loss / w.sum() == pytest.approx(value(beta), rel=1e-10)
    h = 1e-4 * beta
    assert w @ terms.slope / w.sum() == pytest.approx(central(value, beta, h), rel=1e-4, abs=1e-7)
    # The loss bends within delta of zero: compare curvature with differences of the slope.

    def slope(b):
        return w @ OBJECTIVES["softece"].terms(gaps, moments(gaps, b)).slope / w.sum()

    bend = central(slope, beta, 1e-6 * beta)
    assert w @ terms.curvature / w.sum() == pytest.approx(bend, rel=1e-3, abs=1e-5)


def test_softece_slope_is_the_partial_derivative_of_each_sample():
    z, y = problem(5, n=30, n_classes=4)
    gaps = gaps_of(z, y)
    betas = np.linspace(0.5, 2, 30)
    slope = OBJECTIVES["softece"].terms(gaps, moments(gaps, betas)).slope
    for i in (0, 7, 29):

        def total(x, i=i):
            moved = betas.copy()
            moved[i] = x
            return OBJECTIVES["softece"].terms(gaps, moments(gaps, moved)).loss.sum()

        assert slope[i] == pytest.approx(central(total, betas[i], 1e-5), rel=1e-5, abs=1e-9)


def test_the_name_of_a_mixture_keeps_its_weight():
    for weight in (0.1234567891, 3.0, 1e-7, 1 / 3):
        name = mixed(weight).name
        assert float(name[len("mixed(") : -1]) == weight
        assert objective(name).name == name


def test_mixed_is_nll_plus_weighted_bce():
    z, y = problem(8)
    gaps = gaps_of(z, y)
    state = moments(gaps, 0.7)
    nll, bce = (OBJECTIVES[name].terms(gaps, state) for name in ("nll", "bce"))
    got = objective("mixed(0.3)").terms(gaps, state)
    np.testing.assert_allclose(got.loss, nll.loss + 0.3 * bce.loss, rtol=1e-14)
    np.testing.assert_allclose(got.slope, nll.slope + 0.3 * bce.slope, rtol=1e-14)
    np.testing.assert_allclose(got.curvature, nll.curvature + 0.3 * bce.curvature, rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nlll", r"unknown objective 'nlll'; did you mean 'nll'\?"),
        ("luck", "unknown objective 'luck'; choose from nll, bce"),
        ("mixed(-1)", "finite and not negative"),
        ("mixed(1e999)", "finite and not negative"),
        ("mixed(1-1)", "is not a number"),
        (3, "unknown objective 3"),
    ],
)
def test_unknown_objectives_are_refused(name, message):
    with pytest.raises(InputError, match=message):
        objective(name)


@given(
    arrays(np.float64, (6, 4), elements=st.floats(-30, 30)),
    st.floats(0.05, 20),
    st.floats(-50, 50),
)
def test_losses_do_not_change_when_a_constant_is_added_to_the_logits(z, beta, shift):
    y = np.zeros(6, dtype=int)
    shifted = z + shift
    assume((shifted.argmax(axis=1) == z.argmax(axis=1)).all())
    one, two = gaps_of(z, y), gaps_of(shifted, y)
    for name in ADDITIVE:
        a = objective(name).terms(one, moments(one, beta)).loss
        b = objective(name).terms(two, moments(two, beta)).loss
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


# What the paper says of the gradients of BCE and NLL.


def slopes(name, z, y, beta=0.7):
    gaps = gaps_of(z, y)
    return objective(name).terms(gaps, moments(gaps, beta)).slope


def confidences(z, beta=0.7):
    weight = np.exp(beta * (z - z.max(axis=1, keepdims=True)))
    return 1 / weight.sum(axis=1)


def test_on_right_predictions_bce_and_nll_have_the_same_gradient():
    z, _ = problem(0, n=50)
    y = z.argmax(axis=1)
    np.testing.assert_allclose(slopes("bce", z, y), slopes("nll", z, y), rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 5, 100])
def test_an_error_pulls_by_p_over_one_minus_p_times_what_being_right_would(n_classes):
    """The paper's "amplified by p / (1 - p) on confident errors", where it holds.

    The NLL in it is -log p of the predicted class: the pull of the same row, had it been right.
    """
    z, _ = problem(1, n=60, n_classes=n_classes)
    top, wrong = z.argmax(axis=1), z.argmin(axis=1)
    c = confidences(z)
    pull = slopes("bce", z, wrong)
    np.testing.assert_allclose(pull, -c / (1 - c) * slopes("nll", z, top), rtol=1e-9)
    # The same by finite differences of log(1 - c) and log c in the temperature.
    t, h = 1 / 0.7, 1e-5
    bce, nll = (
        central(lambda x, f=f: f(confidences(z, 1 / x)), t, h)
        for f in (lambda p: -np.log1p(-p), lambda p: -np.log(p))
    )
    known = c < 1 - 1e-9
    np.testing.assert_allclose((bce / nll)[known], (-c / (1 - c))[known], rtol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 5, 100])
def test_the_nll_of_the_same_errors_pulls_as_much_on_average(n_classes):
    """So errors are not amplified against the NLL of their own labels.

    Averaged over the wrong labels, each as likely as the model takes it to be, both pull alike;
    with two classes there is one wrong label, and they are the same.
    """
    z, _ = problem(2, n=30, n_classes=n_classes)
    top = z.argmax(axis=1)
    weight = np.exp(0.7 * (z - z.max(axis=1, keepdims=True)))
    weight[np.arange(30), top] = 0
    share = weight / weight.sum(axis=1, keepdims=True)
    mean = np.zeros(30)
    for label in range(n_classes):
        y = np.where(top == label, (label + 1) % n_classes, label)  # has no share there
        mean += share[:, label] * slopes("nll", z, y)
    wrong = z.argmin(axis=1)
    np.testing.assert_allclose(mean, slopes("bce", z, wrong), rtol=1e-9)

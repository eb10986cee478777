"""Curves of a score: against independent optimisers, closed forms and their own laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline
from scipy.optimize import approx_fprime, minimize

import smallcal as sc
from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps import Split, fit_temperature
from smallcal.calibrators.maps.base import loss_and_slope
from smallcal.calibrators.maps.curves import LINKS, AnchorMap, LinearMap, SplineMap
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.calibrators.signals import statistics
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from smallcal_lab.methods.curves import fit_anchors, fit_linear, fit_spline
from support.cases import fit
from support.simulated import simulate


def softplus(x):
    return np.logaddexp(0, x)


def split_of(z, y, scores, goal="bce", weight=None):
    preds = Predictions.of(z, y, weight=weight)
    gaps = Gaps.of(preds)
    goal = objective(goal)
    pooled = fit_temperature(goal, gaps, bounds=(0.05, 20))
    return Split(preds, gaps, goal, pooled, scores, Discipline())


def plain_loss(z, y, temperature, goal):
    """The objective written out, one sample after another."""
    p = np.exp(z / temperature[:, None] - (z / temperature[:, None]).max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    if goal == "nll":
        return -np.log(p[np.arange(len(y)), y]).mean()
    c, right = p.max(axis=1), z.argmax(axis=1) == y
    return -np.where(right, np.log(c), np.log1p(-c)).mean()


@pytest.mark.parametrize("goal", ["nll", "bce", "brier", "softece", "mixed(2)"])
def test_the_slope_in_each_temperature_is_the_derivative_of_the_mean_loss(goal):
    z, y = simulate(40, 6)
    weight = np.random.default_rng(0).random(40)
    gaps = Gaps.of(Predictions.of(z, y, weight=weight))
    t = np.random.default_rng(1).uniform(0.5, 3, 40)
    _, slope = loss_and_slope(objective(goal), gaps, t)
    numeric = approx_fprime(t, lambda v: loss_and_slope(objective(goal), gaps, v)[0], 1e-6)
    np.testing.assert_allclose(slope, numeric, atol=2e-6)


@pytest.mark.parametrize(
    ("name", "goal"), [("hts-nll", "nll"), ("hts-bce", "bce"), ("lts-scalar", "nll")]
)
def test_lines_of_one_statistic_equal_nelder_mead_on_the_written_out_loss(name, goal):
    z, y = simulate(800, 12)
    confidence, entropy = statistics(z)[:, [0, 3]].T
    score = np.log(np.maximum(entropy / np.log(12), 1e-12))
    if name == "lts-scalar":
        score = confidence
    fitted = fit(name, z, y).fitted_
    t0 = fitted.pooled_temperature
    start = np.array([t0 + np.log(-np.expm1(-t0)), 0.0])
    found = minimize(
        lambda theta: plain_loss(
            z, y, np.maximum(softplus(theta[0] + theta[1] * score), 1e-4), goal
        ),
        start,
        method="Nelder-Mead",
        options={
            "xatol": 1e-6,
            "fatol": 1e-10,
            "maxiter": 2000,
            "initial_simplex": start + np.array([[0, 0], [0.05, 0], [0, 0.05]]),
        },
    )
    np.testing.assert_allclose(fitted.map.coefficients, found.x, atol=2e-3)
    key = {"nll": "nll", "bce": "top_label_bce"}[goal]
    assert fitted.fit_metrics["after"][key] <= found.fun + 1e-8


@pytest.mark.parametrize("goal", ["nll", "bce"])
def test_qats_equals_a_derivative_free_search(goal):
    z, y = simulate(800, 12)
    c = statistics(z)[:, 0]
    rank = np.array([np.mean(c <= v) for v in c])
    fitted = fit(f"qats-{goal}", z, y).fitted_
    b, a = fitted.map.coefficients
    found = minimize(
        lambda theta: plain_loss(z, y, theta[0] * (1 - rank) + theta[1], goal),
        [0.01, fitted.pooled_temperature],
        method="Powell",
        bounds=[(1e-6, 20), (0.05, 20)],
        options={"xtol": 1e-8, "ftol": 1e-12},
    )
    assert plain_loss(z, y, a * (1 - rank) + b, goal) <= found.fun + 1e-7


def test_qats_says_when_its_slope_lands_on_the_bound():
    """Where low confidence wants a lower temperature, a positive slope cannot give it."""
    rng = np.random.default_rng(0)
    z, _ = simulate(1500, 8)
    confident = statistics(z)[:, 0] > 0.6
    true = z / np.where(confident, 3.0, 1.0)[:, None]
    p = np.exp(true - true.max(axis=1, keepdims=True))
    y = ((p / p.sum(axis=1, keepdims=True)).cumsum(axis=1) > rng.random((1500, 1))).argmax(axis=1)
    fitted = fit("qats-nll", z, y)
    assert fitted.fitted_.map.coefficients[1] == 1e-6
    assert fitted.flags_["at_bound"] == [1]


@pytest.mark.parametrize("method", ["linear-risk", "pwlinear-3", "spline-risk"])
@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_risk_curves_reach_the_optimum_of_a_plain_search(method, scale):
    z, y = simulate(700, 10, seed=3)
    fitted = fit(method, z, y, scale=scale).fitted_
    assert fitted.signal.logit == (scale == "logit")
    seen = fit("srts-bce", z, y, n_groups=2)  # the same router, for its out-of-fold scores
    assert seen.fitted_.signal.coef == fitted.signal.coef
    # At the optimum no small step in any coefficient helps, by an independent loss.
    split = refitted_split(z, y, scale)
    best = plain_loss(z, y, fitted.map(split.scores), "bce")
    assert best <= plain_loss(z, y, np.full(len(y), fitted.pooled_temperature), "bce")
    theta = np.array(fitted.map.coefficients)
    for i in range(len(theta)):
        for step in (-1e-3, 1e-3):
            moved = theta.copy()
            moved[i] += step
            other = type(fitted.map)(
                **{
                    **{k: v for k, v in vars(fitted.map).items() if not k.startswith("_")},
                    "coefficients": tuple(moved),
                }
            )
            assert plain_loss(z, y, other(split.scores), "bce") >= best - 1e-9


def refitted_split(z, y, scale):
    from smallcal.calibrators.signals import Observed, Rows, fit_signal

    preds = Predictions.of(z, y)
    routed = fit_signal("risk", Observed(preds, Rows(preds.logits), Discipline()), scale=scale)
    return split_of(z, y, routed.scores)


def test_the_true_line_is_recovered():
    rng = np.random.default_rng(0)
    n = 60_000
    z, _ = simulate(n, 5, signal=2.0)
    score = rng.random(n)
    true = softplus(0.3 + 1.5 * score)
    p = np.exp(z / true[:, None])
    y = ((p / p.sum(axis=1, keepdims=True)).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    found = fit_linear(split_of(z, y, score, "nll")).map.coefficients
    np.testing.assert_allclose(found, (0.3, 1.5), atol=0.15)
    anchors = fit_anchors(split_of(z, y, score, "nll")).map
    np.testing.assert_allclose(anchors.anchors, np.quantile(score, [1 / 6, 1 / 2, 5 / 6]))
    np.testing.assert_allclose(anchors(np.array(anchors.anchors)), anchors.coefficients)
    inside = np.linspace(0.2, 0.8, 7)
    np.testing.assert_allclose(anchors(inside), softplus(0.3 + 1.5 * inside), rtol=0.05)
    spline = fit_spline(split_of(z, y, score, "nll")).map
    np.testing.assert_allclose(spline(inside), softplus(0.3 + 1.5 * inside), rtol=0.05)


@settings(max_examples=50)
@given(
    st.lists(st.floats(-3, 3), min_size=3, max_size=3, unique=True),
    st.lists(st.floats(-2, 2), min_size=3, max_size=3),
)
def test_the_spline_is_the_natural_cubic_through_its_own_knot_values(knots, coefficients):
    knots = tuple(sorted(knots))
    if min(np.diff(knots)) < 1e-2:
        return
    combined = np.array(coefficients)
    curve = SplineMap(knots, tuple(coefficients))
    at_knots = combined @ curve.basis(np.array(knots))
    natural = CubicSpline(knots, at_knots, bc_type="natural")
    inside = np.linspace(knots[0], knots[-1], 30)
    scale = 1 + np.abs(at_knots).max()
    np.testing.assert_allclose(combined @ curve.basis(inside), natural(inside), atol=1e-8 * scale)
    outside = np.array([knots[0] - 2, knots[0] - 1, knots[0]])
    values = combined @ curve.basis(outside)
    np.testing.assert_allclose(values[2] - values[1], values[1] - values[0], atol=1e-7 * scale)


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=3), st.floats(-1, 2))
def test_anchors_interpolate_and_stay_level_outside(temperatures, score):
    curve = AnchorMap((0.1, 0.4, 0.8), tuple(temperatures))
    expected = np.interp(score, (0.1, 0.4, 0.8), temperatures)
    assert curve(np.array([score]))[0] == pytest.approx(expected)


@given(st.floats(0.05, 20))
def test_the_softplus_link_is_inverted(t):
    link = LINKS["softplus"]
    assert link.value(np.array([link.inverse(t)]))[0] == pytest.approx(t, rel=1e-9)


def test_a_temperature_stays_positive_wherever_the_line_goes():
    t = LinearMap((0.0, -1.0))(np.array([0.0, 50.0, 5000.0]))
    assert (t > 0).all()
    z = np.array([[1.0, 2.0, 0.0]])
    assert np.isfinite(z / t[-1]).all()


@pytest.mark.parametrize("method", ["pwlinear-3", "spline-risk", "linear-risk"])
def test_scores_that_coincide_give_a_usable_fit(method):
    z = np.tile([[2.0, 0, 0, 1.0]], (300, 1))
    y = (np.arange(300) % 3 == 0).astype(int)
    fitted = fit(method, z, y)
    if method != "linear-risk":
        assert "degenerate" in fitted.flags_
        assert fitted.fitted_.map.steps == (fitted.pooled_temperature_,)
    assert np.isfinite(fitted.predict_proba(z)).all()


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (lambda: LinearMap((1.0,)), "linear needs 2 coefficients"),
        (lambda: LinearMap((1.0, 2.0), "log"), "link must be one of softplus, identity"),
        (lambda: LinearMap((-1.0, 2.0), "identity"), "must be positive"),
        (lambda: AnchorMap((0.5, 0.1), (1.0, 1.0)), "anchors must be ascending"),
        (lambda: AnchorMap((0.1, 0.5), (1.0, -1.0)), "temperatures must be positive"),
        (lambda: SplineMap((0.1, 0.1, 0.5), (1.0, 0.0, 0.0)), "three ascending numbers"),
    ],
)
def test_numbers_that_cannot_be_a_curve_are_refused(part, message):
    with pytest.raises(InputError, match=message):
        part()


def test_options_reach_the_parts_and_unknown_ones_are_named(tmp_path):
    assert sc.make("pwlinear-3", scale="logit").options == {"scale": "logit"}
    with pytest.raises(InputError, match="pwlinear-3: no option 'n_groups'; choose from"):
        sc.make("pwlinear-3", n_groups=4)
    fitted = fit("pwlinear-3", *simulate(400, 6), scale="logit", objective="nll")
    assert fitted.method_ == "pwlinear-3[objective=nll,scale=logit]"
    path = tmp_path / "cal.json"
    fitted.save(path)
    loaded = sc.load(path)  # under no name of the table, and still the same method
    again = loaded.__class__(**loaded.get_params()).fit(*simulate(400, 6))
    assert again.to_dict() == fitted.to_dict()
    mixed = fit("ets", *simulate(400, 6), objective="bce")
    mixed.save(path)
    assert sc.load(path).to_dict() == mixed.to_dict()
    assert fit("hts-bce", *simulate(400, 6), objective="nll").method_ == "hts-nll"

"""Priors on temperatures: their limits, their optimum by other routes, and what they are for."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize, minimize_scalar

import smallcal as sc
from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps import Prior, fit_temperature
from smallcal.calibrators.maps.base import Split, loss_and_slope
from smallcal.calibrators.maps.regressed import ClassRegressedMap, RegressedMap, fit_regressed
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.calibrators.signals import statistics
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from support.cases import fit
from support.refused import refused
from support.simulated import simulate

BOUNDS = (0.05, 20.0)


def gaps_of(z, y, weight=None):
    return Gaps.of(Predictions.of(z, y, weight=weight))


def summed(gaps, t, goal):
    return gaps.n * loss_and_slope(objective(goal), gaps, np.full(gaps.n, t))[0]


@pytest.mark.parametrize("goal", ["bce", "nll", "brier", "softece"])
@pytest.mark.parametrize("scale", [0.03, 0.3, 3.0])
def test_a_penalised_temperature_is_the_minimum_of_the_penalised_sum(goal, scale):
    gaps = gaps_of(*simulate(80, 5, seed=2))
    found = fit_temperature(objective(goal), gaps, bounds=BOUNDS, prior=Prior(1.1, scale)).value

    def penalised(u):
        away = (u - np.log(1.1)) / scale
        return summed(gaps, np.exp(u), goal) + away**2 / 2

    best = min(
        minimize_scalar(penalised, bounds=(a, a + 1), method="bounded", options={"xatol": 1e-9}).fun
        for a in np.arange(-3.0, 3.0, 0.5)
    )
    assert penalised(np.log(found)) <= best + 1e-5


@pytest.mark.parametrize("kind", ["right", "wrong"])
def test_with_a_prior_one_sided_samples_have_a_finite_answer(kind):
    z, y = simulate(60, 5)
    y = z.argmax(axis=1) if kind == "right" else (z.argmax(axis=1) + 1) % 5
    found = fit_temperature(objective("bce"), gaps_of(z, y), bounds=BOUNDS, prior=Prior(1.0, 0.3))
    assert not found.unidentified
    assert (found.value < 1) == (kind == "right")
    assert 0.2 < found.value < 10  # inside the bounds, by the prior


def anchored(gaps, goal):
    """The pooled temperature under its priors, by plain search."""

    def best(loss):
        return float(np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x))

    by_likelihood = best(lambda u: summed(gaps, np.exp(u), "nll") + u**2 / 2)
    if goal == "nll":
        return by_likelihood, by_likelihood
    towards = np.log(by_likelihood)
    pooled = best(lambda u: summed(gaps, np.exp(u), goal) + (u - towards) ** 2 / (2 * 0.05**2))
    return by_likelihood, pooled


@pytest.mark.parametrize("goal", ["bce", "brier", "nll"])
@pytest.mark.parametrize("n", [60, 900])
def test_the_pooled_temperature_is_drawn_towards_the_likelihoods_and_that_towards_one(goal, n):
    z, y = simulate(n, 8)
    found = fit("srts-shrunk", z, y, objective=goal).pooled_temperature_
    assert found == pytest.approx(anchored(gaps_of(z, y), goal)[1], rel=1e-4)


def test_the_limits_of_the_prior_are_one_temperature_and_the_papers_method():
    z, y = simulate(900, 8)
    paper = fit("srts-bce", z, y)
    loose = fit("srts-bce", z, y, prior_scale=1e4)
    tight = fit("srts-bce", z, y, prior_scale=1e-4)
    np.testing.assert_allclose(loose.temperatures_, paper.temperatures_, rtol=1e-4)
    pooled = anchored(gaps_of(z, y), "bce")[1]
    np.testing.assert_allclose(tight.temperatures_, pooled, rtol=1e-3)
    spread = [
        np.ptp(np.log(fit("srts-bce", z, y, prior_scale=s).temperatures_)) for s in (0.03, 0.1, 1.0)
    ]
    assert spread == sorted(spread)
    assert sc.SRTS().get_params()["prior_scale"] is None
    assert paper.to_dict()["options"]["prior_scale"] is None


def test_small_groups_are_fitted_when_a_prior_holds_them():
    z, y = simulate(90, 5)
    assert "fallback" in fit("srts-bce", z, y).flags_
    shrunk = fit("srts-shrunk", z, y)
    assert "fallback" not in shrunk.flags_
    assert len(set(shrunk.temperatures_)) > 1


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_a_scale_that_is_not_positive_is_refused(scale):
    for name in ("srts-bce", "signal-linear"):
        with refused("option-range", "prior_scale"):
            fit(name, *simulate(300, 5), prior_scale=scale)


@pytest.mark.parametrize("prior", ["spread", "independent"])
def test_the_regression_reaches_the_optimum_of_a_plain_search(prior):
    z, y = simulate(300, 6)
    fitted = fit("signal-linear", z, y, prior_scale=0.2, prior=prior).fitted_
    stats = statistics(z)
    s = np.clip((stats - stats.mean(axis=0)) / stats.std(axis=0), -4, 4)
    design = np.column_stack([np.ones(300), s])
    gaps = gaps_of(z, y)
    centre = -np.log(anchored(gaps, "bce")[0])

    def penalised(theta):
        t = np.exp(-design @ theta)
        size = theta[1:] @ theta[1:]
        if prior == "spread":
            size = ((s @ theta[1:]) ** 2).mean() + 0.01 * size
        cost = (theta[0] - centre) ** 2 / (2 * 0.05**2) + size / (2 * 0.2**2)
        return 300 * loss_and_slope(objective("bce"), gaps, t)[0] + cost

    theta = np.r_[fitted.map.intercept, fitted.map.coefficients]
    assert np.abs(approx_fprime(theta, penalised, 1e-6)).max() < 1e-2
    plain = minimize(penalised, np.zeros(7), method="BFGS")
    assert penalised(theta) <= plain.fun + 1e-6
    np.testing.assert_allclose(fitted.map(s), np.exp(-design @ theta), rtol=1e-12)


def test_a_tight_prior_leaves_one_temperature():
    z, y = simulate(500, 6)
    tight = fit("signal-linear", z, y, prior_scale=1e-5)
    np.testing.assert_allclose(tight.temperature(z), tight.pooled_temperature_, rtol=1e-3)


def test_repeating_a_statistic_hardly_moves_a_prior_on_the_spread():
    # Two copies of one column must share what the one would have had.
    z, y = simulate(400, 6)
    preds = Predictions.of(z, y)
    gaps = Gaps.of(preds)
    goal, care = objective("bce"), Discipline()
    pooled = fit_temperature(goal, gaps, bounds=BOUNDS)
    column = statistics(z)[:, :1]
    column = (column - column.mean()) / column.std()
    fits = [
        fit_regressed(Split(preds, gaps, goal, pooled, scores, care)).map(scores)
        for scores in (column, np.hstack([column, column]))
    ]
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-3)


def test_an_unknown_prior_is_refused():
    with refused("unknown-choice", "'spread'", "'independent'", "'flat'"):
        fit("signal-linear", *simulate(300, 5), prior="flat")


def test_numbers_that_cannot_be_a_regression_are_refused():
    with pytest.raises(InputError, match="needs coefficients, and 0 < low < high"):
        RegressedMap(0.0, (), 0.1, 2.0)
    with refused("columns-differ", "2"):
        RegressedMap(0.0, (1.0, 2.0), 0.1, 2.0)(np.zeros((3, 5)))
    huge = RegressedMap(0.0, (1000.0,), 0.1, 2.0)(np.array([[-1.0], [1.0], [-1e300]]))
    np.testing.assert_array_equal(huge, [2.0, 0.1, 2.0])


def test_on_real_logits_shrinkage_removes_the_cost_in_log_loss(real_cell):
    rows = np.random.default_rng(0).choice(len(real_cell["val_labels"]), 250, replace=False)
    z, y = real_cell["val_logits"][rows], real_cell["val_labels"][rows]
    loss = {}
    for name in ("tva-ts", "srts-bce", "srts-shrunk", "signal-linear"):
        p = fit(name, z, y).predict_proba(real_cell["test_logits"])
        found = sc.evaluate(real_cell["test_labels"], p, metrics=["top_label_bce"])
        loss[name] = found["top_label_bce"]
    for name in ("srts-shrunk", "signal-linear"):
        assert loss[name] <= loss["srts-bce"] + 0.005  # one draw: mostly far below
        assert loss[name] <= loss["tva-ts"] + 0.01


def test_the_effects_of_classes_reach_the_optimum_of_a_plain_search():
    z, y = simulate(240, 4)
    y = np.where(z.argmax(axis=1) == 1, (y + 1) % 4, y)  # surest of class 1 where it is worst
    fitted = fit("class-linear", z, y, class_scale=0.3).fitted_
    stats = statistics(z)
    s = np.clip((stats - stats.mean(axis=0)) / stats.std(axis=0), -4, 4)
    one_hot = np.eye(4)[z.argmax(axis=1)]
    design = np.column_stack([np.ones(240), s, one_hot])
    gaps = gaps_of(z, y)
    centre = -np.log(anchored(gaps, "bce")[0])

    def penalised(theta):
        t = np.exp(-design @ theta)
        size = ((s @ theta[1:7]) ** 2).mean() + 0.01 * (theta[1:7] @ theta[1:7])
        cost = (theta[0] - centre) ** 2 / (2 * 0.05**2) + size / (2 * 0.05**2)
        cost += theta[7:] @ theta[7:] / (2 * 0.3**2)
        return 240 * loss_and_slope(objective("bce"), gaps, t)[0] + cost

    found = fitted.map
    theta = np.r_[found.intercept, found.coefficients, found.effects]
    plain = minimize(penalised, np.zeros(11), method="BFGS")
    assert penalised(theta) <= plain.fun + 1e-6
    assert np.argmin(found.effects) == 1  # the hottest
    again = fit("class-linear", z, y, class_scale=0.3).temperature(z)
    np.testing.assert_allclose(again, np.exp(-design @ theta), rtol=1e-9)


def test_a_class_that_is_never_predicted_has_no_effect_and_columns_may_be_reordered():
    z, y = simulate(400, 6)
    z[:, 5] = z.min() - 1
    fitted = fit("class-linear", z, y)
    assert fitted.fitted_.map.effects[5] == 0
    assert fitted.n_parameters_ == 7 + 5
    order = np.array([3, 5, 0, 1, 4, 2])
    again = fit("class-linear", z[:, order], np.argsort(order)[y])
    np.testing.assert_allclose(again.temperature(z[:, order]), fitted.temperature(z), rtol=1e-5)


def test_a_tight_prior_on_classes_leaves_the_regression():
    z, y = simulate(500, 6)
    tight = fit("class-linear", z, y, class_scale=1e-3)
    np.testing.assert_allclose(
        tight.temperature(z), fit("signal-linear", z, y).temperature(z), rtol=2e-3
    )
    with pytest.raises(InputError, match="class_scale must be positive; got 0"):
        fit("class-linear", z, y, class_scale=0)


def test_numbers_that_cannot_be_effects_are_refused():
    mine = ClassRegressedMap(0.0, (1.0,), 0.1, 2.0, (0.0, 0.5))
    with refused("columns-differ", "2"):
        mine(np.zeros((3, 1)))
    with pytest.raises(InputError, match=r"the class must lie in 0 \.\. 1"):
        mine(np.array([[0.0, 2.0]]))

"""The search behind a regressed temperature, against dense computations and SciPy's searches."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps.base import Settling, Split
from smallcal.calibrators.maps.regressed import SEEN, fit_class_regressed
from smallcal.calibrators.maps.regressed_fit import RIDGE, Problem
from smallcal.calibrators.maps.temperature import Prior, fit_temperature
from smallcal.calibrators.objectives import Gaps, moments, objective
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from support.simulated import simulate

N, C = 240, 4
SPREAD, EACH = 0.3, 0.4
PRIOR = Prior(1.4, 0.5)


def split_of(goal, *, weighted=False, n=N, effect=0.0):
    """A split with three scores and the predicted class, whose classes differ by an effect."""
    rng = np.random.default_rng(3)
    z, y = simulate(n, C)
    top = z.argmax(axis=1)
    z = z * np.exp(effect * (top == 1))[:, None]
    weight = rng.integers(1, 4, size=n).astype(float) if weighted else None
    preds = Predictions.of(z, y, weight=weight)
    gaps = Gaps.of(preds)
    scores = rng.normal(size=(n, 3))
    scores[:, 1] += scores[:, 0]
    scores = np.column_stack([scores, top])
    chosen, care = objective(goal), Discipline()
    pooled = fit_temperature(chosen, gaps, bounds=care.bounds, prior=PRIOR)
    return Split(preds, gaps, chosen, pooled, scores, care, PRIOR)


def problem_of(split, *, classes=True, prior="spread", spread=SPREAD, each=EACH):
    scores, column = split.scores[:, :-1], split.scores[:, -1].astype(int)
    problem = Problem.of(split, scores, spread, prior)
    return problem.with_classes(column, each) if classes else problem


class Dense:
    """The same loss with one column for every parameter."""

    def __init__(self, split, *, classes=True, prior="spread", spread=SPREAD, each=EACH):
        gaps, scores = split.gaps, split.scores[:, :-1]
        one_hot = np.eye(C)[split.scores[:, -1].astype(int)][:, : C if classes else 0]
        self.split, self.weight = split, gaps.weights
        self.design = np.column_stack([np.ones(gaps.n), scores, one_hot])
        size = self.design.shape[1]
        cost = np.eye(3)
        if prior == "spread":
            mean = (scores * gaps.weights[:, None]).T @ scores / gaps.weights.sum()
            cost = mean + RIDGE * cost
        self.cost = cost
        self.level, self.held = np.zeros((size, size)), np.zeros((size, size))
        self.level[0, 0] = PRIOR.scale**-2
        self.held[1:4, 1:4] = cost / spread**2
        self.held[4:, 4:] = np.eye(size - 4) / each**2
        self.centre = np.append(-np.log(PRIOR.temperature), np.zeros(size - 1))

    def terms(self, theta):
        beta = np.exp(self.design @ theta)
        return beta, self.split.goal.terms(self.split.gaps, moments(self.split.gaps, beta))

    def loss(self, theta):
        away = theta - self.centre
        data = self.weight @ self.terms(theta)[1].loss
        return data + away @ (self.level + self.held) @ away / 2

    def slope(self, theta):
        beta, terms = self.terms(theta)
        data = self.design.T @ (self.weight * beta * terms.slope)
        return data + (self.level + self.held) @ (theta - self.centre)

    def curvature(self, theta):
        """Of the data, by differences of the slope."""
        steps = 1e-5 * np.eye(len(theta))
        whole = np.array([(self.slope(theta + s) - self.slope(theta - s)) / 2e-5 for s in steps])
        return whole - self.level - self.held

    def best(self):
        start = np.zeros(len(self.centre))
        options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000}
        return minimize(self.loss, start, jac=self.slope, method="L-BFGS-B", options=options).x


@pytest.mark.parametrize("goal", ["bce", "nll", "brier"])
@pytest.mark.parametrize(
    ("classes", "prior", "weighted"),
    [(True, "spread", False), (True, "spread", True), (False, "independent", True)],
)
def test_newton_finds_what_a_search_by_slopes_finds(goal, classes, prior, weighted):
    split = split_of(goal, weighted=weighted, effect=0.5)
    dense = Dense(split, classes=classes, prior=prior)
    found = problem_of(split, classes=classes, prior=prior).solved()
    theta, wanted = np.concatenate([found.shared, found.effects]), dense.best()
    assert dense.loss(theta) <= dense.loss(wanted) + 1e-8
    np.testing.assert_allclose(theta, wanted, atol=2e-5)
    assert np.abs(dense.slope(theta)).max() < 1e-3


@pytest.mark.parametrize("goal", ["bce", "nll", "brier"])
@pytest.mark.parametrize("classes", [False, True])
def test_freedom_is_what_the_priors_do_not_hold(goal, classes):
    split = split_of(goal, weighted=True)
    dense = Dense(split, classes=classes)
    found = problem_of(split, classes=classes).solved()
    theta = np.concatenate([found.shared, found.effects])
    data = dense.curvature(theta)
    # The intercept counts whole: its prior is on the data's side.
    whole = data + dense.level + dense.held
    wanted = np.trace(np.linalg.solve(whole, data + dense.level))
    assert found.freedom == pytest.approx(wanted, rel=1e-3)
    assert 1 < found.freedom < len(theta)


def test_tight_priors_leave_the_intercept_and_wide_ones_every_parameter():
    split = split_of("bce")
    tight = problem_of(split, spread=1e-4, each=1e-4).solved()
    wide = problem_of(split, classes=False, spread=1e4).solved()
    assert tight.freedom == pytest.approx(1.0, abs=1e-3)
    assert wide.freedom == pytest.approx(4.0, abs=1e-3)


def test_an_objective_without_curvatures_of_its_samples_is_searched_by_slopes():
    split = split_of("softece")
    problem = problem_of(split)
    found = problem.solved()
    theta = np.concatenate([found.shared, found.effects])
    dense = Dense(split)
    start = np.append(-np.log(split.pooled.value), np.zeros(7))
    assert dense.loss(theta) < dense.loss(start)
    assert np.isfinite(theta).all()


def agreeing_scales(split, effect_seen=SEEN):
    """Alternate between the optimum and MacKay's rule, with dense matrices, until both agree."""
    spread, each = SPREAD, EACH
    for _ in range(500):
        dense = Dense(split, spread=spread, each=each)
        found = problem_of(split, spread=spread, each=each).solved()
        theta = np.concatenate([found.shared, found.effects])
        variance = np.linalg.inv(dense.curvature(theta) + dense.level + dense.held)
        slopes, effects = theta[1:4], theta[4:]
        free = 3 - np.trace(variance[1:4, 1:4] @ dense.cost) / spread**2
        new = np.sqrt((slopes @ dense.cost @ slopes + SEEN * SPREAD**2) / (free + SEEN))
        free = C - np.trace(variance[4:, 4:]) / each**2
        new_each = np.sqrt((effects @ effects + effect_seen * EACH**2) / (free + effect_seen))
        moved = abs(np.log(new / spread)) + abs(np.log(new_each / each))
        spread, each = new, new_each
        if moved < 1e-7:
            break
    return spread, each, theta


@pytest.mark.parametrize("effect", [0.0, 1.0])
@pytest.mark.parametrize("goal", ["bce", "nll"])
def test_scales_by_evidence_agree_with_mackays_rule(goal, effect, monkeypatch):
    split = split_of(goal, weighted=True, effect=effect)
    spread, each, theta = agreeing_scales(split)
    last = []
    step = Problem._step

    def told(self, *given):
        last.append(step(self, *given))
        return last[-1]

    monkeypatch.setattr(Problem, "_step", told)
    found = problem_of(split).solved(seen=SEEN)
    assert last[-1][0].spread == pytest.approx(spread, rel=0.01)
    assert last[-1][0].each == pytest.approx(each, rel=0.01)
    np.testing.assert_allclose(np.concatenate([found.shared, found.effects]), theta, atol=5e-3)


def test_classes_that_differ_get_a_wider_scale_than_classes_that_do_not():
    alike, apart = (agreeing_scales(split_of("bce", effect=effect))[1] for effect in (0.0, 1.0))
    assert apart > 1.3 * alike


def test_the_recipe_lets_the_split_decide_only_where_it_is_asked_to():
    split = split_of("bce", effect=1.0)
    options = {"prior_scale": SPREAD, "class_scale": EACH}
    fixed = fit_class_regressed(split, **options)
    decided = fit_class_regressed(split, **options, scales="evidence")
    theta = agreeing_scales(split)[2]
    np.testing.assert_allclose(decided.map.effects, theta[4:], atol=5e-3)
    np.testing.assert_allclose(fixed.map.effects, Dense(split).best()[4:], atol=1e-4)
    assert np.abs(np.subtract(fixed.map.effects, decided.map.effects)).max() > 0.01
    assert decided.plain is None  # an evidence gate has nothing simpler to judge there
    with pytest.raises(InputError, match="scales must be 'fixed' or 'evidence'; got 'free'"):
        fit_class_regressed(split, scales="free")


def test_a_class_that_is_never_predicted_has_no_effect():
    split = split_of("bce")
    scores = split.scores.copy()
    scores[scores[:, -1] == 2, -1] = 0
    found = fit_class_regressed(replace(split, scores=scores), scales="evidence")
    assert found.map.effects[2] == 0
    assert np.count_nonzero(found.map.effects) == 3


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_a_weakened_map_has_that_share_of_its_log_temperatures(weight):
    split = split_of("bce", effect=0.5)
    for scales in ("fixed", "evidence"):
        full = fit_class_regressed(split, scales=scales).map
        weak = full.weakened(weight)
        expected = weight * np.log(full(split.scores))
        assert np.abs(np.log(full(split.scores))).max() > 0.1
        np.testing.assert_allclose(np.log(weak(split.scores)), expected, atol=1e-12)


@pytest.mark.parametrize("pace", [0.2, 0.9, -0.5])
def test_rounds_that_settle_slowly_are_taken_to_their_end(pace):
    end, across = np.array([0.3, -1.2]), np.array([[pace, 0.05], [0.02, pace]])

    def once(x):
        return end + across @ (x - end) + 0.02 * (x - end) ** 2

    x, settling = np.array([1.0, 0.0]), Settling()
    for _ in range(14):
        x = settling.after(x, once(x))
    np.testing.assert_allclose(x, end, atol=1e-6)


def test_a_scale_that_stays_does_not_keep_the_other_from_settling():
    x, settling = np.array([1.0, 5.0]), Settling()
    for _ in range(6):
        x = settling.after(x, np.array([0.9 * x[0], 5.0]))
    np.testing.assert_allclose(x, [0.0, 5.0], atol=1e-9)

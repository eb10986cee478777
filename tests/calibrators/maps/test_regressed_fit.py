"""The search behind a regressed temperature, against dense computations and SciPy's searches."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps.base import Split
from smallcal.calibrators.maps.regressed import fit_class_regressed
from smallcal.calibrators.maps.regressed_fit import RIDGE, Problem
from smallcal.calibrators.maps.temperature import Prior, fit_temperature
from smallcal.calibrators.objectives import Gaps, moments, objective
from smallcal.data.predictions import Predictions
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


def test_an_objective_without_curvatures_of_its_samples_is_searched_by_slopes():
    split = split_of("softece")
    problem = problem_of(split)
    found = problem.solved()
    theta = np.concatenate([found.shared, found.effects])
    dense = Dense(split)
    start = np.append(-np.log(split.pooled.value), np.zeros(7))
    assert dense.loss(theta) < dense.loss(start)
    assert np.isfinite(theta).all()


def test_a_class_that_is_never_predicted_has_no_effect():
    split = split_of("bce")
    scores = split.scores.copy()
    scores[scores[:, -1] == 2, -1] = 0
    found = fit_class_regressed(replace(split, scores=scores))
    assert found.map.effects[2] == 0
    assert np.count_nonzero(found.map.effects) == 3

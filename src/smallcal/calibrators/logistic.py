"""Logistic regressions that share their rows, by Newton's method, all at once."""

from __future__ import annotations

from copy import copy

import numpy as np

from smallcal.calibrators.objectives import sigmoid, softplus
from smallcal.data.predictions import FloatArray

_MAX_NEWTON_STEPS = 100
_MAX_HALVINGS = 40


class Logistic:
    """Minimises ½ Σ penalty x (w - centre)² + Σ weight x logistic loss, for several w at once.

    Parameters
    ----------
    design : ndarray of shape (p, n)
        A row per coefficient.
    sign : ndarray of shape (n,) or (k, n)
        -1 where the outcome is true, 1 where it is false; the same for each problem, or one row
        each.
    penalty : ndarray of shape (p,) or (k, p)
        The same for each of the k problems, or one row each.
    centre : ndarray of shape (p,) or (k, p), or 0
        What the coefficients are drawn to.

    Examples
    --------
    >>> coin = Logistic(np.ones((1, 4)), np.array([-1.0, -1.0, -1.0, 1.0]), np.full(1, 1e-9))
    >>> coin.newton(np.zeros((1, 1)), np.ones((1, 4)), enough=1e-9).round(4).tolist()  # log 3
    [[1.0986]]
    """

    def __init__(
        self,
        design: FloatArray,
        sign: FloatArray,
        penalty: FloatArray,
        centre: FloatArray | float = 0.0,
    ) -> None:
        self.design = design
        self.sign = sign
        self.penalty = penalty
        self.centre = centre
        # The smallest ridge keeps an unpenalised coefficient solvable.
        self.ridge = (penalty + 1e-12)[..., None] * np.eye(len(design))
        self.upper = np.triu_indices(len(design))  # each pair of coefficients once
        self.products = design[self.upper[0]] * design[self.upper[1]]

    def repeated(self, times: int) -> Logistic:
        """Return the problems that each row of signs makes with several rows of weights."""
        if len(self.sign) > 1:
            again = copy(self)
            again.sign = self.sign.repeat(times, axis=0)
            return again
        return self

    def slopes(self, theta: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return each problem's gradient (k, p) and curvature (k, p, p), priors included."""
        surprise = sigmoid(self.sign * (theta @ self.design))  # probability of the other outcome
        pull = weights * surprise
        gradient = (self.sign * pull) @ self.design.T + self.penalty * (theta - self.centre)
        bend = (pull * (1 - surprise)) @ self.products.T
        hessian = np.empty((len(theta), len(self.design), len(self.design)))
        hessian[:, self.upper[0], self.upper[1]] = bend
        hessian[:, self.upper[1], self.upper[0]] = bend
        return gradient, hessian + self.ridge

    def loss(self, theta: FloatArray, weights: FloatArray) -> FloatArray:
        """Return what each problem minimises, (k,)."""
        data = (weights * softplus(self.sign * (theta @ self.design))).sum(axis=1)
        return np.asarray(data + 0.5 * (self.penalty * (theta - self.centre) ** 2).sum(axis=-1))

    def step(self, theta: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return Newton's step of each problem, and the decrement: what is left to gain."""
        gradient, hessian = self.slopes(theta, weights)
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        return step, (gradient * step).sum(axis=1)

    def newton(self, theta: FloatArray, weights: FloatArray, *, enough: float) -> FloatArray:
        """Iterate until a step's decrement is small enough; taking that step squares the error."""
        last_theta, last_step = theta, np.zeros_like(theta)
        last_decrement = np.full(len(theta), np.inf)
        for _ in range(_MAX_NEWTON_STEPS):
            step, decrement = self.step(theta, weights)
            # Far from the minimum a Newton step may be too long. Then the decrement grows: go
            # half as far. At the minimum it may grow by rounding alone, which must not hold up
            # the other problems.
            too_far = (decrement > last_decrement) & (decrement > enough)
            if too_far.any():
                last_step[too_far] /= 2
                theta = np.where(too_far[:, None], last_theta - last_step, theta)
                continue
            last_theta, last_step, last_decrement = theta, step, decrement
            theta = theta - step
            if decrement.max() < enough:
                return theta
        return self.searched(last_theta, weights, enough=enough)

    def searched(self, theta: FloatArray, weights: FloatArray, *, enough: float) -> FloatArray:
        """Iterate with a line search: the loss falls on any way, the decrement need not."""
        for _ in range(_MAX_NEWTON_STEPS):
            step, decrement = self.step(theta, weights)
            if decrement.max() < enough:
                return theta - step
            before, size = self.loss(theta, weights), np.ones(len(theta))
            for _ in range(_MAX_HALVINGS):
                wanted = before - 1e-4 * size * decrement + 1e-14 * np.abs(before)
                too_far = ~(self.loss(theta - size[:, None] * step, weights) <= wanted)
                if not too_far.any():
                    break
                size[too_far] /= 2
            theta = theta - size[:, None] * step
        return theta

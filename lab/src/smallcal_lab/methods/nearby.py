"""The loss of each sample near its present temperature, for fits that take thousands of steps.

A step moves temperatures a little, and the kernel of :mod:`~smallcal.calibrators.objectives` takes
an exponential for each sample and class all over again. Here every sample has a centre, and beside
it two polynomials in its inverse temperature ``b = centre (1 + u)``: its loss and its slope. A
sample that has gone too far gets a new centre. What is given agrees with the kernel to rounding.

The polynomials take one exponential a class. With ``x_j = centre r_j``, and ``r_j <= 0`` the gap of
class j to the runner-up,

    sum_j exp(b r_j) = sum_k u^k sum_j exp(x_j) x_j^k / k!

and no term of the inner sum exceeds 1 / sqrt(2 pi k), whatever the gap. So a dozen powers give the
kernel at all nodes of an interpolation over ``abs(u) <= reach``. The logarithm of the sum is smooth
as far as its nearest zero, pi / log(classes) away at worst.
"""

from __future__ import annotations

import math

import numpy as np

from smallcal.calibrators.maps.base import loss_and_slope
from smallcal.calibrators.objectives import Gaps, Moments, Objective, sigmoid
from smallcal.data.predictions import FloatArray, IntArray

#: Powers of the sum over classes, and nodes of the polynomials: more change no digit.
_POWERS = 18
_NODES = 13
#: How far from a centre the nodes go at most, as a share of it, and times the classes' logarithm.
_REACH = 1 / 10
_REACH_BY_LOG = 0.35
#: In halves of the reach: how far from its centre a sample may go, how far out it is to get a new
#: one too when another must, and how far ahead, the way it went, that one lies: most go on.
_LIMIT, _COME_ALONG, _AHEAD = 1.3, 0.9, 0.6
#: Rows x classes per block: three such arrays stay in a core's own cache.
_BLOCK_SIZE = 16_384


class NearbyLoss:
    """The mean loss and its slopes, as ``loss_and_slope`` gives them, at many nearby places.

    Parameters
    ----------
    goal : Objective
        One that is no sum over samples is asked directly.
    gaps : Gaps

    Examples
    --------
    >>> from smallcal.calibrators.objectives import objective
    >>> from smallcal.data.predictions import Predictions
    >>> gaps = Gaps.of(Predictions.of(np.array([[2.0, 1.0, 0.0], [0.0, 0.5, 3.0]]), [0, 1]))
    >>> loss_at = NearbyLoss(objective("bce"), gaps)
    >>> for temperature in (1.0, 1.01, 1.02):
    ...     loss, slope = loss_at(np.array([temperature, 2.0]))
    >>> bool(np.isclose(loss, loss_and_slope(loss_at.goal, gaps, np.array([1.02, 2.0]))[0]))
    True
    """

    def __init__(self, goal: Objective, gaps: Gaps) -> None:
        self.goal, self.gaps = goal, gaps
        self.weight = gaps.weights / gaps.total
        self.reach = min(_REACH, _REACH_BY_LOG / math.log(gaps.rest.shape[1] + 1))
        nodes, self.to_coefficients = _interpolation()
        self.nodes = nodes * self.reach / 2
        self.derivatives = _derivatives(self.nodes)
        self.centre = np.zeros(gaps.n)
        self.coefficients = np.zeros((_NODES, 2, gaps.n))
        self.powers = np.ones((_NODES, gaps.n))

    def __call__(self, temperature: FloatArray) -> tuple[float, FloatArray]:
        """Return the mean loss, and its derivative in each sample's own temperature."""
        if not self.goal.additive:
            return loss_and_slope(self.goal, self.gaps, temperature)
        beta = 1 / temperature
        away = beta - self.centre
        # In halves of the reach about a centre; about none, when nothing was looked at yet, more.
        away /= beta if not self.centre[0] else self.centre
        away *= 2 / self.reach
        distance = np.abs(away)
        if not distance.max() <= _LIMIT:
            rows = np.flatnonzero(distance > _COME_ALONG)
            ahead = np.sign(away[rows]) * _AHEAD
            self._look_from(rows, beta[rows] * (1 + ahead * self.reach / 2))
            away[rows] = (beta[rows] / self.centre[rows] - 1) * (2 / self.reach)
        loss, slope = np.einsum("kcn,kn->cn", self.coefficients, self._powers_of(away))
        slope *= self.weight
        slope *= -beta
        slope *= beta
        return float(self.weight @ loss), slope

    def _powers_of(self, x: FloatArray) -> FloatArray:
        """Return the powers of x, each time twice as many at once."""
        powers, known = self.powers, 1
        powers[1] = x
        while known < _NODES - 1:
            more = min(known, _NODES - 1 - known)
            np.multiply(
                powers[1 : 1 + more], powers[known], out=powers[known + 1 : known + 1 + more]
            )
            known += more
        return powers

    def _look_from(self, rows: IntArray, centre: FloatArray) -> None:
        """Give samples new centres."""
        self.centre[rows] = centre
        size = max(1, _BLOCK_SIZE // self.gaps.rest.shape[1])
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            found = self.to_coefficients @ self._at_nodes(self.gaps.take(some), self.centre[some])
            self.coefficients[:, :, some] = found.swapaxes(0, 1)

    def _at_nodes(self, gaps: Gaps, centre: FloatArray) -> FloatArray:
        """Return loss and slope of samples at all nodes about their centres, (2, nodes, n)."""
        x = gaps.rest * centre[:, None]
        term, ones = np.exp(x), np.ones(x.shape[1])
        sums = np.empty((_POWERS, gaps.n))
        sums[0] = term @ ones
        for power in range(1, _POWERS):
            term *= x
            sums[power] = term @ ones
            sums[power] /= math.factorial(power)
        total, first, second = self.derivatives @ sums
        shifted = first / total
        beta = centre * (1 + self.nodes[:, None])
        odds = -(beta * gaps.best + np.log(total))
        mean, variance = gaps.best + shifted / centre, (second / total - shifted**2) / centre**2
        state = Moments(beta, odds, mean, variance, sigmoid(odds), sigmoid(-odds))
        terms = self.goal.terms(gaps, state)
        return np.stack([terms.loss, terms.slope])


def _interpolation() -> tuple[FloatArray, FloatArray]:
    """Return the nodes, from -2 to 2, and the matrix from values there to coefficients of powers.

    By way of Chebyshev's polynomials: the inverse of the powers of the nodes has three digits less.
    Polynomials are used well inside, where high powers do not magnify what is left.
    """
    angles = math.pi * (np.arange(_NODES) + 0.5) / _NODES
    degrees = np.arange(_NODES)
    of_values = np.cos(degrees[:, None] * angles) * (2 / _NODES)
    of_values[0] /= 2
    chebyshev = np.zeros((_NODES, _NODES))  # a polynomial a row, a power a column
    chebyshev[0, 0] = chebyshev[1, 1] = 1
    for degree in range(2, _NODES):
        chebyshev[degree, 1:] = 2 * chebyshev[degree - 1, :-1]
        chebyshev[degree] -= chebyshev[degree - 2]
    return 2 * np.cos(angles), (chebyshev.T @ of_values) / 2.0 ** degrees[:, None]


def _derivatives(nodes: FloatArray) -> FloatArray:
    """Return the powers of each node, and their first and second derivatives."""
    k = np.arange(_POWERS)
    powers = nodes[:, None] ** k
    first = np.zeros_like(powers)
    second = np.zeros_like(powers)
    first[:, 1:] = k[1:] * powers[:, :-1]
    second[:, 2:] = (k[2:] * k[1:-1]) * powers[:, :-2]
    return np.stack([powers, first, second])

"""How firmly priors hold a correction's numbers: scales that the split sets, by the evidence."""

from __future__ import annotations

import numpy as np

from smallcal.calibrators.maps.base import agreeing_scale
from smallcal.calibrators.maps.temperature import ANCHOR_SCALE
from smallcal.data.predictions import FloatArray

#: The weak prior on the scales: as if two biases, and two entries of K, of this size had been seen.
_SEEN = 2.0
_BIAS_SEEN, _MIXING_SEEN = 0.1, 0.02
#: Biases have a Student prior of so many degrees: a few large ones do not free all the others.
_DEGREES = 4.0

_START = (0.3, 0.05)  # scales where the search begins
_ROUNDS = 10  # of balancing, for each look
_PACE = 0.8
_LARGEST_SCALE = 10.0
_SMALL_HALF = 24  # of a triangle that is inverted as any matrix is


class Scales:
    """The priors' penalties, and how a parabola of the log-likelihood sets them."""

    def __init__(self, sizes: tuple[int, int, int], rare: FloatArray) -> None:
        self.sizes, self.rare = sizes, rare
        self.bias, self.mixing = (scale**-2 for scale in _START)
        self.each = np.ones(sizes[1])  # what Student's prior makes of each bias

    def penalty(self) -> FloatArray:
        """Return the penalty of each parameter: half of it times the parameter squared."""
        one, _, entries = self.sizes
        parts = np.full(one, ANCHOR_SCALE**-2), self.bias * self.each, np.full(entries, self.mixing)
        return np.concatenate(parts)

    def balance(self, curvature: FloatArray, target: FloatArray) -> FloatArray:
        """Set the scales by the evidence under a parabola; return its penalised minimum.

        Each round is MacKay's: a scale is such that the squares of its parameters, over their
        effective number, agree with it. Rounds approach the end at a steady pace, so that every
        second one goes on to where that leads (Aitken).
        """
        steps: list[FloatArray] = []
        for _ in range(_ROUNDS):
            before = np.log((self.bias, self.mixing))
            minimum, variance = _solved(self._penalised(curvature), target)
            self._agree(minimum, variance)
            steps.append(np.log((self.bias, self.mixing)) - before)
            if np.abs(steps[-1]).max() < 0.01:
                break
            if len(steps) % 2 == 0:
                pace = np.clip(steps[-1] / np.where(steps[-2] == 0, 1, steps[-2]), 0, _PACE)
                self.bias, self.mixing = np.exp(before + steps[-1] / (1 - pace)).tolist()
        return np.asarray(np.linalg.solve(self._penalised(curvature), target))

    def _penalised(self, curvature: FloatArray) -> FloatArray:
        """Return a curvature with the penalties on its diagonal."""
        found = curvature.copy()
        np.einsum("ii->i", found)[:] += self.penalty()
        return found

    def _agree(self, theta: FloatArray, variance: FloatArray) -> None:
        """Make the scales agree with the parameters."""
        b, k = slice(1, 1 + self.sizes[1]), slice(1 + self.sizes[1], None)
        # Classes that neither occur nor are expected have biases too, if small ones.
        small = self.rare / (self.rare + self.bias)
        free = len(theta[b]) - (self.bias * self.each) @ variance[b] + small.sum()
        squares = float(self.each @ theta[b] ** 2 + small @ small)
        self.bias = _precision(squares, free, _BIAS_SEEN)
        self.each = (_DEGREES + 1) / (_DEGREES + self.bias * (theta[b] ** 2 + variance[b]))
        free = len(theta[k]) - self.mixing * variance[k].sum()
        self.mixing = _precision(float(theta[k] @ theta[k]), free, _MIXING_SEEN)


def _solved(matrix: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the solution of a system, and the diagonal of the matrix's inverse."""
    try:
        inverse = _inverse_of_lower(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:  # by rounding alone: no penalised parabola bends downwards
        covariance = np.linalg.inv(matrix)
        return covariance @ target, np.diag(covariance)
    return inverse.T @ (inverse @ target), np.einsum("ij,ij->j", inverse, inverse)


def _inverse_of_lower(lower: FloatArray) -> FloatArray:
    """Return the inverse of a lower triangular matrix, by halves: a third of a whole inverse."""
    half = len(lower) // 2
    if half < _SMALL_HALF:
        return np.asarray(np.linalg.inv(lower))
    inverse = np.zeros_like(lower)
    first, last = _inverse_of_lower(lower[:half, :half]), _inverse_of_lower(lower[half:, half:])
    inverse[:half, :half], inverse[half:, half:] = first, last
    inverse[half:, :half] = -last @ (lower[half:, :half] @ first)
    return inverse


def _precision(squares: float, free: float, before: float) -> float:
    """Return one over the square of the scale that agrees with some parameters."""
    scale = agreeing_scale(squares, free, before=before, seen=_SEEN)
    return min(scale, _LARGEST_SCALE) ** -2

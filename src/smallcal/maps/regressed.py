"""Temperature regressed on signals: the log inverse temperature is linear in them.

No router, no folds, no thresholds. A normal prior holds the log-temperature's spread over samples
near zero, where the map is one temperature for all, and another the intercept near what all logits
together say: every split, however small or one-sided, has one best fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.data import FloatArray
from smallcal.errors import InputError
from smallcal.maps.base import MapFit, Split, TemperatureMap, loss_and_slope
from smallcal.maps.scalar import require_temperatures

#: Beside the spread that they cause, this share of the coefficients' own squares is penalised: two
#: statistics that nearly agree must not get large coefficients that nearly cancel.
RIDGE = 0.01


@dataclass(frozen=True)
class RegressedMap(TemperatureMap):
    """T = exp(-(intercept + coefficients x scores)), within bounds.

    Examples
    --------
    >>> by_two = RegressedMap(0.0, (1.0, 0.0), 0.05, 20.0)
    >>> by_two(np.array([[0.0, 5.0], [-np.log(2), 5.0]])).tolist()
    [1.0, 2.0]
    """

    intercept: float
    coefficients: tuple[float, ...]
    low: float
    high: float
    kind: ClassVar[str] = "regressed"

    def __post_init__(self) -> None:
        require_temperatures((self.low, self.high))
        if not self.coefficients or self.low >= self.high:
            raise InputError("a regressed map needs coefficients, and low below high")

    @property
    def n_parameters(self) -> int:
        """Intercept and coefficients."""
        return 1 + len(self.coefficients)

    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row, from its scores (m, d)."""
        if scores.ndim != 2 or scores.shape[1] != len(self.coefficients):
            raise InputError(
                f"scores must have {len(self.coefficients)} columns; got shape {scores.shape}"
            )
        # einsum, not a matrix product: a row's bits must not depend on its batch.
        linear = np.einsum("ij,j->i", scores, np.array(self.coefficients)) + self.intercept
        with np.errstate(over="ignore"):  # what overflows is clipped
            return np.asarray(np.clip(np.exp(-linear), self.low, self.high))


def fit_regressed(split: Split, *, prior_scale: float = 0.05, prior: str = "spread") -> MapFit:
    """Fit intercept and coefficients at once, from the pooled temperature.

    Minimises the summed objective plus the priors' terms, divided by the number of samples. With
    ``prior="spread"`` the coefficients cost ``(mean of (coefficients x scores)² + 0.01 Σ
    coefficient²) / (2 prior_scale²)``: what counts is how far apart they put the samples'
    log-temperatures, so that it matters little how many statistics there are and which of them
    agree. With ``prior="independent"`` they cost ``Σ coefficient² / (2 prior_scale²)``. The
    intercept has the prior of the pooled temperature.
    """
    from scipy.optimize import minimize

    if not prior_scale > 0:
        raise InputError(f"prior_scale must be positive; got {prior_scale}")
    gaps = split.gaps
    total = gaps.n if gaps.weight is None else float(gaps.weight.sum())
    design = np.column_stack([np.ones(gaps.n), split.scores])
    start = np.zeros(design.shape[1])
    start[0] = -np.log(split.pooled.value)
    centre = np.zeros(design.shape[1])
    pull = np.zeros((design.shape[1], design.shape[1]))
    pull[1:, 1:] = _shape(split, prior) / (prior_scale**2 * total)
    if split.prior is not None:
        centre[0] = -np.log(split.prior.temperature)
        pull[0, 0] = 1 / (split.prior.scale**2 * total)

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        temperature = np.exp(-np.clip(design @ theta, -20, 20))
        value, slope = loss_and_slope(split.goal, gaps, temperature)
        gradient = -(slope * temperature) @ design
        drawn = pull @ (theta - centre)
        return value + float(drawn @ (theta - centre)) / 2, gradient + drawn

    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-12, "gtol": 1e-9}
    )
    theta = found.x if np.isfinite(found.fun) else start
    low, high = split.discipline.bounds
    fitted = RegressedMap(float(theta[0]), tuple(theta[1:].tolist()), low, high)
    at_bound = np.isin(fitted(split.scores), (low, high)).any()
    return MapFit(fitted, (gaps.n,), {"at_bound": []} if at_bound else {})


def _shape(split: Split, prior: str) -> FloatArray:
    """Return the matrix whose quadratic form the prior penalises."""
    identity = np.eye(split.scores.shape[1])
    if prior == "independent":
        return identity
    if prior != "spread":
        raise InputError(f"prior must be 'spread' or 'independent'; got {prior!r}")
    weight = np.ones(split.gaps.n) if split.gaps.weight is None else split.gaps.weight
    spread = np.einsum("i,ij,ik->jk", weight / weight.sum(), split.scores, split.scores)
    return np.asarray(spread + RIDGE * identity)

"""Fit SMART: a network with 49 parameters that reads the temperature from the logit margin."""

from __future__ import annotations

import math

import numpy as np

from smallcal.calibrators.maps.base import MapFit, Split, loss_and_slope, recipe
from smallcal.calibrators.maps.network import NetworkMap
from smallcal.calibrators.maps.temperature import one_sided, scalar_fallback
from smallcal.calibrators.objectives import sigmoid, softplus
from smallcal.data.predictions import FloatArray

#: What SMART adds to its softplus: no temperature is lower.
SMART_OFFSET = 0.1


@recipe("smart")
def fit_smart(
    split: Split, *, hidden: int = 16, epochs: int = 2000, learning_rate: float = 5e-3
) -> MapFit:
    """Fit SMART: one hidden layer of rectifiers on the standardised logit margin.

    The recipe is that of the authors' first release, the one with 49 parameters: Adam over the
    whole split, and of all weights on the way those with the lowest loss on it are kept. Where
    these are no better than the pooled temperature, that one is used, with the flag
    ``scalar_fallback``; so is it with fewer than two wrong or two right predictions.

    Examples
    --------
    >>> from smallcal.calibrators.maps.temperature import split_of
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(100, 3))
    >>> labels = (logits + rng.normal(size=(100, 3))).argmax(axis=1)
    >>> margin = np.diff(np.sort(logits))[:, -1]
    >>> scores = (margin - margin.mean()) / margin.std()
    >>> fit = fit_smart(split_of(logits, labels, "bce", scores), epochs=200)
    >>> fit.map.n_parameters
    49
    """
    if one_sided(split):
        return scalar_fallback(split)
    theta = _descend(split, _first_weights(split, hidden), epochs=epochs, rate=learning_rate)
    lines, output, last = _views(theta)
    fitted = NetworkMap(
        (lines[:, :1], output[None]), (lines[:, 1], last), "relu", offset=SMART_OFFSET, floor=0.0
    )
    loss, _ = loss_and_slope(split.goal, split.gaps, fitted(split.scores))
    if not loss <= pooled_loss(split):
        return scalar_fallback(split)
    return MapFit(fitted, (split.gaps.n,))


def pooled_loss(split: Split) -> float:
    """Return the loss of the pooled temperature on its split."""
    everywhere = np.full(split.gaps.n, split.pooled.value)
    return loss_and_slope(split.goal, split.gaps, everywhere)[0]


def _first_weights(split: Split, hidden: int) -> FloatArray:
    """Draw all parameters, U(±1/√inputs) in each layer; see :func:`_views` for their order."""
    rng = np.random.default_rng([split.discipline.seed, 3])
    first = rng.uniform(-1, 1, 2 * hidden)
    second = rng.uniform(-1, 1, hidden + 1) / math.sqrt(hidden)
    return np.concatenate([first, second])


def _views(theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each unit's line (slope, intercept), the output weights, and the output bias."""
    hidden = len(theta) // 3
    return theta[: 2 * hidden].reshape(hidden, 2), theta[2 * hidden : -1], theta[-1:]


def _descend(split: Split, theta: FloatArray, *, epochs: int, rate: float) -> FloatArray:
    """Return the parameters with the lowest loss among those that Adam passes through."""
    lowest, best = math.inf, theta
    mean, square = np.zeros((2, len(theta)))
    for step in range(1, epochs + 2):
        loss, gradient = _loss_and_gradient(split, theta)
        if loss < lowest:
            lowest, best = loss, theta
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        spread = np.sqrt(square / (1 - 0.999**step)) + 1e-8
        theta = theta - rate * mean / (1 - 0.9**step) / spread
    return best


def _loss_and_gradient(split: Split, theta: FloatArray) -> tuple[float, FloatArray]:
    """Return the loss and its gradient in all parameters."""
    lines, output, last = _views(theta)
    height = np.outer(split.scores, lines[:, 0]) + lines[:, 1]
    units = np.maximum(height, 0)
    raw = units @ output + last
    loss, slope = loss_and_slope(split.goal, split.gaps, SMART_OFFSET + softplus(raw))
    pull = slope * sigmoid(raw)
    through = np.outer(pull, output) * (height > 0)
    of_lines = np.stack([split.scores @ through, through.sum(axis=0)], axis=1)
    return loss, np.concatenate([of_lines.ravel(), pull @ units, [pull.sum()]])

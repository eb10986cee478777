"""Fit SMART: a network with 49 parameters that reads the temperature from the logit margin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from smallcal.calibrators.maps.base import MapFit, Split, loss_and_slope, recipe
from smallcal.calibrators.maps.network import NetworkMap
from smallcal.calibrators.maps.temperature import one_sided, scalar_fallback
from smallcal.data.predictions import FloatArray, IntArray
from smallcal_lab.methods.nearby import NearbyLoss

#: What SMART adds to its softplus: no temperature is lower.
SMART_OFFSET = 0.1


class Adam:
    """Adam over arrays that are updated in place, with AdamW's weight decay where asked.

    Parameters
    ----------
    parameters : sequence of ndarrays
    rate : float, or ndarray that broadcasts against each of them
        Learning rate.
    decay : float, or such an ndarray
        Each step also takes ``rate x decay`` of each parameter off it.

    Examples
    --------
    >>> point = np.array([3.0])
    >>> adam = Adam([point], rate=0.1)
    >>> for _ in range(200):
    ...     adam.step([2 * point])
    >>> bool(abs(point[0]) < 0.01)
    True
    """

    def __init__(
        self,
        parameters: Sequence[FloatArray],
        *,
        rate: float | FloatArray,
        decay: float | FloatArray = 0.0,
    ) -> None:
        self.parameters = parameters
        self.rate = rate
        self.keep = 1 - rate * decay
        self.means = [np.zeros_like(part) for part in parameters]
        self.squares = [np.zeros_like(part) for part in parameters]
        self.steps = 0

    def step(self, gradients: Sequence[FloatArray]) -> None:
        """Move every parameter once."""
        self.steps += 1
        rate = self.rate / (1 - 0.9**self.steps)
        spread = 1 / math.sqrt(1 - 0.999**self.steps)
        parts = zip(self.parameters, gradients, self.means, self.squares, strict=True)
        for parameter, gradient, mean, square in parts:
            mean *= 0.9
            mean += 0.1 * gradient
            square *= 0.999
            square += 0.001 * gradient**2
            parameter *= self.keep
            parameter -= rate * mean / (np.sqrt(square) * spread + 1e-8)


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
    order = np.argsort(split.scores, kind="stable")
    scores, loss_at = split.scores[order], NearbyLoss(split.goal, split.gaps.take(order))
    lowest, best = math.inf, theta.copy()
    adam = Adam([theta], rate=rate)
    for epoch in range(epochs + 1):
        loss, gradient = _loss_and_gradient(loss_at, scores, theta)
        if loss < lowest:
            lowest, best = loss, theta.copy()
        if epoch < epochs:
            adam.step([gradient])
    return best


def _loss_and_gradient(
    loss_at: Callable[[FloatArray], tuple[float, FloatArray]], scores: FloatArray, theta: FloatArray
) -> tuple[float, FloatArray]:
    """Return the loss and its gradient in all parameters; ``scores`` ascend.

    A rectifier is its line from some sample on, or up to some sample, and zero elsewhere. So the
    samples fall into pieces on which the network is a line. Two sums over the samples where a unit
    is on, of the pull and of the pull times the score, give the gradient of its line and of its
    output weight alike.
    """
    lines, output, last = _views(theta)
    starts, sizes, on = _pieces(lines, scores)
    rise, level = ((output * on) @ lines).T
    raw = rise.repeat(sizes)
    raw *= scores
    raw += (level + last).repeat(sizes)
    temperature, steepness = _softplus_and_slope(raw)
    loss, slope = loss_at(SMART_OFFSET + temperature)
    pull = np.zeros((2, len(scores) + 1))  # a last piece may begin after the last sample
    np.multiply(slope, steepness, out=pull[1, :-1])
    np.multiply(pull[1, :-1], scores, out=pull[0, :-1])
    sums = on.T @ np.add.reduceat(pull, starts, axis=1).T
    gradient = [(output[:, None] * sums).ravel(), (lines * sums).sum(axis=1), [pull[1].sum()]]
    return loss, np.concatenate(gradient)


def _pieces(lines: FloatArray, scores: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Return where pieces of ascending scores begin, their sizes, and which units are on in each.

    A unit of slope w and intercept b is on where w x score + b > 0. In a piece without samples none
    is on.
    """
    rise, intercept = lines.T
    with np.errstate(divide="ignore", invalid="ignore"):
        edge = scores.searchsorted(-intercept / rise)
    starts, ends = np.empty((2, len(edge) + 1), dtype=np.intp)
    starts[0], ends[-1] = 0, len(scores)
    starts[1:] = ends[:-1] = np.sort(edge)
    sizes = ends - starts
    on = ((starts[:, None] >= edge) == (rise >= 0)) & (sizes > 0)[:, None]
    return starts, sizes, on.astype(np.float64)


def _softplus_and_slope(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log(1 + exp(x)) and its derivative, with one exponential for both."""
    small = np.exp(-np.abs(x))
    return np.maximum(x, 0) + np.log1p(small), np.where(x > 0, 1.0, small) / (1 + small)

"""Temperature by a small neural network, and SMART: 49 parameters on the logit margin."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.maps.base import MapFit, Split, TemperatureMap, loss_and_slope, recipe
from smallcal.calibrators.maps.nearby import NearbyLoss
from smallcal.calibrators.maps.temperature import LEAST_TEMPERATURE, one_sided, scalar_fallback
from smallcal.calibrators.objectives import softplus
from smallcal.calibrators.parts import ONE_SCORE, Rule, Scores, list_of, rule
from smallcal.calibrators.program import Row, Value
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.data.special import erf
from smallcal.errors import InputError

ACTIVATIONS = ("relu", "gelu")

#: What SMART adds to its softplus: no temperature is lower.
SMART_OFFSET = 0.1

#: Rows x units per block of the network: 512 kB of float64 stays in a core's own cache.
_BLOCK_SIZE = 65_536

#: No signal gives a larger score, and no network may make more than this of it.
_LARGEST_SCORE = 1e150
_LARGEST_OUTPUT = 1e300

#: Layers of a network in a file; no fit makes more than three.
_MOST_LAYERS = 64


@dataclass(frozen=True, eq=False)
class NetworkMap(TemperatureMap):
    """T(x) = max(floor, offset + softplus(network(scores))).

    Attributes
    ----------
    weights : tuple of ndarrays of shape (outputs, inputs)
        One per layer, the last with a single output. One layer alone is a linear head.
    biases : tuple of ndarrays of shape (outputs,)
    activation : {"relu", "gelu"}
        Between layers; gelu is the exact one, x times the normal distribution function.
    offset, floor : float
        Not negative and not both zero, so that every temperature is positive.

    Examples
    --------
    >>> head = NetworkMap([[[1.0, -1.0]]], [[0.5]], activation="relu", offset=0.1, floor=0.0)
    >>> head(np.array([[2.0, 2.5], [0.0, 900.0]])).round(4).tolist()
    [0.7931, 0.1]
    """

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    activation: str
    offset: float
    floor: float
    kind: ClassVar[str] = "network"
    words: ClassVar[str] = "divided by a temperature that a small network reads from {signal}"
    schema: ClassVar[Mapping[str, Rule]] = {
        "weights": list_of(
            rule("matrix"), "One matrix per layer, a row per output.", least=1, most=_MOST_LAYERS
        ),
        "biases": rule("matrix", "One list per layer."),
        "activation": {"type": "string", "enum": list(ACTIVATIONS)},
        "offset": {"type": "number", "minimum": 0},
        "floor": {"type": "number", "minimum": 0},
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _arrays(self.weights, ndim=2, name="weights"))
        object.__setattr__(self, "biases", _arrays(self.biases, ndim=1, name="biases"))
        if self.activation not in ACTIVATIONS:
            choices = ", ".join(ACTIVATIONS)
            raise InputError(f"unknown activation {self.activation!r}; choose from {choices}")
        _require_chain(self.weights, self.biases)
        _require_finite_output(self.weights, self.biases)
        low, high = sorted((self.offset, self.floor))
        if not 0 <= low <= high < math.inf or high < LEAST_TEMPERATURE:
            raise InputError(
                "offset and floor must be finite, not negative and not both zero, or below "
                f"{LEAST_TEMPERATURE:g}; got {self.offset} and {self.floor}"
            )

    @property
    def n_parameters(self) -> int:
        """Weights and biases."""
        return sum(part.size for part in (*self.weights, *self.biases))

    @property
    def n_scores(self) -> int:
        """Columns of the first layer."""
        return int(self.weights[0].shape[1])

    @property
    def reads(self) -> tuple[Scores, ...]:
        """A score per column of the first layer."""
        columns = Scores(self.n_scores)
        return (ONE_SCORE, columns) if self.n_scores == 1 else (columns,)

    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row."""
        inputs = scores[:, None] if scores.ndim == 1 else scores
        if inputs.ndim != 2 or inputs.shape[1] != self.n_scores:
            raise InputError(
                f"scores must have the {self.n_scores} columns this network was "
                f"fitted on; got shape {scores.shape}"
            )
        result = np.empty(len(inputs))
        size = max(1, _BLOCK_SIZE // max(len(bias) for bias in self.biases))
        for start in range(0, len(inputs), size):
            rows = slice(start, start + size)
            result[rows] = self._raw(inputs[rows].astype(np.float64, order="C"))
        return np.asarray(np.maximum(self.floor, self.offset + softplus(result)))

    def _raw(self, values: FloatArray) -> FloatArray:
        """Return the network's output for a block of rows."""
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if layer and self.activation == "relu":
                values = np.maximum(values, 0)
            elif layer:
                values = 0.5 * values * (1 + erf(values / math.sqrt(2)))
            # einsum, not a matrix product: a row's bits must not depend on its batch.
            values = np.einsum("ij,kj->ik", values, weight) + bias
        return values[:, 0]

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the temperature, layer after layer."""
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if layer and self.activation == "relu":
                scores = scores.at_least(0.0)
            elif layer:
                scores = 0.5 * scores * (1 + program.erf(scores / math.sqrt(2)))
            scores = scores.dot(weight) + program.constant(bias)
        return (program.softplus(scores) + float(self.offset)).at_least(self.floor)


def _arrays(parts: object, *, ndim: int, name: str) -> tuple[FloatArray, ...]:
    """Return the parts as float64 arrays that cannot be written to; JSON gives nested lists."""
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        raise InputError(f"{name} must be a list with one entry per layer; got {parts!r}")
    return tuple(_array(part, ndim=ndim, name=f"{name}[{i}]") for i, part in enumerate(parts))


def _array(part: object, *, ndim: int, name: str) -> FloatArray:
    try:
        array = np.array(part, dtype=np.float64)
    except (ValueError, TypeError):
        raise InputError(f"{name} must be {ndim}-dimensional numbers") from None
    if array.ndim != ndim or array.size == 0:
        raise InputError(f"{name} must have {ndim} dimensions and entries; got {array.shape}")
    if not bool(np.isfinite(array).all()):
        raise InputError(f"{name} must be finite")
    array.flags.writeable = False
    return array


def _require_chain(weights: tuple[FloatArray, ...], biases: tuple[FloatArray, ...]) -> None:
    """Raise unless each layer takes what the one before gives, and the last gives one number."""
    if not weights or len(weights) != len(biases):
        raise InputError(
            f"a network needs as many biases as weights, at least one; got {len(biases)} and "
            f"{len(weights)}"
        )
    shapes = [weight.shape for weight in weights]
    inputs = [width for _, width in shapes[1:]] + [1]
    for layer, (shape, bias, following) in enumerate(zip(shapes, biases, inputs, strict=True)):
        if not shape[0] == len(bias) == following:
            raise InputError(
                f"layer {layer} has {shape[0]} outputs and {len(bias)} biases, but "
                f"{following} values are taken from it"
            )


def _require_finite_output(weights: tuple[FloatArray, ...], biases: tuple[FloatArray, ...]) -> None:
    """Raise if layer upon layer could make a large score infinite."""
    largest = _LARGEST_SCORE
    for weight, bias in zip(weights, biases, strict=True):
        with np.errstate(over="ignore"):
            largest = float((np.abs(weight).sum(axis=1) * largest + np.abs(bias)).max())
    if not largest <= _LARGEST_OUTPUT:
        raise InputError("the weights are so large that the network's output may overflow")


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

"""Temperature by a small neural network, and SMART: 49 parameters on the logit margin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.maps.base import TemperatureMap
from smallcal.calibrators.maps.temperature import LEAST_TEMPERATURE
from smallcal.calibrators.objectives import softplus
from smallcal.calibrators.parts import ONE_SCORE, Rule, Scores, list_of, rule
from smallcal.calibrators.program import Row, Value
from smallcal.data.predictions import FloatArray
from smallcal.data.special import erf
from smallcal.errors import InputError

ACTIVATIONS = ("relu", "gelu")


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
                f"fitted on; got shape {scores.shape}",
                code="columns-differ",
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

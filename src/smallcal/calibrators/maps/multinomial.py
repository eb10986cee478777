"""The default's map: multinomial logistic regression on a model's log-probabilities.

Let x be the log-probabilities at one temperature, each class shifted by a constant, ŷ the class
that comes first then, m its margin over the second and φ six standardised statistics of the row.
Then

    logit_j = x_j (1 + s·(1, φ)) + b_j + (W x)_j + 1[j = ŷ] m (a·(1, φ))

with one slope that depends on the statistics, a bias per class, a matrix W of low rank, and a
correction of the predicted class that is proportional to its margin: a class with no margin has no
claim to be preferred. :mod:`smallcal.calibrators.maps.multinomial_fit` fits it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.maps.base import ProbabilityMap
from smallcal.calibrators.parts import Rule, list_of, rule
from smallcal.calibrators.program import Row, Value, constant
from smallcal.data.masks import MASKED, any_masked, filled, is_masked
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.data.special import softmax
from smallcal.errors import InputError

#: Log-probabilities, relative to the largest, are not read further down than this.
FLOOR = -40.0
#: The sum of the other classes' odds is at least this: log-odds of the confidence end at 16.
LEAST_REST = 1e-7
#: Margins to the second and third class are read up to these.
SECOND_CAP, THIRD_CAP = 12.0, 16.0
#: Standardised statistics are read up to this size.
CLIP = 4.0


class Inputs(NamedTuple):
    """What the regression reads of each sample.

    Attributes
    ----------
    x : ndarray of shape (n, C)
        Shifted log-probabilities at the base temperature; a masked class has the lowest of its row.
    statistics : ndarray of shape (n, 6), or (n, 3) for two classes
        Log-odds of the confidence, margin to the second class, entropy; with more than two
        classes also margin to the third, spread of the logits, log of the sum of p².
    top : ndarray of shape (n,)
        Class that comes first.
    """

    x: FloatArray
    statistics: FloatArray
    top: IntArray


def inputs_of(logits: FloatArray, inverse_temperature: float, offset: FloatArray) -> Inputs:
    """Return what the regression reads of logits (n, C), float64; ``offset`` shifts each class.

    Examples
    --------
    >>> found = inputs_of(np.array([[np.log(3), 0.0]]), 1.0, np.zeros(2))
    >>> np.exp(found.x).round(3).tolist(), found.statistics[:, 1].round(3).tolist()
    ([[0.75, 0.25]], [1.099])
    """
    n, n_classes = logits.shape
    z = (logits - logits.max(axis=1, keepdims=True)) * inverse_temperature + offset
    if any_masked(logits):
        z = filled(np.where(is_masked(logits), MASKED, z))
    rows, top = np.arange(n), z.argmax(axis=1)
    gaps = np.maximum(z - z[rows, top][:, None], FLOOR)
    weight = np.exp(gaps)
    if any_masked(logits):
        weight[is_masked(logits)] = 0
    weight[rows, top] = 0
    rest = np.einsum("ij->i", weight)
    squares = np.einsum("ij,ij->i", weight, weight)
    log_sum = np.log1p(rest)
    others = gaps.copy()
    others[rows, top] = -np.inf
    second = others.argmax(axis=1)
    columns = [
        -np.log(np.maximum(rest, LEAST_REST)),
        np.minimum(-others[rows, second], SECOND_CAP),
        log_sum - np.einsum("ij,ij->i", weight, gaps) / (1 + rest),
    ]
    if n_classes > 2:
        others[rows, second] = -np.inf
        mean = np.einsum("ij->i", gaps) / n_classes
        spread = np.einsum("ij,ij->i", gaps, gaps) / n_classes - mean**2
        columns += [
            np.minimum(-others.max(axis=1), THIRD_CAP),
            np.sqrt(np.maximum(spread, 0)),
            np.log1p(squares) - 2 * log_sum,
        ]
    gaps -= log_sum[:, None]
    return Inputs(gaps, np.column_stack(columns), top)


def standardised(statistics: FloatArray, mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Return one and the standardised, clipped statistics of each row, shape (n, 1 + q)."""
    phi = np.clip((statistics - mean) / scale, -CLIP, CLIP)
    return np.column_stack([np.ones(len(phi)), phi])


@dataclass(frozen=True, eq=False)
class MultinomialMap(ProbabilityMap):
    """Multinomial logistic regression on log-probabilities; see the module.

    Attributes
    ----------
    inverse_temperature : float
        What the logits are multiplied by first.
    offset : ndarray of shape (C,)
        Added to them then.
    mean, scale : ndarray of shape (q,)
        Of the statistics, in the calibration set.
    slope, margin : ndarray of shape (1 + q,)
        s and a: coefficients of one and the standardised statistics.
    bias : ndarray of shape (C,)
    read, write : ndarray of shape (k, C)
        W = write' read.

    Examples
    --------
    >>> plain = MultinomialMap(
    ...     2.0, np.zeros(2), np.zeros(3), np.ones(3), np.zeros(4), np.zeros(4), np.zeros(2),
    ...     np.zeros((0, 2)), np.zeros((0, 2)),
    ... )
    >>> plain.probabilities(np.array([[np.log(3), 0.0]]), np.zeros(1)).round(3).tolist()
    [[0.9, 0.1]]
    """

    inverse_temperature: float
    offset: FloatArray
    mean: FloatArray
    scale: FloatArray
    slope: FloatArray
    margin: FloatArray
    bias: FloatArray
    read: FloatArray
    write: FloatArray
    kind: ClassVar[str] = "multinomial"
    words: ClassVar[str] = (
        "turned into probabilities by a multinomial regression on their log-probabilities"
    )
    schema: ClassVar[Mapping[str, Rule]] = {
        "inverse_temperature": rule("number", "What the logits are multiplied by first."),
        "offset": rule("numbers", "Added to the logit of each class then."),
        "mean": rule("numbers", "Means of the statistics."),
        "scale": rule("numbers", "Standard deviations of the statistics."),
        "slope": rule("numbers", "How the slope depends on one and the statistics."),
        "margin": rule("numbers", "The same for the predicted class, times its margin."),
        "bias": rule("numbers", "Added to the logit of each class."),
        "read": list_of(rule("numbers"), "Directions in which log-probabilities are read."),
        "write": list_of(rule("numbers"), "What each of these adds to the logits."),
    }

    def __post_init__(self) -> None:
        n_classes, k = len(self.bias), len(self.read)
        q = 6 if n_classes > 2 else 3
        shapes: dict[str, tuple[int, ...]] = {"offset": (n_classes,), "bias": (n_classes,)}
        shapes |= {"mean": (q,), "scale": (q,), "slope": (1 + q,), "margin": (1 + q,)}
        shapes |= {"read": (k, n_classes), "write": (k, n_classes)}
        for name, shape in shapes.items():
            array = np.array(getattr(self, name), dtype=np.float64, order="C")
            if n_classes < 2 or array.size != np.prod(shape) or not np.isfinite(array).all():
                raise InputError(f"{name} of a multinomial map must be {shape} finite numbers")
            object.__setattr__(self, name, array.reshape(shape))
        if not 0 < self.inverse_temperature < np.inf or not (self.scale > 0).all():
            raise InputError("inverse_temperature and scale of a multinomial map must be positive")

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.bias)

    @property
    def n_parameters(self) -> int:
        """The temperature, slopes, margins, biases, and a square matrix between directions."""
        return 1 + self.slope.size + self.margin.size + self.bias.size + len(self.read) ** 2

    @property
    def n_held(self) -> int:
        """All but the temperature: priors hold them."""
        return self.n_parameters - 1

    @property
    def preserves_argmax(self) -> bool:
        """No: classes are weighed against each other."""
        return False

    def temperature(self, logits: FloatArray) -> FloatArray:
        """Return what divides the logits of each row before classes are told apart.

        It is infinite where the slope would not be positive.
        """
        found = inputs_of(logits, self.inverse_temperature, self.offset)
        slope = 1 + np.einsum(
            "ij,j->i", standardised(found.statistics, self.mean, self.scale), self.slope
        )
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (self.inverse_temperature * np.maximum(slope, 0)))

    def probabilities(self, logits: FloatArray, scores: FloatArray, /) -> FloatArray:
        """Return probabilities (m, C), float64; ``scores`` are not looked at."""
        if logits.shape[1:] != (self.n_classes,):
            raise InputError(
                f"logits must have shape (m, {self.n_classes}), got {logits.shape}: the map was "
                f"fitted on {self.n_classes} classes",
                code="columns-differ",
            )
        z = np.ascontiguousarray(logits, dtype=np.float64)
        found = inputs_of(z, self.inverse_temperature, self.offset)
        signals = standardised(found.statistics, self.mean, self.scale)
        moved = found.x * (1 + np.einsum("ij,j->i", signals, self.slope))[:, None]
        moved += self.bias
        if len(self.read):
            # Not a matrix product: BLAS rounds a row differently in batches of different sizes.
            moved += np.einsum("ik,kj->ij", np.einsum("ij,kj->ik", found.x, self.read), self.write)
        pull = found.statistics[:, 1] * np.einsum("ij,j->i", signals, self.margin)
        moved[np.arange(len(moved)), found.top] += pull
        return softmax(moved)

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the probabilities."""
        z = row.gaps * self.inverse_temperature + constant(self.offset)
        if row.present is not None:
            lowest = 0.0 - program.choose(row.present, 0.0 - z, program.LOWEST).largest()
            z = program.choose(row.present, z, lowest)
        top = z.at_top()
        gaps = (z - z.largest()).at_least(FLOOR)
        weight = program.choose(top, 0.0, program.exp(gaps))
        if row.present is not None:
            weight = program.choose(row.present, weight, 0.0)
        rest = weight.sum()
        log_sum = program.log(1 + rest)
        others = program.choose(top, program.LOWEST, gaps)
        second = others.largest()
        margin = (0.0 - second).at_most(SECOND_CAP)
        statistics = (0.0 - program.log(rest.at_least(LEAST_REST))).join(margin)
        statistics = statistics.join(log_sum - weight.inner(gaps) / (1 + rest))
        if self.n_classes > 2:
            third = program.choose(others.at_top(), program.LOWEST, others).largest()
            mean = gaps.sum() / self.n_classes
            spread = gaps.inner(gaps) / self.n_classes - mean * mean
            statistics = statistics.join((0.0 - third).at_most(THIRD_CAP))
            statistics = statistics.join(program.sqrt(spread.at_least(0.0)))
            squares = program.log(1 + weight.inner(weight))
            statistics = statistics.join(squares - log_sum - log_sum)
        phi = (statistics - constant(self.mean)) / constant(self.scale)
        phi = phi.at_least(-CLIP).at_most(CLIP)
        x = gaps - log_sum
        moved = x * (phi.dot(self.slope[1:]) + (1 + self.slope[0])) + constant(self.bias)
        if len(self.read):
            moved = moved + x.dot(self.read).dot(self.write.T)
        pull = margin * (phi.dot(self.margin[1:]) + self.margin[0])
        moved = moved + program.choose(top, pull, 0.0)
        return program.softmax(moved - moved.largest())

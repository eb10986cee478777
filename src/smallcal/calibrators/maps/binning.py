"""Scaling-binning: a fitted temperature whose confidences are then rounded to a few values.

Kumar, Liang and Ma, "Verified Uncertainty Calibration" (NeurIPS 2019), in its top-label form.
One temperature is fitted; then the scaled confidences are cut into bins of equal mass, and each
is replaced by the mean *scaled confidence* of its bin. Histogram binning would take the bin's
accuracy, which is far noisier. The point of the bins is that the calibration error of a map with
finitely many confidences can be measured; that of a continuous one can only be bounded below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.maps.base import ProbabilityMap
from smallcal.calibrators.maps.temperature import (
    require_temperatures,
)
from smallcal.calibrators.parts import Rule, list_of, rule
from smallcal.calibrators.program import Row, Value
from smallcal.calibrators.softmax import keep_argmax
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError

#: Bins in a file: each is a statement to every exporter.
MOST_BINS = 10_000


@dataclass(frozen=True)
class BinnedMap(ProbabilityMap):
    """Gives the predicted class one of a few confidences; the others keep their proportions.

    With c the top confidence of softmax(z / T), the predicted class gets c' = ``values[b]``,
    where b counts the edges that c has reached, and every other class (1 - c') times its share
    of the rest. A c' so low that another class would overtake is raised until it does not.

    Attributes
    ----------
    temperature : float
    edges : tuple of float
        Where bins begin, from the second on: ascending scaled confidences.
    values : tuple of float
        The confidence of each bin; one more than edges.

    Examples
    --------
    >>> rounded = BinnedMap(temperature=2.0, edges=(0.8,), values=(0.6, 0.9))
    >>> logits = np.log([[0.25, 0.5, 0.25], [0.01, 0.98, 0.01]]) * 2
    >>> rounded.probabilities(logits, np.zeros(2)).round(3).tolist()
    [[0.2, 0.6, 0.2], [0.05, 0.9, 0.05]]
    """

    temperature: float
    edges: tuple[float, ...]
    values: tuple[float, ...]
    kind: ClassVar[str] = "binned"
    words: ClassVar[str] = "scaled, and the top confidence replaced by the mean of its bin"
    schema: ClassVar[Mapping[str, Rule]] = {
        "temperature": rule("temperature"),
        "edges": list_of(
            rule("probability"),
            "Where bins of the scaled confidence begin, from the second on: ascending.",
        ),
        "values": list_of(
            rule("probability"), "The confidence of each bin.", least=1, most=MOST_BINS
        ),
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        object.__setattr__(self, "values", tuple(float(value) for value in self.values))
        require_temperatures((self.temperature,))
        if len(self.values) != len(self.edges) + 1:
            raise InputError(
                f"{len(self.values)} bins need {len(self.values) - 1} edges; got {len(self.edges)}"
            )
        if not np.isfinite(self.edges).all() or not (np.diff(self.edges) > 0).all():
            raise InputError(f"edges must be finite and ascending; got {self.edges}")
        if not all(0 <= value <= 1 for value in self.values):
            raise InputError(f"values must lie between 0 and 1; got {self.values}")

    @property
    def n_parameters(self) -> int:
        """The temperature and the bins' confidences; edges are quantiles, not fitted."""
        return 1 + len(self.values)

    def probabilities(self, logits: FloatArray, scores: FloatArray, /) -> FloatArray:
        """Return probabilities; the scores are not used."""
        top, others, total, confidence = scaled(logits, self.temperature)
        wanted = np.array(self.values)[np.searchsorted(self.edges, confidence, side="right")]
        # The largest of the others has the share 1 / total of the rest, so it stays below the
        # predicted class when that has at least 1 / (1 + total).
        wanted = np.maximum(wanted, 1 / (1 + total))
        others *= ((1 - wanted) / total)[:, None]
        np.minimum(others, wanted[:, None], out=others)
        others[np.arange(len(top)), top] = wanted
        keep_argmax(others, top)
        return others

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the probabilities."""
        gaps = (row.gaps - row.second_gap) / self.temperature
        others = program.choose(row.top, 0.0, program.exp(program.choose(row.top, 0.0, gaps)))
        total = others.sum()
        confidence = 1 / (1 + total * program.exp(row.second_gap / self.temperature))
        wanted = program.steps(confidence, self.edges, self.values).at_least(1 / (1 + total))
        rest = (others * ((1 - wanted) / total)).at_most(wanted)
        return program.choose(row.top, wanted, rest)


def scaled(
    logits: FloatArray, temperature: float
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Return what softmax(z / T) is made of, so that a doubt of 1e-300 keeps its digits.

    Namely the predicted class, the weight of each other class relative to the largest of them
    (0 for the predicted one), their sum, and the top confidence.
    """
    # One memory layout for all: the order of a sum, and so its bits, would depend on it.
    others = np.array(logits, dtype=np.float64, order="C")
    every = np.arange(len(others))
    top = np.asarray(others.argmax(axis=1), dtype=np.int64)
    best = others[every, top]
    others[every, top] = -np.inf
    second = others.max(axis=1)
    others -= second[:, None]
    others /= temperature
    np.exp(others, out=others)
    total = np.einsum("ij->i", others)
    confidence = 1 / (1 + total * np.exp((second - best) / temperature))
    return top, others, total, confidence

"""Signals that are not for use: random controls, and diagnostics that read the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators.signals.base import FittedSignal, Rows
from smallcal.calibrators.signals.fitted import Risk
from smallcal.calibrators.signals.logit_statistics import STATISTICS
from smallcal.data.predictions import FloatArray


@dataclass(frozen=True)
class RandomScore(FittedSignal):
    """A control that knows nothing: uniform scores, drawn anew for each batch from the seed."""

    seed: int
    kind: ClassVar[str] = "random"
    rowwise: ClassVar[bool] = False

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return uniform numbers, the same for the same number of rows."""
        return np.asarray(np.random.default_rng([self.seed, 1]).random(len(rows)))


@dataclass(frozen=True)
class ShuffledRisk(FittedSignal):
    """A control with the right scores on the wrong rows: risk, permuted within the batch."""

    risk: Risk
    seed: int
    kind: ClassVar[str] = "shuffled"
    rowwise: ClassVar[bool] = False

    @property
    def n_parameters(self) -> int:
        """As many as the risk score has."""
        return self.risk.n_parameters

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the rows' risks in a seeded random order."""
        return np.random.default_rng([self.seed, 2]).permutation(self.risk.scores(rows))


@dataclass(frozen=True)
class OracleRisk(FittedSignal):
    """A diagnostic that reads the answer: 1 - probability of the true class."""

    kind: ClassVar[str] = "oracle_risk"
    needs: ClassVar[tuple[str, ...]] = ("labels",)

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return one minus the model's own probability of the label."""
        every = np.arange(len(rows))
        top = rows.logits.max(axis=1)
        gap = rows.logits[every, rows.labels].astype(np.float64) - top
        return np.asarray(1 - np.exp(gap) * rows.statistics[STATISTICS.index("confidence")])


@dataclass(frozen=True)
class OracleCorrectness(FittedSignal):
    """A diagnostic that reads the answer: 1 where the prediction is wrong."""

    kind: ClassVar[str] = "oracle_correctness"
    needs: ClassVar[tuple[str, ...]] = ("labels",)

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return 1 for wrong predictions, 0 for right ones."""
        return np.asarray(rows.logits.argmax(axis=1) != rows.labels, dtype=np.float64)

"""The temperature that an unrestricted head gives a row, as a score to group rows by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from smallcal.calibrators.maps.network import NetworkMap
from smallcal.calibrators.once import once
from smallcal.calibrators.parts import Rule
from smallcal.calibrators.program import Row, Value
from smallcal.calibrators.signals.base import FittedSignal
from smallcal.calibrators.signals.logit_statistics import Rows
from smallcal.data.predictions import FloatArray

#: No temperature of a head is lower.
FLOOR = 1e-3


@dataclass(frozen=True, eq=False)
class HeadTemperature(FittedSignal):
    """T(x) of a network of features: what the head itself would divide the logits by.

    Attributes
    ----------
    weights : tuple of ndarrays of shape (outputs, inputs)
        One per layer, as in :class:`~smallcal.calibrators.maps.network.NetworkMap`.
    biases : tuple of ndarrays of shape (outputs,)
    """

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    kind: ClassVar[str] = "head_temperature"
    words: ClassVar[str] = "the temperature that a network reads from its features"
    schema: ClassVar[Mapping[str, Rule]] = {
        name: NetworkMap.schema[name] for name in ("weights", "biases")
    }
    needs: ClassVar[tuple[str, ...]] = ("features",)

    def __post_init__(self) -> None:
        for name in ("weights", "biases"):
            object.__setattr__(self, name, getattr(self.head, name))

    @once
    def head(self) -> NetworkMap:
        """The same numbers as a map, which checks them."""
        return NetworkMap(self.weights, self.biases, "gelu", offset=0.0, floor=FLOOR)

    @property
    def n_parameters(self) -> int:
        """Weights and biases."""
        return self.head.n_parameters

    @property
    def n_features(self) -> int | None:
        """Number of features that each row must have."""
        return self.head.n_scores

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the temperature of each row."""
        return self.head(rows.features)

    def program(self, row: Row, /) -> Value:
        """Return the temperature."""
        return self.head.program(row, row.features)


@dataclass(frozen=True, eq=False)
class LogitHeadTemperature(HeadTemperature):
    """T(x) of a network of the logits."""

    kind: ClassVar[str] = "logit_head_temperature"
    words: ClassVar[str] = "the temperature that a network reads from its logits"
    needs: ClassVar[tuple[str, ...]] = ()

    @property
    def n_classes(self) -> int:
        """Columns of the logits it is for."""
        return self.head.n_scores

    @property
    def n_features(self) -> int | None:
        """None: it reads logits."""
        return None

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the temperature of each row."""
        return self.head(rows.logits)

    def program(self, row: Row, /) -> Value:
        """Return the temperature."""
        return self.head.program(row, row.filled)

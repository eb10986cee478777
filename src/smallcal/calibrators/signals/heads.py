"""The temperature that an unrestricted head gives a row, as a score to group rows by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from smallcal.calibrators.maps.base import Split
from smallcal.calibrators.maps.heads import FLOOR, fit_head
from smallcal.calibrators.maps.network import NetworkMap
from smallcal.calibrators.maps.temperature import Temperature
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.calibrators.once import once
from smallcal.calibrators.parts import Rule
from smallcal.calibrators.program import Row, Value
from smallcal.calibrators.signals.base import FittedSignal, Observed, SignalFit, no_signal, route
from smallcal.calibrators.signals.crossfit import OUT_OF_FOLD, stratified_folds
from smallcal.calibrators.signals.logit_statistics import Rows
from smallcal.data.predictions import FloatArray


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


@route("head_temperature", needs=("features",), care=OUT_OF_FOLD)
def fit_head_temperature(seen: Observed, *, epochs: int = 500, patience: int = 20) -> SignalFit:
    """Fit the temperature head of features, cross-fitted; see :func:`fit_temperatures`."""
    return fit_temperatures(seen, seen.rows.features, HeadTemperature, epochs, patience)


@route("logit_head_temperature", care=OUT_OF_FOLD)
def fit_logit_head_temperature(
    seen: Observed, *, epochs: int = 500, patience: int = 20
) -> SignalFit:
    """Fit the temperature head of logits, cross-fitted; see :func:`fit_temperatures`."""
    return fit_temperatures(seen, seen.rows.logits, LogitHeadTemperature, epochs, patience)


def fit_temperatures(
    seen: Observed,
    inputs: FloatArray,
    kind: type[HeadTemperature],
    epochs: int,
    patience: int,
) -> SignalFit:
    """Score each sample by a head that did not see it; new rows by one that saw all.

    The head is the paper's unrestricted one (the row ``utemphead``): 128 units, by
    log-likelihood. Where there is too little to train one on, the result is no signal, with the
    flag ``no_router``.
    """
    preds, care = seen.preds, seen.discipline
    wrong = ~preds.correct
    n_folds = min(care.n_folds, int(wrong.sum()), int((~wrong).sum()))
    if n_folds < 2:
        return no_signal(preds.n, no_router=[])
    gaps = Gaps.of(preds)
    split = Split(preds, gaps, objective("nll"), Temperature(1.0), inputs, care)
    fold = stratified_folds(wrong, n_folds, care.seed, preds.clusters)
    heads = []
    for left_out in (None, *range(n_folds)):
        weight = gaps.weights * (fold != left_out if left_out is not None else 1.0)
        part = replace(split, gaps=replace(gaps, weight=weight))
        head = fit_head(part, protocol="fixed", epochs=epochs, patience=patience).map
        if not isinstance(head, NetworkMap):
            return no_signal(preds.n, no_router=[])
        heads.append(head)
    whole, *others = heads
    scores = np.empty(preds.n)
    for left_out, head in enumerate(others):
        scores[fold == left_out] = head(inputs[fold == left_out])
    signal = kind(whole.weights, whole.biases)
    flags: dict[str, list[int]] = {"fewer_folds": []} if n_folds < care.n_folds else {}
    return SignalFit(scores, signal, signal.scores(seen.rows), flags)

"""What a signal may look at, and what every fitted signal can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np

from smallcal.calibrators.signals.logit_statistics import (
    RowBlock,
    block_statistics,
    collect_statistics,
)
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError


class Rows:
    """What a signal may look at: some rows of logits, and what came with them.

    Parameters
    ----------
    logits : ndarray of shape (m, C)
    statistics : ndarray of shape (6, m), optional
        If they are known already.
    block : RowBlock, optional
        The same rows, prepared for their statistics.
    features : ndarray of shape (m, d), optional
    labels : ndarray of shape (m,), optional
    """

    def __init__(
        self,
        logits: FloatArray,
        *,
        statistics: FloatArray | None = None,
        block: RowBlock | None = None,
        features: FloatArray | None = None,
        labels: IntArray | None = None,
    ) -> None:
        self.logits = logits
        self._known = statistics
        self._block = block
        self._features = features
        self._labels = labels

    def __len__(self) -> int:
        return len(self.logits)

    @cached_property
    def statistics(self) -> FloatArray:
        """The six statistics, shape (6, m); made when first asked for."""
        if self._known is not None:
            return self._known
        if self._block is not None:
            return block_statistics(self._block)
        return collect_statistics(self.logits)

    @cached_property
    def predicted(self) -> IntArray:
        """The predicted class of each row."""
        if self._block is not None:
            return self._block.top_index
        return np.asarray(np.argmax(self.logits, axis=1), dtype=np.int64)

    @property
    def features(self) -> FloatArray:
        """The features, which must have been given."""
        _require(self._features, "features")
        return np.asarray(self._features)

    @property
    def labels(self) -> IntArray:
        """The labels, which must have been given."""
        _require(self._labels, "labels")
        return np.asarray(self._labels)


def _require(array: object, name: str) -> None:
    if array is None:
        raise InputError(f"this calibrator needs {name} as well as logits: pass {name}=...")


class FittedSignal(ABC):
    """Scores rows; every field is plain data.

    Attributes
    ----------
    kind : str
        Name in ``SIGNALS`` and in artefacts.
    rowwise : bool
        Whether a row's score depends on that row alone; only the random controls' do not.
    needs : tuple of str
        What it must be given beside logits: "features" or "labels".
    n_parameters : int
        Number of fitted scalars.
    """

    kind: ClassVar[str]
    rowwise: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ()

    @property
    def n_parameters(self) -> int:
        """Number of fitted scalars."""
        return 0

    @property
    def n_features(self) -> int | None:
        """Number of features that each row must have, if it needs any."""
        return None

    @abstractmethod
    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the score of each row, shape (m,), or its scores, shape (m, d)."""

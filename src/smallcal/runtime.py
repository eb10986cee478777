"""Apply a fitted calibrator: logits in, calibrated probabilities out. NumPy only.

This is the one place where a fitted map meets logits: the estimators call it, and a service
that must not install scikit-learn imports it alone::

    from smallcal.runtime import load
    probabilities = load("cal.json").predict_proba(logits)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from smallcal import artefact
from smallcal._version import __version__
from smallcal.data import FloatArray, IntArray, as_scores
from smallcal.discipline import Discipline
from smallcal.errors import ArtefactError, InputError
from smallcal.maps import MAPS, FittedMap
from smallcal.signals import (
    SIGNALS,
    FittedSignal,
    NoSignal,
    RowBlock,
    block_statistics,
    collect_statistics,
    row_blocks,
)

Part = TypeVar("Part")

#: Scaled gaps below this may round to equal probabilities.
_TIES = {
    np.dtype(kind): 8 * float(np.finfo(kind).eps) for kind in (np.float16, np.float32, np.float64)
}


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedCalibrator:
    """A fitted calibrator: numbers only, JSON by construction.

    Attributes
    ----------
    method, objective : str
    signal : FittedSignal
        Scores a row.
    map : FittedMap
        Turns the score into a temperature.
    pooled_temperature : float
        What one temperature for all would be.
    n_classes : int
    group_counts : tuple of int
        Calibration samples in each group.
    flags : dict
        What to know about the fit; see :data:`smallcal.discipline.FLAGS`.
    discipline : Discipline
    input : {"logits", "probabilities"}
    class_names : tuple of str, or None
    data : dict
        Size and fingerprint of the calibration split.
    fit_metrics : dict
        Losses on the calibration split before and after.
    """

    method: str
    objective: str
    signal: FittedSignal
    map: FittedMap
    pooled_temperature: float
    n_classes: int
    group_counts: tuple[int, ...]
    flags: Mapping[str, list[int]] = field(default_factory=dict)
    discipline: Discipline = field(default_factory=Discipline)
    input: str = "logits"
    class_names: tuple[str, ...] | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    fit_metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_parameters(self) -> int:
        """Fitted scalars: those of the map and those of the signal."""
        return self.map.n_parameters + self.signal.n_parameters

    def scores(self, logits: object) -> FloatArray:
        """Return the routing score of each row."""
        return self._scores(self._checked(logits))

    def temperature(self, logits: object) -> FloatArray:
        """Return the temperature of each row; logits are divided by it."""
        return self.map(self.scores(logits))

    def group(self, logits: object) -> IntArray:
        """Return the group of each row, counted from 0 at the lowest score."""
        return self.map.groups(self.scores(logits))

    def predict_proba(self, logits: object, *, out: FloatArray | None = None) -> FloatArray:
        """Return calibrated probabilities; the argmax is that of the logits.

        Parameters
        ----------
        logits : array-like of shape (n, C)
        out : ndarray of shape (n, C), optional
            Where to write, for instance a memory map when the result does not fit in memory.

        Returns
        -------
        ndarray of shape (n, C)
            Of the logits' floating type; each row sums to 1.
        """
        array = self._checked(logits)
        native = array.dtype.newbyteorder("=")
        result = np.empty(array.shape, dtype=native) if out is None else out
        if result.shape != array.shape or result.dtype not in _TIES:
            raise InputError(
                f"out must have shape {array.shape} and type float16, float32 or float64 in this "
                f"machine's byte order; got {result.shape}, {result.dtype}"
            )
        # A control's scores depend on the whole batch, so they cannot be made block by block.
        batch = None if self.signal.rowwise else self.map(self._scores(array))
        for block in row_blocks(array):
            rows = block.rows
            temperature = self.map(self._block_scores(block)) if batch is None else batch[rows]
            scaled_softmax(block, temperature, out=result[rows])
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return the artefact: plain data, ready for JSON."""
        return {
            "format": artefact.FORMAT,
            "version": artefact.VERSION,
            "library": f"smallcal {__version__}",
            "method": self.method,
            "objective": self.objective,
            "signal": _part_to_dict(self.signal),
            "map": _part_to_dict(self.map),
            "discipline": {key: _plain(value) for key, value in asdict(self.discipline).items()},
            "pooled_temperature": self.pooled_temperature,
            "n_parameters": self.n_parameters,
            "input": self.input,
            "n_classes": self.n_classes,
            "class_names": None if self.class_names is None else list(self.class_names),
            "group_counts": list(self.group_counts),
            "flags": {name: list(groups) for name, groups in self.flags.items()},
            "data": dict(self.data),
            "fit_metrics": dict(self.fit_metrics),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, source: str) -> FittedCalibrator:
        """Rebuild a calibrator from a document that :mod:`smallcal.artefact` has checked."""
        try:
            fitted = cls(
                method=document["method"],
                objective=document["objective"],
                signal=_part_from_dict(document["signal"], SIGNALS),
                map=_part_from_dict(document["map"], MAPS),
                pooled_temperature=float(document["pooled_temperature"]),
                n_classes=document["n_classes"],
                group_counts=tuple(document["group_counts"]),
                flags=document["flags"],
                discipline=Discipline(
                    **{key: _frozen(value) for key, value in document["discipline"].items()}
                ),
                input=document["input"],
                class_names=_frozen(document["class_names"]),
                data=document["data"],
                fit_metrics=document["fit_metrics"],
            )
            fitted._require_consistent(document)
        except InputError as error:
            raise ArtefactError(f"{source} is not a valid calibrator: {error}") from None
        return fitted

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artefact, whole or not at all."""
        artefact.write(self.to_dict(), path)

    def _require_consistent(self, document: Mapping[str, Any]) -> None:
        """Check what a schema cannot say: that the numbers fit together."""
        low, high = self.discipline.bounds
        for temperature in (*self.map.steps, self.pooled_temperature):
            if self.n_parameters and not low <= temperature <= high:
                raise InputError(f"temperature {temperature} lies outside bounds [{low}, {high}]")
        if document["n_parameters"] != self.n_parameters:
            raise InputError(
                f"n_parameters says {document['n_parameters']}, the parts have {self.n_parameters}"
            )
        if self.class_names is not None and len(self.class_names) != self.n_classes:
            raise InputError(f"{len(self.class_names)} class_names for {self.n_classes} classes")
        if len(self.group_counts) != len(self.map.steps):
            raise InputError(
                f"{len(self.group_counts)} group_counts for {len(self.map.steps)} groups"
            )

    def _checked(self, logits: object) -> FloatArray:
        array = as_scores(logits, input=self.input)
        if array.shape[1] != self.n_classes:
            raise InputError(
                f"logits must have the {self.n_classes} columns this calibrator was fitted on; "
                f"got {array.shape[1]}"
            )
        return array

    def _scores(self, array: FloatArray) -> FloatArray:
        if self.signal.rowwise:
            scores = np.empty(len(array))
            for block in row_blocks(array):
                scores[block.rows] = self._block_scores(block)
            return scores
        return self.signal.scores(collect_statistics(array))

    def _block_scores(self, block: RowBlock) -> FloatArray:
        if isinstance(self.signal, NoSignal):
            return np.zeros(len(block.top))
        return self.signal.scores(block_statistics(block))


def scaled_softmax(block: RowBlock, temperature: FloatArray, *, out: FloatArray) -> None:
    """Write softmax(z / T) of a block into ``out``, using up the block's gaps."""
    gaps = block.gaps
    gaps *= (1 / temperature).astype(gaps.dtype)[:, None]
    same_type = out.dtype == gaps.dtype
    weight = np.exp(gaps, out=out if same_type else gaps)
    weight *= (1 / np.einsum("ij->i", weight))[:, None]
    if not same_type:
        out[...] = weight
    _keep_argmax(block, temperature, out)


def _keep_argmax(block: RowBlock, temperature: FloatArray, out: FloatArray) -> None:
    """Undo ties that rounding made: logits a hair apart may get equal probabilities.

    A rival in an earlier column would then win the argmax; it is moved down by one unit in the
    last place.
    """
    tie = _TIES[out.dtype]
    if -block.second_gap.max() >= tie * temperature.max():
        return
    for row in np.flatnonzero(-block.second_gap < tie * temperature):
        column = block.top_index[row]
        top = out[row, column]
        earlier = out[row, :column]
        earlier[earlier >= top] = np.nextafter(top, top.dtype.type(0))


def load(path: str | os.PathLike[str]) -> FittedCalibrator:
    """Load a saved calibrator, checking everything before it is used.

    Examples
    --------
    >>> import tempfile, smallcal
    >>> path = tempfile.mkdtemp() + "/cal.json"
    >>> smallcal.Identity().fit([[2.0, 0.0]] * 10, [0] * 10).save(path)
    >>> load(path).predict_proba([[0.0, 0.0]]).tolist()
    [[0.5, 0.5]]
    """
    return FittedCalibrator.from_dict(artefact.read(path), source=str(path))


def _part_to_dict(part: Any) -> dict[str, Any]:
    """Return a part's kind and fields; a part inside a part keeps its kind too."""
    document: dict[str, Any] = {"kind": part.kind}
    for entry in fields(part):
        value = getattr(part, entry.name)
        document[entry.name] = _part_to_dict(value) if is_dataclass(value) else _plain(value)
    return document


def _part_from_dict(document: Mapping[str, Any], table: Mapping[str, type[Part]]) -> Part:
    options = {key: _frozen(value) for key, value in document.items() if key != "kind"}
    for key, value in options.items():
        if isinstance(value, dict):
            options[key] = _part_from_dict(value, table)
    return table[document["kind"]](**options)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    """Turn JSON lists into the tuples that frozen parts hold."""
    return tuple(value) if isinstance(value, list) else value

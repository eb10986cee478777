"""What a monitor watches of each row, and what the calibration split looked like, in counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators import objectives
from smallcal.calibrators.class_table import MAX_CLASSES, ClassTable, LaterTable
from smallcal.calibrators.given import Given, checked
from smallcal.calibrators.maps import TemperatureMap
from smallcal.calibrators.objectives import Gaps
from smallcal.calibrators.parts import frozen, plain
from smallcal.data.predictions import FloatArray, IntArray, Predictions
from smallcal.errors import InputError

if TYPE_CHECKING:
    from smallcal.calibrators.fitted import FittedCalibrator

#: Bins of a split of a hundred samples or more.
N_BINS = 10

#: Fewer samples get fewer bins, so that each holds about this many.
_LEAST_EACH = 10

#: Rows whose log-odds are computed at once: a bound on memory.
_ROWS_AT_ONCE = 10_000

#: Logits that a table of classes is made of: as many rows as hold so many numbers.
_NUMBERS = 2**20


@dataclass(frozen=True)
class Bins:
    """Bins between ranks of a split, and how many of its values each holds.

    Attributes
    ----------
    edges : tuple of float
        Ascending; a value goes to the bin after the last edge below it.
    counts : tuple of int
        One more than edges.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, values: FloatArray) -> Bins:
        """Cut a split's values at its own ranks, so that bins hold about the same number.

        Examples
        --------
        >>> Bins.of(np.arange(109.0)).counts
        (11, 11, 11, 11, 11, 11, 11, 11, 11, 10)
        """
        ranked, n = np.sort(values), len(values)
        bins = max(2, min(N_BINS, n // _LEAST_EACH))
        ranks = np.rint(np.arange(1, bins) * (n + 1) / bins).astype(int)
        edges = np.unique(ranked[np.clip(ranks, 1, n) - 1])
        counts = np.bincount(_codes(values, edges), minlength=len(edges) + 1)
        return cls(tuple(edges.tolist()), tuple(counts.tolist()))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Bins:
        """Rebuild bins from a document that the schema allows."""
        edges, counts = tuple(map(float, document["edges"])), tuple(document["counts"])
        if len(counts) != len(edges) + 1 or not edges:
            raise InputError(f"{len(edges)} edges need one count more; got {len(counts)}")
        if not bool(np.all(np.diff(edges) > 0)):
            raise InputError("edges must ascend")
        if not all(counts[:-1]):
            raise InputError("each bin but the last must hold its own upper edge")
        return cls(edges, counts)

    def count(self, values: FloatArray) -> IntArray:
        """Return how many values fall into each bin.

        Examples
        --------
        >>> Bins((0.0, 1.0), (1, 1, 0)).count(np.array([-1.0, 0.0, 0.5, 1.0, 2.0])).tolist()
        [2, 2, 1]
        """
        return np.bincount(self.code(values), minlength=len(self.counts))

    def code(self, values: FloatArray) -> IntArray:
        """Return the bin of each value."""
        return _codes(values, np.array(self.edges))

    @property
    def spacings(self) -> FloatArray:
        """How many of the n + 1 gaps between ranked values each bin holds."""
        gaps = np.array(self.counts, dtype=np.float64)
        gaps[-1] += 1
        return gaps


@dataclass(frozen=True)
class Reference:
    """A calibration split as a monitor sees it.

    Attributes
    ----------
    confidence : Bins
        Of the log-odds of the model's own confidence.
    score : Bins or None
        Of the routing score, where there is one.
    groups : tuple of int, or None
        Samples that deployment would put in each group, where there are several.
    table : ClassTable, LaterTable or None
        Classes of the samples; none in older files, nor where there are too many.
    """

    confidence: Bins
    score: Bins | None = None
    groups: tuple[int, ...] | None = None
    table: ClassTable | LaterTable | None = None

    def __post_init__(self) -> None:
        if isinstance(self.table, ClassTable):
            self._require_rows(self.table)

    def _require_rows(self, table: ClassTable) -> None:
        """Check that the table has a row for each bin."""
        for name in ("confidence", "score"):
            bins, rows = getattr(self, name), len(getattr(table, name))
            if rows != (0 if bins is None else len(bins.counts)):
                raise InputError(f"the table of classes has {rows} rows for the bins of {name}")

    @property
    def classes(self) -> ClassTable | None:
        """The table of classes, made now if need be."""
        return self.table() if isinstance(self.table, LaterTable) else self.table

    @property
    def n_classes(self) -> int | None:
        """Number of classes, where there is a table of them."""
        return None if self.classes is None else len(self.classes.predicted)

    def codes(self, seen: Watched) -> list[tuple[IntArray, int] | None]:
        """Return the bin of each row and the number of bins, of the confidence and the score."""
        watched = ((self.confidence, seen.confidence), (self.score, seen.score))
        return [
            None if bins is None or values is None else (bins.code(values), len(bins.counts))
            for bins, values in watched
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain data; those of older files as they were."""
        found = {name: plain(getattr(self, name)) for name in ("confidence", "score", "groups")}
        return found if self.classes is None else {**found, "classes": self.classes.to_dict()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Reference:
        """Rebuild the counts from a document that the schema allows."""
        confidence, score = document["confidence"], document["score"]
        classes = document.get("classes")
        return cls(
            confidence=Bins.from_dict(confidence),
            score=None if score is None else Bins.from_dict(score),
            groups=frozen(document["groups"]),
            table=None if classes is None else ClassTable.from_dict(classes),
        )


class Watched(NamedTuple):
    """One number per row of each kind; None where a calibrator has no such thing.

    Confidence is the model's own, as log-odds: it never saturates, and the fit had no hand in it.
    The score is the calibrator's; where that is many numbers, the logarithm of the temperature
    they lead to.
    """

    confidence: FloatArray
    score: FloatArray | None
    groups: IntArray | None

    def counted(self, n_groups: int) -> Reference:
        """Return the counts of these rows."""
        groups = None
        if self.groups is not None:
            groups = tuple(np.bincount(self.groups, minlength=n_groups).tolist())
        score = None if self.score is None else Bins.of(self.score)
        return Reference(Bins.of(self.confidence), score, groups)


def log_odds(logits: FloatArray) -> FloatArray:
    """Return the log-odds of each row's top probability, as a fit computes them.

    Examples
    --------
    >>> log_odds(np.array([[1.0, 0.0], [1000.0, 0.0]])).tolist()
    [1.0, 1000.0]
    """
    result = np.empty(len(logits))
    for start in range(0, len(logits), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        seen = Predictions.of(logits[rows], np.argmax(logits[rows], axis=1), input="logits")
        result[rows] = objectives.log_odds(Gaps.of(seen), 1.0)
    return result


def _codes(values: FloatArray, edges: FloatArray) -> IntArray:
    return np.searchsorted(edges, values, side="left")


def watch(fitted: FittedCalibrator, logits: object, features: object = None) -> Watched:
    """Return what a monitor watches of each row.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> seen = watch(sc.SRTS().fit(val.logits, val.labels).fitted_, val.logits[:5])
    >>> [len(column) for column in seen]
    [5, 5, 5]
    """
    if not fitted.deployable:
        raise InputError(
            f"{fitted.method} is for comparison only; there is nothing to monitor",
            code="method-unsuitable",
        )
    given = checked(fitted, logits, features, None)
    # Of a score it is outcome 1 that is claimed, also where it is the less probable.
    odds = log_odds(given.logits) if fitted.score is None else given.logits[:, 1]
    return _watched(fitted, given, odds)


def watches(fitted: FittedCalibrator) -> tuple[bool, bool]:
    """Return whether a monitor has scores to watch, and whether it has groups."""
    given = fitted.signal.gives(fitted.n_classes)
    if not fitted.signal.rowwise or not given.n:
        return False, False
    if given.columns:  # then the score is the temperature they lead to
        return isinstance(fitted.map, TemperatureMap), False
    return True, len(fitted.map.steps) > 1


def reference_of(fitted: FittedCalibrator, given: Given, odds: FloatArray) -> Reference | None:
    """Return counts of the calibration set, which a monitor compares new samples with.

    ``odds`` are the log-odds of the model's own confidence.
    """
    if not fitted.deployable:
        return None
    if fitted.signal.kind == "none":
        return Reference(Bins.of(odds))
    return _watched(fitted, given, odds).counted(len(fitted.group_counts))


def _watched(fitted: FittedCalibrator, given: Given, odds: FloatArray) -> Watched:
    scored, grouped = watches(fitted)
    if not scored:
        return Watched(odds, None, None)
    scores = fitted.routed(given)
    if scores.ndim == 1:
        return Watched(odds, scores, fitted.map.groups(scores) if grouped else None)
    assert isinstance(fitted.map, TemperatureMap)
    return Watched(odds, np.log(fitted.map(scores)), None)


def with_classes(
    fitted: FittedCalibrator,
    logits: FloatArray,
    features: FloatArray | None = None,
    groups: NDArray[np.str_] | None = None,
) -> FittedCalibrator:
    """Return the calibrator with a table of classes beside the counts of its split.

    The table is made when somebody asks for it, from a copy of the rows: of all of them, or of a
    sample where they hold more than a million numbers. No table where there are no counts, where
    scores depend on the whole batch, and where there are too many classes.

    Examples
    --------
    >>> import smallcal as sc
    >>> rows, labels = [[2.0, 0.0]] * 60 + [[0.0, 1.0]] * 40, [0] * 60 + [1] * 40
    >>> fitted = sc.Identity().fit(rows, labels).fitted_
    >>> fitted.reference.classes.predicted
    (6000, 4000)
    """
    reference = fitted.reference
    if reference is None or not fitted.signal.rowwise or fitted.n_classes > MAX_CLASSES:
        return fitted
    rows: slice | IntArray = slice(None)
    if len(logits) > (most := _NUMBERS // fitted.n_classes):  # the same random rows every time
        draw = np.random.default_rng(0).choice
        rows = np.sort(draw(len(logits), most, replace=False, shuffle=False))
    kept = np.array(logits[rows])
    known = None if features is None else np.array(features[rows])
    given = Given(kept, known, None)
    if fitted.groups is not None and groups is not None:
        given = given._replace(groups=fitted.groups.codes(groups[rows]))

    def make() -> ClassTable:
        proba = fitted.calibrate(given)
        return ClassTable.of(proba, reference.codes(fitted.watch(kept, features=known)))

    return replace(fitted, reference=replace(reference, table=LaterTable(make)))

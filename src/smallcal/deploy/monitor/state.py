"""What a monitor keeps between looks: counts and sums, in a small JSON file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from smallcal.calibrators import artefact
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.reference import Reference
from smallcal.data.plain import plain_fields
from smallcal.deploy.monitor.labelled import UNIT, Gap
from smallcal.deploy.monitor.promises import Counted, merged
from smallcal.errors import ArtefactError, InputError
from smallcal.io.atomic import atomic_path
from smallcal.io.documents import read_document, shown

FORMAT = "smallcal-monitor"
VERSION = 2

#: What states of version 1 do not say: rows predicted as each class.
_SINCE_1: dict[str, Any] = {"classes": []}

#: A state has some kilobytes; with hundreds of classes or groups some dozens.
MAX_BYTES = 1_000_000

Counts = tuple[int, ...]
_COUNTS = ("confidence", "score", "groups", "classes")
_NUMBERS = ("calibrator", "alpha", "tolerance", "rows", "certainty", "correct")
#: What adds up when states do; the rest must be the same.
_SUMS = ("rows", *_COUNTS, "certainty", "correct", "gaps")


@dataclass(frozen=True)
class State:
    """Counts of a stream beside those of the calibration split.

    Attributes
    ----------
    calibrator : str
        SHA-256 of the calibrator; see :func:`fingerprint`.
    alpha, tolerance : float
    reference : Reference
    rows : int
    confidence, score, groups : tuple of int
        Rows in each bin or group; empty where there is no such thing.
    classes : tuple of int
        Rows predicted as each class; empty where the reference has no table of classes.
    certainty : int
        Sum of calibrated confidences over rows, in 1 / UNIT.
    correct : int
        Labelled rows that were predicted right.
    gaps : tuple of Gap
        Labelled rows, by group.
    decisions : tuple of Counted
        What became of the rows of each decision that was watched.
    """

    calibrator: str
    alpha: float
    tolerance: float
    reference: Reference
    rows: int
    confidence: Counts
    score: Counts
    groups: Counts
    classes: Counts
    certainty: int
    correct: int
    gaps: tuple[Gap, ...]
    decisions: tuple[Counted, ...] = ()

    @classmethod
    def empty(
        cls, calibrator: str, reference: Reference, *, alpha: float, tolerance: float
    ) -> State:
        """Return the state of a monitor that has seen nothing."""
        n_scores = 0 if reference.score is None else len(reference.score.counts)
        n_groups = len(reference.groups or ())
        return cls(
            calibrator,
            alpha,
            tolerance,
            reference,
            rows=0,
            confidence=(0,) * len(reference.confidence.counts),
            score=(0,) * n_scores,
            groups=(0,) * n_groups,
            classes=(0,) * (len(reference.classes.predicted) if reference.classes else 0),
            certainty=0,
            correct=0,
            gaps=(Gap(),) * max(n_groups, 1),
        )

    def emptied(self) -> State:
        """Return the state with the same settings and reference that has seen nothing."""
        return State.empty(
            self.calibrator, self.reference, alpha=self.alpha, tolerance=self.tolerance
        )

    def __add__(self, other: State) -> State:
        for name in ("calibrator", "reference", "alpha", "tolerance"):
            if getattr(self, name) != getattr(other, name):
                raise unlike_error(name, getattr(self, name), getattr(other, name))
        sums = {name: _sum(getattr(self, name), getattr(other, name)) for name in _SUMS}
        return replace(self, **sums, decisions=merged(self.decisions, other.decisions))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        labelled = [[gap.n, gap.total, gap.squares] for gap in self.gaps]
        head = {"format": FORMAT, "version": VERSION}
        found = {**head, **plain_fields(self, without="gaps"), "labelled": labelled}
        decisions = found.pop("decisions")
        return found | ({"decisions": decisions} if decisions else {})

    @classmethod
    def from_dict(cls, document: object, *, source: str = "this state") -> State:
        """Rebuild a state, checking everything first."""
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            raise ArtefactError(f"{source} is not the state of a monitor (no format {FORMAT!r})")
        if _is_first(document):
            document = {**_SINCE_1, **document, "version": VERSION}
        version = document.get("version")
        if version != VERSION or isinstance(version, bool):
            raise ArtefactError(
                f"{source} has state version {shown(version)}; this smallcal reads 1 to {VERSION}. "
                "Install the release that wrote it, or begin a new state"
            )
        wrong = artefact.problem(document, _rule())
        if wrong:
            raise ArtefactError(f"{source} is not a valid state: {wrong}")
        found: dict[str, Any] = {name: document[name] for name in _NUMBERS}
        found |= {name: tuple(document[name]) for name in _COUNTS}
        try:
            reference = Reference.from_dict(document["reference"])
            gaps = tuple(Gap(*sums) for sums in document["labelled"])
            decisions = tuple(map(Counted.from_dict, document.get("decisions", ())))
            state = cls(reference=reference, gaps=gaps, decisions=decisions, **found)
            _require_consistent(state)
        except InputError as error:
            raise ArtefactError(f"{source} is not a valid state: {error}") from None
        return state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state, whole or not at all."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)
        with atomic_path(path) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> State:
        """Read a state that :meth:`save` wrote."""
        found = read_document(path, most=MAX_BYTES, what="state", wrote="smallcal monitor --state")
        return cls.from_dict(found, source=str(path))


def fingerprint(fitted: FittedCalibrator) -> str:
    """Return the SHA-256 of a calibrator's numbers, whatever release wrote them down."""
    document = fitted.to_dict()
    del document["library"]
    document.pop("decisions", None)  # these have their own; a state goes on after certify
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_first(document: Mapping[str, Any]) -> bool:
    version = document.get("version")
    return version == 1 and not isinstance(version, bool) and "classes" not in document


@cache
def _rule() -> dict[str, Any]:
    text = files("smallcal.deploy.monitor").joinpath(f"monitor-v{VERSION}.json").read_text("utf-8")
    rule: dict[str, Any] = json.loads(text)
    return rule


def _require_consistent(state: State) -> None:
    """Check what a schema cannot say: that the numbers fit together."""
    empty = state.emptied()
    for name in _COUNTS:
        counts, length = getattr(state, name), len(getattr(empty, name))
        if len(counts) != length:
            raise InputError(f"{name} has {len(counts)} counts; its reference has {length}")
        if counts and sum(counts) != state.rows:
            raise InputError(f"{name} counts {sum(counts)} rows of {state.rows}")
    if len(state.gaps) != len(empty.gaps):
        raise InputError(f"labelled has {len(state.gaps)} entries for {len(empty.groups)} groups")
    if state.certainty > state.rows * UNIT:
        raise InputError(f"certainty {state.certainty} is too large for {state.rows} rows")
    if state.correct > sum(gap.n for gap in state.gaps):
        raise InputError(f"{state.correct} correct rows are more than the labelled ones")
    _require_possible(state)


def _require_possible(state: State) -> None:
    for gap in state.gaps:
        possible = gap.total**2 <= gap.n * gap.squares and gap.squares <= gap.n * UNIT**2
        if gap.n < 0 or not possible:
            raise InputError(f"no {gap.n} residuals have the sums {gap.total}, {gap.squares}")
    for counted in state.decisions:
        counted.require_possible()


def unlike_error(name: str, mine: object, other: object) -> InputError:
    """Build the error for a state that cannot be added to another, or is not this monitor's."""
    if name == "calibrator":
        ids = f"sha256 {other!s:.12}, not {mine!s:.12}"
        text = f"the state is of another calibrator ({ids}); begin a new state after a fit"
    elif name == "reference":
        text = "the states have different references; monitor with the one they began with"
    else:
        text = f"{name} is {mine} here and {other} in the state; a state keeps what it began with"
    return InputError(text)


def _sum(mine: Any, other: Any) -> Any:
    if isinstance(mine, tuple):
        return tuple(a + b for a, b in zip(mine, other, strict=True))
    return mine + other

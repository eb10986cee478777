"""What a monitor keeps between looks: counts and sums, in a small JSON file.

Evidence that is counted from the first row on alone would find ever less of what changes late: the
rows before outweigh those after. So every few hundred rows it is counted anew, as by a monitor that
begins there. Each such start has a martingale of its own and a share of alpha; the chance that one
of them ever gives a false alarm is at most the sum of their shares, which is alpha. Of starts close
together one is dropped as they get older, by their age alone: whatever changed d rows ago, there
is a start between about d and 2 d rows ago, or the next one after the change.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from smallcal.calibrators import artefact
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.parts import frozen
from smallcal.calibrators.reference import Reference
from smallcal.data.plain import plain_fields
from smallcal.deploy.batches import once
from smallcal.deploy.monitor.labelled import UNIT, Gap
from smallcal.deploy.monitor.promises import Counted
from smallcal.errors import ArtefactError, InputError
from smallcal.io.atomic import atomic_path
from smallcal.io.documents import read_document, shown

FORMAT = "smallcal-monitor"
VERSION = 3

#: What earlier states do not say: rows predicted as each class, starts, and batches.
_SINCE: dict[int, dict[str, Any]] = {1: {"classes": []}, 2: {"starts": [], "batches": []}}

#: A state has some kilobytes; with hundreds of classes or groups some hundreds.
MAX_BYTES = 4_000_000

#: Rows, or labelled rows, from one start to the next.
EVERY = 200

#: A start is dropped where the one before it is at most so many times as old as the one after it.
_APART = 2

Counts = tuple[int, ...]
_COUNTS = ("confidence", "score", "groups", "classes")
_SETTINGS = ("calibrator", "alpha", "tolerance")
_SUMS = ("rows", *_COUNTS, "certainty", "correct")


@dataclass(frozen=True)
class Sums:
    """What is counted of rows; sums of two lots add up.

    Attributes
    ----------
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
    def zero(cls, reference: Reference) -> Sums:
        """Return the sums of no rows."""
        n_scores = 0 if reference.score is None else len(reference.score.counts)
        n_groups = len(reference.groups or ())
        return cls(
            rows=0,
            confidence=(0,) * len(reference.confidence.counts),
            score=(0,) * n_scores,
            groups=(0,) * n_groups,
            classes=(0,) * (len(reference.classes.predicted) if reference.classes else 0),
            certainty=0,
            correct=0,
            gaps=(Gap(),) * max(n_groups, 1),
        )

    @property
    def gap(self) -> Gap:
        """All labelled rows."""
        return sum(self.gaps, Gap())

    def decided(self, like: Counted) -> Counted:
        """Return what became of the rows of one decision; zeros where it was not watched."""
        found = (each for each in self.decisions if each.decision == like.decision)
        zeros = (0,) * len(like.tried)
        return next(found, Counted(like.decision, tried=zeros, errors=zeros))

    @property
    def taken(self) -> int:
        """Rows and labels that were taken in."""
        return self.rows + self.gap.n

    def __add__(self, other: Sums) -> Sums:
        return self._with(other, int.__add__)

    def __sub__(self, before: Sums) -> Sums:
        return self._with(before, int.__sub__)

    def _with(self, other: Sums, how: Callable[[int, int], int]) -> Sums:
        known = {each.decision: each for each in (*self.decisions, *other.decisions)}
        mine, others = (
            replace(sums, decisions=tuple(sums.decided(known[name]) for name in sorted(known)))
            for sums in (self, other)
        )
        names = [field.name for field in fields(Sums)]
        return Sums(*(_combined(getattr(mine, n), getattr(others, n), how) for n in names))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        labelled = [[gap.n, gap.total, gap.squares] for gap in self.gaps]
        found = {**plain_fields(self, without="gaps"), "labelled": labelled}
        decisions = found.pop("decisions")
        return found | ({"decisions": decisions} if decisions else {})

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Sums:
        """Rebuild sums from a document that the schema allows."""
        return cls(
            **{name: frozen(document[name]) for name in _SUMS},
            gaps=tuple(Gap(*sums) for sums in document["labelled"]),
            decisions=tuple(map(Counted.from_dict, document.get("decisions", ()))),
        )


@dataclass(frozen=True)
class Start:
    """A moment that evidence is counted from.

    Attributes
    ----------
    number : int
        How many starts there were before it, those included that were dropped.
    before : Sums
        Of the rows before it.
    """

    number: int
    before: Sums

    @property
    def share(self) -> float:
        """Its share of alpha. The shares of all starts add up to 1, however many there will be."""
        return 1 / ((self.number + 1) * (self.number + 2))


@dataclass(frozen=True)
class State:
    """Counts of a stream beside those of the calibration split.

    Attributes
    ----------
    calibrator : str
        SHA-256 of the calibrator; see :func:`fingerprint`.
    alpha, tolerance : float
    reference : Reference
    sums : Sums
        Of all rows.
    starts : tuple of Start
        The first, with nothing before it, and some later ones: about two for each doubling of how
        long ago they were.
    batches : tuple of str
        Fingerprints of the last batches.
    """

    calibrator: str
    alpha: float
    tolerance: float
    reference: Reference
    sums: Sums
    starts: tuple[Start, ...]
    batches: tuple[str, ...] = ()

    @classmethod
    def empty(
        cls, calibrator: str, reference: Reference, *, alpha: float, tolerance: float
    ) -> State:
        """Return the state of a monitor that has seen nothing."""
        none = Sums.zero(reference)
        return cls(calibrator, alpha, tolerance, reference, none, (Start(0, none),))

    def emptied(self) -> State:
        """Return the state with the same settings and reference that has seen nothing."""
        return State.empty(
            self.calibrator, self.reference, alpha=self.alpha, tolerance=self.tolerance
        )

    def __add__(self, later: State) -> State:
        """Return the state of these rows and then those of another; starts depend on the order."""
        for name in ("calibrator", "reference", "alpha", "tolerance"):
            if getattr(self, name) != getattr(later, name):
                raise unlike_error(name, getattr(self, name), getattr(later, name))
        batches = once(self.batches, later.batches, "rows of this batch were counted before")
        now, last = self.sums, self.starts[-1]
        recent = now - last.before
        due = max(recent.rows, recent.gap.n) >= EVERY
        more = (
            Start(last.number + due + each.number, now + each.before)
            for each in later.starts[not due :]
        )
        whole = now + later.sums
        starts = _thinned([*self.starts, *more], whole)
        return replace(self, sums=whole, starts=starts, batches=batches)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {
            **{"format": FORMAT, "version": VERSION},
            **{name: getattr(self, name) for name in _SETTINGS},
            "reference": self.reference.to_dict(),
            **self.sums.to_dict(),
            "starts": [
                {"number": each.number, **each.before.to_dict()} for each in self.starts[1:]
            ],
            "batches": list(self.batches),
        }

    @classmethod
    def from_dict(cls, document: object, *, source: str = "this state") -> State:
        """Rebuild a state, checking everything first."""
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            raise ArtefactError(
                f"{source} is not the state of a monitor (no format {FORMAT!r})",
                code="artefact-damaged",
            )
        while (since := _since(document)) is not None:
            document = {**since, **document, "version": document["version"] + 1}
        version = document.get("version")
        if version != VERSION or isinstance(version, bool):
            raise ArtefactError(
                f"{source} has state version {shown(version)}; this smallcal reads 1 to {VERSION}. "
                "Install the release that wrote it, or begin a new state",
                code="artefact-version",
            )
        wrong = artefact.problem(document, _rule())
        if wrong:
            raise ArtefactError(f"{source} is not a valid state: {wrong}", code="artefact-damaged")
        settings = {name: document[name] for name in _SETTINGS}
        try:
            reference = Reference.from_dict(document["reference"])
            begun = cls.empty(reference=reference, **settings)
            later = (Start(each["number"], Sums.from_dict(each)) for each in document["starts"])
            state = replace(
                begun,
                sums=Sums.from_dict(document),
                starts=(*begun.starts, *later),
                batches=tuple(document["batches"]),
            )
            _require_consistent(state)
        except InputError as error:
            raise ArtefactError(
                f"{source} is not a valid state: {error}", code="artefact-damaged"
            ) from None
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


def _since(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a state of an earlier release does not say that the next one does."""
    version = document.get("version")
    new = _SINCE.get(version) if type(version) is int else None
    return None if new is None or document.keys() & new.keys() else new


@cache
def _rule() -> dict[str, Any]:
    text = files("smallcal.deploy.monitor").joinpath(f"monitor-v{VERSION}.json").read_text("utf-8")
    rule: dict[str, Any] = json.loads(text)
    return rule


def _require_consistent(state: State) -> None:
    """Check what a schema cannot say: that the numbers fit together."""
    empty = state.starts[0].before
    moments = [*(each.before for each in state.starts), state.sums]
    for sums in reversed(moments):
        _require_possible(sums, empty)
    for before, after in itertools.pairwise(moments):
        _require_possible(after - before, empty)
    if any(one.number >= two.number for one, two in itertools.pairwise(state.starts)):
        raise InputError("the numbers of starts must ascend")


def _require_possible(sums: Sums, empty: Sums) -> None:
    """Raise unless these are sums of rows."""
    for name in _COUNTS:
        counts, length = getattr(sums, name), len(getattr(empty, name))
        if len(counts) != length:
            raise InputError(f"{name} has {len(counts)} counts; its reference has {length}")
        if min(counts, default=0) < 0:
            raise InputError(f"{name} has fewer rows in all than at one of the starts")
        if counts and sum(counts) != sums.rows:
            raise InputError(f"{name} counts {sum(counts)} rows of {sums.rows}")
    if len(sums.gaps) != len(empty.gaps):
        raise InputError(f"labelled has {len(sums.gaps)} entries for {len(empty.groups)} groups")
    if sums.certainty > sums.rows * UNIT:
        raise InputError(f"certainty {sums.certainty} is too large for {sums.rows} rows")
    if sums.correct > sums.gap.n:
        raise InputError(f"{sums.correct} correct rows are more than the labelled ones")
    for gap in sums.gaps:
        possible = gap.total**2 <= gap.n * gap.squares and gap.squares <= gap.n * UNIT**2
        if gap.n < 0 or not possible:
            raise InputError(f"no {gap.n} residuals have the sums {gap.total}, {gap.squares}")
    for counted in sums.decisions:
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


def _thinned(starts: list[Start], now: Sums) -> tuple[Start, ...]:
    """Return starts without those that are hardly older than the next one."""
    ages = [now.taken - each.before.taken for each in starts]
    place = 1
    while place < len(starts) - 1:
        if ages[place - 1] <= _APART * ages[place + 1]:
            del starts[place], ages[place]
        else:
            place += 1
    return tuple(starts)


def _combined(mine: Any, other: Any, how: Callable[[int, int], int]) -> Any:
    """Return two numbers added up or subtracted, or those within tuples and records."""
    if isinstance(mine, Gap | Counted):
        names = [field.name for field in fields(mine)]
        return type(mine)(*(_combined(getattr(mine, n), getattr(other, n), how) for n in names))
    if isinstance(mine, tuple):
        if len(mine) != len(other):
            raise InputError(f"states count {len(mine)} and {len(other)} entries")
        return tuple(_combined(a, b, how) for a, b in zip(mine, other, strict=True))
    return mine if isinstance(mine, str) else how(mine, other)

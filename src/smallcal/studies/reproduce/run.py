"""Are a paper's numbers found again? Each that the given logits allow is computed and compared.

What is needed is put together from the studies' own parts: for each model, budget and study one
:class:`~smallcal.studies.study.Study` with the methods and metrics that values speak of, run
by the engine. What its rows become is said in :mod:`smallcal.studies.reproduce.quantities` and
:mod:`smallcal.studies.reproduce.summaries`.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import FileError
from smallcal.io.atomic import atomic_path
from smallcal.io.resumable import read_manifest
from smallcal.metrics import METRICS
from smallcal.studies.catalogue import STUDIES
from smallcal.studies.check import require_sound
from smallcal.studies.collection import Cell, Collection
from smallcal.studies.engine import run
from smallcal.studies.frame import ALL, FAILED, Frame
from smallcal.studies.reproduce.places import Place, places_of
from smallcal.studies.reproduce.quantities import Fit, Quantity, plain, quantity_of
from smallcal.studies.reproduce.reference import UNITS, Part, Reference, Value
from smallcal.studies.reproduce.result import Reproduction, Row
from smallcal.studies.reproduce.summaries import Sample, Summary, summary_of
from smallcal.studies.reproduce.tolerance import margin_of, tolerance_of
from smallcal.studies.study import Entry, Study

#: A model at a budget, on clean samples or on shifted ones too, by a study: what one run answers.
Key = tuple[str, str, int, bool, str]
Advance = Callable[[int], object]

#: What a row says as its value does.
_PRINTED = (
    *("table", "dataset", "backbone", "set", "against", "kind", "part", "resampled"),
    *("unit", "spread", "decimals"),
)


@dataclass(frozen=True, eq=False)
class Claim:
    """A value that can be checked, and what it is made of."""

    value: Value
    places: tuple[Place, ...]
    quantity: Quantity
    summary: Summary
    tolerance: float
    near: float

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The models it is about, seed by seed."""
        return tuple(cell for place in self.places for cell in place.cells)

    @property
    def draws(self) -> int:
        """Draws of each model."""
        return len(self.places[0].draws)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What must be fitted."""
        return self.quantity.entries(self.value)

    @property
    def keys(self) -> dict[Key, Place]:
        """The runs that answer it, each with the place that it visits."""
        return {
            (*place.model, place.budget, shifted, study): place
            for place in self.places
            for study, shifted in self.quantity.runs(shifted=place.shifted).items()
        }


@dataclass
class Block:
    """One run: what its claims need of it."""

    study: str
    budget: int
    settings: Mapping[str, object]
    entries: dict[str, Entry] = field(default_factory=dict)
    metrics: set[str] = field(default_factory=set)
    cells: dict[str, Cell] = field(default_factory=dict)
    parts: set[Part] = field(default_factory=set)
    draws: int = 1

    def add(self, claim: Claim, place: Place, *, shifted: bool) -> None:
        """Take in what a claim needs."""
        self.entries.update((entry.label, entry) for entry in claim.entries)
        # A choice is made by ECE, whatever is then measured of it.
        chosen = {"ece15"} if claim.quantity.choice else set()
        asked = {claim.value.measured, *claim.quantity.metrics} | chosen
        self.metrics |= asked & METRICS.keys()
        self.cells.update((cell.name, cell) for cell in place.cells)
        self.parts |= set(place.parts) if shifted else set()
        self.draws = max(self.draws, 1 + max(place.draws))

    def made(self, collection: Collection) -> tuple[Study, Collection]:
        """Return the study and the cells it is for, with the sets that are asked for."""
        known = STUDIES[self.study]
        base = next(entry for entry in known.entries if entry.label == known.baseline)
        entries = self.entries
        if self.study in _WITH_BASELINE:
            entries = {plain(base).label: plain(base)} | entries
        study = Study(
            name="reproduce",
            title="Reproduction",
            question="Are the paper's numbers found again?",
            entries=tuple(entries.values()),
            baseline=plain(base).label if plain(base).label in entries else next(iter(entries)),
            metrics=tuple(name for name in METRICS if name in self.metrics),
            probe=known.probe,
            budgets=(self.budget,),
            draws=self.draws,
            tables=(),
            settings={**known.settings, **self.settings},
        )
        cells = (
            replace(
                cell,
                shifts=tuple(s for s in cell.shifts if (s.kind, s.severity) in self.parts),
            )
            for cell in sorted(self.cells.values(), key=lambda cell: cell.seed)
        )
        return study, replace(collection, cells=tuple(cells))


#: Studies whose probe compares each entry with the baseline.
_WITH_BASELINE = ("selector", "matched-coverage")


@dataclass(frozen=True, eq=False)
class Agenda:
    """What can be checked, by the runs that are needed for it, and what cannot."""

    collection: Collection
    claims: tuple[Claim, ...]
    unchecked: Mapping[str, tuple[Value, ...]]
    blocks: Mapping[Key, Block] = field(default_factory=dict)

    @property
    def n_tasks(self) -> int:
        """How many steps of work the runs have."""
        pairs = (block.made(self.collection) for block in self.blocks.values())
        return sum(len(study.tasks(cells)) for study, cells in pairs)

    def run(
        self, out: Path, *, jobs: int = 1, advance: Advance = lambda tasks: None
    ) -> Iterator[Row]:
        """Do the work, block by block, and yield every claim's row, in the order of the claims."""
        orders = {key: block.made(self.collection) for key, block in self.blocks.items()}
        files = {cell.name: cell for _, part in orders.values() for cell in part.cells}
        if files:
            require_sound(replace(self.collection, cells=tuple(files.values())))
        found = _Found()
        for key, (study, cells) in orders.items():
            folder = out / _folder(key)
            outcome = run(study, cells, folder, jobs=jobs, force=True, advance=advance)
            found.add(key[2], outcome.frame)
        yield from map(found.row, self.claims)


def _folder(key: Key) -> str:
    """Return the name of a run's folder."""
    dataset, backbone, budget, shifted, study = key
    size = "all" if budget == ALL else budget
    return f"{dataset}__{backbone}__n{size}__{study}" + "__shifted" * shifted


#: What was measured of one cell: by metric and label, then by draw and set.
_Numbers = dict[tuple[str, str], dict[tuple[int, str, int], float]]


class _Found:
    """The rows of all runs, to look numbers up in."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, str], _Numbers] = {}
        self.errors: dict[tuple[int, str, str, int], str] = {}

    def add(self, budget: int, frame: Frame) -> None:
        """Take in a run's rows."""
        for name, by_cell in frame.numbers.items():
            for cell, numbers in by_cell.items():
                own = self.numbers.setdefault((budget, cell), {}).setdefault(name, {})
                own.update(numbers)
        for row in frame.where(metric=FAILED).rows():
            self.errors[budget, row["cell"], row["label"], row["draw"]] = row["error"]

    def row(self, claim: Claim) -> Row:
        """Compare a claim with what was found."""
        value = claim.value
        reproduced, reach, error = self._told(claim)
        difference = None if reproduced is None else abs(reproduced - value.value)
        tolerance = round(claim.tolerance + reach, 9)
        # As far as floating-point numbers can tell: 0.971 may differ from 0.96 by 0.011.
        near = difference is not None and difference <= tolerance + 1e-9
        return Row(
            **{name: getattr(value, name) for name in _PRINTED},
            budget=value.budget if isinstance(value.budget, int) else 0,
            draws=claim.draws,
            seeds=len(claim.cells),
            method=value.label,
            metric=value.told,
            reference=value.value,
            reproduced=reproduced,
            difference=difference,
            tolerance=tolerance,
            verdict="PASS" if near else "FAIL",
            error=error,
        )

    def _told(self, claim: Claim) -> tuple[float | None, float, str]:
        """Return the number, how far it may be off beside its tolerance, and what went wrong."""
        if failed := next(self._failures(claim), ""):
            return None, 0.0, failed
        value, scale = claim.value, UNITS[claim.value.unit]
        undefined = f"{value.measured} is not defined on these samples"
        try:
            tables = tuple(self._table(claim, place) for place in claim.places)
        except KeyError:
            return None, 0.0, undefined
        number, reach = claim.summary(Sample(value, tables, claim.places[0].parts, claim.near))
        if not math.isfinite(number):
            return None, 0.0, undefined
        return scale * number, scale * reach, ""

    def _failures(self, claim: Claim) -> Iterator[str]:
        labels = [entry.label for entry in claim.entries]
        for place in claim.places:
            for cell in place.cells:
                keys = ((place.budget, cell.name, one, d) for one in labels for d in place.draws)
                yield from (self.errors[key] for key in keys if key in self.errors)

    def _table(self, claim: Claim, place: Place) -> FloatArray:
        """Return a place's numbers: seeds, draws, sets."""
        value, number, rival = claim.value, claim.quantity.number, claim.quantity.rival
        table = []
        for cell in place.cells:
            numbers = self.numbers[place.budget, cell.name]
            fits = [[Fit(numbers, draw, part) for part in place.parts] for draw in place.draws]
            table.append([[number(value, fit) for fit in row] for row in fits])
            if value.against:
                theirs = [[rival(value, fit) for fit in row] for row in fits]
                table[-1] = np.subtract(table[-1], theirs).tolist()
        return np.array(table, dtype=np.float64)


def agenda_of(collection: Collection, reference: Reference) -> Agenda:
    """Sort values into those that a collection allows to check and those it does not."""
    claims: list[Claim] = []
    unchecked: dict[str, list[Value]] = {}
    blocks: dict[Key, Block] = {}
    for value in reference.values:
        found = _claim(reference.spelt_out(value), collection, reference)
        if isinstance(found, str):
            unchecked.setdefault(found, []).append(value)
            continue
        claims.append(found)
        for key, place in found.keys.items():
            *_, budget, shifted, study = key
            block = blocks.setdefault(key, Block(study, budget, found.quantity.settings))
            block.add(found, place, shifted=shifted)
    told = {reason: tuple(values) for reason, values in unchecked.items()}
    return Agenda(collection, tuple(claims), told, blocks)


def _claim(value: Value, collection: Collection, reference: Reference) -> Claim | str:
    """Return how to check a value, or why it cannot be checked."""
    quantity = quantity_of(value)
    if isinstance(quantity, str):
        return quantity
    summary = quantity.summary or summary_of(value)
    if summary is None:
        return "no study keeps what it is made of"
    if objection := _objection(value):
        return objection
    places = places_of(value, collection, reference, quantity.entries(value))
    if isinstance(places, str):
        return places
    n_fits = sum(len(place.cells) * len(place.draws) for place in places)
    tolerance = tolerance_of(value, reference.tolerances, n_fits=n_fits)
    if tolerance is None:
        return _left_to_chance(value)
    near = margin_of(value, reference.tolerances)
    return Claim(value, places, quantity, summary, tolerance, near)


def _objection(value: Value) -> str:
    """Return why a number is not to be compared with, whoever computes it."""
    if value.doubt.startswith("also printed"):
        return "another number is printed for it elsewhere"
    if value.doubt:
        return "the reference is in doubt"
    if value.note.startswith("mean of resamples") and value.part == "value":
        return "it is computed in a way of its own"
    return ""


def _left_to_chance(value: Value) -> str:
    if value.part == "spread":
        return "it is the spread of a method left to chance, of which few seeds say little"
    return "its method is left to chance, and no spread says by how much that moves it"


def reproduce(
    collection: Collection,
    reference: Reference,
    *,
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    advance: Advance = lambda tasks: None,
) -> Reproduction:
    """Compute every value that a collection allows, and compare it with the reference.

    Parameters
    ----------
    collection : Collection
        Named as the reference names things: ``dataset = "cifar100"``, ``backbone = "vit-b16"``,
        seeds from 0.
    reference : Reference
    out : path, optional
        A folder for the rows: a reproduction that was stopped goes on from there, and
        ``reproduction.json`` is written at its end. Without one nothing is kept.
    jobs : int
        Processes.
    advance : callable, optional
        Told as tasks are finished, of ``agenda_of(collection, reference).n_tasks``.

    Returns
    -------
    Reproduction

    Examples
    --------
    >>> from smallcal.studies.reproduce.frozen import load_frozen
    >>> collection, reference = load_frozen()
    >>> agenda = agenda_of(collection, reference)
    >>> len(agenda.claims) > 50, {study for *_, study in agenda.blocks} >= {"clean", "shift"}
    (True, True)
    """
    return carry_out(agenda_of(collection, reference), out=out, jobs=jobs, advance=advance)


def carry_out(
    agenda: Agenda,
    *,
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    advance: Advance = lambda tasks: None,
) -> Reproduction:
    """Do what is on an agenda; see :func:`reproduce`."""
    result = None if out is None else Path(out) / "reproduction.json"
    if result is not None:
        _require_own(result)
    with (
        # Without a folder, one that is gone afterwards.
        tempfile.TemporaryDirectory(prefix="smallcal-") if out is None else nullcontext(out)
    ) as folder:
        rows = tuple(agenda.run(Path(folder), jobs=jobs, advance=advance))
        found = Reproduction(rows=rows, unchecked=agenda.unchecked)
        if result is not None and rows:
            with atomic_path(result) as path:
                text = json.dumps(found.to_dict(), indent=1, ensure_ascii=False) + "\n"
                path.write_text(text, encoding="utf-8")
    return found


def _require_own(file: Path) -> None:
    """Raise for a file that would be replaced, and that no reproduction wrote."""
    before = read_manifest(file)
    if before is not None and not before.keys() >= {"passed", "failed", "not_checked", "rows"}:
        raise FileError(f"{file} is there already, and smallcal did not make it; move it away")

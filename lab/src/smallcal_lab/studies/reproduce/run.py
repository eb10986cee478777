"""Are a paper's numbers found again? Each that the given logits allow is computed and compared.

What is needed is put together from the studies' own parts: for each model, budget and study one
:class:`~smallcal_lab.studies.study.Study` with the methods and metrics that values speak of, run
by the engine. What its rows become is said in :mod:`smallcal_lab.studies.reproduce.quantities` and
:mod:`smallcal_lab.studies.reproduce.summaries`.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import FileError
from smallcal.io.atomic import atomic_path
from smallcal.io.resumable import read_manifest
from smallcal.metrics import METRICS
from smallcal_lab.statistics.samples import Unit
from smallcal_lab.studies.catalogue import STUDIES
from smallcal_lab.studies.check import require_sound
from smallcal_lab.studies.collection import Collection
from smallcal_lab.studies.engine import run
from smallcal_lab.studies.frame import ALL, CLEAN, FAILED, Frame, as_shown
from smallcal_lab.studies.predictions import SHIFTED, Shelf
from smallcal_lab.studies.reproduce.claims import Claim, Key, Place, claim_of
from smallcal_lab.studies.reproduce.quantities import UncheckedError, plain
from smallcal_lab.studies.reproduce.reference import UNITS, Part, Reference, Value
from smallcal_lab.studies.reproduce.summaries import Sample, is_of_samples
from smallcal_lab.studies.study import Study

#: Studies whose probe compares each entry with the baseline.
_WITH_BASELINE = ("selector", "matched-coverage")
#: What a row says as its value does.
_PRINTED = (
    *("table", "dataset", "backbone", "set", "against", "kind", "part", "resampled"),
    *("unit", "spread", "decimals"),
)


# --- what comes of it


@dataclass(frozen=True, kw_only=True)
class Row:
    """A value, found again or not.

    ``against`` is empty unless it is a difference. ``kind``, ``part`` and ``resampled`` say which
    number of the metric it is. ``reproduced`` and ``difference`` are None where a fit failed or
    the metric is not defined; ``error`` says which. ``decimals`` are those of the reference.
    """

    table: str
    dataset: str
    backbone: str
    set: str
    budget: int
    draws: int
    seeds: int
    method: str
    against: str
    metric: str
    unit: str
    reference: float
    spread: float | None
    reproduced: float | None
    difference: float | None
    tolerance: float
    verdict: Literal["PASS", "FAIL"]
    error: str = ""
    decimals: int = 2
    kind: str = "value"
    part: str = "value"
    resampled: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Reproduction:
    """What came of it: a row for each value that could be checked, a reason for the others."""

    rows: tuple[Row, ...]
    unchecked: Mapping[str, tuple[Value, ...]]

    @property
    def n_failed(self) -> int:
        """How many values were not reproduced."""
        return sum(row.verdict == "FAIL" for row in self.rows)

    @property
    def n_unchecked(self) -> int:
        """How many values could not be checked."""
        return sum(map(len, self.unchecked.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "passed": len(self.rows) - self.n_failed,
            "failed": self.n_failed,
            "not_checked": self.n_unchecked,
            "rows": [asdict(row) for row in self.rows],
            "unchecked": [
                {"reason": reason, "count": len(values), "values": [_named(v) for v in values]}
                for reason, values in self.unchecked.items()
            ],
        }


def _named(value: Value) -> dict[str, Any]:
    """Return what a value is of."""
    return {
        **{name: getattr(value, name) for name in ("table", "dataset", "backbone", "set")},
        **{"budget": value.budget, "method": value.label, "against": value.against},
        **{"metric": value.told, "kind": value.kind, "value": value.value},
        **({"doubt": value.doubt} if value.doubt else {}),
    }


# --- what is run


@dataclass(frozen=True, eq=False)
class Agenda:
    """What can be checked, the runs that are needed for it, and what cannot be checked."""

    collection: Collection
    claims: tuple[Claim, ...]
    unchecked: Mapping[str, tuple[Value, ...]]
    runs: Mapping[Key, tuple[Study, Collection]]

    @property
    def n_tasks(self) -> int:
        """How many steps of work the runs have."""
        return sum(len(study.tasks(cells)) for study, cells in self.runs.values())


def agenda_of(collection: Collection, reference: Reference) -> Agenda:
    """Sort values into those that a collection allows to check and those it does not."""
    claims: list[Claim] = []
    unchecked: dict[str, list[Value]] = {}
    wanted: dict[Key, list[tuple[Claim, Place]]] = {}
    for value in reference.values:
        try:
            claim = claim_of(reference.spelt_out(value), collection, reference)
        except UncheckedError as reason:
            unchecked.setdefault(str(reason), []).append(value)
            continue
        claims.append(claim)
        for key, place in claim.keys.items():
            wanted.setdefault(key, []).append((claim, place))
    told = {reason: tuple(values) for reason, values in unchecked.items()}
    runs = {key: _run_of(key, asked, collection) for key, asked in wanted.items()}
    return Agenda(collection, tuple(claims), told, runs)


def _run_of(
    key: Key, asked: Sequence[tuple[Claim, Place]], collection: Collection
) -> tuple[Study, Collection]:
    """Return the study that claims need, and the cells it is for, with the sets they ask for."""
    *_, budget, shifted, name, kept = key
    known = STUDIES[name]
    base = plain(next(entry for entry in known.entries if entry.label == known.baseline))
    entries = {entry.label: entry for claim, _ in asked for entry in claim.entries}
    if name in _WITH_BASELINE:
        entries = {base.label: base} | entries
    metrics: set[str] = set()
    for claim, _ in asked:
        # A choice is made by ECE, whatever is then measured of it.
        chosen = ("ece15",) if claim.quantity.choice else ()
        metrics |= {claim.value.measured, *claim.quantity.metrics, *chosen}
    parts = {part for _, place in asked for part in place.parts} if shifted else set()
    keeping = {"kept": (SHIFTED if parts else CLEAN,)} if kept else {}
    study = replace(
        known,
        name="reproduce",
        entries=tuple(entries.values()),
        baseline=base.label if base.label in entries else next(iter(entries)),
        metrics=tuple(metric for metric in METRICS if metric in metrics),
        budgets=(budget,),
        draws=1 + max(draw for _, place in asked for draw in place.draws),
        tables=(),
        needs="",
        settings={**known.settings, **asked[0][0].quantity.settings, **keeping},
    )
    cells = {cell.seed: cell for _, place in asked for cell in place.cells}
    found = (
        replace(cell, shifts=tuple(s for s in cell.shifts if (s.kind, s.severity) in parts))
        for _, cell in sorted(cells.items())
    )
    return study, replace(collection, cells=tuple(found))


def reproduce(collection: Collection, reference: Reference, **options: Any) -> Reproduction:
    """Compute every value that a collection allows, and compare it with the reference.

    The collection is named as the reference names things: ``dataset = "cifar100"``,
    ``backbone = "vit-b16"``, seeds from 0. Options are those of :func:`carry_out`.
    """
    return carry_out(agenda_of(collection, reference), **options)


def carry_out(
    agenda: Agenda,
    *,
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    advance: Callable[[int], object] = lambda tasks: None,
) -> Reproduction:
    """Do what is on an agenda, in so many processes.

    In the folder ``out`` a reproduction that was stopped goes on from there, and
    ``reproduction.json`` is written at its end; without one nothing is kept. ``advance`` is told
    as tasks are finished, of ``agenda.n_tasks``.
    """
    result = None if out is None else Path(out) / "reproduction.json"
    before = None if result is None else read_manifest(result)
    if before is not None and not before.keys() >= {"passed", "failed", "not_checked", "rows"}:
        raise FileError(f"{result} is there already, and smallcal did not make it; move it away")
    cells = {cell.name: cell for _, part in agenda.runs.values() for cell in part.cells}
    if cells:
        require_sound(replace(agenda.collection, cells=tuple(cells.values())))
    found = _Found()
    with (
        # Without a folder, one that is gone afterwards.
        tempfile.TemporaryDirectory(prefix="smallcal-") if out is None else nullcontext(out)
    ) as folder:
        for key, (study, own) in agenda.runs.items():
            dataset, backbone, budget, shifted, name, kept = key
            called = f"{dataset}__{backbone}__n{'all' if budget == ALL else budget}__{name}"
            place = Path(folder) / (called + "__shifted" * shifted + "__kept" * kept)
            outcome = run(study, own, place, jobs=jobs, force=True, advance=advance)
            found.add(key, outcome.frame, place)
        rows = tuple(map(found.row, agenda.claims))
    reproduction = Reproduction(rows=rows, unchecked=agenda.unchecked)
    if result is not None and rows:
        with atomic_path(result) as path:
            text = json.dumps(reproduction.to_dict(), indent=1, ensure_ascii=False) + "\n"
            path.write_text(text, encoding="utf-8")
    return reproduction


# --- what was found


class _Found:
    """The rows of all runs, to look numbers up in."""

    def __init__(self) -> None:
        #: Budget and cell, then metric and label, then draw, kind and severity.
        self.numbers: dict[
            tuple[int, str], dict[tuple[str, str], dict[tuple[int, str, int], float]]
        ] = {}
        self.errors: dict[tuple[int, str, str, int], str] = {}
        self.kept: dict[Key, tuple[Frame, Shelf]] = {}

    def add(self, key: Key, frame: Frame, folder: Path) -> None:
        """Take in a run's rows, and where its predictions are."""
        budget, kept = key[2], key[-1]
        if kept:
            self.kept[key] = as_shown(frame, (budget,)), Shelf(folder)
        for name, by_cell in frame.numbers.items():
            for cell, numbers in by_cell.items():
                own = self.numbers.setdefault((budget, cell), {})
                own.setdefault(name, {}).update(numbers)
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
        value, scale = claim.value, UNITS[claim.value.unit]
        for place, entry in product(claim.places, claim.entries):
            for cell, draw in product(place.cells, place.draws):
                if error := self.errors.get((place.budget, cell.name, entry.label, draw)):
                    return None, 0.0, error
        try:
            tables = tuple(self._table(claim, place) for place in claim.places)
            units = self._units(claim) if is_of_samples(value) else ()
            sample = Sample(value, tables, claim.places[0].parts, claim.near, units)
            told = claim.summary(sample)
            number, reach = told if isinstance(told, tuple) else (told, 0.0)
        except KeyError:
            number, reach = math.nan, 0.0
        if not math.isfinite(number):
            return None, 0.0, f"{value.measured} is not defined on these samples"
        return scale * number, scale * reach, ""

    def _units(self, claim: Claim) -> list[Unit]:
        """Return the predictions of a claim's seeds for its set."""
        ((key, place),) = claim.keys.items()
        frame, shelf = self.kept[key]
        ((kind, severity),) = place.parts
        names = [cell.name for cell in place.cells]
        return shelf.units(frame.where(cell=names, draw=list(place.draws)), kind, severity)

    def _table(self, claim: Claim, place: Place) -> FloatArray:
        """Return a place's numbers: seeds, draws, sets."""
        value, quantity = claim.value, claim.quantity

        def number(cell: str, draw: int, part: Part) -> FloatArray:
            numbers = self.numbers[place.budget, cell]

            def fit(metric: str, label: str, part: Part = part) -> float:
                return numbers[metric, label][(draw, *part)]

            theirs = quantity.rival(value, fit) if value.against else 0.0
            return np.subtract(quantity.number(value, fit), theirs)

        cells = [cell.name for cell in place.cells]
        table = [[[number(c, d, part) for part in place.parts] for d in place.draws] for c in cells]
        return np.array(table, dtype=np.float64)

"""Are a paper's numbers found again? Each that the given logits allow is computed and compared.

What is needed is put together from the studies' own parts: for each model, budget and study one
:class:`~smallcal_lab.studies.study.Study` with the methods and metrics that values speak of, run
by the engine. What its rows become is said in :mod:`smallcal_lab.studies.reproduce.quantities` and
:mod:`smallcal_lab.studies.reproduce.summaries`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from smallcal.errors import FileError
from smallcal.io.atomic import atomic_path
from smallcal.io.resumable import read_manifest
from smallcal.metrics import METRICS
from smallcal_lab.studies.catalogue import STUDIES
from smallcal_lab.studies.check import require_sound
from smallcal_lab.studies.collection import Cell, Collection
from smallcal_lab.studies.engine import run
from smallcal_lab.studies.frame import ALL, CLEAN
from smallcal_lab.studies.predictions import SHIFTED
from smallcal_lab.studies.reproduce.claims import Claim, Key, claim_of
from smallcal_lab.studies.reproduce.found import Found
from smallcal_lab.studies.reproduce.places import Place
from smallcal_lab.studies.reproduce.quantity import plain
from smallcal_lab.studies.reproduce.reference import Part, Reference, Value
from smallcal_lab.studies.reproduce.result import Reproduction, Row
from smallcal_lab.studies.study import Entry, Study

Advance = Callable[[int], object]


@dataclass
class Block:
    """One run: what its claims need of it."""

    study: str
    budget: int
    settings: Mapping[str, object]
    kept: bool = False
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
        keeping = {"kept": (SHIFTED if self.parts else CLEAN,)} if self.kept else {}
        study = Study(
            name="reproduce",
            title="Reproduction",
            question="Are the paper's numbers reproduced?",
            entries=tuple(entries.values()),
            baseline=plain(base).label if plain(base).label in entries else next(iter(entries)),
            metrics=tuple(name for name in METRICS if name in self.metrics),
            probe=known.probe,
            budgets=(self.budget,),
            draws=self.draws,
            tables=(),
            settings={**known.settings, **self.settings, **keeping},
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
        found = Found()
        for key, (study, cells) in orders.items():
            folder = out / _folder(key)
            outcome = run(study, cells, folder, jobs=jobs, force=True, advance=advance)
            found.add(key, outcome.frame, folder)
        yield from map(found.row, self.claims)


def _folder(key: Key) -> str:
    """Return the name of a run's folder."""
    dataset, backbone, budget, shifted, study, kept = key
    size = "all" if budget == ALL else budget
    name = f"{dataset}__{backbone}__n{size}__{study}"
    return name + "__shifted" * shifted + "__kept" * kept


def agenda_of(collection: Collection, reference: Reference) -> Agenda:
    """Sort values into those that a collection allows to check and those it does not."""
    claims: list[Claim] = []
    unchecked: dict[str, list[Value]] = {}
    blocks: dict[Key, Block] = {}
    for value in reference.values:
        found = claim_of(reference.spelt_out(value), collection, reference)
        if isinstance(found, str):
            unchecked.setdefault(found, []).append(value)
            continue
        claims.append(found)
        for key, place in found.keys.items():
            *_, budget, shifted, study, kept = key
            block = blocks.setdefault(key, Block(study, budget, found.quantity.settings, kept))
            block.add(found, place, shifted=shifted)
    told = {reason: tuple(values) for reason, values in unchecked.items()}
    return Agenda(collection, tuple(claims), told, blocks)


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
    >>> from smallcal_lab.studies.reproduce.frozen import load_frozen
    >>> collection, reference = load_frozen()
    >>> agenda = agenda_of(collection, reference)
    >>> len(agenda.claims) > 50, len(agenda.blocks) > 5
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

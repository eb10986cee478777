"""Are a paper's numbers found again? Each that the given logits allow is computed and compared.

What is needed is put together from the studies' own parts: for each model and budget one
:class:`~smallcal.studies.study.Study` with the methods and metrics that values speak of, run
by the engine. A value is then a mean: over draws and over shifted sets, then over seeds.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import fmean

from smallcal.calibrators.catalogue import ALIASES, METHODS, method
from smallcal.errors import FileError
from smallcal.io.atomic import atomic_path
from smallcal.io.resumable import read_manifest
from smallcal.metrics import METRICS
from smallcal.studies.collection import Cell, Collection
from smallcal.studies.engine import run
from smallcal.studies.frame import ALL, CLEAN, FAILED, Frame
from smallcal.studies.reproduce.reference import UNITS, Part, Reference, Value
from smallcal.studies.reproduce.result import Reproduction, Row
from smallcal.studies.study import Entry, Study

#: A model at a budget, on clean samples or on shifted ones too: what one run can answer.
Key = tuple[str, str, int, bool]
Advance = Callable[[int], object]

#: What a row says as its value does.
_PRINTED = ("table", "dataset", "backbone", "set", "against", "unit", "spread", "decimals")


@dataclass(frozen=True, eq=False)
class Claim:
    """A value that can be checked, and what it is a mean over."""

    value: Value
    cells: tuple[Cell, ...]
    budget: int
    draws: int
    parts: frozenset[Part]
    tolerance: float

    @property
    def key(self) -> Key:
        """The run that answers it."""
        shifted = self.value.set != CLEAN
        return self.value.dataset, self.value.backbone, self.budget, shifted

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What must be fitted; first its method, then what that is compared with."""
        own = Entry(self.value.label, self.value.method or "", self.value.options)
        return (own, Entry(self.value.against)) if self.value.against else (own,)


@dataclass(frozen=True, eq=False)
class Agenda:
    """What can be checked, by the runs that are needed for it, and what cannot."""

    collection: Collection
    claims: tuple[Claim, ...]
    unchecked: Mapping[str, tuple[Value, ...]]
    blocks: Mapping[Key, tuple[Claim, ...]] = field(default_factory=dict)

    @property
    def n_tasks(self) -> int:
        """How many steps of work the runs have."""
        pairs = (self._run(claims) for claims in self.blocks.values())
        return sum(len(study.tasks(cells)) for study, cells in pairs)

    def _run(self, claims: tuple[Claim, ...]) -> tuple[Study, Collection]:
        """Return the study of a block and the cells it is for."""
        entries = {entry.label: entry for claim in claims for entry in claim.entries}
        asked = {claim.value.metric for claim in claims}
        most = max(claims, key=lambda claim: len(claim.cells))
        study = Study(
            name="reproduce",
            title="Reproduction",
            question="Are the paper's numbers found again?",
            entries=tuple(entries.values()),
            baseline=next(iter(entries)),
            metrics=tuple(name for name in METRICS if name in asked),
            probe="clean" if most.value.set == CLEAN else "shifted",
            budgets=(most.budget,),
            draws=max(claim.draws for claim in claims),
            tables=(),
        )
        return study, replace(self.collection, cells=most.cells)

    def run(
        self, out: Path, *, jobs: int = 1, advance: Advance = lambda tasks: None
    ) -> Iterator[Row]:
        """Do the work, block by block, and yield every claim's row, in the order of the claims."""
        rows: dict[Claim, Row] = {}
        for (dataset, backbone, budget, shifted), claims in self.blocks.items():
            study, cells = self._run(claims)
            size = "all" if budget == ALL else budget
            name = f"{dataset}__{backbone}__n{size}" + "__shifted" * shifted
            found = _Found(run(study, cells, out / name, jobs=jobs, advance=advance).frame)
            rows.update((claim, found.row(claim)) for claim in claims)
        yield from (rows[claim] for claim in self.claims)


class _Found:
    """A run's rows, to look numbers up in."""

    def __init__(self, frame: Frame) -> None:
        self.numbers = frame.numbers
        failed = frame.where(metric=FAILED).rows()
        self.errors = {(row["cell"], row["label"], row["draw"]): row["error"] for row in failed}

    def row(self, claim: Claim) -> Row:
        """Compare a claim with what was found."""
        value = claim.value
        labels = [entry.label for entry in claim.entries]
        units = product((cell.name for cell in claim.cells), labels, range(claim.draws))
        failed = [self.errors[unit] for unit in units if unit in self.errors]
        reproduced = None if failed else self._mean(claim, labels)
        error = failed[0] if failed else ""
        if reproduced is None and not failed:
            error = f"{value.metric} is not defined on these samples"
        assert value.value is not None  # or it would not be on the agenda
        difference = None if reproduced is None else abs(reproduced - value.value)
        # As far as floating-point numbers can tell: 0.971 may differ from 0.96 by 0.011.
        near = difference is not None and difference <= claim.tolerance + 1e-9
        return Row(
            **{name: getattr(value, name) for name in _PRINTED},
            budget=value.budget or 0,
            draws=claim.draws,
            seeds=len(claim.cells),
            method=value.label,
            metric=value.measured,
            reference=value.value,
            reproduced=reproduced,
            difference=difference,
            tolerance=claim.tolerance,
            verdict="PASS" if near else "FAIL",
            error=error,
        )

    def _mean(self, claim: Claim, labels: list[str]) -> float | None:
        """Return the mean of a method, or the difference of two means; None if undefined."""
        means = [fmean(self._seed(claim, label, cell) for cell in claim.cells) for label in labels]
        mean = means[0] - sum(means[1:])
        return UNITS[claim.value.unit] * mean if math.isfinite(mean) else None

    def _seed(self, claim: Claim, label: str, cell: Cell) -> float:
        """Return one seed's mean over draws of the mean over shifted sets."""
        found = dict(self.numbers[claim.value.measured, label][cell.name])
        return fmean(
            fmean(found[draw, kind, severity] for kind, severity in sorted(claim.parts))
            for draw in range(claim.draws)
        )


def agenda_of(collection: Collection, reference: Reference) -> Agenda:
    """Sort values into those that a collection allows to check and those it does not."""
    claims: list[Claim] = []
    unchecked: dict[str, list[Value]] = {}
    blocks: dict[Key, list[Claim]] = {}
    for value in reference.values:
        found = _objection(value) or _claim(value, collection, reference)
        if isinstance(found, Claim):
            claims.append(found)
            blocks.setdefault(found.key, []).append(found)
        else:
            unchecked.setdefault(found, []).append(value)
    told = {reason: tuple(values) for reason, values in unchecked.items()}
    return Agenda(
        collection, tuple(claims), told, {key: tuple(group) for key, group in blocks.items()}
    )


def _objection(value: Value) -> str:
    """Return why no collection could check a value; nothing if one could."""
    together = "+" in value.backbone or "all" in (value.dataset, value.backbone)
    is_mean = value.kind in ("value", "difference")
    objections = {
        "it is about several models together": together,
        "its kind is not a mean or a difference of means": not is_mean,
        "its metric is none of smallcal's": value.metric not in METRICS,
        "its method is none of smallcal's": not {*METHODS, *ALIASES}.issuperset(value.methods),
        "its unit is not known": value.unit not in UNITS,
        "only an interval is printed": value.value is None,
        "it is computed in a way of its own": bool(value.note),
        "the reference is in doubt": bool(value.doubt),
        "it does not say of how many models or samples": not (value.seeds and value.budget),
    }
    return next((reason for reason, holds in objections.items() if holds), "")


def _claim(value: Value, collection: Collection, reference: Reference) -> Claim | str:
    """Return how to check a value, or why this collection does not allow it."""
    tolerance = reference.tolerance(value)
    if tolerance is None:
        return "the method is left to chance, and no tolerance is stated for it"
    cells = {
        cell.seed: cell
        for cell in collection.cells
        if (cell.dataset, cell.backbone) == (value.dataset, value.backbone)
    }
    if not cells:
        return "the collection has no such model"
    # Draws and folds are seeded by the model's number, so others will not do.
    seeds = range(value.seeds or 0)
    if any(seed not in cells for seed in seeds):
        return "the collection lacks some of its seeds"
    chosen = tuple(cells[seed] for seed in seeds)
    parts = _parts(value, chosen, reference)
    if not parts:
        return "the collection lacks the set, or a part of it"
    return _sized(Claim(value, chosen, ALL, 1, parts, tolerance))


def _parts(value: Value, cells: tuple[Cell, ...], reference: Reference) -> frozenset[Part] | None:
    """Return the sets that a value is a mean over, if every cell has them."""
    there = [
        {(CLEAN, 0)} | {(shift.kind, shift.severity) for shift in cell.shifts} for cell in cells
    ]
    parts = reference.parts(value)
    if parts is None:
        parts = frozenset(part for part in there[0] if part[0] == value.set)
    return parts if all(parts <= sets for sets in there) else None


def _sized(claim: Claim) -> Claim | str:
    """Return the claim with its draws, if the calibration splits allow them."""
    splits = [cell.read("calibration") for cell in claim.cells]
    needs = {need for name in claim.value.methods for need in method(name).needs}
    if "features" in needs and any(split.features is None for split in splits):
        return "the method needs features, and the collection has none"
    sizes, budget, draws = {split.n for split in splits}, claim.value.budget, claim.value.draws
    if sizes == {budget}:
        return claim
    if draws is None or budget is None or budget > min(sizes):
        return "the calibration split has another size"
    return replace(claim, budget=budget, draws=draws)


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
    >>> len(agenda.claims) > 50, len(agenda.blocks)
    (True, 8)
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

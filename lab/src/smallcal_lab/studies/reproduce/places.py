"""Which models of a collection a printed number is about, and what of them must be there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from smallcal.calibrators.catalogue import method
from smallcal_lab.studies.collection import Cell, Collection
from smallcal_lab.studies.frame import ALL, CLEAN
from smallcal_lab.studies.reproduce.reference import Part, Reference, Value
from smallcal_lab.studies.study import Entry


@dataclass(frozen=True, eq=False)
class Place:
    """One model: its seeds, how they are calibrated, and what is measured.

    Attributes
    ----------
    cells : tuple of Cell
    budget : int
    draws : tuple of int
    parts : tuple
        Kind and severity of the sets, in order.
    """

    cells: tuple[Cell, ...]
    budget: int
    draws: tuple[int, ...]
    parts: tuple[Part, ...]

    @property
    def model(self) -> tuple[str, str]:
        """Data set and backbone."""
        return self.cells[0].dataset, self.cells[0].backbone

    @property
    def shifted(self) -> bool:
        """Whether it is about other samples than the test split's."""
        return any(kind != CLEAN for kind, _ in self.parts)


def places_of(
    value: Value, collection: Collection, reference: Reference, entries: tuple[Entry, ...]
) -> tuple[Place, ...] | str:
    """Return the places that a value is about, or why this collection does not have them."""
    if not entries:
        return "it does not say of which methods"
    found = []
    for one in _single(value, reference):
        place = _place(one, collection, reference, entries)
        if isinstance(place, str):
            return place
        found.append(place)
    return tuple(found) or "it does not say of how many models or samples"


def _single(value: Value, reference: Reference) -> Iterator[Value]:
    """Yield the value for each of the models it is about."""
    if "all" in (value.dataset, value.backbone):
        yield from reference.regimes(value)
    else:
        for backbone in value.backbones:
            seeds, budget = list(value.seeds_of(backbone)), value.budget
            own = budget.get(backbone) if isinstance(budget, Mapping) else budget
            yield replace(value, backbone=backbone, seeds=seeds, budget=own)


def _place(
    value: Value, collection: Collection, reference: Reference, entries: tuple[Entry, ...]
) -> Place | str:
    """Return one model's place, or what is missing."""
    seeds = value.seeds_of(value.backbone)
    if not seeds or not value.budget:
        return "it does not say of how many models or samples"
    cells = {
        cell.seed: cell
        for cell in collection.cells
        if (cell.dataset, cell.backbone) == (value.dataset, value.backbone)
    }
    if not cells:
        return "the collection has no such model"
    # Draws and folds are seeded by the model's number, so others will not do.
    if any(seed not in cells for seed in seeds):
        return "the collection lacks some of its seeds"
    chosen = tuple(cells[seed] for seed in seeds)
    parts = _parts(value, chosen, reference)
    if not parts:
        return "the collection lacks the set, or a part of it"
    return _sized(value, Place(chosen, ALL, (0,), parts), entries)


def _parts(value: Value, cells: tuple[Cell, ...], reference: Reference) -> tuple[Part, ...]:
    """Return the sets that a value is a mean over, if every cell has them."""
    there = [
        {(CLEAN, 0)} | {(shift.kind, shift.severity) for shift in cell.shifts} for cell in cells
    ]
    parts = reference.parts(value)
    if parts is None:
        parts = frozenset(part for part in there[0] if part[0] == value.set)
    return tuple(sorted(parts)) if all(parts <= sets for sets in there) else ()


def _sized(value: Value, place: Place, entries: tuple[Entry, ...]) -> Place | str:
    """Return the place with its draws, if the calibration splits allow them."""
    splits = [cell.read("calibration") for cell in place.cells]
    needs = {need for entry in entries for need in method(entry.name).needs}
    if "features" in needs and any(split.features is None for split in splits):
        return "the method needs features, and the collection has none"
    sizes, budget, draws = {split.n for split in splits}, value.budget, value.draws
    if sizes == {budget}:
        return place
    if draws is None or not isinstance(budget, int) or budget > min(sizes):
        return "the calibration split has another size"
    own = range(draws) if value.draw is None else (value.draw,)
    return replace(place, budget=budget, draws=tuple(own))

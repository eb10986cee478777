"""A printed number that can be checked: what it is made of, and why another cannot be."""

from __future__ import annotations

from dataclasses import dataclass

from smallcal_lab.studies.collection import Cell, Collection
from smallcal_lab.studies.reproduce.places import Place, places_of
from smallcal_lab.studies.reproduce.quantities import quantity_of
from smallcal_lab.studies.reproduce.quantity import Quantity
from smallcal_lab.studies.reproduce.reference import Reference, Value
from smallcal_lab.studies.reproduce.resampled import is_of_samples
from smallcal_lab.studies.reproduce.summaries import Summary, summary_of
from smallcal_lab.studies.reproduce.tolerance import margin_of, tolerance_of
from smallcal_lab.studies.study import Entry

#: A model at a budget, on clean samples or on shifted ones too, by a study, its predictions kept
#: or not: what one run answers.
Key = tuple[str, str, int, bool, str, bool]


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
            (*place.model, place.budget, shifted, study, is_of_samples(self.value)): place
            for place in self.places
            for study, shifted in self.quantity.runs(shifted=place.shifted).items()
        }


def claim_of(value: Value, collection: Collection, reference: Reference) -> Claim | str:
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
    own_way = value.note.startswith("mean of resamples") and value.part == "value"
    if own_way and not is_of_samples(value):
        return "it is computed in a way of its own"
    return ""


def _left_to_chance(value: Value) -> str:
    if value.part == "spread":
        return "it is the standard deviation of a random method, which few seeds estimate poorly"
    return "its method is random, and no standard deviation is given"

"""A printed number that can be checked: which models it is of, and how near is near enough.

The paper states tolerances for means, in points of ECE. Other numbers get what follows from them,
from the digits that are printed, or from how the number is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from smallcal.calibrators.catalogue import ALIASES, METHODS, method
from smallcal_lab.studies.collection import Cell, Collection
from smallcal_lab.studies.frame import ALL, CLEAN
from smallcal_lab.studies.reproduce.quantities import Quantity, UncheckedError, quantity_of, require
from smallcal_lab.studies.reproduce.reference import TEST, UNITS, Part, Reference, Value
from smallcal_lab.studies.reproduce.summaries import Summary, is_of_samples, summary_of
from smallcal_lab.studies.study import Entry

#: A model at a budget, on clean samples or on shifted ones too, by a study, its predictions kept
#: or not: what one run answers.
Key = tuple[str, str, int, bool, str, bool]


@dataclass(frozen=True, eq=False)
class Place:
    """One model: its seeds, how they are calibrated, and the sets, by kind and severity."""

    cells: tuple[Cell, ...]
    budget: int
    draws: tuple[int, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, eq=False)
class Claim:
    """A value that can be checked, and what it is made of."""

    value: Value
    places: tuple[Place, ...]
    quantity: Quantity
    summary: Summary
    entries: tuple[Entry, ...]
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
    def keys(self) -> dict[Key, Place]:
        """The runs that answer it, each with the place that it visits."""
        found: dict[Key, Place] = {}
        for place in self.places:
            model = place.cells[0].dataset, place.cells[0].backbone
            elsewhere = any(kind != CLEAN for kind, _ in place.parts)
            runs = {self.quantity.study: elsewhere}
            if elsewhere and self.quantity.study == "selector":
                runs = {"selector": False, "shift": True}  # chosen on clean samples
            for study, shifted in runs.items():
                kept = is_of_samples(self.value)
                found[(*model, place.budget, shifted, study, kept)] = place
        return found


def claim_of(value: Value, collection: Collection, reference: Reference) -> Claim:
    """Return how to check a value; raise if it cannot be checked."""
    quantity = quantity_of(value)
    summary = quantity.summary or summary_of(value)
    if summary is None:
        raise UncheckedError("no study keeps what it is made of")
    if value.doubt:
        elsewhere = value.doubt.startswith("also printed")
        told = "another number is printed for it elsewhere"
        raise UncheckedError(told if elsewhere else "the reference is in doubt")
    own_way = value.note.startswith("mean of resamples") and value.part == "value"
    require(not own_way or is_of_samples(value), "it is computed in a way of its own")
    entries = quantity.entries(value)
    require(entries, "it does not say of which methods")
    places = tuple(_place(one, collection, reference, entries) for one in _single(value, reference))
    require(places, "it does not say of how many models or samples")
    n_fits = sum(len(place.cells) * len(place.draws) for place in places)
    tolerance = tolerance_of(value, reference.tolerances, n_fits=n_fits)
    if tolerance is None and value.part == "spread":
        raise UncheckedError(
            "it is the standard deviation of a random method, which few seeds estimate poorly"
        )
    if tolerance is None:
        raise UncheckedError("its method is random, and no standard deviation is given")
    near = _points(value, reference.tolerances) / 100
    return Claim(value, places, quantity, summary, entries, tolerance, near)


# --- which models a number is about


def _single(value: Value, reference: Reference) -> Iterator[Value]:
    """Yield the value for each of the models it is about."""
    if "all" in (value.dataset, value.backbone):
        yield from reference.regimes(value)
        return
    for backbone in value.backbones:
        seeds, budget = list(value.seeds_of(backbone)), value.budget
        own = budget.get(backbone) if isinstance(budget, Mapping) else budget
        yield replace(value, backbone=backbone, seeds=seeds, budget=own)


def _place(
    value: Value, collection: Collection, reference: Reference, entries: tuple[Entry, ...]
) -> Place:
    """Return one model's place, or raise for what is missing."""
    seeds = value.seeds_of(value.backbone)
    require(seeds and value.budget, "it does not say of how many models or samples")
    model = value.dataset, value.backbone
    cells = {c.seed: c for c in collection.cells if (c.dataset, c.backbone) == model}
    require(cells, "the collection has no such model")
    # Draws and folds are seeded by the model's number, so others will not do.
    require(set(seeds) <= cells.keys(), "the collection lacks some of its seeds")
    chosen = tuple(cells[seed] for seed in seeds)
    there = [{TEST, *((shift.kind, shift.severity) for shift in cell.shifts)} for cell in chosen]
    parts = reference.parts(value)
    if parts is None:
        parts = frozenset(part for part in there[0] if part[0] == value.set)
    whole = parts and all(parts <= sets for sets in there)
    require(whole, "the collection lacks the set, or a part of it")
    budget, draws = _drawn(value, chosen, entries)
    return Place(chosen, budget, draws, tuple(sorted(parts)))


def _drawn(
    value: Value, cells: tuple[Cell, ...], entries: tuple[Entry, ...]
) -> tuple[int, tuple[int, ...]]:
    """Return budget and draws, if the calibration splits allow them."""
    splits = [cell.read("calibration") for cell in cells]
    needs = {need for entry in entries for need in method(entry.name).needs}
    able = "features" not in needs or all(split.features is not None for split in splits)
    require(able, "the method needs features, and the collection has none")
    sizes, budget = {split.n for split in splits}, value.budget
    if sizes == {budget}:
        return ALL, (0,)
    if value.draws is None or not isinstance(budget, int) or budget > min(sizes):
        raise UncheckedError("the calibration split has another size")
    return budget, tuple(range(value.draws)) if value.draw is None else (value.draw,)


# --- how near is near enough


#: The paper's tolerances are for numbers that are printed to a hundredth of a point.
_ROUNDING = 0.005
#: Of a number that a fit holds: a temperature, a threshold, a ratio of variances.
_RELATIVE = 0.01
_FITTED = ("temperature", "threshold", "signal_to_noise", "mean_risk")
#: Fits from which on one of them may fall on the other side of yes and no.
_MANY_FITS = 20
#: Pairs of neighbours that may change places in a rank correlation.
_SWAPS, _RANKS = 10, 19
#: Two runs of a method left to chance differ by less than so many standard errors.
_ERRORS = 2.0
#: Signals that are drawn, or come from a network that is.
_CHANCE = ("random", "shuffled", "head_temperature", "logit_head_temperature")


def tolerance_of(value: Value, points: Mapping[str, float], *, n_fits: int = 1) -> float | None:
    """Return by how much a reproduced number may differ, in its unit; None if that is not known.

    A number printed more coarsely than to a hundredth of a point gets its coarser rounding
    on top, or the right number could not pass. ``points`` are the paper's tolerances, and
    ``n_fits`` is how many fits a share of fits is of.
    """
    half = 0.5 * 10.0**-value.decimals
    if value.unit == "count":
        return 0.0
    if value.unit == "correlation":
        return half + _SWAPS * 12 / (_RANKS**3 - _RANKS)
    if value.measured.startswith("share_of_fits"):
        return half + (UNITS[value.unit] / n_fits if n_fits >= _MANY_FITS else 0.0)
    if value.measured.startswith(_FITTED):
        return half + _RELATIVE * abs(value.value)
    if value.kind in ("win-share", "share-below-zero"):
        return half  # and what the rows allow: see summaries
    to_points = 100 / UNITS[value.unit]
    stated = _points(value, points)
    near = max(stated, stated - _ROUNDING + half * to_points) / to_points
    # Whatever its temperatures, a prediction stays what it is.
    if "chance" in map(_sort_of, value.methods) and value.metric != "accuracy":
        n = len(value.seeds_of(value.backbone))
        if value.part != "value" or not value.spread or value.spread_over != "seeds" or n < 2:
            return None
        near = max(near, _ERRORS * math.sqrt(2 / n) * value.spread)
    return round(near, 9)


def _points(value: Value, points: Mapping[str, float]) -> float:
    """Return the widest of the paper's tolerances that a value falls under."""
    names = {_sort_of(name) for name in value.methods} - {"chance"} or {"deterministic"}
    if value.dataset == "cifar100" and value.set != CLEAN:
        names.add("cifar100c")
    return max(points[name] for name in names)


def _sort_of(name: str) -> str:
    """Return which tolerance is for a method: networks drift, and chance has none."""
    if name not in METHODS and name not in ALIASES:
        return "deterministic"  # a choice between methods that are
    row = method(name)
    if row.map == "head" or row.signal in _CHANCE:
        return "chance"
    return "smart-bce" if row.map == "smart" else "deterministic"

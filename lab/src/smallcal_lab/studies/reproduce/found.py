"""What the runs of a reproduction have found, and how near each claim's number comes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal_lab.statistics.samples import Unit
from smallcal_lab.studies.frame import FAILED, Frame, as_shown
from smallcal_lab.studies.predictions import Shelf
from smallcal_lab.studies.reproduce.claims import Claim, Key
from smallcal_lab.studies.reproduce.places import Place
from smallcal_lab.studies.reproduce.quantity import Fit
from smallcal_lab.studies.reproduce.reference import UNITS
from smallcal_lab.studies.reproduce.resampled import Resamples, is_of_samples
from smallcal_lab.studies.reproduce.result import Row
from smallcal_lab.studies.reproduce.summaries import Sample

#: What a row says as its value does.
_PRINTED = (
    *("table", "dataset", "backbone", "set", "against", "kind", "part", "resampled"),
    *("unit", "spread", "decimals"),
)

#: What was measured of one cell: by metric and label, then by draw and set.
_Numbers = dict[tuple[str, str], dict[tuple[int, str, int], float]]


class Found:
    """The rows of all runs, to look numbers up in."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, str], _Numbers] = {}
        self.errors: dict[tuple[int, str, str, int], str] = {}
        self.kept: dict[Key, tuple[Frame, Shelf]] = {}

    def add(self, key: Key, frame: Frame, folder: Path) -> None:
        """Take in a run's rows, and where its predictions are."""
        budget, kept = key[2], key[-1]
        if kept:
            self.kept[key] = as_shown(frame, (budget,)), Shelf(folder)
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
        own = Resamples(value, partial(self._units, claim)) if is_of_samples(value) else None
        sample = Sample(value, tables, claim.places[0].parts, claim.near, own)
        number, reach = claim.summary(sample)
        if not math.isfinite(number):
            return None, 0.0, undefined
        return scale * number, scale * reach, ""

    def _units(self, claim: Claim) -> list[Unit]:
        """Return the predictions of a claim's seeds for its set."""
        ((key, place),) = claim.keys.items()
        frame, shelf = self.kept[key]
        ((kind, severity),) = place.parts
        names = [cell.name for cell in place.cells]
        return shelf.units(frame.where(cell=names, draw=list(place.draws)), kind, severity)

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

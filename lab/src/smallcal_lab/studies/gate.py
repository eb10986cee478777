"""Whether a run found again what a stored run had found: the same fits, the same numbers.

The paper's condition for comparing new maps on the draws of an old experiment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smallcal.errors import InputError
from smallcal_lab.studies.collection import Collection
from smallcal_lab.studies.frame import FAILED, Frame
from smallcal_lab.studies.study import Study

#: The paper's: no number may differ by more.
TOLERANCE = 1e-6

_NOTHING = "there is nothing to compare: the two runs have no method in common"
_DRAW = ["cell", "budget", "draw"]
_KEY = [*_DRAW, "label", "set", "severity", "metric"]


@dataclass(frozen=True)
class Gate:
    """How many numbers of which methods were compared, and a line for each that is another."""

    values: int
    draws: int
    labels: tuple[str, ...]
    largest: float
    failures: tuple[str, ...]
    tolerance: float = TOLERANCE

    def text(self) -> str:
        """Say what was compared, and whether it is the same."""
        differ = f"{len(self.failures):,} differ" if self.failures else "none differs"
        return (
            f"Gate: {self.values:,} values of {', '.join(self.labels)}, in {self.draws:,} "
            f"draw{'s' * (self.draws != 1)} of cells, are in both runs; {differ} by more than "
            f"{self.tolerance:g} (largest difference {self.largest:.2g})."
        )


def gate(frame: Frame, stored: Frame) -> Gate:
    """Compare the rows of a run with those of a stored one, draw by draw, where both have them."""
    new, old = (
        each.data.loc[each.data["metric"] != FAILED, [*_KEY, "value"]] for each in (frame, stored)
    )
    both = new.merge(old, on=_KEY, suffixes=("", "_before"))
    if both.empty:
        raise InputError(f"{_NOTHING} on the same cell, budget and draw")
    undefined = both[["value", "value_before"]].isna()
    gaps = (both["value"] - both["value_before"]).abs()
    gaps[undefined.any(axis=1)] = np.inf
    gaps[undefined.all(axis=1)] = 0.0
    return Gate(
        values=len(both),
        draws=len(both[_DRAW].drop_duplicates()),
        labels=tuple(both["label"].unique()),
        largest=float(gaps.max()),
        failures=tuple(
            f"{row.cell}, {row.label}, budget {row.budget}, draw {row.draw}, {row.metric}: "
            f"{row.value:.8g}, {row.value_before:.8g} before"
            for row in both[gaps > TOLERANCE].itertuples()
        ),
    )


def require_common(study: Study, collection: Collection, stored: Frame) -> None:
    """Raise where a run to come cannot have a fit in common with a stored one."""
    labels = {entry.label for entry in study.entries}
    cells = {cell.name for cell in collection.cells}
    if labels.isdisjoint(stored.unique("label")) or cells.isdisjoint(stored.unique("cell")):
        raise InputError(f"{_NOTHING} on the same cell")

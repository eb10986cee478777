"""Whether a run found again what another run had found: the same fits, the same numbers.

Before new maps are compared on the draws of an old experiment, the old fits are made again on them,
and must give the stored numbers: else the draws, the data or the code are not the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from smallcal.errors import InputError
from smallcal_lab.studies.collection import Collection
from smallcal_lab.studies.frame import FAILED, Frame
from smallcal_lab.studies.study import Study

#: The paper's: no number may differ by more.
TOLERANCE = 1e-6

_NOTHING = "there is nothing to compare: the two runs have no method in common"

_KEY = ("cell", "budget", "draw", "label", "set", "severity", "metric")


@dataclass(frozen=True)
class Gate:
    """What the comparison of two runs gave.

    Attributes
    ----------
    values, draws : int
        Numbers that were compared, and the draws of cells that they are of.
    labels : tuple of str
        The methods.
    largest : float
        The largest difference.
    tolerance : float
    failures : tuple of str
        One line for each number that differs by more.
    """

    values: int
    draws: int
    labels: tuple[str, ...]
    largest: float
    tolerance: float
    failures: tuple[str, ...]

    def text(self) -> str:
        """Say what was compared, and whether it is the same."""
        n = len(self.failures)
        outcome = f"{n:,} differ by more than" if n else "none differs by more than"
        draws = f"{self.draws:,} draw{'s' * (self.draws != 1)}"
        return (
            f"Gate: {self.values:,} values of {', '.join(self.labels)}, in {draws} of "
            f"cells, are in both runs; {outcome} {self.tolerance:g} (largest difference "
            f"{self.largest:.2g})."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def gate(frame: Frame, stored: Frame, *, tolerance: float = TOLERANCE) -> Gate:
    """Compare the rows of a run with those of another, draw by draw, where both have them.

    Parameters
    ----------
    frame, stored : Frame
        Rows of the new run and of the stored one.
    tolerance : float

    Raises
    ------
    InputError
        If the two have no fit in common.

    Examples
    --------
    >>> row = {"cell": "a", "budget": 250, "draw": 0, "label": "tva-ts", "metric": "ece15"}
    >>> old, new = (Frame.of([{**row, "value": value}]) for value in (0.02, 0.02 + 1e-9))
    >>> found = gate(new, old)
    >>> found.values, found.failures, f"{found.largest:.0e}"
    (1, (), '1e-09')
    """
    before = dict(_numbers(stored))
    shared = [(key, value) for key, value in _numbers(frame) if key in before]
    if not shared:
        raise InputError(f"{_NOTHING} on the same cell, budget and draw")
    gaps = {key: _gap(value, before[key]) for key, value in shared}
    return Gate(
        values=len(shared),
        draws=len({key[:3] for key, _ in shared}),
        labels=tuple(dict.fromkeys(str(key[3]) for key, _ in shared)),
        largest=max(gaps.values()),
        tolerance=tolerance,
        failures=tuple(
            f"{key[0]}, {key[3]}, budget {key[1]}, draw {key[2]}, {key[6]}: {value:.8g}, "
            f"{before[key]:.8g} before"
            for key, value in shared
            if gaps[key] > tolerance
        ),
    )


def require_common(study: Study, collection: Collection, stored: Frame) -> None:
    """Raise where a run to come cannot have a fit in common with a stored one."""
    labels = {entry.label for entry in study.entries}
    cells = {cell.name for cell in collection.cells}
    if labels.isdisjoint(stored.unique("label")) or cells.isdisjoint(stored.unique("cell")):
        raise InputError(f"{_NOTHING} on the same cell")


def _numbers(frame: Frame) -> Iterator[tuple[tuple[Any, ...], float]]:
    columns = (frame[name].tolist() for name in (*_KEY, "value"))
    for *key, value in zip(*columns, strict=True):
        if key[-1] != FAILED:
            yield tuple(key), value


def _gap(a: float, b: float) -> float:
    """Return how far two numbers differ; what is undefined twice does not."""
    if math.isnan(a) or math.isnan(b):
        return 0.0 if math.isnan(a) and math.isnan(b) else math.inf
    return abs(a - b)

"""A kind of printed number: which study measures it, and what is read of each fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal_lab.studies.catalogue import STUDIES
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.reproduce.reference import Part, Value, label_of
from smallcal_lab.studies.reproduce.summaries import Summary
from smallcal_lab.studies.study import Entry

#: The test split as a set.
TEST: Part = (CLEAN, 0)


class Fit:
    """What was measured of one draw of one cell, on one set."""

    def __init__(
        self,
        numbers: Mapping[tuple[str, str], Mapping[tuple[int, str, int], float]],
        draw: int,
        part: Part,
    ) -> None:
        self._numbers, self._draw, self._part = numbers, draw, part

    def __call__(self, metric: str, label: str, *, part: Part | None = None) -> float:
        """Return a metric of a label, on the set or on another."""
        kind, severity = part or self._part
        return self._numbers[metric, label][self._draw, kind, severity]


#: What is read of a fit: a number, or several.
Number = Callable[[Value, Fit], float | Sequence[float]]


def own(value: Value, fit: Fit) -> float:
    """Return the metric of the value's method."""
    return fit(value.measured, value.label)


def other(value: Value, fit: Fit) -> float:
    """Return the metric of the method that the value's is compared with."""
    return fit(value.measured, value.against)


@dataclass(frozen=True)
class Quantity:
    """A kind of printed number.

    Attributes
    ----------
    study : str
        Name in ``STUDIES``: its probe and settings are used.
    number : callable
        What is read of a fit.
    choice : str
        A study whose entries are fitted, with its baseline, in place of the value's own method.
    summary : callable, optional
        How single numbers become the printed one, where the value's kind does not say it.
    rival : callable
        What is taken off for a difference.
    also : tuple of Entry
        What is fitted beside.
    chosen_clean : bool
        Whether the study only chooses, on clean samples, what may be measured on others.
    metrics : tuple of str
        What the probe is asked for, beside the value's own metric.
    settings : dict
        Of the study, where its own are not meant.
    """

    study: str
    number: Number
    choice: str = ""
    summary: Summary | None = None
    rival: Number = other
    also: tuple[Entry, ...] = ()
    chosen_clean: bool = False
    metrics: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def entries(self, value: Value) -> tuple[Entry, ...]:
        """Return what must be fitted; first the value's own method."""
        found = [plain(entry) for entry in STUDIES[self.choice].entries] if self.choice else []
        found += self.also
        found += map(plain, value.entries)
        if not self.choice and value.method is not None:
            found.insert(0, Entry(value.label, value.method, value.options))
        if value.against in METHODS or value.against in ALIASES:
            found.append(Entry(value.against))
        return tuple(found)

    def runs(self, *, shifted: bool) -> dict[str, bool]:
        """Return the studies that are run for it, and whether on shifted samples too.

        What is chosen on clean samples may be used on others.
        """
        if self.chosen_clean and shifted:
            return {self.study: False, "shift": True}
        return {self.study: shifted}


def plain(entry: Entry) -> Entry:
    """Return an entry whose label says what it is."""
    return Entry(label_of(entry.name, entry.options), entry.name, entry.options)

"""From the numbers of single fits to the number that is printed.

A value is about places: models, each with its seeds, draws and test sets. The numbers of a place
are a table of shape (seeds, draws, sets), sets in order of kind and severity. What is printed of
them is a mean, a spread, a share, a quantile, or the end of an interval: one function each,
by name in ``SUMMARIES``, ``SPREADS`` and ``INTERVALS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from smallcal.advice.refits import Spread
from smallcal.data.predictions import FloatArray
from smallcal.statistics.interval import Interval
from smallcal_lab.statistics import nested
from smallcal_lab.studies.reproduce.reference import UNITS, Part, Value
from smallcal_lab.studies.reproduce.resampled import Resamples, is_of_samples
from smallcal_lab.studies.tables.table import better_of

#: As many resamples as the paper takes, and the level of its intervals.
N_BOOT, LEVEL = 20_000, 0.95
#: Standard errors that two bootstraps of the same numbers may be apart.
_ERRORS = 3.0


@dataclass(frozen=True, eq=False)
class Sample:
    """The numbers that one printed number is made of.

    Attributes
    ----------
    value : Value
    tables : tuple of array
        For each place, of shape (seeds, draws, sets).
    parts : tuple
        Kind and severity of the sets.
    near : float
        By how much a single number may differ; see :mod:`smallcal_lab.studies.reproduce.tolerance`.
    resamples : Resamples, optional
        Of the test samples, where the value is of them.
    """

    value: Value
    tables: tuple[FloatArray, ...]
    parts: tuple[Part, ...]
    near: float = 0.0
    resamples: Resamples | None = None

    @property
    def fits(self) -> FloatArray:
        """A number for each fit, of all places: the mean over its sets."""
        return np.concatenate([table.mean(axis=2).ravel() for table in self.tables])

    @property
    def seeds(self) -> FloatArray:
        """A number for each seed, of all places: the mean over draws and sets."""
        return np.concatenate([table.mean(axis=(1, 2)) for table in self.tables])

    @property
    def cube(self) -> FloatArray:
        """The first place by seed, kind and severity; draws are averaged."""
        kinds = len({kind for kind, _ in self.parts})
        means = self.tables[0].mean(axis=1)
        return np.asarray(means.reshape(len(means), kinds, -1))


#: A number, and how far it may be off beside its tolerance.
Told = tuple[float, float]
Summary = Callable[[Sample], Told]


def mean(sample: Sample) -> Told:
    """Return the mean over draws and sets, then seeds."""
    return float(sample.seeds.mean()), 0.0


def median(sample: Sample) -> Told:
    """Return the median over fits."""
    return Spread.of(math.nan, sample.fits).median, 0.0


def share_below(sample: Sample) -> Told:
    """Return in how many fits the difference is for the better.

    Fits whose difference is within its own tolerance of zero may fall on either side.
    """
    fits = sample.fits if better_of(sample.value.measured) == "lower" else -sample.fits
    return float((fits < 0).mean()), float((np.abs(fits) <= sample.near).mean())


def share_of_resamples(sample: Sample) -> Told:
    """Return in how many resamples the difference is below zero."""
    share = INTERVALS[sample.value.resampled](sample, LEVEL).p_below
    return share, _ERRORS * math.sqrt(2 * share * (1 - share) / N_BOOT)


def quartile(sample: Sample) -> Told:
    """Return the lower or the upper quartile over fits."""
    found = Spread.of(math.nan, sample.fits)
    return (found.low if sample.value.part == "low" else found.high), 0.0


def end(sample: Sample) -> Told:
    """Return an end of an interval, and how far another run of the bootstrap may be off.

    The end is a quantile of resamples. A share of them has a standard error, here and in the
    paper; the ends that lie three of them further in or out say what that is in the number.
    """
    which = 0 if sample.value.part == "low" else 1
    whole = _interval(sample, LEVEL)
    tail = (1 - LEVEL) / 2
    error = _ERRORS * math.sqrt(2 * tail * (1 - tail) / whole.n_boot)
    levels = (1 - 2 * (tail + error), 1 - 2 * (tail - error))
    own, *around = (
        (found.low, found.high)[which]
        for found in (whole, *(_interval(sample, level) for level in levels))
    )
    return own, max(abs(own - other) for other in around)


def _interval(sample: Sample, level: float) -> Interval:
    if sample.resamples is not None:
        return sample.resamples.interval(level)
    return INTERVALS[sample.value.resampled](sample, level)


def mean_of_resamples(sample: Sample) -> Told:
    """Return the mean of resamples of the test samples, and its error."""
    assert sample.resamples is not None
    values = sample.resamples.interval(LEVEL).values
    return float(values.mean()), _ERRORS * float(values.std()) * math.sqrt(2 / len(values))


def spread(sample: Sample) -> Told:
    """Return the standard deviation.

    The paper divides by n in some places and by n - 1 in others. Where it cannot be told which,
    either will do.
    """
    value, numbers = sample.value, SPREADS[sample.value.spread_over](sample)
    ddofs = (0, 1) if value.ddof is None and len(numbers) > 1 else (value.ddof or 0,)
    found = [float(np.std(numbers, ddof=ddof)) for ddof in ddofs]
    return min(found, key=lambda one: abs(UNITS[value.unit] * one - value.value)), 0.0


#: Kinds of values to how they are made of single fits.
SUMMARIES: Mapping[str, Summary] = MappingProxyType(
    {
        "value": mean,
        "difference": mean,
        "median": median,
        "range": mean,  # of the lowest or the highest number of each fit
        "win-share": share_below,
        "share-below-zero": share_of_resamples,
    }
)

#: What a spread is over, to the numbers it is of.
SPREADS: Mapping[str, Callable[[Sample], FloatArray]] = MappingProxyType(
    {
        "seeds": lambda sample: sample.seeds,
        "seeds x draws": lambda sample: sample.fits,
        "draws": lambda sample: sample.fits,
        "cells": lambda sample: np.concatenate([table.ravel() for table in sample.tables]),
    }
)


def _rows(sample: Sample, units: str, level: float) -> Interval:
    """Resample seeds, then draws in each; with models above them if there are several."""
    tables: list[list[list[float]]] = [table.mean(axis=2).tolist() for table in sample.tables]
    if units == "backbones>seeds>draws":
        return nested.nested(tables, n_boot=N_BOOT, level=level)
    return nested.nested(tables[0], n_boot=N_BOOT, level=level)


def _single(sample: Sample, level: float) -> Interval:
    """Resample single numbers, as if no two had anything in common."""
    flat: Sequence[float] = np.concatenate([table.ravel() for table in sample.tables]).tolist()
    return nested.cells(flat, n_boot=N_BOOT, level=level)


#: What is resampled, to the interval of a level.
INTERVALS: Mapping[str, Callable[[Sample, float], Interval]] = MappingProxyType(
    {
        "draws": _single,
        "cells": _single,
        "seeds>draws": lambda sample, level: _rows(sample, "seeds>draws", level),
        "backbones>seeds>draws": lambda sample, level: _rows(
            sample, "backbones>seeds>draws", level
        ),
        "corruption types": lambda sample, level: nested.clustered(
            sample.cube, axis=1, n_boot=N_BOOT, level=level
        ),
        "seeds>corruptions>severities": lambda sample, level: nested.nested(
            sample.cube, n_boot=N_BOOT, level=level
        ),
    }
)


def summary_of(value: Value) -> Summary | None:
    """Return how a value is made of single fits; None if no study keeps what that takes.

    Examples
    --------
    >>> from smallcal_lab.studies.reproduce.reference import load_reference
    >>> tiers = [v for v in load_reference().values if v.table == "tab:matched_capacity_tiers"]
    >>> {v.resampled: summary_of(v).__name__ for v in tiers if v.part == "low"}["corruption types"]
    'end'
    """
    if is_of_samples(value):
        return mean_of_resamples if value.part == "value" else end
    if value.part == "spread":
        return spread if value.spread_over in SPREADS else None
    if value.part == "value" or value.kind == "range":
        resampled = value.kind != "share-below-zero" or value.resampled in INTERVALS
        return SUMMARIES.get(value.kind) if resampled else None
    if value.kind == "median":
        return quartile
    return end if value.resampled in INTERVALS else None

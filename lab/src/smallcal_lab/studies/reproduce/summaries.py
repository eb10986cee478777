"""From the numbers of single fits to the number that is printed.

A value is about places: models, each with its seeds, draws and test sets. The numbers of a place
are a table of shape (seeds, draws, sets), sets in order of kind and severity. What is printed of
them is a mean, a spread, a share, a quantile, or the end of an interval: one function each,
by name in ``SUMMARIES``, ``SPREADS`` and ``INTERVALS``. Intervals of test samples are made from
the predictions that runs keep for them, by ``WAYS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from threadpoolctl import threadpool_limits

from smallcal.advice.refits import Spread
from smallcal.data.predictions import FloatArray
from smallcal.metrics import METRICS
from smallcal.metrics.kept import LOST
from smallcal.metrics.replicas import SLOW
from smallcal.statistics.interval import Interval
from smallcal_lab.statistics import nested, samples
from smallcal_lab.studies.catalogue import STUDIES
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.reproduce.reference import UNITS, Part, Value
from smallcal_lab.studies.tables.table import better_of

#: As many resamples as the paper takes, and the level of its intervals.
N_BOOT, LEVEL = 20_000, 0.95
#: Standard errors that two bootstraps of the same numbers may be apart.
_ERRORS = 3.0


@dataclass(frozen=True, eq=False)
class Sample:
    """The numbers that one printed number is made of.

    ``tables`` has each place's, ``parts`` kind and severity of the sets, ``near`` by how much a
    single number may differ. ``units`` are the predictions of each seed, where samples are
    resampled.
    """

    value: Value
    tables: tuple[FloatArray, ...]
    parts: tuple[Part, ...]
    near: float = 0.0
    units: Sequence[samples.Unit] = ()

    @property
    def fits(self) -> FloatArray:
        """A number for each fit, of all places: the mean over its sets."""
        return np.concatenate([table.mean(axis=2).ravel() for table in self.tables])

    @property
    def seeds(self) -> FloatArray:
        """A number for each seed, of all places: the mean over draws and sets."""
        return np.concatenate([table.mean(axis=(1, 2)) for table in self.tables])

    @property
    def cells(self) -> FloatArray:
        """Every single number."""
        return np.concatenate([table.ravel() for table in self.tables])

    @property
    def cube(self) -> FloatArray:
        """The first place by seed, kind and severity; draws are averaged."""
        means = self.tables[0].mean(axis=1)
        return np.asarray(means.reshape(len(means), len({kind for kind, _ in self.parts}), -1))

    @cached_property
    def drawn(self) -> samples.Replicates:
        """Resamples of the test samples."""
        wanted = {self.value.label, self.value.against} - {""}
        units = [{name: unit[name] for name in wanted} for unit in self.units]
        with threadpool_limits(1):  # sums split over threads round differently
            return WAYS[self.value.resampled](self.value, units)

    def interval(self, level: float = LEVEL) -> Interval:
        """Return the interval of a level, of what the value says is resampled."""
        value = self.value
        if not is_of_samples(value):
            return INTERVALS[value.resampled](self, level)
        minus = value.against or None
        return self.drawn.interval(value.label, value.measured, minus=minus, level=level)


#: A number, perhaps with how far it may be off beside its tolerance.
Told = float | tuple[float, float]
Summary = Callable[[Sample], Told]


def _images(value: Value, units: Sequence[samples.Unit]) -> samples.Replicates:
    """Resample test samples alone: of shifted sets the same ones for all seeds and draws."""
    if value.set != CLEAN:
        return samples.mean_over_units(samples.together(units), [value.measured])
    n_boot = STUDIES["clean"].settings["pooled_boot" if value.against else "sampled_boot"]
    return samples.pooled_samples(units, [value.measured], n_boot=n_boot)


#: Which test samples are resampled, to how: of each seed the predictions of the value's methods.
WAYS: Mapping[str, Callable[[Value, Sequence[samples.Unit]], samples.Replicates]] = {
    "images": _images,
    "seeds>images": lambda value, units: samples.seeds_then_samples(units, [value.measured]),
    "three seeds": lambda value, units: samples.seeds_then_samples(units[:3], [value.measured]),
}


def is_of_samples(value: Value) -> bool:
    """Whether a value is of resampled test samples, which a run must keep for it."""
    part = value.part in ("low", "high") or value.note.startswith("mean of resamples")
    known = value.metric in METRICS and value.metric not in (*SLOW, *LOST)
    return part and known and value.resampled in WAYS


def median(sample: Sample) -> Told:
    """Return the median over fits, or a quartile."""
    found = Spread.of(math.nan, sample.fits)
    return {"low": found.low, "high": found.high}.get(sample.value.part, found.median)


def share_below(sample: Sample) -> Told:
    """Return in how many fits the difference is for the better.

    Fits whose difference is within its own tolerance of zero may fall on either side.
    """
    fits = sample.fits if better_of(sample.value.measured) == "lower" else -sample.fits
    return float((fits < 0).mean()), float((np.abs(fits) <= sample.near).mean())


def share_of_resamples(sample: Sample) -> Told:
    """Return in how many resamples the difference is below zero."""
    share = sample.interval().p_below
    return share, _ERRORS * math.sqrt(2 * share * (1 - share) / N_BOOT)


def end(sample: Sample) -> Told:
    """Return an end of an interval, and how far another run of the bootstrap may be off.

    The end is a quantile of resamples. A share of them has a standard error, here and in the
    paper; the ends that lie three of them further in or out say what that is in the number.
    """
    whole, tail = sample.interval(), (1 - LEVEL) / 2
    error = _ERRORS * math.sqrt(2 * tail * (1 - tail) / whole.n_boot)
    around = (sample.interval(1 - 2 * (tail + sign * error)) for sign in (1, -1))
    own, *others = (getattr(found, sample.value.part) for found in (whole, *around))
    return own, max(abs(own - other) for other in others)


def mean_of_resamples(sample: Sample) -> Told:
    """Return the mean of resamples of the test samples, and its error."""
    values = sample.interval().values
    return float(values.mean()), _ERRORS * float(values.std()) * math.sqrt(2 / len(values))


def spread(sample: Sample) -> Told:
    """Return the standard deviation.

    The paper divides by n in some places and by n - 1 in others. Where it cannot be told which,
    either will do.
    """
    value, numbers = sample.value, SPREADS[sample.value.spread_over](sample)
    ddofs = (0, 1) if value.ddof is None and len(numbers) > 1 else (value.ddof or 0,)
    found = [float(np.std(numbers, ddof=ddof)) for ddof in ddofs]
    return min(found, key=lambda one: abs(UNITS[value.unit] * one - value.value))


#: Kinds of values to how they are made of single fits.
SUMMARIES: Mapping[str, Summary] = {
    # Of seeds; of a range, of the lowest or the highest number of each fit.
    **dict.fromkeys(("value", "difference", "range"), lambda sample: float(sample.seeds.mean())),
    "median": median,
    "win-share": share_below,
    "share-below-zero": share_of_resamples,
}

#: What a spread is over, to the numbers it is of.
SPREADS: Mapping[str, Callable[[Sample], FloatArray]] = {
    "seeds": lambda sample: sample.seeds,
    "seeds x draws": lambda sample: sample.fits,
    "draws": lambda sample: sample.fits,
    "cells": lambda sample: sample.cells,
}


def _by_draw(sample: Sample, level: float) -> Interval:
    """Resample seeds, then draws in each; with models above them if there are several."""
    tables: list[list[list[float]]] = [table.mean(axis=2).tolist() for table in sample.tables]
    several = sample.value.resampled.startswith("backbones")
    return nested.nested(tables if several else tables[0], n_boot=N_BOOT, level=level)


def _single(sample: Sample, level: float) -> Interval:
    """Resample single numbers, as if no two had anything in common."""
    return nested.cells(sample.cells.tolist(), n_boot=N_BOOT, level=level)


#: What is resampled, to the interval of a level.
INTERVALS: Mapping[str, Callable[[Sample, float], Interval]] = {
    "draws": _single,
    "cells": _single,
    "seeds>draws": _by_draw,
    "backbones>seeds>draws": _by_draw,
    "corruption types": lambda sample, level: nested.clustered(
        sample.cube, axis=1, n_boot=N_BOOT, level=level
    ),
    "seeds>corruptions>severities": lambda sample, level: nested.nested(
        sample.cube, n_boot=N_BOOT, level=level
    ),
}


def summary_of(value: Value) -> Summary | None:
    """Return how a value is made of single fits; None if no study keeps what that takes."""
    if is_of_samples(value):
        return mean_of_resamples if value.part == "value" else end
    if value.part == "spread":
        return spread if value.spread_over in SPREADS else None
    if value.part == "value" or value.kind in ("range", "median"):
        resampled = value.kind != "share-below-zero" or value.resampled in INTERVALS
        return SUMMARIES.get(value.kind) if resampled else None
    return end if value.resampled in INTERVALS else None

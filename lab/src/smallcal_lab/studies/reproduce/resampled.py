"""Intervals of test samples: from the predictions that runs keep for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from threadpoolctl import threadpool_limits

from smallcal.metrics import METRICS
from smallcal.metrics.kept import LOST
from smallcal.metrics.replicas import SLOW
from smallcal.statistics.interval import Interval
from smallcal_lab.statistics.samples import (
    Replicates,
    Unit,
    mean_over_units,
    pooled_samples,
    seeds_then_samples,
    together,
)
from smallcal_lab.studies.catalogue import STUDIES
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.reproduce.reference import Value

#: As many resamples of samples alone as the paper takes: of a method, of a difference.
_SAMPLED = STUDIES["clean"].settings["sampled_boot"]
_POOLED = STUDIES["clean"].settings["pooled_boot"]


def _images(value: Value, units: Sequence[Unit]) -> Replicates:
    """Resample test samples alone: of shifted sets the same ones for all seeds and draws."""
    if value.set != CLEAN:
        return mean_over_units(together(units), [value.measured])
    n_boot = _POOLED if value.against else _SAMPLED
    return pooled_samples(units, [value.measured], n_boot=n_boot)


#: What is resampled, to how: of each seed the predictions of the value's methods.
WAYS: Mapping[str, Callable[[Value, Sequence[Unit]], Replicates]] = MappingProxyType(
    {
        "images": _images,
        "seeds>images": lambda value, units: seeds_then_samples(units, [value.measured]),
        "three seeds": lambda value, units: seeds_then_samples(units[:3], [value.measured]),
    }
)


def is_of_samples(value: Value) -> bool:
    """Whether a value is of resampled test samples, which a run must keep for it."""
    part = value.part in ("low", "high") or value.note.startswith("mean of resamples")
    known = value.metric in METRICS and value.metric not in (*SLOW, *LOST)
    return part and known and value.resampled in WAYS


class Resamples:
    """What resampled test samples say of a value's method, or of two."""

    def __init__(self, value: Value, units: Callable[[], Sequence[Unit]]) -> None:
        self._value, self._units = value, units

    @cached_property
    def _drawn(self) -> Replicates:
        wanted = {self._value.label, self._value.against} - {""}
        units = [{name: unit[name] for name in wanted} for unit in self._units()]
        with threadpool_limits(1):  # sums split over threads round differently
            return WAYS[self._value.resampled](self._value, units)

    def interval(self, level: float) -> Interval:
        """Return the interval of a level."""
        value = self._value
        minus = value.against or None
        return self._drawn.interval(value.label, value.measured, minus=minus, level=level)

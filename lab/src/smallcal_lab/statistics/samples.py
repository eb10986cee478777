"""The paper's bootstraps of test samples: plain metrics, percentiles of the resamples.

A *unit* is a set of test samples with everything that was predicted for them: for each method one
prediction, or several that are averaged (draws of the calibration split, or seeds that were tested
on the same samples). Methods of a unit are resampled together, so that differences are paired.

A resample of a calibration error is noisier than the error, hence higher on average. These
percentiles are what the paper prints; intervals that hold the truth as often as they say are those
of :mod:`smallcal.statistics.bootstrap`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smallcal.data.predictions import BoolArray, FloatArray
from smallcal.errors import InputError
from smallcal.metrics import Metric, Scored
from smallcal.metrics.kept import Kept, require_kept
from smallcal.metrics.table import chosen_metrics
from smallcal.statistics.bootstrap import Resamples, resample, resampled_seeds
from smallcal.statistics.draws import Draws
from smallcal.statistics.interval import Interval, interval_of, require_options

#: Resamples of seeds and samples, of samples alone, and what seeds them: the paper's.
N_BOOT = 20_000
POOLED_BOOT = 2_000
SEED = 20260721

#: For each method its predictions for one set of samples; several are averaged.
Unit = Mapping[str, Sequence[Scored]]

_Key = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Replicates:
    """Metrics of methods in resamples, by method and metric.

    ``points`` are the metrics of each unit as they are, ``values`` those in each resample, of shape
    (n_boot, units). Where they are ``pooled``, each unit's is a resample; else their mean is.
    """

    points: Mapping[_Key, FloatArray]
    values: Mapping[_Key, FloatArray]
    unit: str
    pooled: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in order."""
        return tuple(dict.fromkeys(method for method, _ in self.points))

    def interval(
        self, method: str, metric: str, *, minus: str | None = None, level: float = 0.95
    ) -> Interval:
        """Return a method's metric, or its difference from another's, with its interval.

        Its ``values`` are the resamples, of which ``p_below`` is the share below zero.
        """
        points, values = self.points[method, metric], self.values[method, metric]
        if minus is not None:
            points = points - self.points[minus, metric]
            values = values - self.values[minus, metric]
        drawn = values.ravel() if self.pooled else values.mean(axis=1)
        return interval_of(float(points.mean()), drawn, unit=self.unit, level=level)


def seeds_then_samples(
    units: Sequence[Unit],
    metrics: Sequence[str] = ("ece15",),
    *,
    n_boot: int = N_BOOT,
    random_state: int = SEED,
) -> Replicates:
    """Resample units (seeds), then the test samples of each drawn: the paper's clean inference.

    It gives the interval of the mean over seeds, of this model trained again and tested again.
    """
    chosen, flat = _prepared(units, metrics, n_boot)
    drawn = resampled_seeds(flat, chosen, n_boot=n_boot, random_state=random_state, plain=True)
    return _averaged(drawn, "seeds x samples")


def pooled_samples(
    units: Sequence[Unit],
    metrics: Sequence[str] = ("ece15",),
    *,
    n_boot: int = POOLED_BOOT,
    random_state: int = SEED,
) -> Replicates:
    """Resample the samples of each unit by itself, and put all resamples into one heap."""
    unit = "samples" if len(units) == 1 else "samples, pooled"
    return _averaged(_each_unit(units, metrics, n_boot, random_state), unit, pooled=True)


def mean_over_units(
    units: Sequence[Unit],
    metrics: Sequence[str] = ("ece15",),
    *,
    n_boot: int = N_BOOT,
    random_state: int = SEED,
) -> Replicates:
    """Resample the samples of each unit by itself, and take the mean over units."""
    return _averaged(_each_unit(units, metrics, n_boot, random_state), "samples")


def together(units: Sequence[Unit]) -> list[Unit]:
    """Return one unit where all were tested on the same samples, by their labels; else all."""
    labels = [view.labels for unit in units for views in unit.values() for view in views]
    if not all(np.array_equal(labels[0], own) for own in labels[1:]):
        return list(units)
    return [{name: [view for unit in units for view in unit[name]] for name in units[0]}]


def _each_unit(
    units: Sequence[Unit], metrics: Sequence[str], n_boot: int, random_state: int
) -> Iterator[tuple[BoolArray, Resamples]]:
    """Yield the column of each unit, and the resamples of its samples."""
    chosen, flat = _prepared(units, metrics, n_boot)
    rng = np.random.default_rng(random_state)
    for i, views in enumerate(flat):
        here = np.zeros((n_boot, len(flat)), dtype=bool)
        here[:, i] = True
        yield here, resample(views, chosen, n_boot=n_boot, random_state=rng, plain=True)


def _prepared(
    units: Sequence[Unit], metrics: Sequence[str], n_boot: int
) -> tuple[list[Metric], list[dict[str, Scored]]]:
    """Check what was given; return the metrics, and each unit's predictions under names."""
    require_options(n_boot, 0.95, least=1)
    if not units:
        raise InputError("there is nothing to resample: no predictions were given")
    if any(set(unit) != set(units[0]) for unit in units):
        raise InputError("every seed must have the same methods")
    if any(isinstance(view, Kept) for unit in units for own in unit.values() for view in own):
        require_kept(metrics)
    flat = [
        {f"{i} {name}": view for name, own in unit.items() for i, view in enumerate(own)}
        for unit in units
    ]
    return chosen_metrics(metrics), flat


def _averaged(
    each: Iterable[tuple[BoolArray, Resamples]], unit: str, *, pooled: bool = False
) -> Replicates:
    """Average predictions of one method, unit by unit: its metrics, and their resamples."""
    points: dict[_Key, list[float]] = {}
    values: dict[_Key, FloatArray] = {}
    for here, drawn in each:
        several: dict[_Key, list[Draws]] = {}
        for (name, metric), draws in drawn.items():
            several.setdefault((name.partition(" ")[2], metric), []).append(draws)
        for key, own in several.items():
            points.setdefault(key, []).append(float(np.mean([draws.plain for draws in own])))
            resampled = np.mean([draws.values for draws in own], axis=0)
            values.setdefault(key, np.empty(here.shape))[here] = resampled
    return Replicates({key: np.array(own) for key, own in points.items()}, values, unit, pooled)

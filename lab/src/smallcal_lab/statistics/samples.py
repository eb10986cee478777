"""The paper's bootstraps of test samples: plain metrics, percentiles of the resamples.

A *unit* is a set of test samples with everything that was predicted for them: for each method one
prediction, or several that are averaged (draws of the calibration split, or seeds that were tested
on the same samples). Methods of a unit are resampled together, so that differences are paired.

- :func:`seeds_then_samples`: units (seeds) are drawn with replacement, then the samples of each
  unit drawn: the interval of the mean over seeds, of this model trained again and tested again.
- :func:`pooled_samples`: the samples of each unit by itself, and all resamples in one heap.
- :func:`mean_over_units`: the samples of each unit by itself, and the mean over units.

A resample of a calibration error is noisier than the error, hence higher on average: percentiles of
such resamples are not centred at the estimate. They are what the paper prints; intervals that hold
the truth as often as they say are those of :mod:`smallcal.statistics.bootstrap`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.io.progress import Advance
from smallcal.metrics import Metric, Scored
from smallcal.metrics.kept import Kept, require_kept
from smallcal.metrics.table import chosen_metrics
from smallcal.statistics.bootstrap import Resamples, resample, resampled_seeds
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
    """Metrics of methods in resamples.

    Attributes
    ----------
    points : dict of (method, metric) to ndarray of shape (units,)
        The metric as it is.
    values : dict of (method, metric) to ndarray of shape (n_boot, units)
        In each resample, and in each of the units that it has.
    unit : str
        What was resampled.
    pooled : bool
        Whether each unit's value is a resample of its own; else their mean is.
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
    advance: Advance = lambda rows: None,
) -> Replicates:
    """Resample seeds, then the test samples of each seed drawn: the paper's clean inference.

    Parameters
    ----------
    units : sequence of dict
        One per seed: each method's predictions.
    metrics : sequence of str
    n_boot : int
    random_state : int
    advance : callable, optional
        Told how many resamples of samples were done.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> units = []
    >>> for _ in range(3):
    ...     p = rng.dirichlet([1, 1], size=200)
    ...     y = (rng.random(200) < p[:, 1]).astype(int)
    ...     views = {"honest": p, "flat": np.full((200, 2), 0.5)}
    ...     units.append({name: [Scored.of(y, proba)] for name, proba in views.items()})
    >>> found = seeds_then_samples(units, ["nll"], n_boot=200)
    >>> found = found.interval("honest", "nll", minus="flat")
    >>> found.unit, found.p_below
    ('seeds x samples', 1.0)
    """
    chosen, flat = _prepared(units, metrics, n_boot)
    points: dict[_Key, list[float]] = {}
    values: dict[_Key, FloatArray] = {}
    each_seed = resampled_seeds(
        flat, chosen, n_boot=n_boot, random_state=random_state, plain=True, advance=advance
    )
    for here, drawn in each_seed:
        for key, (point, resampled) in _averaged(drawn).items():
            points.setdefault(key, []).append(point)
            values.setdefault(key, np.empty(here.shape))[here] = resampled
    return Replicates(_arrays(points), values, "seeds x samples")


def pooled_samples(
    units: Sequence[Unit],
    metrics: Sequence[str] = ("ece15",),
    *,
    n_boot: int = POOLED_BOOT,
    random_state: int = SEED,
    advance: Advance = lambda rows: None,
) -> Replicates:
    """Resample the samples of each seed by itself, and put all resamples into one heap.

    Parameters are those of :func:`seeds_then_samples`; ``n_boot`` resamples of each seed.
    """
    unit = "samples" if len(units) == 1 else "samples, pooled"
    return _each_unit(units, metrics, n_boot, random_state, advance, unit=unit, pooled=True)


def mean_over_units(
    units: Sequence[Unit],
    metrics: Sequence[str] = ("ece15",),
    *,
    n_boot: int = N_BOOT,
    random_state: int = SEED,
    advance: Advance = lambda rows: None,
) -> Replicates:
    """Resample the samples of each unit by itself, and take the mean over units.

    Parameters are those of :func:`seeds_then_samples`.
    """
    return _each_unit(units, metrics, n_boot, random_state, advance, unit="samples", pooled=False)


def together(units: Sequence[Unit]) -> list[Unit]:
    """Return one unit where all were tested on the same samples, by their labels; else all.

    Examples
    --------
    >>> unit = {"a": [Scored.of([0, 1], [[0.75, 0.25], [0.5, 0.5]])]}
    >>> len(together([unit, unit])), len(together([unit, unit])[0]["a"])
    (1, 2)
    """
    labels = [view.labels for unit in units for views in unit.values() for view in views]
    if not all(np.array_equal(labels[0], own) for own in labels[1:]):
        return list(units)
    return [{name: [view for unit in units for view in unit[name]] for name in units[0]}]


def _each_unit(
    units: Sequence[Unit],
    metrics: Sequence[str],
    n_boot: int,
    random_state: int,
    advance: Advance,
    *,
    unit: str,
    pooled: bool,
) -> Replicates:
    chosen, flat = _prepared(units, metrics, n_boot)
    rng = np.random.default_rng(random_state)
    points: dict[_Key, list[float]] = {}
    columns: dict[_Key, list[FloatArray]] = {}
    for views in flat:
        drawn = resample(
            views,
            chosen,
            n_boot=n_boot,
            random_state=rng,
            advance=advance,
            plain=True,
        )
        for key, (point, resampled) in _averaged(drawn).items():
            points.setdefault(key, []).append(point)
            columns.setdefault(key, []).append(resampled)
    values = {key: np.column_stack(own) for key, own in columns.items()}
    return Replicates(_arrays(points), values, unit, pooled)


def _prepared(
    units: Sequence[Unit], metrics: Sequence[str], n_boot: int
) -> tuple[list[Metric], list[dict[str, Scored]]]:
    """Check what was given; return the metrics, and each unit's predictions under names."""
    require_options(n_boot, 0.95, least=1)
    if not units:
        raise InputError("there is nothing to resample: no predictions were given")
    if any(set(unit) != set(units[0]) for unit in units):
        raise InputError("every seed must have the same methods")
    views = [view for unit in units for own in unit.values() for view in own]
    if any(isinstance(view, Kept) for view in views):
        require_kept(metrics)
    flat = [
        {f"{i} {name}": view for name, own in unit.items() for i, view in enumerate(own)}
        for unit in units
    ]
    return chosen_metrics(metrics), flat


def _averaged(drawn: Resamples) -> dict[_Key, tuple[float, FloatArray]]:
    """Average predictions of one method: the metric, and its resamples."""
    several: dict[_Key, list[str]] = {}
    for name, metric in drawn:
        several.setdefault((name.partition(" ")[2], metric), []).append(name)
    return {
        (method, metric): (
            float(np.mean([drawn[name, metric].plain for name in names])),
            np.mean([drawn[name, metric].values for name in names], axis=0),
        )
        for (method, metric), names in several.items()
    }


def _arrays(points: Mapping[_Key, list[float]]) -> dict[_Key, FloatArray]:
    return {key: np.array(own) for key, own in points.items()}

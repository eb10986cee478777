"""How many resamples are enough: until the ends of intervals are steady.

An interval's end is a quantile of resamples, and with other resamples it would be another. That
Monte Carlo error is sqrt(p (1 - p) / k) / f for k resamples, where p is the share beyond the end
and f the density of resamples there. Resamples are drawn until it is small against the width of
every interval that a metric is asked for; other metrics may need more of them. Where intervals lie
plays no part: nothing is looked at that would make a difference more or less likely to be called
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smallcal.data.predictions import FloatArray, IntArray

#: Resamples drawn at least and at most, and how many more at a time.
LEAST, STEP, MOST = 500, 250, 2_000

#: An end's error over the width of its interval. Of normal resamples it is 0.68 / sqrt(k): 0.03
#: for 500 resamples, 0.015 for 2,000. The estimate of each end is off by a quarter, and the worst
#: of all ends decides, so that true errors are smaller: see ``benchmarks/enough.py``.
TOLERANCE = 0.04


def stages(n_boot: int | None) -> Iterator[int]:
    """Yield how many resamples to draw next; with a number given, all of them.

    Examples
    --------
    >>> list(stages(60)), list(stages(None))
    ([60], [500, 250, 250, 250, 250, 250, 250])
    """
    yield LEAST if n_boot is None else n_boot
    if n_boot is None:
        yield from [STEP] * ((MOST - LEAST) // STEP)


def end_errors(rows: Sequence[FloatArray], *, level: float) -> FloatArray:
    """Return the Monte Carlo error of the worse end of each row's interval, over its width.

    Parameters
    ----------
    rows : sequence of ndarray of shape (k,)
        Resamples; those that are NaN are left out.
    level : float

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(3, 2000))
    >>> bool((np.abs(end_errors(draws, level=0.95) - 0.017) < 0.006).all())
    True
    """
    ordered = np.sort(np.array(rows), axis=1)  # NaN comes last
    defined = len(ordered[0]) - np.isnan(ordered).sum(axis=1)
    tail = (1 - level) / 2
    low, high = (_quantile(ordered, defined, p) for p in (tail, 1 - tail))
    # One over the density, from twice the share around an end: half of the tail on either side.
    beyond = [
        (_quantile(ordered, defined, p + tail / 2) - _quantile(ordered, defined, p - tail / 2))
        for p in (tail, 1 - tail)
    ]
    error = np.maximum(*beyond) / tail * np.sqrt(tail * (1 - tail) / np.maximum(defined, 1))
    width = high - low
    none = (defined == 0) | ((width == 0) & (error == 0))
    return np.where(none, 0.0, error / np.maximum(width, 1e-300))


def _quantile(ordered: FloatArray, defined: IntArray, p: float) -> FloatArray:
    """Return the quantile of the first so many numbers of each row."""
    place = p * np.maximum(defined - 1, 0)
    left = place.astype(np.int64)
    every = np.arange(len(ordered))
    here = ordered[every, left]
    following = ordered[every, np.minimum(left + 1, np.maximum(defined - 1, 0))]
    return np.asarray(here + (place - left) * (following - here))


@dataclass(frozen=True)
class Enough:
    """Which metrics of several methods need more resamples for the intervals that are shown.

    Attributes
    ----------
    level : float
    baseline : str or None
        The method that others are compared with: then intervals of differences must be steady too.
    """

    level: float = 0.95
    baseline: str | None = None

    def unsteady(self, values: Mapping[tuple[str, str], FloatArray]) -> set[str]:
        """Return the metrics of which an interval's end is not steady yet.

        Parameters
        ----------
        values : mapping of (method, metric) to ndarray of shape (k,)
            All with as many resamples.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> [Enough().unsteady({("a", "nll"): rng.normal(size=k)}) for k in (100, 2000)]
        [{'nll'}, set()]
        """
        metrics, rows = [metric for _, metric in values], list(values.values())
        for (name, metric), own in values.items():
            if self.baseline is not None and name != self.baseline:
                metrics.append(metric)
                rows.append(own - values[self.baseline, metric])
        if not rows:
            return set()
        wide = end_errors(rows, level=self.level) > TOLERANCE
        return {metric for metric, more in zip(metrics, wide, strict=True) if more}

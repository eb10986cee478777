"""A number in its resamples, and the interval that they give.

Around a mean, resamples stand as the mean stands around the truth: percentiles of them are an
interval. Calibration errors are no means. Those in bins of the confidence are resampled without
noise (:mod:`smallcal.metrics.debiased`), and two things are mended:

- Resamples of a noisy set are noisier than the set. They are moved to stand around the estimate.
- How far they spread depends on the true gaps of the bins, and they see noisy ones: two methods
  that err in opposite directions are taken for two that err alike. Resamples of resamples show
  what noise does to the spread, and as much is taken off.

`make study-coverage` measures how often the intervals hold the truth. For the classwise and the
smooth errors no such way is known here: their intervals are wide enough for percentiles and for
percentiles mirrored at the point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.metrics import Metric, Scored
from smallcal.metrics.debiased import CUTS, estimate
from smallcal.statistics.interval import Interval, interval_of

#: Resamples that are resampled again, and how often: the first ones, by the deviations of the next.
REPEATS = 60

#: The spread is multiplied by this, for what the estimate leaves of its bias. Chosen by simulation.
_BIAS_ALLOWANCE = 1.06

#: How far noise may change the variance before the estimate of it is not believed.
_LEAST, _MOST = 0.4, 2.5


@dataclass(frozen=True, eq=False)
class Draws:
    """A number, and what it becomes in each resample; differences are paired by resample.

    Attributes
    ----------
    plain : float
        The metric as it is.
    point : float
        What the interval is about: the metric, or a calibration error without noise. Right on
        average, and so sometimes below zero.
    shown : float
        The same as people are told: no error is below zero, or larger without noise.
    values : ndarray of shape (n_boot,)
    again : ndarray of shape (k, k) or None
        Resamples of resamples of a calibration error in bins: row i is centred at resample i and
        has the deviations of resamples k to 2 k.
    wide : bool
        For other calibration errors.
    """

    plain: float
    point: float
    shown: float
    values: FloatArray
    again: FloatArray | None = None
    wide: bool = False

    @classmethod
    def of(
        cls,
        metric: Metric,
        view: Scored,
        values: FloatArray,
        *,
        plain: float | None = None,
        again: FloatArray | None = None,
    ) -> Draws:
        """Return the resamples of a metric of these predictions; ``plain`` is it, if known."""
        plain = metric.of(view) if plain is None else plain
        if metric.name not in CUTS:
            return cls(plain, plain, plain, values, wide=metric.biased)
        point = estimate(metric.name, view)
        again = np.empty((0, 0)) if again is None else again
        return cls(plain, point, min(max(point, 0.0), plain), values, again)

    def __sub__(self, other: Draws) -> Draws:
        """Return the difference, in each resample."""
        again = None
        if self.again is not None and other.again is not None:
            again = self.again - other.again
        return Draws(
            plain=self.plain - other.plain,
            point=self.point - other.point,
            shown=self.shown - other.shown,
            values=self.values - other.values,
            again=again,
            wide=self.wide or other.wide,
        )

    def around_point(self) -> FloatArray:
        """Return the resamples of a calibration error in bins, moved and spread as they should be.

        Of other numbers, as they are.

        Examples
        --------
        >>> draws = Draws(0.03, 0.01, 0.01, np.array([0.02, 0.04, 0.06]), np.array([[0.04]]))
        >>> draws.around_point().round(4).tolist()
        [-0.0112, 0.01, 0.0312]
        """
        if self.again is None or not len(self.values):
            return self.values
        k = len(self.again)
        spread = _BIAS_ALLOWANCE
        if k > 1 and (first := self.values[k : 2 * k].var()) > 0:
            second = self.again.var(axis=1).mean()
            spread *= np.sqrt(np.clip(2 - second / first, _LEAST, _MOST))
        return np.asarray(self.point + spread * (self.values - self.values.mean()))

    def interval(
        self, *, unit: str, level: float, note: str = "", least: float | None = None
    ) -> Interval:
        """Return the interval; ``least`` is the smallest value that the number can have."""
        found = interval_of(self.point, self.around_point(), unit=unit, level=level, note=note)
        low, high = found.low, found.high
        if self.wide:
            low, high = min(low, 2 * self.point - high), max(high, 2 * self.point - low)
        if least is not None:
            low, high = max(low, least), max(high, least)
        point = self.shown
        if point != self.point:
            point = min(max(point, low), high)
        return replace(found, point=point, low=low, high=high, plain=self.plain)

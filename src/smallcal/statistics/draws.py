"""A number in its resamples, and the interval that they give.

Shares, of samples or of errors, have exact intervals by Clopper and Pearson. Around another mean,
resamples stand as the mean stands around the truth: percentiles of them are an interval, where
there are ``FEWEST_ERRORS``. What a few errors cost decides most metrics, and resamples cannot show
errors that were not seen.

Calibration errors are no means. Those in bins of the confidence are resampled without noise
(``smallcal.metrics.debiased``), and two things are mended:

- Resamples of a noisy set are noisier than the set. They are moved to stand around the estimate.
- How far they spread depends on the true gaps of the bins, and they see noisy ones: two methods
  that err in opposite directions are taken for two that err alike. Resamples of resamples, and
  of these again, show what noise does to the spread, and as much is taken off.

`make study-coverage` measures how often the intervals hold the truth. For the classwise and the
smooth errors no such way is known here: their intervals are wide enough for percentiles and for
percentiles mirrored at the point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from smallcal.data.claims import CLAIMS, Claim
from smallcal.data.predictions import BoolArray, FloatArray
from smallcal.metrics import Metric, Scored
from smallcal.metrics.debiased import CUTS, estimate
from smallcal.statistics.interval import (
    FEWEST_ERRORS,
    Interval,
    binomial_interval,
    interval_of,
    paired_interval,
)

#: Resamples that are resampled again, and how often: the first ones, by the deviations of the next.
REPEATS = 60

#: So many times so many resamples of resamples are resampled a third time.
PAIRS = 8

#: The variance without noise, from that of resamples, of theirs and of theirs again: half-way
#: between a line and a parabola through them, the one too cautious and the other too wild.
_WEIGHTS = (2.5, -2.0, 0.5)

#: The spread is multiplied by this, for what the estimate leaves of its bias. This and the weights
#: were chosen by simulation.
_BIAS_ALLOWANCE = 1.12

#: How far noise may change the variance before the estimate of it is not believed.
_LEAST, _MOST = 0.35, 2.5


def side_of(k: int) -> int:
    """Return how many of k resamples are paired with as many others for the third level."""
    return min(PAIRS, k // 2)


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
    again : ndarray of shape (k + pairs, k) or None
        Resamples of resamples of a calibration error in bins: row i is centred at resample i and
        has the deviations of resamples k to 2 k. The rows after k are centred at resamples of
        resamples.
    wide : bool
        For other calibration errors.
    trials : float
        For a share: of how many it is one; else 0.
    correct : ndarray of shape (n,) or None
        For the share of right predictions: which are.
    swaps : tuple of int or None
        For a difference of such shares: how many samples only the first has right, how many only
        the other, and of how many.
    wrong, right : float
        What the number rests on: errors, and right predictions. Of a difference, the fewer.
    claim : Claim
        What these are called.
    """

    plain: float
    point: float
    shown: float
    values: FloatArray
    again: FloatArray | None = None
    wide: bool = False
    trials: float = 0.0
    correct: BoolArray | None = None
    swaps: tuple[int, int, int] | None = None
    wrong: float = math.inf
    right: float = math.inf
    claim: Claim = CLAIMS["logits"]

    @classmethod
    def of(
        cls,
        metric: Metric,
        view: Scored,
        values: FloatArray,
        *,
        plain: float | None = None,
        again: FloatArray | None = None,
        exact: bool = False,
    ) -> Draws:
        """Return the resamples of a metric of these predictions; ``plain`` is it, if known.

        ``exact`` is for samples that were drawn one by one: then shares are binomial.
        """
        plain = metric.of(view) if plain is None else plain
        wrong, right = (_count(view, rows) for rows in (~view.correct, view.correct))
        claim = CLAIMS[view.kind]
        made = cls(plain, plain, plain, values, wrong=wrong, right=right, claim=claim)
        if metric.trials is not None and not math.isnan(plain):
            trials = metric.trials(view)
            made = replace(made, wrong=min(wrong, min(plain, 1 - plain) * trials))
            correct = view.correct if metric.name == "accuracy" else None
            return replace(made, trials=trials, correct=correct) if exact else made
        if metric.name not in CUTS:
            return replace(made, wide=metric.biased)
        point = estimate(metric.name, view)
        again = np.empty((0, 0)) if again is None else again
        return replace(made, point=point, shown=min(max(point, 0.0), plain), again=again)

    def __sub__(self, other: Draws) -> Draws:
        """Return the difference, in each resample."""
        again = None
        if self.again is not None and other.again is not None:
            again = self.again - other.again
        swaps = None
        if self.correct is not None and other.correct is not None:
            gained, lost = self.correct & ~other.correct, other.correct & ~self.correct
            swaps = int(gained.sum()), int(lost.sum()), len(gained)
        return Draws(
            plain=self.plain - other.plain,
            point=self.point - other.point,
            shown=self.shown - other.shown,
            values=self.values - other.values,
            again=again,
            wide=self.wide or other.wide,
            swaps=swaps,
            wrong=min(self.wrong, other.wrong),
            right=min(self.right, other.right),
            claim=self.claim,
        )

    @property
    def few(self) -> bool:
        """Whether too few errors, or too few right predictions, decide the number."""
        return min(self.wrong, self.right) < FEWEST_ERRORS

    def around_point(self) -> FloatArray:
        """Return the resamples of a calibration error in bins, moved and spread as they should be.

        Of other numbers, as they are.

        Examples
        --------
        >>> draws = Draws(0.03, 0.01, 0.01, np.array([0.02, 0.04, 0.06]), np.array([[0.04]]))
        >>> draws.around_point().round(4).tolist()
        [-0.0124, 0.01, 0.0324]
        """
        if self.again is None or not len(self.values):
            return self.values
        spread = _BIAS_ALLOWANCE * np.sqrt(self._without_noise())
        return np.asarray(self.point + spread * (self.values - self.values.mean()))

    def _without_noise(self) -> float:
        """Return the variance of resamples that were not centred by noise, over what it is."""
        again = np.empty((0, 0)) if self.again is None else self.again
        k = again.shape[1]
        first = self.values[k : 2 * k].var() if k > 1 else 0.0
        if not first > 0:
            return 1.0
        variance = again.var(axis=1) / first
        second, third = variance[:k].mean(), variance[k:].mean()
        # The third level is seen from a few centres only; the second one from the same tells how
        # far these are from all.
        few = variance[: 2 * side_of(k)].mean()
        third *= second / few if few > 0 else 1.0
        ratio = np.dot(_WEIGHTS, (1.0, second, third))
        return float(np.clip(ratio, _LEAST, _MOST))

    def interval(
        self, *, unit: str, level: float, note: str = "", least: float | None = None
    ) -> Interval:
        """Return the interval; ``least`` is the smallest value that the number can have."""
        found = interval_of(self.point, self.around_point(), unit=unit, level=level, note=note)
        low, high = found.low, found.high
        if math.isnan(low):
            return found
        if why := self._untold():
            none = interval_of(self.shown, np.empty(0), unit=unit, level=level, note=why)
            bare = replace(none, plain=self.plain, n_boot=found.n_boot)
            return replace(bare, low=math.nan, high=math.nan, p_below=math.nan, p_above=math.nan)
        if self.trials or self.swaps is not None:
            low, high = self._counted(level)
            return replace(found, low=low, high=high, n_undefined=0, note="interval from counts")
        if self.wide:
            low, high = min(low, 2 * self.point - high), max(high, 2 * self.point - low)
        if least is not None:
            low, high = max(low, least), max(high, least)
        point = self.shown
        if point != self.point:
            point = min(max(point, low), high)
        return replace(found, point=point, low=low, high=high, plain=self.plain)

    def _untold(self) -> str:
        """Return why samples do not tell an interval; empty where they do."""
        if self.swaps is not None:
            return "" if self.swaps[0] or self.swaps[1] else f"no {self.claim.row} differs"
        if self.trials or not self.few:
            return ""
        seen = self.claim.errors if self.wrong <= self.right else self.claim.hits
        return f"too few {seen} to tell"

    def _counted(self, level: float) -> tuple[float, float]:
        """Return the interval of a share, or of a paired difference of shares, from its counts."""
        if self.swaps is not None:
            return paired_interval(*self.swaps, level=level)
        counts = np.array([self.plain * self.trials]), np.array([self.trials])
        low, high = binomial_interval(*counts, level=level)
        return float(low[0]), float(high[0])


def _count(view: Scored, rows: BoolArray) -> float:
    """Return how many such samples there are; where samples depend on one another, clusters."""
    return float(rows.sum() if view.clusters is None else len(np.unique(view.clusters[rows])))

"""Forecast what any number of calibration samples would give, from fits of a few sizes.

A bin's gap is a systematic part, which the method leaves however many rows it is fitted on, a part
that the draw of rows adds, whose variance falls as 1 / size, and the noise of the test rows, whose
variance falls as 1 / test rows. The second is seen without labels, in how confidences differ
between draws. The first must be told from the noise of the split's own labels; where those are few
that cannot be done bin by bin, so the systematic gaps are taken as draws from N(0, tau²), and all
tau that the gaps allow are kept, each with its posterior probability, under a half-Cauchy prior
(for the uncalibrated model, from N(mu, tau²) with any mu). The top-label log-loss is that of the
uncalibrated model plus what fits change on the same rows, which follows a + b / size, the law of a
fit with a fixed number of parameters; beyond the largest size measured it never rises.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from smallcal.advice.plan_fits import SizeFits
from smallcal.data.predictions import FloatArray
from smallcal.statistics.bootstrap import counts_of_draws

#: Metrics that are predicted. ``debiased_ece15`` is ``ece15`` without the noise of the test rows.
FORECAST_METRICS = ("ece15", "debiased_ece15", "top_label_bce")

#: Scenarios behind a forecast: draws from what the pilot leaves possible.
SCENARIOS = 400

#: Scale of the prior of tau: calibrated models leave gaps of a point or two.
PRIOR_SCALE = 0.02

#: The same for the uncalibrated model, whose gaps may be any size.
RAW_SCALE = 0.05

#: Bands are wider by this than the pilot's own rows and draws say: splits of one collection differ
#: by more than chance, and a few hundred rows seldom hold the rare large losses. Chosen on the
#: models of ``make study-plan``, where it brings the bands of top-label log-loss to their level.
WIDER = 1.2

#: Any tau that could matter: from a hundredth of a point to half of everything.
_TAU = np.geomspace(1e-4, 0.5, 120)


@dataclass(frozen=True, eq=False)
class MetricForecast:
    """A metric at one size.

    Attributes
    ----------
    point : float
        What is expected.
    values : ndarray of shape (SCENARIOS,)
        The mean over draws of calibration rows, on one test set, in each scenario.
    spread : float
        Standard deviation from draw to draw.
    """

    point: float
    values: FloatArray
    spread: float


def fit_curve(
    sizes: FloatArray, values: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Fit values = a + b / size by weighted least squares with b >= 0.

    Parameters
    ----------
    sizes : ndarray of shape (k,)
    values : ndarray of shape (..., k)
        Every row gets its own curve.
    weight : ndarray of shape (k,)

    Returns
    -------
    a, b : ndarray of shape (...)

    Examples
    --------
    >>> a, b = fit_curve(np.array([50.0, 100, 200]), np.array([0.5, 0.4, 0.35]), np.ones(3))
    >>> round(float(a), 3), round(float(b), 3)
    (0.3, 10.0)
    """
    x, share = 1 / sizes, weight / weight.sum()
    mean_x, mean = share @ x, values @ share
    slope = ((values - mean[..., None]) * (x - mean_x)) @ share / (share @ (x - mean_x) ** 2)
    slope = np.maximum(slope, 0)
    return mean - slope * mean_x, slope


def continued(sizes: FloatArray, values: FloatArray, weight: FloatArray, size: float) -> FloatArray:
    """Continue a curve from its last value, as steeply as the fit of all of them falls there."""
    _, slope = fit_curve(sizes, values, weight)
    return np.asarray(values[..., -1] - slope * (1 / sizes[-1] - 1 / size))


def systematic_gaps(fits: SizeFits, rng: np.random.Generator) -> FloatArray:
    """Draw systematic gaps that agree with the gaps measured, shape (SCENARIOS, bins).

    A fitted method leaves gaps around 0: their mean is what its fit is about. The uncalibrated
    model may be wrong in one direction, so its gaps lie around any mean, all equally likely.
    """
    full, raw = fits.share > 0, fits.size == 0 or fits.left_alone
    gap, noise = fits.gap[full], fits.noise[full]
    variance = _TAU[:, None] ** 2 + noise
    doubt = 1 / (1 / variance).sum(axis=1) if raw else np.ones_like(_TAU)
    centre = (gap / variance).sum(axis=1) * doubt if raw else np.zeros_like(_TAU)
    fit = -0.5 * (np.log(variance) + (gap - centre[:, None]) ** 2 / variance).sum(axis=1)
    prior = -np.log1p((_TAU / (RAW_SCALE if raw else PRIOR_SCALE)) ** 2)
    belief = fit + 0.5 * np.log(doubt) + prior + np.log(_TAU)  # the grid is logarithmic
    chance = np.exp(belief - belief.max()).cumsum()
    # One tau for each of so many equal shares of probability: the choice itself adds no noise.
    shares = (np.arange(SCENARIOS) + 0.5) / SCENARIOS
    picked = rng.permutation(np.searchsorted(chance, shares * chance[-1]))
    tau, mean = _TAU[picked][:, None], centre[picked][:, None]
    # A bin that no row fell into is known by its prior alone.
    trust = np.where(full, tau**2 / (tau**2 + fits.noise), 0.0)
    deviation = tau * np.sqrt(1 - trust) * rng.normal(size=trust.shape)
    if raw:
        mean = mean + np.sqrt(doubt[picked])[:, None] * rng.normal(size=mean.shape)
    return np.asarray(mean + trust * (fits.gap - mean) + deviation)


class Forecast:
    """What one method would give at any size, from the sizes that were measured.

    Parameters
    ----------
    curve : sequence of SizeFits
        By size; a single entry is a model that no size changes.
    test_size : int
        Rows of the test set that a metric is measured on.
    seed : int
        With the same seed, forecasts of several methods are made in the same scenarios, so that
        their differences are paired.
    """

    def __init__(self, curve: Sequence[SizeFits], *, test_size: int, seed: int) -> None:
        self.curve = list(curve)
        self.seed = seed
        self.test_size = test_size
        self._known: dict[tuple[str, float], MetricForecast] = {}
        self._sizes = np.array([fits.size for fits in curve], dtype=np.float64)
        self._draw_sd = np.array([fits.draw_sd for fits in curve])
        base = np.broadcast_to(curve[0].base, curve[0].loss.shape)
        # The uncalibrated model's loss, and what the fits of each size change of it.
        self._loss = np.column_stack([base, *(fits.loss - fits.base for fits in curve)])
        self._level = np.nanmean(self._loss, axis=0)
        rng = np.random.default_rng([seed, 1])
        self._pilots = self._resampled(rng)
        self._pilots[:, 1:] += self._draw_error(rng)
        self._pilots += (WIDER - 1) * (self._pilots - self._level)
        tests = self._resampled(np.random.default_rng([seed, 2]))
        # A mean over m rows varies as one over n does, times the root of n / m.
        self._tests = (tests - self._level) * math.sqrt(len(self._loss) / test_size)

    @cached_property
    def raw(self) -> Forecast:
        """The uncalibrated model on the rows that the fits of each size were measured on."""
        curve = [fits.raw for fits in self.curve if fits.raw is not None]
        return Forecast(curve or self.curve, test_size=self.test_size, seed=self.seed)

    def at(self, size: float) -> dict[str, MetricForecast]:
        """Return every metric at a size, which may be infinite."""
        return {metric: self.of(metric, size) for metric in FORECAST_METRICS}

    def of(self, metric: str, size: float) -> MetricForecast:
        """Return one metric at a size; what was asked for before is remembered."""
        if (metric, size) not in self._known:
            bce = metric == "top_label_bce"
            found = self._bce(size) if bce else self._ece(size, noisy=metric == "ece15")
            self._known[metric, size] = found
        return self._known[metric, size]

    def measured(self, size: float) -> bool:
        """Whether fits of this size were made, and not only concluded from."""
        return len(self.curve) == 1 or size in self._sizes

    def _place(self, size: float) -> int:
        return int(np.searchsorted(self._sizes, size)) if len(self.curve) > 1 else 0

    def _resampled(self, rng: np.random.Generator) -> FloatArray:
        """Return the mean loss of every size on resampled rows, shape (SCENARIOS, sizes)."""
        known = ~np.isnan(self._loss)
        loss = np.where(known, self._loss, 0.0)
        blocks = [
            (counts @ loss) / np.maximum(counts @ known, 1)
            for counts in counts_of_draws(
                len(loss), SCENARIOS, rng, clusters=self.curve[0].clusters
            )
        ]
        return np.concatenate(blocks)

    def _draw_error(self, rng: np.random.Generator) -> FloatArray:
        """Return how far the mean over these draws may be from that over all draws there are."""
        first = self.curve[0]
        scale = self._draw_sd * _draws_doubt(self._sizes / first.n, len(first.shift))
        return np.asarray(scale * rng.normal(size=(SCENARIOS, len(scale))))

    def _bce(self, size: float) -> MetricForecast:
        base, tests = self._pilots[:, 0] + self._tests[:, 0], self._tests[:, 1:]
        if self.measured(size):
            j = self._place(size)
            change, changes = self._level[1 + j], self._pilots[:, 1 + j] + tests[:, j]
            spread = float(self._draw_sd[j])
        else:
            change, changes = self._beyond(size)
            changes = changes + tests[:, -1]
            # The median: a fit that exploded at one size does not stand for all.
            spread = float(np.median(self._sizes * self._draw_sd) / size)
        return MetricForecast(float(self._level[0] + change), base + changes, spread)

    def _beyond(self, size: float) -> tuple[float, FloatArray]:
        """Return what fits of a size beyond those measured change, and that in each scenario."""
        # A size whose draws agree by chance must not outweigh all others.
        draw_sd = np.maximum(self._draw_sd, 0.01 * self._draw_sd.max())
        weight = 1 / draw_sd**2 if draw_sd.all() else np.ones_like(draw_sd)
        both = np.vstack([self._level[1:], self._pilots[:, 1:]])
        values = continued(self._sizes, both, weight, size)
        return float(values[0]), values[1:]

    def _ece(self, size: float, *, noisy: bool) -> MetricForecast:
        own = self.measured(size)
        rng = np.random.default_rng([self.seed, 3])
        used = [self.curve[self._place(size)]] if own else self.curve
        base = used[-1]
        gaps = systematic_gaps(base, rng)
        noise = rng.normal(size=gaps.shape)
        if noisy:
            gaps = gaps + np.sqrt(base.noise * (base.n / self.test_size)) * noise
        scale = [1.0 if own else math.sqrt(fits.size / size) for fits in used]
        shift = np.concatenate([fits.shift * f for fits, f in zip(used, scale, strict=True)])
        weight = np.concatenate([fits.weight for fits in used])
        errors = (np.abs(gaps[:, None] + shift) * weight).sum(axis=2)  # (SCENARIOS, draws)
        spread = errors.std(axis=1, ddof=1) if len(shift) > 1 else np.zeros(SCENARIOS)
        overlap = float(np.mean([math.sqrt(fits.size / fits.n) for fits in used]) ** 2)
        doubt = spread * _draws_doubt(overlap, len(shift)) * rng.normal(size=SCENARIOS)
        point = float(errors.mean())
        values = np.maximum(point + WIDER * (errors.mean(axis=1) + doubt - point), 0)
        return MetricForecast(point, values, float(np.sqrt((spread**2).mean())))


def _draws_doubt(overlap: FloatArray | float, draws: int) -> FloatArray:
    """Return how far the mean over draws may be from that over all draws there are.

    It is in standard deviations from draw to draw. Draws from one split share ``overlap`` of their
    rows on average, the more the larger they are, and overlap does not average out.
    """
    return np.asarray(np.sqrt(overlap + (1 - overlap) / draws))

"""What a fitted calibrator does to the samples of a split, and how refits of it agree.

A calibrator with groups is described group by group. One whose temperature is a curve or a
regression is described by *bands*: the thirds of the samples with the lowest, the middle and the
highest temperature. Others (a matrix, say) are described by their confidences alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import softmax
from scipy.stats import rankdata

from smallcal.advice.refit_bootstrap import refit, resample_counts
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps import UNIFORM, TemperatureMap
from smallcal.calibrators.maps.groups import group_members, group_thresholds
from smallcal.calibrators.method import Method
from smallcal.data.predictions import BoolArray, FloatArray, IntArray, Predictions
from smallcal.errors import InputError
from smallcal.metrics import METRICS, Scored

#: Bands of a temperature that is not constant in groups.
N_BANDS = 3

#: Measured on the samples that a resample left out.
HELD_OUT = ("top_label_bce", "ece15", "nll")

#: Shares of samples with lower temperatures, for temperatures that are not constant in groups.
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Spread:
    """A number of the audited calibrator, and how it moves from refit to refit.

    Attributes
    ----------
    point : float
        Of the audited calibrator itself.
    median, low, high : float
        Over refits; ``low`` and ``high`` are the quartiles.
    mean, sd : float
        Over refits.
    """

    point: float
    median: float
    low: float
    high: float
    mean: float
    sd: float

    @classmethod
    def of(cls, point: float, values: Sequence[float] | FloatArray) -> Spread:
        """Summarise the values that refits gave; without any, the point stands alone.

        Examples
        --------
        >>> Spread.of(1.0, [1.0, 2.0, 3.0]).median
        2.0
        """
        found = np.asarray(values, dtype=np.float64)
        if not len(found):
            found = np.array([point])
        low, median, high = (float(v) for v in np.quantile(found, [0.25, 0.5, 0.75]))
        return cls(float(point), median, low, high, float(found.mean()), float(found.std()))


@dataclass(frozen=True, eq=False)
class Shown:
    """What one fitted calibrator does to the samples of a split.

    Attributes
    ----------
    temperature : ndarray of shape (n,), or None
    band : ndarray of shape (n,), or None
        The group of each sample, or its band of temperature.
    edges : tuple of float
        Where bands begin: scores for groups, temperatures otherwise.
    scored : Scored
        The calibrated probabilities.
    """

    fitted: FittedCalibrator
    temperature: FloatArray | None
    band: IntArray | None
    edges: tuple[float, ...]
    scored: Scored

    @classmethod
    def of(cls, fitted: FittedCalibrator, preds: Predictions) -> Shown:
        """Apply a calibrator to a checked split, which holds logits, whatever came in."""
        fitted = replace(fitted, input="logits")
        extra = {"features": preds.features}
        scored = Scored.of(preds.labels, fitted.predict_proba(preds.logits, **extra))
        if not isinstance(fitted.map, TemperatureMap):
            return cls(fitted, None, None, (), scored)
        scores = fitted.scores(preds.logits, **extra)
        temperature = fitted.map(scores)
        if fitted.map.steps:
            edges = tuple(getattr(fitted.map, "thresholds", ()))
            return cls(fitted, temperature, fitted.map.groups(scores), edges, scored)
        cuts = group_thresholds(temperature, N_BANDS)
        band = group_members(temperature, cuts)
        if len(np.unique(band)) < N_BANDS:  # one temperature for (nearly) all is one band
            cuts, band = np.empty(0), np.zeros_like(band)
        return cls(fitted, temperature, band, tuple(cuts.tolist()), scored)

    @property
    def n_bands(self) -> int:
        """Groups, or bands of temperature; 0 where there is no temperature."""
        return 0 if self.band is None else len(self.edges) + 1

    @property
    def regressed(self) -> bool:
        """Whether there are temperatures without groups."""
        return self.band is not None and not self.fitted.map.steps

    def occupancy(self, logits: object, features: object, *, input: str) -> FloatArray:
        """Return the share of other rows in each group or band."""
        fitted = replace(self.fitted, input=input)
        if self.regressed:
            temperature = fitted.temperature(logits, features=features)
            band = group_members(temperature, np.array(self.edges))
        else:
            band = fitted.group(logits, features=features)
        return np.asarray(np.bincount(band, minlength=self.n_bands) / len(band))

    def saturated(self) -> bool:
        """Return whether a temperature lies at a bound of the allowed range."""
        if "at_bound" in self.fitted.flags:
            return True
        if self.temperature is None or not self.fitted.n_parameters:
            return False
        low, high = self.fitted.discipline.bounds
        usual = self.temperature[self.temperature != UNIFORM]
        return bool(((usual <= low) | (usual >= high)).any())


def error_rates(band: IntArray, wrong: BoolArray, count: int, weight: FloatArray) -> FloatArray:
    """Return each band's share of wrong predictions, NaN where it holds no weight."""
    total = np.bincount(band, weights=weight, minlength=count)
    errors = np.bincount(band, weights=weight * wrong, minlength=count)
    return np.asarray(np.divide(errors, total, out=np.full(count, np.nan), where=total > 0))


def ordered(values: FloatArray, direction: float, *, strict: bool = False) -> bool:
    """Return whether values rise (or fall, with direction -1); undefined ones are left out.

    Examples
    --------
    >>> ordered(np.array([1.0, np.nan, 1.0, 2.0]), 1), ordered(np.array([1.0, 1.0]), 1, strict=True)
    (True, False)
    """
    steps = direction * np.diff(values[~np.isnan(values)])
    return bool((steps > 0).all() if strict else (steps >= 0).all())


@dataclass(eq=False)
class Refits:
    """Numbers gathered from refits, each list with an entry per refit that could be fitted.

    ``flags`` counts the refits in which a flag was raised. ``moved`` sums the squared differences
    of each sample's confidence from the audited calibrator's, ``shift`` the differences. ``on_all``
    has the audited calibrator's metrics on all samples.
    """

    point: Shown
    n_failed: int = 0
    n: int = 0
    numbers: dict[str, list[float]] = field(default_factory=dict)
    flags: dict[str, int] = field(default_factory=dict)
    on_all: dict[str, float] = field(default_factory=dict)
    shift: FloatArray = field(default_factory=lambda: np.zeros(1))
    moved: FloatArray = field(default_factory=lambda: np.zeros(1))

    def spread(self, key: str, point: float) -> Spread:
        """Return how a number moves over refits."""
        return Spread.of(point, self.numbers.get(key, []))

    def share(self, key: str) -> float | None:
        """Return the mean of a number over refits; None where no refit has it."""
        values = self.numbers.get(key, [])
        return float(np.mean(values)) if values else None

    def confidence_sd(self) -> FloatArray:
        """Return the standard deviation over refits of each sample's calibrated confidence."""
        count = max(self.n, 1)
        variance = self.moved / count - (self.shift / count) ** 2
        return np.asarray(np.sqrt(np.maximum(variance, 0)))

    def add(self, shown: Shown, counts: FloatArray, raw: Scored) -> None:
        """Take in one refit."""
        self.n += 1
        difference = shown.scored.confidence - self.point.scored.confidence
        self.shift = self.shift + difference
        self.moved = self.moved + difference**2
        for name in shown.fitted.flags:
            self.flags[name] = self.flags.get(name, 0) + 1
        found = {**_temperatures(self.point, shown), **_order(self.point, shown, counts)}
        rows = np.flatnonzero(counts == 0)
        if len(rows):
            found |= measured(shown.scored.take(rows), raw.take(rows))
        for key, value in found.items():
            self.numbers.setdefault(key, []).append(value)


def _temperatures(point: Shown, shown: Shown) -> dict[str, float]:
    """Return the temperatures of a refit, named as those of the audited calibrator."""
    fitted = shown.fitted
    found = {"pooled": fitted.pooled_temperature, "saturated": float(shown.saturated())}
    if fitted.tail_temperature is not None:
        found["tail"] = fitted.tail_temperature
    if point.band is None or point.temperature is None or shown.temperature is None:
        return found
    if not point.regressed and len(fitted.map.steps) == point.n_bands:
        found |= {f"band{i}": t for i, t in enumerate(fitted.map.steps)}
        found |= {f"threshold{i}": edge for i, edge in enumerate(shown.edges)}
        return found
    for i in range(point.n_bands):
        rows = point.band == i
        if rows.any():
            found[f"band{i}"] = float(np.median(shown.temperature[rows]))
    if point.regressed:
        levels = np.quantile(shown.temperature, LEVELS)
        found |= {f"level{level}": float(t) for level, t in zip(LEVELS, levels, strict=True)}
        if min(np.ptp(shown.temperature), np.ptp(point.temperature)) > 0:
            found["rank"] = rank_correlation(shown.temperature, point.temperature)
    return found


def rank_correlation(a: FloatArray, b: FloatArray) -> float:
    """Return Spearman's rank correlation of two arrays, neither of them constant.

    Examples
    --------
    >>> round(rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([0.0, 0.5, 0.6])), 12)
    1.0
    """
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def risk_direction(shown: Shown) -> float:
    """Return 1 where errors should grow with the score, -1 where they should fall.

    A risk score says so itself; for others it is what the audited calibrator shows.
    """
    if shown.band is None or "risk" in shown.fitted.signal.kind:
        return 1.0
    view = shown.scored
    rates = error_rates(shown.band, ~view.correct, shown.n_bands, np.ones(view.n))
    rates = rates[~np.isnan(rates)]
    return -1.0 if rates[-1] < rates[0] else 1.0


def _order(point: Shown, shown: Shown, counts: FloatArray) -> dict[str, float]:
    """Return whether error rates and temperatures of a refit are in order."""
    if point.n_bands < 2 or shown.n_bands != point.n_bands or shown.band is None:
        return {}
    rates = error_rates(shown.band, ~shown.scored.correct, shown.n_bands, counts)
    found = {"risk_ordered": float(ordered(rates, risk_direction(point)))}
    if not point.regressed:
        steps, fitted = np.array(shown.fitted.map.steps), np.array(point.fitted.map.steps)
        found["rising"] = float(ordered(steps, 1, strict=True))
        found["falling"] = float(ordered(steps, -1, strict=True))
        distinct = len(np.unique(steps)) == len(steps)
        found["same_order"] = float(distinct and (np.argsort(steps) == np.argsort(fitted)).all())
    return found


def measured(own: Scored, raw: Scored) -> dict[str, float]:
    """Return metrics of a calibrator, and the raw model's on the same samples."""
    found = {name: METRICS[name].of(own) for name in HELD_OUT}
    found |= {f"raw_{name}": METRICS[name].of(raw) for name in HELD_OUT}
    found["beats_raw"] = float(found["top_label_bce"] < found["raw_top_label_bce"])
    return found


@dataclass(frozen=True)
class Band:
    """A group, or a third of the samples by temperature.

    Attributes
    ----------
    low, high : float or None
        Where it begins and ends: scores for groups, temperatures otherwise; None at the ends.
    temperature : Spread
        Of the group in refits; for bands, the median over the samples that are in it now.
    n, errors : int
        Samples and wrong predictions in it.
    share : float
        Of all samples.
    confidence : float or None
        Mean calibrated confidence of its samples.
    """

    low: float | None
    high: float | None
    temperature: Spread
    n: int
    errors: int
    share: float
    confidence: float | None

    @property
    def error_rate(self) -> float | None:
        """Share of wrong predictions, None where the band is empty."""
        return self.errors / self.n if self.n else None


def bands_of(shown: Shown, refits: Refits) -> tuple[Band, ...]:
    """Describe each group, or band of temperature, of a calibrator."""
    if shown.band is None or shown.temperature is None:
        return ()
    edges = [None, *shown.edges, None]
    found = []
    for i in range(shown.n_bands):
        rows = np.flatnonzero(shown.band == i)
        point = shown.fitted.map.steps[i : i + 1] or (float(np.median(shown.temperature[rows])),)
        view = shown.scored
        found.append(
            Band(
                low=edges[i],
                high=edges[i + 1],
                temperature=refits.spread(f"band{i}", point[0]),
                n=len(rows),
                errors=int((~view.correct[rows]).sum()),
                share=len(rows) / view.n,
                confidence=float(view.confidence[rows].mean()) if len(rows) else None,
            )
        )
    return tuple(found)


def gather(
    point: Shown,
    composed: Method,
    preds: Predictions,
    *,
    n_refits: int,
    size: int | None,
    random_state: int,
    advance: Callable[[int], object],
) -> Refits:
    """Fit a method on resample after resample and gather what each fit shows."""
    raw = Scored.of(preds.labels, softmax(preds.logits.astype(np.float64), axis=1))
    found = Refits(point, on_all=measured(point.scored, raw))
    for counts in resample_counts(preds.n, n_refits, size=size, random_state=random_state):
        try:
            shown = Shown.of(refit(composed, preds, counts), preds)
        except InputError:  # too few different rows were drawn, say
            found.n_failed += 1
        else:
            found.add(shown, counts, raw)
        advance(1)
    if not found.n:
        raise InputError(
            "no resample of these samples could be fitted; there are too few of them, or size is "
            "too small"
        )
    return found

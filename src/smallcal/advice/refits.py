"""Refit a calibrator on resamples of its data, and measure how far the refits agree with it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from smallcal.advice.calibrated_split import LEVELS, CalibratedSplit, ordered
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.method import Method
from smallcal.data.predictions import FloatArray, Predictions
from smallcal.data.special import softmax
from smallcal.errors import InputError
from smallcal.io.progress import Advance
from smallcal.io.threads import in_order
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.binned import mean_noise
from smallcal.statistics.bootstrap import counts_of_draws

#: Refits where no number is asked for: at least, and at most.
FEWEST, MOST = 25, 50

#: Measured on the samples that a resample left out.
HELD_OUT = ("top_label_bce", "ece15", "nll")


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


@dataclass(eq=False)
class Refits:
    """Numbers gathered from refits, each list with an entry per refit that could be fitted.

    ``flags`` counts the refits in which a flag was raised. ``moved`` sums the squared differences
    of each sample's confidence from the audited calibrator's, ``shift`` the differences. ``on_all``
    has the audited calibrator's metrics on all samples.
    """

    audited: CalibratedSplit
    n_failed: int = 0
    n: int = 0
    numbers: dict[str, list[float]] = field(default_factory=dict)
    flags: Counter[str] = field(default_factory=Counter)
    on_all: dict[str, float] = field(default_factory=dict)
    shift: FloatArray = field(default_factory=lambda: np.zeros(1))
    moved: FloatArray = field(default_factory=lambda: np.zeros(1))

    def spread(self, key: str, point: float) -> Spread:
        """Return how a number moves over refits."""
        return Spread.of(point, self.numbers.get(key, []))

    def confidence_sd(self) -> FloatArray:
        """Return the standard deviation over refits of each sample's calibrated confidence."""
        count = max(self.n, 1)
        variance = self.moved / count - (self.shift / count) ** 2
        return np.asarray(np.sqrt(np.maximum(variance, 0)))

    def add(self, refitted: CalibratedSplit | None, numbers: Mapping[str, float]) -> None:
        """Take in one refit and the numbers that were read from it; None if it failed."""
        if refitted is None:
            self.n_failed += 1
            return
        self.n += 1
        difference = refitted.scored.confidence - self.audited.scored.confidence
        self.shift = self.shift + difference
        self.moved = self.moved + difference**2
        self.flags.update(refitted.fitted.flags.keys())
        for key, value in numbers.items():
            self.numbers.setdefault(key, []).append(value)


def gather_refits(
    audited: CalibratedSplit,
    composed: Method,
    preds: Predictions,
    draws: Iterable[FloatArray],
    advance: Advance,
    *,
    judged: Callable[[Refits], object] | None = None,
) -> Refits:
    """Fit a method on resample after resample and gather what each fit shows.

    ``draws`` says how often each sample is in a resample; see :func:`resample_counts`. With
    ``judged`` there are no more after the first 25 if their two halves, and they all together, are
    judged alike: more of them would change digits, and nothing that is concluded from them.
    """
    plain = softmax(preds.logits.astype(np.float64))
    raw = Scored.of(preds.labels, preds.measured(plain))
    found = Refits(audited, on_all=_metrics(audited.scored, raw))

    def again(counts: FloatArray) -> CalibratedSplit | None:
        try:
            fitted = refit(composed, preds, counts)
        except InputError:  # too few different rows were drawn, say
            return None
        return CalibratedSplit.of(fitted, preds)

    halves = [replace(found, numbers={}, flags=Counter()) for _ in range(2)]
    rest = iter(draws)
    for part in (rest,) if judged is None else (islice(rest, FEWEST), rest):
        for counts, refitted in in_order(again, part, threads=composed.threads):
            half = halves[(found.n + found.n_failed) % 2]
            numbers = None if refitted is None else _numbers(audited, refitted, counts, raw)
            for each in (found, half):
                each.add(refitted, numbers or {})
            advance(1)
        if judged is not None and _alike(judged, [found, *halves]):
            break
    if not found.n:
        raise InputError(
            "no resample of these samples could be fitted; there are too few of them, or size is "
            "too small",
            code="too-few-samples",
        )
    return found


def _alike(judged: Callable[[Refits], object], gathered: Sequence[Refits]) -> bool:
    """Return whether all of these are judged as the first one is; none without a refit is."""
    if not all(each.n for each in gathered):
        return False
    first, *others = map(judged, gathered)
    return all(other == first for other in others)


def resample_counts(
    n: int, n_refits: int, *, size: int | None = None, random_state: int = 0
) -> Iterator[FloatArray]:
    """Yield how often each of n samples is drawn, resample after resample.

    n draws with replacement, or, with ``size``, that many without.
    """
    rng = np.random.default_rng(random_state)
    if size is None:
        for block in counts_of_draws(n, n_refits, rng):
            yield from block
        return
    for _ in range(n_refits):
        counts = np.zeros(n)
        counts[rng.choice(n, size=size, replace=False)] = 1
        yield counts


def refit(composed: Method, preds: Predictions, counts: FloatArray) -> FittedCalibrator:
    """Fit a method on one resample: each drawn row once, weighted by how often it was drawn.

    A group is too small by the number of draws in it, not of rows: else a resample of 200 would
    fall back to one temperature where the 200 themselves have three.
    """
    rows = np.flatnonzero(counts)
    weight = counts[rows]
    if composed.map == "multinomial":  # a row that is drawn twice is no more evidence than once
        weight = weight * (len(rows) / weight.sum())
    drawn = preds.take(rows, weight=None if (weight == 1).all() else weight)
    drawn.require_fittable()
    least = math.ceil(composed.discipline.min_group_size * len(rows) / weight.sum())
    fitted = composed.with_options({"min_group_size": least}).fit(drawn, record=False)
    return replace(fitted, discipline=composed.discipline)


def _numbers(
    audited: CalibratedSplit, refitted: CalibratedSplit, counts: FloatArray, raw: Scored
) -> dict[str, float]:
    """Return what is read from one refit."""
    found = {**_temperatures(audited, refitted), **_order(audited, refitted, counts)}
    rows = np.flatnonzero(counts == 0)
    if len(rows):
        found |= _metrics(refitted.scored.take(rows), raw.take(rows))
    return found


def _temperatures(audited: CalibratedSplit, refitted: CalibratedSplit) -> dict[str, float]:
    """Return the temperatures of a refit, named as those of the audited calibrator."""
    fitted = refitted.fitted
    found = {"pooled": fitted.pooled_temperature, "saturated": float(refitted.saturated())}
    if audited.band is None or audited.temperature is None or refitted.temperature is None:
        return found
    if not audited.regressed and len(fitted.map.steps) == audited.n_bands:
        found |= {f"band{i}": t for i, t in enumerate(fitted.map.steps)}
        found |= {f"threshold{i}": edge for i, edge in enumerate(refitted.edges)}
        return found
    for i in range(audited.n_bands):
        rows = audited.band == i
        if rows.any():
            found[f"band{i}"] = float(np.median(refitted.temperature[rows]))
    if audited.regressed:
        levels = np.quantile(refitted.temperature, LEVELS)
        found |= {f"level{level}": float(t) for level, t in zip(LEVELS, levels, strict=True)}
        if min(np.ptp(refitted.temperature), np.ptp(audited.temperature)) > 0:
            found["rank"] = rank_correlation(refitted.temperature, audited.temperature)
    return found


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Return Spearman's: the correlation of ranks, those of equal values averaged.

    Examples
    --------
    >>> round(rank_correlation(np.array([1.0, 5.0, 5.0, 9.0]), np.array([1.0, 2.0, 3.0, 40.0])), 6)
    0.948683
    """
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1])


def _ranks(values: FloatArray) -> FloatArray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])


def _order(
    audited: CalibratedSplit, refitted: CalibratedSplit, counts: FloatArray
) -> dict[str, float]:
    """Return whether error rates and temperatures of a refit are in order."""
    if audited.n_bands < 2 or refitted.n_bands != audited.n_bands:
        return {}
    rates = refitted.error_rates(counts)
    found = {"risk_ordered": float(ordered(rates, audited.risk_direction()))}
    if not audited.regressed:
        steps, fitted = np.array(refitted.fitted.map.steps), np.array(audited.fitted.map.steps)
        found["rising"] = float(ordered(steps, 1, strict=True))
        found["falling"] = float(ordered(steps, -1, strict=True))
        distinct = len(np.unique(steps)) == len(steps)
        found["same_order"] = float(distinct and (np.argsort(steps) == np.argsort(fitted)).all())
    return found


def _metrics(own: Scored, raw: Scored) -> dict[str, float]:
    """Return metrics of a calibrator and of the uncalibrated model, and the floors of ECE."""
    found = {name: METRICS[name].of(own) for name in HELD_OUT}
    found |= {f"raw_{name}": METRICS[name].of(raw) for name in HELD_OUT}
    found |= {"ece15_floor": mean_noise(own.confidence)}
    found |= {"raw_ece15_floor": mean_noise(raw.confidence)}
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
        Samples and wrong predictions in it; of scores, outcomes 0.
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


def bands_of(audited: CalibratedSplit, refits: Refits) -> tuple[Band, ...]:
    """Describe each group, or band of temperature, of a calibrator."""
    if audited.band is None or audited.temperature is None:
        return ()
    edges = [None, *audited.edges, None]
    found = []
    for i in range(audited.n_bands):
        rows = np.flatnonzero(audited.band == i)
        own = audited.fitted.map.steps[i : i + 1]
        point = own[0] if own else float(np.median(audited.temperature[rows]))
        view = audited.scored
        found.append(
            Band(
                low=edges[i],
                high=edges[i + 1],
                temperature=refits.spread(f"band{i}", point),
                n=len(rows),
                errors=int((~view.correct[rows]).sum()),
                share=len(rows) / view.n,
                confidence=float(view.confidence[rows].mean()) if len(rows) else None,
            )
        )
    return tuple(found)

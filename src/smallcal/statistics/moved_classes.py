"""Whether frequencies of classes have moved, and how far their estimate may be off.

Two samples are random: the rows, and the split that says how frequent classes were. Without change
both come from one place, so that the test draws both from the two together. For the interval, rows
are drawn as they are; the split is drawn from rows that are weighed by one over how much likelier
they have become, which makes them look like it: at the maximum of the likelihood their mean
probabilities are the old frequencies exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import chdtrc

from smallcal.statistics.class_frequencies import (
    FloatArray,
    Rows,
    curvature,
    factors,
    log_likelihood,
    resampled_factors,
)

#: Resamples, of the interval and of the test.
DRAWS = 300

#: Numbers that are drawn at a time: a bound on memory.
_NUMBERS = 1_000_000

#: Rows' worth of the old frequencies that keep the estimate away from 0.
_BARELY = 1.0


class Split(NamedTuple):
    """What is known of the split that says how frequent classes were.

    Attributes
    ----------
    mean : array of shape (C,)
        Mean calibrated probabilities; positive, sum 1.
    n : float
        Samples.
    typical : array of shape (k, C)
        Probabilities that stand for those of the samples.
    shares : array of shape (k,)
        Of samples that each stands for; sum 1.
    """

    mean: FloatArray
    n: float
    typical: FloatArray
    shares: FloatArray


class Moved(NamedTuple):
    """What rows say of the frequencies of classes.

    Attributes
    ----------
    now : array of shape (C,)
        The likeliest.
    low, high : array of shape (C,)
        An interval for each, which ``now`` lies in.
    p_value : float
        Of "nothing has changed".
    by_chance : float
        How far chance moves frequencies over how far they moved, both squared.
    others : array of shape (draws, C)
        What frequencies might have been found instead.
    """

    now: FloatArray
    low: FloatArray
    high: FloatArray
    p_value: float
    by_chance: float
    others: FloatArray


def moved(rows: Rows, split: Split, *, level: float, random_state: int) -> Moved:
    """Estimate the frequencies of classes, test whether they moved, and say how sure that is.

    Parameters
    ----------
    rows : Rows
    split : Split
        Together they must have more samples than there are classes.
    level : float
        Of the intervals, such as 0.95.
    random_state : int

    Examples
    --------
    >>> p, half = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.5, 0.5])
    >>> rows = Rows.of(np.repeat(p, [300, 100], axis=0))
    >>> split = Split(half, 1000, p, np.array([3, 4]) / 7)
    >>> found = moved(rows, split, level=0.95, random_state=0)
    >>> bool(found.low[0] > 0.7), found.p_value < 1e-6
    (True, True)
    """
    rng = np.random.default_rng(random_state)
    found = factors(rows, split.mean, strength=_BARELY)
    statistic, without = _tested(rows, split, rng)
    now, (drawn, labels) = split.mean * found, _drawn(rows, split, rng)
    tail = (1 - level) / 2
    low, high = np.clip(now + np.quantile(drawn, (tail, 1 - tail), axis=0), 0, 1)
    # As many rows may all be of other classes, even where each had this chance to be of this one.
    high = np.maximum(high, -np.expm1(np.log(tail) / rows.n))
    low, high = np.minimum(low, now), np.maximum(high, now)
    by_chance = float(without.mean()) / max(statistic, 1e-300)
    by_labels = labels / max(2 * rows.n * log_likelihood(rows, found), 1e-300)
    others = np.maximum(now + drawn, 0)
    return Moved(now, low, high, _tail(statistic, without), by_chance + by_labels, others)


def _tested(rows: Rows, split: Split, rng: np.random.Generator) -> tuple[float, FloatArray]:
    """Return how far apart the means of rows and split are, and of draws without change.

    It is the score of the likelihood at the old frequencies, squared: Hotelling's statistic.
    """
    total, n_classes = rows.n + split.n, len(split.mean)
    pooled = np.concatenate((rows.sample, split.typical))
    ours = np.full(len(rows.sample), rows.n / total / len(rows.sample))
    chances = np.concatenate((ours, split.shares * split.n / total))
    chances /= chances.sum()
    mean = chances @ pooled
    spread = (pooled * chances[:, None]).T @ pooled - np.outer(mean, mean)
    # Directions of which many classes and few rows say little weigh less.
    ridge = min(1.0, (n_classes - 1) * total / (rows.n * split.n))
    metric = cho_factor(spread + np.diag(ridge * split.mean + 1e-12))

    def squared(apart: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("...i,...i->...", apart, cho_solve(metric, apart.T).T))

    def means(n: float, some: int) -> FloatArray:
        counts = rng.multinomial(max(round(n), 1), chances, size=some)
        return np.asarray(counts @ pooled / max(round(n), 1))

    drawn = [squared(means(rows.n, k) - means(split.n, k)) for k in _portions(len(pooled))]
    # The spread was estimated from the same samples: Hotelling's factor.
    without = np.concatenate(drawn) * total / max(total - n_classes, 1)
    return float(squared(rows.mean - split.mean)), without


def _tail(statistic: float, without: FloatArray) -> float:
    """Return the chance of such a statistic: a chi-square with the mean and variance of draws."""
    mean, variance = float(without.mean()), max(float(without.var(ddof=1)), 1e-300)
    return float(chdtrc(2 * mean**2 / variance, 2 * mean * statistic / variance))


def _drawn(rows: Rows, split: Split, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """Return by how much frequencies differ from their estimate when all is drawn anew.

    As many rows are drawn as there are, from the sample of them that is at hand, a split, and the
    labels that probabilities were calibrated on. The last are also told apart: what they do to
    twice the log-likelihood, on average.
    """
    sample, m = rows.sample, len(rows.sample)
    found = factors(Rows.of(sample), split.mean, strength=_BARELY * m / rows.n)
    unmoved = 1 / (sample @ found)
    unmoved /= unmoved.sum()
    n = max(round(split.n), 1)
    learned = _learned(sample, found, unmoved) / n
    curved = curvature((sample,), found) / m + np.diag(_BARELY / rows.n * split.mean / found**2)
    moves = cho_solve(cho_factor(curved), _root(learned)) * split.mean[:, None]
    least = split.mean / (2 * n)  # a class that a draw leaves out keeps a trifle
    drawn = []
    for some in _portions(m):
        befores = rng.multinomial(n, unmoved, size=some) @ sample / n + least
        befores /= befores.sum(axis=1, keepdims=True)
        counts = rng.multinomial(rows.n, np.full(m, 1 / m), size=some)
        others = resampled_factors(sample, counts, befores, found, strength=_BARELY) * befores
        labels = rng.standard_normal((some, len(found))) @ moves.T
        drawn.append(others - found * split.mean + labels)
    return np.concatenate(drawn), rows.n * float(np.trace(cho_solve(cho_factor(curved), learned)))


def _learned(sample: FloatArray, found: FloatArray, unmoved: FloatArray) -> FloatArray:
    """Return what one label of the split does to the slope of the likelihood, as a covariance.

    Probabilities were calibrated on labels, and are off by what chance did to these: the slope is
    off by the mean of p (w_label - p w) / (p w), which is 0 where probabilities are right.
    """
    mixed = sample @ found
    doubt = np.maximum(sample @ found**2 - mixed**2, 0)
    return np.asarray((sample * (unmoved * doubt / mixed**2)[:, None]).T @ sample)


def _root(covariance: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))


def _portions(n: int) -> Iterator[int]:
    """Yield how many draws of so many numbers to make at a time."""
    size = max(1, _NUMBERS // n)
    for start in range(0, DRAWS, size):
        yield min(size, DRAWS - start)

"""How large a calibration error is before it means anything: floors and tests.

A calibration error measured on n samples is above zero even for a perfectly calibrated model,
because accuracies in bins are noisy. Everything here compares a measured error with that noise.
Top-label metrics see a sample only through its confidence c and whether it is correct, so a
perfectly calibrated model is simulated by drawing "correct" with chance c. The classwise error
needs whole labels, which are drawn from the rows of the probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from smallcal.data.checks import BoolArray, FloatArray, IntArray, as_numpy, whole_number
from smallcal.io.threads import in_order
from smallcal.metrics.binned import DEFAULT_BINS, bin_sums, equal_width
from smallcal.metrics.debiased import CUTS
from smallcal.metrics.scored import BLOCK_SIZE, Scored, row_blocks
from smallcal.metrics.smooth import smece_exact
from smallcal.metrics.smooth_many import ManyExact, ManyReleased
from smallcal.metrics.table import METRICS, chosen_metrics
from smallcal.statistics.interval import require_level

#: Metrics without a fast path are simulated at most this often.
SLOW_SIMULATIONS = 200

_DEFAULT = ("ece15", "adaece15", "smece")
#: Metrics that have a noise floor.
FLOORED = tuple(name for name, row in METRICS.items() if row.biased)

_Simulation = Callable[..., dict[str, FloatArray]]

#: Entries of a list that is searched: 32 kB.
_NEAR = 4096

# Two sums of the same numbers in another order differ by less; a tie must count as a tie.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Floor:
    """What a calibration error shows when there is nothing to show.

    Attributes
    ----------
    mean : float
        Its expected value if the model were perfectly calibrated.
    high : float
        Its ``level`` quantile: larger values are unlikely to be noise.
    n_sim : int
        Simulations behind both, which may be fewer than were asked for.
    level : float
        The level of ``high``.
    values : ndarray
        The simulated errors themselves.
    """

    mean: float
    high: float
    n_sim: int
    level: float
    values: FloatArray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    def p_value(self, observed: float) -> float:
        """Return the chance of an error at least so large, were the model calibrated.

        Examples
        --------
        >>> round(noise_floor([[0.8, 0.2]] * 100)["ece15"].p_value(0.2), 3)
        0.001
        """
        used = len(self.values)
        exceeding = int(np.count_nonzero(self.values >= observed - _ROUNDING))
        return (1 + exceeding) / (1 + used)


@dataclass(frozen=True, kw_only=True)
class TestResult:
    """The outcome of a test of the hypothesis that the model is perfectly calibrated.

    Attributes
    ----------
    statistic : float
        What was measured, NaN where the data leave it undefined.
    p_value : float
        The chance of a statistic at least as extreme if the model were calibrated, NaN with it.
    method : str
        The test, in words.
    note : str
        Anything a reader of the p-value must know; empty when there is nothing.
    """

    # Without this, pytest takes the name for a class of tests when a user imports it.
    __test__: ClassVar[bool] = False

    statistic: float
    p_value: float
    method: str
    note: str = ""


def noise_floor(
    y_proba: object,
    *,
    metrics: Iterable[str] | None = None,
    n_sim: int = 1000,
    level: float = 0.95,
    random_state: int = 0,
) -> dict[str, Floor]:
    """Calibration errors that a perfectly calibrated model would show on these probabilities.

    No labels are needed: they are drawn as the probabilities say. A measured error below
    ``high`` cannot be told from noise. Metrics asked for together do not change one another.

    Parameters
    ----------
    y_proba : array-like of shape (n, C), or (n,)
        Class probabilities, or those of outcome 1. For the classwise error, rows that do not sum
        to exactly 1 are scaled to do so before labels are drawn.
    metrics : iterable of str, optional
        Any of ece15, adaece15, cwece15, smece and smece_exact; by default ece15, adaece15 and
        smece.
    n_sim : int, default 1000
        Simulations. All metrics but ece15 and adaece15 stop at 200.
    level : float, default 0.95
        Which quantile to report as ``high``.
    random_state : int, default 0
        Seed; the same seed gives the same floors.

    Returns
    -------
    dict of str to Floor

    Examples
    --------
    >>> floor = noise_floor([[0.8, 0.2]] * 100, metrics=["ece15"])["ece15"]
    >>> round(floor.mean, 2), round(floor.high, 2)
    (0.03, 0.08)
    """
    names = _known(_DEFAULT if metrics is None else metrics)
    require_level(level)
    values = as_numpy(y_proba, name="y_proba")
    # The labels are placeholders: nothing below reads them.
    scored = Scored.of(np.zeros(len(values) if values.ndim else 0, dtype=np.int64), values)
    return noise_floor_of(scored, names, n_sim=n_sim, level=level, random_state=random_state)


def noise_floor_of(
    scored: Scored, metrics: Sequence[str], *, n_sim: int = 1000, level: float, random_state: int
) -> dict[str, Floor]:
    """Return :func:`noise_floor` of checked predictions, whose labels do not matter."""
    found = noise_floors_of(
        {"": scored}, metrics, n_sim=n_sim, level=level, random_state=random_state
    )
    return found[""]


def noise_floors_of(
    scored: Mapping[str, Scored],
    metrics: Sequence[str],
    *,
    n_sim: int = 1000,
    level: float,
    random_state: int,
) -> dict[str, dict[str, Floor]]:
    """Return :func:`noise_floor` of several checked predictions, by name."""
    whole_number(n_sim, "n_sim", least=1)
    whole_number(random_state, "random_state")
    few = min(n_sim, SLOW_SIMULATIONS)
    fast = [name for name in metrics if name in CUTS]
    # One task is one simulation of some metrics, every one of them begun from the seed.
    ways: list[_Simulation] = [partial(_binned_values, names=fast, n_sim=n_sim)] if fast else []
    for name in metrics:
        if name not in CUTS:
            ways.append(partial(_slow_values, name=name, n_sim=few))
    tasks = [(name, way) for name in scored for way in ways]
    found: dict[str, dict[str, FloatArray]] = {name: {} for name in scored}
    simulated = in_order(lambda task: task[1](scored[task[0]], seed=random_state), tasks)
    for (name, _), values in simulated:
        found[name] |= values
    return {
        name: {metric: _floor(own[metric], level) for metric in metrics}
        for name, own in found.items()
    }


def _floor(values: FloatArray, level: float) -> Floor:
    high = float(np.quantile(values, level))
    return Floor(
        mean=float(values.mean()), high=high, n_sim=len(values), level=level, values=values
    )


def spiegelhalter(y_true: object, y_proba: object) -> TestResult:
    """Spiegelhalter's test: whether the squared error is what the confidences promise.

    z = sum (b - c)(1 - 2c) / sqrt(sum (1 - 2c)^2 c (1 - c)), where c is the confidence and b is
    1 for a correct prediction. It is near standard normal for a calibrated model with many
    samples. Confidences near 1/2 hardly count, and gaps on both sides of 1/2 in the same
    direction cancel, so a large p-value does not prove calibration.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C), or (n,) for outcomes
        Class probabilities.

    Returns
    -------
    TestResult
        A positive z means more error than promised: over-confidence where c > 1/2. z and the
        two-sided p-value are NaN, as ``note`` tells, when every confidence is 0, 1/2 or 1.

    Examples
    --------
    >>> result = spiegelhalter([0] * 60 + [1] * 40, [[0.8, 0.2]] * 100)
    >>> round(result.statistic, 3), round(result.p_value, 6)
    (5.0, 1e-06)
    """
    scored = Scored.of(y_true, y_proba)
    c = scored.confidence
    slope = 1 - 2 * c
    variance = float((slope**2 * c * (1 - c)).sum())
    method = "Spiegelhalter's z of the confidence, two-sided, normal approximation"
    wrong = int(np.count_nonzero((c == 1.0) & ~scored.correct))
    note = f"{wrong} wrong with confidence 1, where a calibrated model never is" if wrong else ""
    # A confidence within 1e-12 of 1/2 is one half plus rounding, and its slope is all rounding.
    if variance <= 1e-24 * scored.n:
        note = "; ".join(["undefined: every confidence is 0, 1/2 or 1", *filter(None, [note])])
        return TestResult(statistic=math.nan, p_value=math.nan, method=method, note=note)
    z = -float((scored.residual * slope).sum()) / math.sqrt(variance)
    return TestResult(
        statistic=z, p_value=math.erfc(abs(z) / math.sqrt(2)), method=method, note=note
    )


def calibration_p_value(
    y_true: object,
    y_proba: object,
    *,
    metric: str = "ece15",
    n_sim: int = 1000,
    random_state: int = 0,
) -> TestResult:
    """Test calibration by comparing a calibration error with simulated ones.

    Labels are drawn as the probabilities say, and p = (1 + simulated errors at least as large
    as the measured one) / (1 + simulations). Such a p-value is valid at every n.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C), or (n,) for outcomes
        Class probabilities.
    metric : str, default "ece15"
        One of ece15, adaece15, cwece15, smece and smece_exact.
    n_sim : int, default 1000
        Simulations. All metrics but ece15 and adaece15 stop at 200; ``note`` says so.
    random_state : int, default 0
        Seed of the simulations.

    Returns
    -------
    TestResult
        ``statistic`` is the measured error.

    Examples
    --------
    >>> result = calibration_p_value([0] * 60 + [1] * 40, [[0.8, 0.2]] * 100)
    >>> round(result.statistic, 4), round(result.p_value, 3)
    (0.2, 0.001)
    """
    (name,) = _known([metric])
    scored = Scored.of(y_true, y_proba)
    floor = noise_floor_of(scored, [name], n_sim=n_sim, level=0.95, random_state=random_state)[name]
    observed, used = METRICS[name].of(scored), floor.n_sim
    return TestResult(
        statistic=observed,
        p_value=floor.p_value(observed),
        method=f"{name} against {used} simulations of a calibrated model",
        note=f"{used} simulations instead of {n_sim}: {name} is slow" if used < n_sim else "",
    )


def _known(names: Iterable[str]) -> list[str]:
    return [row.name for row in chosen_metrics(names, FLOORED, lack="no noise floor for")]


def _correctness(scored: Scored, n_sim: int, seed: int) -> Iterator[BoolArray]:
    """Yield blocks of simulations, one per row; how they are cut does not change the draws."""
    rng = np.random.default_rng(seed)
    height = max(1, BLOCK_SIZE // scored.n)
    for start in range(0, n_sim, height):
        yield rng.random((min(height, n_sim - start), scored.n)) < scored.confidence


def _binned_values(
    scored: Scored, *, names: Sequence[str], n_sim: int, seed: int
) -> dict[str, FloatArray]:
    """Simulate binned errors together: one matrix product counts the hits of all bins."""
    bins, n = DEFAULT_BINS, scored.n
    index = [CUTS[name](scored.confidence, bins) for name in names]
    due = np.concatenate([bin_sums(cut, scored.confidence, bins) for cut in index])
    member = np.zeros((n, len(names) * bins))
    for j, cut in enumerate(index):
        member[np.arange(n), cut + j * bins] = 1.0
    # Counts are whole numbers, so the product is exact and the same on every machine.
    hits = [block.astype(np.float64) @ member for block in _correctness(scored, n_sim, seed)]
    gaps = np.abs(due - np.concatenate(hits)).reshape(n_sim, len(names), bins)
    return dict(zip(names, gaps.sum(axis=2).T / n, strict=True))


def _slow_values(scored: Scored, *, name: str, n_sim: int, seed: int) -> dict[str, FloatArray]:
    simulate = _classwise_values if name == "cwece15" else partial(_smooth_values, name)
    return {name: simulate(scored, n_sim, seed)}


def _smooth_values(name: str, scored: Scored, n_sim: int, seed: int) -> FloatArray:
    """Simulate a smooth error: masses change, confidences stay."""
    # A calibrated model's error decides the grid of the exact one to begin with.
    first = next(_correctness(scored, 1, seed))[0]
    many = _MANY[name](replace(scored, correct=first))
    blocks = _correctness(scored, n_sim, seed)
    return np.concatenate([many(np.asfortranarray(scored.confidence - block)) for block in blocks])


def _released(scored: Scored) -> Callable[[FloatArray], FloatArray]:
    many = ManyReleased(scored.confidence)
    return lambda residual: many(residual, np.ones((1, scored.n)))


def _exact(scored: Scored) -> Callable[[FloatArray], FloatArray]:
    many = ManyExact(scored.confidence, guess=smece_exact.of(scored))
    return lambda residual: many(residual / scored.n)


_MANY = {"smece": _released, "smece_exact": _exact}


def _classwise_values(scored: Scored, n_sim: int, seed: int) -> FloatArray:
    """Simulate the classwise error; only the cells of the drawn labels change between draws."""
    bins, n_classes = DEFAULT_BINS, scored.n_classes
    cells = n_classes * bins
    rng = np.random.default_rng(seed)
    sums = np.zeros((n_sim, cells))
    for rows in row_blocks(scored.proba):
        proba = scored.proba[rows]
        cell = (equal_width(proba, bins) + bins * np.arange(n_classes)).ravel()
        sums += bin_sums(cell, proba.ravel(), cells)
        drawn = _drawn_entries(proba, rng.random((n_sim, len(proba))))
        for total, own in zip(sums, drawn, strict=True):
            total -= np.bincount(cell[own], minlength=cells)
    return np.asarray(np.abs(sums).sum(axis=1) / (scored.n * n_classes))


def _drawn_entries(proba: FloatArray, chance: FloatArray) -> IntArray:
    """Return which entry of the raveled probabilities is drawn in each row, by chances (k, n)."""
    n, n_classes = proba.shape
    found = np.empty(chance.shape, dtype=np.int64)
    few = max(1, _NEAR // n_classes)
    for start in range(0, n, few):
        # Row i of the cumulated probabilities is moved to (i, i + 1], so that one search in one
        # long sorted list draws a label in every row. A list of a few rows stays near the core.
        ladder = np.maximum(proba[start : start + few], 0.0).cumsum(axis=1)
        row = np.arange(len(ladder))
        ladder = (ladder / ladder[:, -1:] + row[:, None]).ravel()
        own = np.searchsorted(ladder, chance[:, start : start + few] + row, side="right")
        # Rounding may lift a draw of nearly 1 into the next row.
        found[:, start : start + few] = start * n_classes + np.minimum(
            own, (row + 1) * n_classes - 1
        )
    return found

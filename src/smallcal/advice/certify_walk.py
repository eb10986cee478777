"""The lowest threshold of confidence that keeps a promise about errors: the statistics alone.

Thresholds are a grid that is fixed before any row is seen. They are tested from high to low, each
by the exact binomial p-value, and the first that does not pass ends the walk: a sequence in fixed
order needs no correction for its many tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.special import bdtr, betaincinv, expit, gammaincinv

from smallcal.data.predictions import BoolArray, FloatArray, IntArray

#: Thresholds from high to low, log-odds 16 to -8 in steps of 0.02; the last accepts every row.
GRID: FloatArray = np.append(expit(np.arange(800, -401, -1) * 0.02), 0.0)

#: The walk begins where up to so many errors pass among at most this share of the rows.
START_ERRORS, START_SHARE = 20, 0.2
#: Up to so many errors may take more rows than that.
FEW_ERRORS, FEW_SHARE = 3, 0.5


@dataclass(frozen=True, eq=False)
class Counts:
    """Rows that each threshold of the grid accepts, and how many of them are wrong.

    Attributes
    ----------
    n : int
        All rows.
    accepted, errors : ndarray of int
        One entry for each threshold of ``GRID``; neither falls along it.

    Examples
    --------
    >>> counts = Counts.of([0.9, 0.8, 0.3], [True, False, True])
    >>> [(int(counts.accepted[at]), int(counts.errors[at])) for at in (0, 750, -1)]
    [(0, 0), (2, 1), (3, 1)]
    """

    n: int
    accepted: IntArray
    errors: IntArray

    @classmethod
    def of(cls, confidence: object, correct: object) -> Counts:
        """Count rows of such confidences, of which some are right."""
        sure, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=bool)
        wrong = _at_least(sure[~right])
        return cls(len(sure), _at_least(sure[right]) + wrong, wrong)


def _at_least(confidence: FloatArray) -> IntArray:
    """Return how many confidences reach each threshold of the grid."""
    return np.asarray(len(confidence) - np.searchsorted(np.sort(confidence), GRID), dtype=np.int64)


def one_of_each(clusters: IntArray, *, seed: int) -> IntArray:
    """Draw rows that are independent of one another: at most one of each cluster.

    A cluster is taken with a chance of its size over that of the largest, and of its rows any one:
    every row is as likely as every other, so that the error rate is still that of rows.

    Examples
    --------
    >>> one_of_each(np.array([0, 0, 1, 1, 2, 2]), seed=0).tolist()
    [1, 3, 5]
    """
    sizes = np.bincount(clusters)
    place = np.random.default_rng(seed).integers(sizes.max(), size=len(sizes))
    taken = place < sizes
    rows = np.argsort(clusters, kind="stable")[(np.cumsum(sizes) - sizes + place)[taken]]
    return np.asarray(np.sort(rows), dtype=np.int64)


def counts_by(
    confidence: FloatArray, correct: BoolArray, codes: IntArray, n_names: int
) -> list[Counts]:
    """Count rows by the class or group that their code stands for; a code of -1 is left out."""
    if n_names < np.iinfo(np.int16).max:
        codes = codes.astype(np.int16)  # which are sorted by counting
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(n_names + 1))
    parts = (order[start:end] for start, end in pairwise(edges))
    return [Counts.of(confidence[rows], correct[rows]) for rows in parts]


def p_value(errors: IntArray | int, n: IntArray | int, risk: float) -> FloatArray:
    """Return the chance of so few errors among n rows, or fewer, if their true rate were ``risk``.

    Examples
    --------
    >>> round(float(p_value(1, 236, 0.02)), 4), float(p_value(0, 0, 0.02))
    (0.0494, 1.0)
    """
    return np.asarray(bdtr(errors, n, risk))


def upper_bound(errors: int, n: int, delta: float) -> float:
    """Return the exact (Clopper-Pearson) bound that a true rate exceeds with chance ``delta``.

    Examples
    --------
    >>> round(upper_bound(0, 149, 0.05), 4), upper_bound(0, 0, 0.05), upper_bound(3, 3, 0.05)
    (0.0199, 1.0, 1.0)
    """
    return 1.0 if errors >= n else float(betaincinv(errors + 1, n - errors, 1 - delta))


def interval(count: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) interval of a share, both sides.

    Examples
    --------
    >>> [round(end, 3) for end in interval(8, 10)], [round(end, 3) for end in interval(0, 10)]
    ([0.444, 0.975], [0.0, 0.308])
    """
    tail = (1 - level) / 2
    low = 0.0 if count <= 0 else float(betaincinv(count, n - count + 1, tail))
    return low, upper_bound(count, n, tail)


@lru_cache(maxsize=4096)
def rows_to_pass(errors: int, risk: float, delta: float) -> int:
    """Return the fewest rows that pass with so many errors among them.

    Examples
    --------
    >>> [rows_to_pass(errors, 0.02, 0.05) for errors in range(4)]
    [149, 236, 313, 386]
    """
    # Above its mean, a binomial count is below a bound less often than a Poisson count.
    low, high = errors + 1, math.ceil(float(gammaincinv(errors + 1, 1 - delta)) / risk) + errors + 1
    while low < high:
        middle = (low + high) // 2
        if p_value(errors, middle, risk) <= delta:
            high = middle
        else:
            low = middle + 1
    return low


def start_rows(n: int, risk: float, delta: float) -> int:
    """Return how many rows the first threshold of the walk must accept, out of n.

    With the fewest rows that could pass, one early error would end everything. So the walk begins
    where several errors pass: up to twenty as long as that takes a fifth of the rows, up to three
    as long as it takes half. Neither errors nor confidences decide, only what is known before them.

    Examples
    --------
    >>> [start_rows(n, 0.02, 0.05) for n in (20, 500, 1_000, 1_000_000)]
    [149, 236, 386, 1449]
    """
    for errors in range(START_ERRORS, 0, -1):
        most = (START_SHARE if errors > FEW_ERRORS else FEW_SHARE) * n
        # So many errors can only pass where more were to be expected: spare the search.
        if errors - 1 <= risk * most and rows_to_pass(errors, risk, delta) <= most:
            return rows_to_pass(errors, risk, delta)
    return rows_to_pass(0, risk, delta)


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is promised.

    Attributes
    ----------
    risk : float
        The error rate that is not to be exceeded.
    delta : float
        The chance, over labelled rows, that it is.
    rule : {"accepted", "all"}
        Of what it is the rate: wrong rows among accepted ones, or rows that are accepted and wrong
        among all.
    """

    risk: float
    delta: float
    rule: str = "accepted"

    def at(self, delta: float) -> Target:
        """Return the same promise with another share of the chance."""
        return Target(risk=self.risk, delta=delta, rule=self.rule)

    def fewest(self) -> int:
        """Return the fewest rows that can pass."""
        return rows_to_pass(0, self.risk, self.delta)


def walk(counts: Counts, target: Target, *, start: int | None = None) -> int | None:
    """Return the place on the grid of the last threshold that passed; None where the first fails.

    ``start`` is how many rows the first threshold must accept, where :func:`start_rows` is not to
    decide; errors and confidences of these rows may not.

    Examples
    --------
    >>> sure = np.linspace(0.6, 0.99, 400)
    >>> counts = Counts.of(sure, sure > 0.7)
    >>> place = walk(counts, Target(risk=0.02, delta=0.05))
    >>> round(float(GRID[place]), 3), int(counts.accepted[place]), int(counts.errors[place])
    (0.703, 294, 0)
    """
    first, tried = 0, np.full(len(GRID), counts.n)
    if target.rule == "accepted":
        fewest = start_rows(counts.n, target.risk, target.delta) if start is None else start
        first, tried = int(np.searchsorted(counts.accepted, fewest)), counts.accepted
    passed = p_value(counts.errors[first:], tried[first:], target.risk) <= target.delta
    ended = len(passed) if passed.all() else int(np.argmin(passed))
    # Rows that are accepted and wrong may be few because no row is accepted: that is no threshold.
    if not ended or not counts.accepted[first + ended - 1]:
        return None
    return first + ended - 1


def walk_each(
    parts: Sequence[Counts], target: Target, *, correction: str = "holm"
) -> list[tuple[int | None, float]]:
    """Walk for several classes or groups, so that all promises hold together.

    The chance is shared equally by those with enough rows to pass at all. By Holm's rule one whose
    walk reaches the end, so that all its rows are accepted, hands its share on to the others.

    Returns
    -------
    list of (place or None, share of delta)
        Of parts with too few rows the share that they would have had.

    Examples
    --------
    >>> sure = np.full(300, 0.9)
    >>> good, bad = Counts.of(sure, sure > 0), Counts.of(sure, np.arange(300) > 2)
    >>> for correction in ("bonferroni", "holm"):
    ...     found = walk_each([good, bad], Target(risk=0.027, delta=0.05), correction=correction)
    ...     print([place is not None for place, share in found], found[1][1])
    [True, False] 0.025
    [True, True] 0.05
    """
    able = _able([part.n for part in parts], target)
    share = target.delta / max(len(able), 1)
    # A share that grows must not change the sequence: where it starts is settled before.
    starts = [start_rows(part.n, target.risk, share) for part in parts]
    found: list[tuple[int | None, float]] = [(None, share)] * len(parts)
    left, last = able, len(GRID) - 1
    while left:
        share = target.delta / len(left)
        for part in left:
            found[part] = (walk(parts[part], target.at(share), start=starts[part]), share)
        rest = [part for part in left if found[part][0] != last]
        if correction != "holm" or len(rest) == len(left):
            break
        left = rest
    return found


def _able(sizes: Sequence[int], target: Target) -> list[int]:
    """Return the parts that can pass at all, when those alone share the chance: by size."""
    order = sorted(range(len(sizes)), key=lambda part: -sizes[part])
    for many in range(len(order), 0, -1):
        if sizes[order[many - 1]] >= target.at(target.delta / many).fewest():
            return sorted(order[:many])
    return []


def lowest_risk(counts: Counts, target: Target) -> float:
    """Return the lowest risk that these rows can promise: where a walk begins to find something.

    Examples
    --------
    >>> counts = Counts.of([0.9] * 87, [True] * 87)
    >>> round(lowest_risk(counts, Target(risk=0.02, delta=0.05)), 4)
    0.0338
    """
    low, high = target.risk, 1.0
    for _ in range(20):
        middle = math.sqrt(low * high)
        tried = Target(risk=middle, delta=target.delta, rule=target.rule)
        if walk(counts, tried) is None:
            low = middle
        else:
            high = middle
    return high

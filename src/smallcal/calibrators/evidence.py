"""What labelled rows say of a calibrator's confidence, in counts that add up.

Of a row two things matter to its confidence: the log-odds of its claim, and whether the claim
holds. Log-odds are kept on a grid. A row counts for the two points around it, by how near they are.
Where a claim does not hold, it also matters how probable the true class is among the others: kept
is the log-loss that other classes would have, for each of some exponents. All of it is in whole
millionths: so the sum of the rows is the same in any order and in any parts, and it stays small
however many there are. No logits are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smallcal.data.checks import BoolArray, FloatArray, IntArray
from smallcal.errors import InputError

#: Points of the grid in a unit of log-odds.
STEPS = 32
#: What a row counts for, in whole numbers.
UNIT = 2**20
#: Log-odds beyond this say the same; as in :func:`smallcal.calibrators.group_effects.claims_of`.
FARTHEST = 30
#: Rows in a file.
MOST_ROWS = 2**32
#: Logarithms of the exponents that are tried on the other classes.
EXPONENTS = np.linspace(-1.5, 1.5, 31)

#: Probabilities below this have the logarithm of this.
LEAST = 1e-300

Counts = tuple[int, ...]


@dataclass(frozen=True)
class Evidence:
    """Counts of labelled rows, by the log-odds of their claim.

    Attributes
    ----------
    odds : tuple of int
        Points of the grid that rows lie at, ascending, in steps of 1 / STEPS.
    right, wrong : tuple of int
        Rows there whose claim holds, and whose does not, in 1 / UNIT.
    bins : tuple of int
        Rows in each bin of the model's own confidence, as a monitor counts them; empty where the
        calibrator has no such bins.
    tail : tuple of int
        Log-loss of the true class among the others, over rows whose claim does not hold, at each
        of ``EXPONENTS``; in 1 / UNIT. Empty where there are not three classes.
    spread : int
        What all rows tell of that exponent each, summed up, in 1 / UNIT.

    Examples
    --------
    >>> odds, holds = np.array([1.0, 1.0, -0.5]), np.array([True, False, True])
    >>> all_at_once = Evidence.of(odds, holds)
    >>> all_at_once.odds, all_at_once.rows
    ((-16, 32), 3)
    >>> all_at_once == Evidence.of(odds[2:], holds[2:]) + Evidence.of(odds[:2], holds[:2])
    True
    """

    odds: Counts = ()
    right: Counts = ()
    wrong: Counts = ()
    bins: Counts = ()
    tail: Counts = ()
    spread: int = 0

    def __post_init__(self) -> None:
        if not len(self.odds) == len(self.right) == len(self.wrong):
            raise InputError("each point of the log-odds needs a count of right and one of wrong")
        places = np.array(self.odds, dtype=np.int64)
        counts = (*self.right, *self.wrong, *self.bins, *self.tail, self.spread)
        if np.any(np.diff(places) <= 0) or np.any(np.abs(places) > FARTHEST * STEPS):
            raise InputError(f"points of the log-odds must ascend, within {FARTHEST * STEPS}")
        if any(count < 0 for count in counts) or self.total % UNIT:
            raise InputError("the counts of new rows are not those of whole rows")
        if self.rows > MOST_ROWS or (self.bins and sum(self.bins) != self.rows):
            raise InputError(f"{sum(self.bins):,} rows in bins, but {self.rows:,} rows in all")
        if len(self.tail) not in (0, len(EXPONENTS)):
            raise InputError(f"{len(EXPONENTS)} losses of other classes; got {len(self.tail)}")

    @classmethod
    def of(
        cls,
        odds: FloatArray,
        holds: BoolArray,
        bins: IntArray | None = None,
        tail: tuple[IntArray, int] | None = None,
    ) -> Evidence:
        """Count rows: log-odds of their claims, whether these hold, and what `tails` gives."""
        places = np.clip(np.asarray(odds, dtype=np.float64), -FARTHEST, FARTHEST) * STEPS
        low = np.floor(places)
        above = np.rint((places - low) * UNIT).astype(np.int64)
        first = low.astype(np.int64)
        point = np.concatenate([first, first + 1])
        amount = np.concatenate([UNIT - above, above])
        some = amount > 0
        amount, holding = amount[some], np.concatenate([holds, holds])[some]
        there, codes = np.unique(point[some], return_inverse=True)
        counts = [
            _summed(codes[chosen], amount[chosen], len(there)) for chosen in (holding, ~holding)
        ]
        right, wrong = (tuple(map(int, each)) for each in counts)
        kept = () if bins is None else tuple(map(int, bins))
        losses, spread = ((), 0) if tail is None else (tuple(map(int, tail[0])), tail[1])
        return cls(tuple(map(int, there)), right, wrong, kept, losses, spread)

    def __add__(self, other: Evidence) -> Evidence:
        for name in ("bins", "tail"):
            mine, others = len(getattr(self, name)), len(getattr(other, name))
            if self.rows and other.rows and mine != others:
                raise InputError(f"counts of new rows: {mine} and {others} {name} do not add up")
        sums: dict[int, list[int]] = {}
        for each in (self, other):
            for point, holding, failing in zip(each.odds, each.right, each.wrong, strict=True):
                so_far = sums.setdefault(point, [0, 0])
                so_far[0] += holding
                so_far[1] += failing
        points = sorted(sums)
        right, wrong = (tuple(sums[point][i] for point in points) for i in (0, 1))
        bins, tail = (
            _added(mine, others)
            for mine, others in ((self.bins, other.bins), (self.tail, other.tail))
        )
        return Evidence(tuple(points), right, wrong, bins, tail, self.spread + other.spread)

    @property
    def total(self) -> int:
        """What all rows count for."""
        return sum(self.right) + sum(self.wrong)

    @property
    def rows(self) -> int:
        """How many rows were counted."""
        return self.total // UNIT

    @property
    def held(self) -> int:
        """How many of their claims hold."""
        return sum(self.right) // UNIT

    def arrays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log-odds, and the rows there that are right and wrong."""
        odds = np.array(self.odds, dtype=np.float64) / STEPS
        right, wrong = (
            np.array(each, dtype=np.float64) / UNIT for each in (self.right, self.wrong)
        )
        return odds, right, wrong


def _summed(codes: IntArray, amounts: IntArray, n: int) -> IntArray:
    """Return whole sums: those of floats would round beyond some billion rows."""
    found = np.zeros(n, dtype=np.int64)
    np.add.at(found, codes, amounts)
    return found


def _added(mine: Counts, others: Counts) -> Counts:
    """Return sums; what is empty counts for nothing."""
    if not (mine and others):
        return mine or others
    return tuple(a + b for a, b in zip(mine, others, strict=True))


def others_of(probabilities: FloatArray, top: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the proportions of the classes that are not on top, and the logarithms of these.

    Examples
    --------
    >>> shares, logs = others_of(np.array([[0.5, 0.375, 0.125]]), np.array([0]))
    >>> shares.tolist(), np.exp(logs[:, 1:]).round(6).tolist()
    ([[0.0, 0.75, 0.25]], [[0.75, 0.25]])
    """
    shares = np.array(probabilities, dtype=np.float64)
    shares[np.arange(len(shares)), top] = 0
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), LEAST)
    return shares, np.log(np.maximum(shares, LEAST))


def tails(
    probabilities: FloatArray, labels: IntArray, top: IntArray
) -> tuple[IntArray, int] | None:
    """Return what rows say of the other classes: losses at each exponent, and how much they tell.

    Examples
    --------
    >>> p, y, top = np.array([[0.5, 0.375, 0.125]] * 2), np.array([1, 0]), np.array([0, 0])
    >>> losses, spread = tails(p, y, top)
    >>> bool(np.isclose(losses[len(EXPONENTS) // 2] / UNIT, -np.log(0.75)))
    True
    """
    if probabilities.shape[1] < 3:
        return None
    shares, logs = others_of(probabilities, top)
    mean = np.einsum("ij,ij->i", shares, logs)
    told = np.einsum("ij,ij->i", shares, (logs - mean[:, None]) ** 2)
    wrong = np.flatnonzero(labels != top)
    there, logs = shares[wrong] > LEAST, logs[wrong]
    label = np.maximum(logs[np.arange(len(wrong)), labels[wrong]], -FARTHEST)
    losses = []
    for exponent in np.exp(EXPONENTS):
        sums = np.log(np.maximum(np.where(there, np.exp(exponent * logs), 0.0).sum(axis=1), LEAST))
        losses.append(_whole(np.maximum(sums - exponent * label, 0.0)))
    return np.array(losses, dtype=np.int64), _whole(np.minimum(told, FARTHEST**2))


def _whole(values: FloatArray) -> int:
    """Return the sum of values, each in whole units."""
    return int(np.rint(values * UNIT).astype(np.int64).sum())

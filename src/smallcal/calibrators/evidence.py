"""What labelled rows say of a calibrator's confidence, in counts that add up.

Of a row two things matter to a shift of confidence: the log-odds of its claim, and whether the
claim holds. Log-odds are kept on a grid. A row counts for the two points around it, by how near
they are, in whole millionths: so the sum of the rows is the same in any order and in any parts,
and it stays small however many there are. No logits are kept.
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
MOST_ROWS = 2**40

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

    def __post_init__(self) -> None:
        if not len(self.odds) == len(self.right) == len(self.wrong):
            raise InputError("each point of the log-odds needs a count of right and one of wrong")
        places, counts = np.array(self.odds, dtype=np.int64), (*self.right, *self.wrong, *self.bins)
        if np.any(np.diff(places) <= 0) or np.any(np.abs(places) > FARTHEST * STEPS):
            raise InputError(f"points of the log-odds must ascend, within {FARTHEST * STEPS}")
        if any(count < 0 for count in counts) or self.total % UNIT:
            raise InputError("the counts of new rows are not those of whole rows")
        if self.rows > MOST_ROWS or (self.bins and sum(self.bins) != self.rows):
            raise InputError(f"{sum(self.bins):,} rows in bins, but {self.rows:,} rows in all")

    @classmethod
    def of(cls, odds: FloatArray, holds: BoolArray, bins: IntArray | None = None) -> Evidence:
        """Count rows: log-odds of their claims, whether these hold, and counts of their bins."""
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
        return cls(tuple(map(int, there)), right, wrong, kept)

    def __add__(self, other: Evidence) -> Evidence:
        if self.rows and other.rows and len(self.bins) != len(other.bins):
            raise InputError(f"counts in {len(self.bins)} bins and in {len(other.bins)}")
        sums: dict[int, list[int]] = {}
        for each in (self, other):
            for point, right, wrong in zip(each.odds, each.right, each.wrong, strict=True):
                so_far = sums.setdefault(point, [0, 0])
                so_far[0] += right
                so_far[1] += wrong
        points = sorted(sums)
        bins = self.bins or other.bins
        if self.bins and other.bins:
            bins = tuple(a + b for a, b in zip(self.bins, other.bins, strict=True))
        right, wrong = (tuple(sums[point][i] for point in points) for i in (0, 1))
        return Evidence(tuple(points), right, wrong, bins)

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

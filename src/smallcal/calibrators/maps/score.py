"""Maps of one number: the log-odds of two classes, or a score, to the probability of the second.

Whatever the fit, what is kept is a curve: log-odds at some dozens of scores, straight between them
and held beyond. So each map is monotone, quick, readable, and the same in every export.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.maps.base import MapFit, ProbabilityMap, Split, recipe
from smallcal.calibrators.maps.score_fit import (
    BASES,
    N_STOPS,
    Sample,
    apart,
    falls,
    kept_basis,
    level_basis,
    posterior_mean,
)
from smallcal.calibrators.maps.temperature import weighted_rows
from smallcal.calibrators.once import once
from smallcal.calibrators.parts import Rule, list_of, rule
from smallcal.calibrators.program import Row, Value
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.data.score import NEAREST
from smallcal.errors import InputError, choose

#: Knots of a fitted curve: so many at quantiles of the scores, so many evenly from end to end.
N_QUANTILES, N_EVEN = 25, 17
#: And beyond both ends, in widths of the range: there the curve goes on, after that it is held.
BEYOND = (0.1, 0.3, 0.6, 1.0)
#: Knots in a file: each is a term in every export.
MOST_KNOTS = 1000

#: Fitted numbers of each kind of curve: those that the split decides, those that a prior holds.
FITTED = {"slope": (1, 0), "line": (2, 0), "beta": (3, 0), "spline": (2, N_STOPS - 1)}

#: Scores that are not limited.
ANY = (-math.inf, math.inf)
#: Log-odds that a curve may reach: beyond, 1 - p would lose its digits.
_FURTHEST = 30.0
#: Log-odds from which on a probability was an exact 0 or 1, cut off.
_EXACT = -math.log(NEAREST) - 1e-5
#: A range that cells can be cut from.
_SMALLEST = 1e-300
#: Rows applied at once, so that what lies between is never written to memory.
_BLOCK = 2**14
#: Cells of the table by which a score finds its segment: more where knots are crowded. Knots that
#: share a cell cost a comparison each.
_CELLS, _MOST_SHARED = (2**12, 2**16), 2


class _Segments(NamedTuple):
    """A curve made ready: a table that leads each cell of scores to the first segment in it."""

    start: FloatArray
    value: FloatArray
    slope: FloatArray
    ends: FloatArray
    table: IntArray
    per_score: float
    shared: int

    @classmethod
    def of(cls, at: FloatArray, log_odds: FloatArray, n_cells: int) -> _Segments:
        """Prepare a curve of at least two knots."""
        per_score = n_cells / (at[-1] - at[0])
        cell = np.minimum((at - at[0]) * per_score, n_cells - 1).astype(np.int64)
        table = np.searchsorted(cell[1:-1], np.arange(n_cells))
        shared = int(np.bincount(cell[1:-1], minlength=1).max())
        slope = np.diff(log_odds) / np.diff(at)
        ends = np.append(at[1:-1], np.inf)  # nothing is beyond the last
        return cls(at[:-1], log_odds[:-1], slope, ends, table, float(per_score), shared)

    def place(self, x: FloatArray) -> IntArray:
        """Return the segment of each score; all lie between the ends."""
        cell = ((x - self.start[0]) * self.per_score).astype(np.int64)
        np.minimum(cell, len(self.table) - 1, out=cell)
        found = self.table.take(cell)
        for _ in range(self.shared):
            found += x >= self.ends.take(found)
        return np.asarray(found)


@dataclass(frozen=True)
class ScoreCurve(ProbabilityMap):
    """The probability of the second of two classes as a monotone curve of x = z1 - z0.

    Attributes
    ----------
    at : tuple of float
        Scores x at which the curve is known, ascending.
    log_odds : tuple of float
        Log-odds of the probability there: straight between, held beyond. They rise or they fall.
    free, held : int
        Fitted numbers behind the curve: those that the split decides, and those that a prior
        keeps near 0.

    Examples
    --------
    >>> halved = ScoreCurve((-10.0, 10.0), (-5.0, 5.0), free=1)
    >>> halved.probability(np.array([-99.0, 0.0, 2.0])).round(3).tolist()
    [0.007, 0.5, 0.731]
    """

    at: tuple[float, ...]
    log_odds: tuple[float, ...]
    free: int
    held: int = 0
    kind: ClassVar[str] = "score_curve"
    n_classes: ClassVar[int] = 2
    words: ClassVar[str] = "turned into the second class's probability by a monotone curve"
    schema: ClassVar[Mapping[str, Rule]] = {
        "at": list_of(
            rule("number"),
            "Differences of the two logits at which the curve is known, ascending.",
            least=1,
            most=MOST_KNOTS,
        ),
        "log_odds": list_of(
            rule("number"),
            "Log-odds of the second class there: straight between, held beyond.",
            least=1,
            most=MOST_KNOTS,
        ),
        "free": {"type": "integer", "minimum": 0, "description": "Numbers that the split decides."},
        "held": {"type": "integer", "minimum": 0, "description": "Numbers that a prior holds."},
    }

    def __post_init__(self) -> None:
        at, log_odds = (np.array(each, dtype=np.float64) for each in (self.at, self.log_odds))
        object.__setattr__(self, "at", tuple(at.tolist()))
        object.__setattr__(self, "log_odds", tuple(log_odds.tolist()))
        if len(at) != len(log_odds) or not len(at):
            raise InputError(
                f"a curve needs as many scores as log-odds, and one at least; got "
                f"{len(at)} and {len(log_odds)}"
            )
        if not (np.isfinite(at).all() and np.isfinite(log_odds).all()):
            raise InputError("the numbers of a curve must be finite")
        with np.errstate(over="ignore"):
            apart = np.diff(at)
        if not ((apart > 0) & (apart < np.inf)).all():
            raise InputError("the scores of a curve must be ascending")
        change = np.diff(log_odds)
        if not ((change >= 0).all() or (change <= 0).all()):
            raise InputError("the log-odds of a curve must rise, or fall, all the way")
        with np.errstate(over="ignore"):
            steep = not np.isfinite(change / apart).all()
        if steep:
            raise InputError("the scores of a curve lie too close together")
        if min(self.free, self.held) < 0:
            raise InputError("free and held count numbers: not below 0")

    @property
    def n_parameters(self) -> int:
        """The fitted numbers, whatever the number of knots."""
        return self.free + self.held

    @property
    def n_held(self) -> int:
        """Bends or steps: a prior holds them, so they need no samples of their own."""
        return self.held

    @property
    def preserves_argmax(self) -> bool:
        """No: the curve may cross one half elsewhere than the scores do."""
        return False

    @once
    def _segments(self) -> _Segments | None:
        """The curve made ready; nothing where it is flat, or its knots too crowded for a table."""
        at, log_odds = np.array(self.at), np.array(self.log_odds)
        if len(at) > 1 and _SMALLEST < at[-1] - at[0] < np.inf:
            for n_cells in _CELLS:
                made = _Segments.of(at, log_odds, n_cells)
                if made.shared <= _MOST_SHARED:
                    return made
        return None

    def curve(self, x: FloatArray) -> FloatArray:
        """Return the log-odds of the second class at scores x = z1 - z0."""
        segments = self._segments
        if segments is None:
            return np.interp(x, self.at, self.log_odds)
        x = np.clip(x, self.at[0], self.at[-1])
        found = segments.place(x)
        x -= segments.start.take(found)
        x *= segments.slope.take(found)
        x += segments.value.take(found)
        return x

    def probability(self, x: FloatArray, /) -> FloatArray:
        """Return the probability of the second class at scores x = z1 - z0, shape (m,)."""
        result = np.empty(len(x))
        for start in range(0, len(x), _BLOCK):
            rows = slice(start, start + _BLOCK)
            odds = self.curve(np.asarray(x[rows], dtype=np.float64))
            np.negative(odds, out=odds)
            np.exp(odds, out=odds)
            odds += 1
            np.divide(1, odds, out=result[rows])
        return result

    def probabilities(self, logits: FloatArray, scores: FloatArray, /) -> FloatArray:
        """Return probabilities (m, 2), float64; ``scores`` are not looked at."""
        result = np.empty((len(logits), 2))
        for start in range(0, len(logits), _BLOCK):
            rows = slice(start, start + _BLOCK)
            odds = np.exp(self.curve(logits[rows, 1] - logits[rows, 0]))
            odds += 1
            np.divide(1, odds, out=result[rows, 0])
            np.subtract(1, result[rows, 0], out=result[rows, 1])
        return result

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the probabilities: the curve is a sum of segments, each as far as it is passed."""
        odds = program.constant(self.log_odds[0])
        if len(self.at) > 1:
            at = np.array(self.at)
            x = row.logits.dot([-1.0, 1.0])
            passed = x.at_least(program.constant(at[:-1])).at_most(program.constant(at[1:]))
            odds = (passed - program.constant(at[:-1])).dot(np.diff(self.log_odds) / np.diff(at))
            odds = odds + self.log_odds[0]
        elif row.logits.width:  # a row of its own all the same
            odds = row.logits.dot([0.0, 0.0]) + odds
        return program.sigmoid(0.0 - odds).join(program.sigmoid(odds))


@recipe("score_curve", keeps_argmax=False, binary=True, care="prior scales by evidence")
def fit_score_curve(split: Split, *, basis: str = "spline") -> MapFit:
    """Fit a monotone curve of x = z1 - z0 under priors whose scales the split decides.

    Parameters
    ----------
    split : Split
        Of two classes; the scores of a signal are not used.
    basis : {"slope", "line", "beta", "spline"}
        What the log-odds are made of, see :mod:`smallcal.calibrators.maps.score_fit`.

    Returns
    -------
    MapFit
        With the flags ``falling``, ``constant_score`` and ``one_outcome`` where they apply.

    Examples
    --------
    >>> from smallcal.calibrators.maps.temperature import split_of
    >>> x = np.linspace(-3, 3, 400)
    >>> hit = np.arange(400) % 10 + 0.5 < 10 / (1 + np.exp(-x))
    >>> fit = fit_score_curve(split_of(np.stack([0 * x, x], axis=1), hit.astype(int)))
    >>> fit.map.probability(np.array([-2.0, 0.0, 2.0])).round(1).tolist()
    [0.1, 0.5, 0.9]
    """
    if basis not in BASES:
        raise InputError(f"unknown basis {basis!r}; {choose(basis, BASES)}", code="unknown-choice")
    scale = split.preds.score
    as_is = scale is None or scale.kind == "probability"
    sample, limits = sample_of(split), ANY
    if basis == "spline":  # the others stay what they are called
        sample = sample.tied()
        limits = half_way(sample.x) if as_is and scale is not None else ANY
    curve, flags = fitted_curve(sample.grouped(), basis, as_is=as_is, limits=limits)
    return MapFit(curve, (split.gaps.n,), flags)


def sample_of(split: Split) -> Sample:
    """Return the scores of a split of two classes, without rows of weight 0."""
    preds = split.preds
    if preds.n_classes != 2:
        raise InputError(
            f"this method is for two classes or one number, not for {preds.n_classes} classes: "
            "take matrix-scaling or dirichlet-odir; for one number per row, ",
            python='input="score"',
            shell="--input score",
            code="method-unsuitable",
        )
    rows = weighted_rows(split)
    logits = preds.logits[rows].astype(np.float64)
    return Sample(logits[:, 1] - logits[:, 0], preds.labels[rows] == 1, split.gaps.weights[rows])


def score_flags(sample: Sample) -> dict[str, list[int]]:
    """Return what is to be known of scores and outcomes, whatever the map."""
    came = int(sample.outcome.sum())
    found = {
        "one_outcome": min(came, len(sample.outcome) - came) == 0,
        "constant_score": sample.spread == 0,
    }
    found["falling"] = not any(found.values()) and falls(sample)
    return {name: [] for name, is_so in found.items() if is_so}


def half_way(x: FloatArray) -> tuple[float, float]:
    """Return log-odds for an exact 0 and 1: half-way from the nearest other probability.

    At their own, nearly -14 and 14, they would leave a line little slope for all others; and no
    split of some dozens can tell what 1.0 is worth if it has never seen one.

    Examples
    --------
    >>> x = np.log(np.array([1e-6, 0.2, 0.9]) / np.array([1 - 1e-6, 0.8, 0.1]))
    >>> [round(float(1 / (1 + np.exp(-end))), 4) for end in half_way(x)]
    [0.1, 0.95]
    """
    inner = x[np.abs(x) < _EXACT]
    if not len(inner):
        inner = np.zeros(1)
    return -math.log1p(2 * math.exp(-inner.min())), math.log1p(2 * math.exp(inner.max()))


def fitted_curve(
    sample: Sample,
    basis: str,
    *,
    as_is: bool = True,
    limits: tuple[float, float] = ANY,
) -> tuple[ScoreCurve, dict[str, list[int]]]:
    """Return the curve of a sample, and its flags.

    ``as_is``: scores may be log-odds already; ``limits``: those beyond count as these.
    """
    sample = sample._replace(x=np.clip(sample.x, *limits))
    flags = score_flags(sample)
    if "constant_score" in flags:
        at = sample.x[:1]
        rate = posterior_mean(sample, (level_basis,), at)
        return ScoreCurve(tuple(at), tuple(_odds(rate)), 1), flags
    falling = "falling" in flags
    side, rising = (-1.0, sample.flipped()) if falling else (1.0, sample)
    as_is = as_is and not falling
    bases = [each for each in BASES[basis] if as_is or each is not kept_basis]
    levels = np.linspace(0, 1, N_QUANTILES)
    inside = sample.stops() if basis == "spline" else sample.quantiles(levels)
    at = np.unique(np.clip(_knots(sample, inside), *limits))
    nearest = np.searchsorted((at[1:] + at[:-1]) / 2, sample.x)
    weight = np.bincount(nearest, sample.weight, len(at)).astype(np.float64)
    # Where no row is, a knot counts a little: or it would follow whatever its neighbours do.
    weight += 1e-3 * weight.sum() / len(at)
    odds = _odds(posterior_mean(rising, bases, side * at))
    odds = side * rising_values(side * odds, weight)
    return ScoreCurve(tuple(at), tuple(odds), *FITTED[basis]), flags


def _odds(probability: FloatArray) -> FloatArray:
    """Return log-odds that keep their digits."""
    with np.errstate(divide="ignore"):  # a mean of ones may come out above 1
        odds = np.log(probability) - np.log1p(-np.minimum(probability, 1))
    return np.asarray(np.clip(odds, -_FURTHEST, _FURTHEST))


def _knots(sample: Sample, inside: FloatArray) -> FloatArray:
    """Return where a curve is kept: inside, evenly, and one range beyond both ends."""
    low, high = float(sample.x.min()), float(sample.x.max())
    beyond = np.array(BEYOND) * (high - low)
    at = np.unique(
        np.concatenate([low - beyond, np.linspace(low, high, N_EVEN), inside, high + beyond])
    )
    return apart(at, high - low)


def rising_values(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the nearest numbers that never fall, by weighted least squares (isotonic regression).

    Examples
    --------
    >>> rising_values(np.array([0.0, 3.0, 1.0, 4.0]), np.array([1.0, 1.0, 3.0, 1.0])).tolist()
    [0.0, 1.5, 1.5, 4.0]
    """
    means: list[float] = []
    weights: list[float] = []
    sizes: list[int] = []
    for value, count in zip(values.tolist(), weight.tolist(), strict=True):
        size = 1
        while means and means[-1] >= value:
            other = weights.pop()
            value = (means.pop() * other + value * count) / (other + count)
            count += other
            size += sizes.pop()
        means.append(value)
        weights.append(count)
        sizes.append(size)
    return np.repeat(means, sizes)

"""Smooth calibration errors of many resamples, or simulations, at once.

Confidences stay where they are and only masses change. So masses go to a fixed grid by one sparse
product, and everything after it is a transform of all rows together. :class:`ManyReleased` is
:func:`smallcal.metrics.smooth.smece` to rounding: the same grids, the same halvings.
:class:`ManyExact` is :func:`smallcal.metrics.smooth.smece_exact` to about 1e-6: coarser grids.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy

from smallcal.data.predictions import BoolArray, FloatArray, IntArray
from smallcal.metrics.smooth import (
    NARROWEST,
    RELEASED_DENSITY_OFFSET,
    RELEASED_HALVINGS,
    RELEASED_NARROWEST,
    released_kernel,
    shares,
    smoothed_grid,
    split_cells,
    waves_left,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Numbers on a grid at a time: 16 MB.
_AT_ONCE = 1 << 21

#: A matrix that is quicker than a transform has fewer entries; what it leaves out is rounding.
_SMALL_MATRIX = 100_000
_ROUNDING = 1e-15

#: Bounds nearer than this to a width do not decide.
_MARGIN = 1e-9

#: A width is known to this, which is 1e-6 percentage points.
_SMALL_STEP = 1e-8
_MOST_STEPS = 60

#: The first width that resamples are tried at is half of the samples' own, or this.
_FIRST_WIDTH = 1 / 512


def _sparse(rows: IntArray, parts: FloatArray, cells: int) -> csr_array:
    """Return the matrix that gives sample i's mass, in parts (n, q), to cells ``rows`` (n, q)."""
    from scipy.sparse import csc_array

    starts = np.arange(0, rows.size + 1, rows.shape[1])
    return csc_array((parts.ravel(), rows.ravel(), starts), shape=(cells, len(rows))).tocsr()


def _linear(position: FloatArray, nodes: int) -> csr_array:
    """Share a sample between the two nodes that it lies between."""
    left, beyond = shares(position, nodes)
    both = np.column_stack([left, left + 1]), np.column_stack([1 - beyond, beyond])
    return _sparse(*both, nodes)


def _rows(mass: FloatArray, rows: IntArray) -> FloatArray:
    """Return some rows, sample by sample in memory, as sparse products read them."""
    return mass if len(rows) == len(mass) else mass.T.take(rows, axis=1).T


@dataclass(frozen=True, eq=False)
class _Width:
    """What smoothing with one width of the released estimator needs, whatever is smoothed."""

    width: float

    @property
    def nodes(self) -> int:
        return len(self._kernel)

    @cached_property
    def _kernel(self) -> FloatArray:
        return released_kernel(self.width)

    @cached_property
    def _damping(self) -> FloatArray:
        """The kernel's transform on the circle of all nodes and their mirror images."""
        nodes = self.nodes
        around = np.zeros(2 * (nodes - 1))
        around[(np.arange(nodes) - nodes // 2) % len(around)] = self._kernel
        return np.asarray(scipy.fft.rfft(around))

    @cached_property
    def _places(self) -> tuple[IntArray, FloatArray]:
        """For each place at which the error is read, the node left of it and the share beyond."""
        return shares(np.linspace(0, 1, max(round(10 / self.width), 200)), self.nodes)

    @cached_property
    def total(self) -> FloatArray:
        """What mass on each node adds to the sum over places."""
        nodes, (left, beyond) = self.nodes, self._places
        reads = np.bincount(left, 1 - beyond, nodes) + np.bincount(left + 1, beyond, nodes)
        length = 2 * (nodes - 1)
        added = scipy.fft.irfft(scipy.fft.rfft(reads, length) * np.conj(self._damping), length)
        folded = added[:nodes].copy()
        folded[1:-1] += added[:-nodes:-1][: nodes - 2]
        return folded

    @property
    def offset(self) -> float:
        return RELEASED_DENSITY_OFFSET * len(self._places[0])

    @cached_property
    def _read(self) -> FloatArray | None:
        """From cosine sums to places in one matrix, where few cosines are left; else None."""
        nodes, (left, beyond) = self.nodes, self._places
        damping = self._damping.real / (nodes - 1)
        damping[[0, -1]] /= 2
        few = int(np.flatnonzero(np.abs(damping) > _ROUNDING * damping.max())[-1]) + 1
        if few * len(left) > _SMALL_MATRIX or nodes % 2 == 0:
            return None
        table = np.cos(math.pi * np.arange(2 * (nodes - 1)) / (nodes - 1))
        turn = np.arange(few)[:, None]
        here, there = (table[turn * node % len(table)] for node in (left, left + 1))
        return np.asarray(damping[:few, None] * (here + beyond * (there - here)))

    def size(self, waves: FloatArray) -> FloatArray:
        """Return the sum over places of absolute smoothed masses, from their cosine sums."""
        left, beyond = self._places
        nodes = self.nodes
        if self._read is not None:
            found = waves[:, : len(self._read)] @ self._read
            return np.asarray(np.abs(found, out=found).sum(axis=1))
        if nodes % 2:  # the kernel is even
            smoothed = scipy.fft.dct(waves * self._damping.real, type=1) / (2 * (nodes - 1))
        else:
            smoothed = scipy.fft.irfft(waves * self._damping, 2 * (nodes - 1))
        here, step = smoothed.take(left, axis=1), smoothed.take(left + 1, axis=1)
        step -= here
        step *= beyond
        here += step
        return np.asarray(np.abs(here, out=here).sum(axis=1))


@lru_cache(maxsize=256)
def _width(width: float) -> _Width:
    return _Width(width)


class ManyReleased:
    """The released smooth calibration error of many sets of masses at the same confidences.

    Examples
    --------
    >>> confidence, residual = np.array([0.9, 0.7]), np.array([[-0.1, 0.7]])
    >>> ManyReleased(confidence)(residual, np.ones((1, 2))).round(4).tolist()
    [0.2995]
    """

    def __init__(self, confidence: FloatArray) -> None:
        self._confidence = confidence
        self._spreads: dict[int, csr_array] = {}

    def __call__(self, mass: FloatArray, weight: FloatArray) -> FloatArray:
        """Return the error of each row of residuals times counts, and of counts, (k, n).

        Counts of one row, (1, n), are those of all.
        """
        grids = _Grids(self, mass, np.broadcast_to(weight, mass.shape))
        low, high = np.zeros(len(mass)), np.ones(len(mass))
        found = np.full(len(mass), np.nan)  # the error at ``high``, where it was computed
        for _ in range(RELEASED_HALVINGS):
            middle = (low + high) / 2
            error = np.full(len(mass), np.inf)  # so that too narrow a width is too narrow
            for width in np.unique(middle[middle >= RELEASED_NARROWEST]):
                rows = np.flatnonzero(middle == width)
                error[rows] = grids.compared(float(width), rows)
            narrow = middle < error
            low, high = np.where(narrow, middle, low), np.where(narrow, high, middle)
            found = np.where(narrow, found, error)
        for width in np.unique(high[~(found >= 0)]):
            rows = np.flatnonzero((high == width) & ~(found >= 0))
            found[rows] = grids.errors(float(width), rows)
        return found

    def spread(self, mass: FloatArray, nodes: int) -> FloatArray:
        """Share masses (k, n) between the two nodes that each lies between."""
        if nodes not in self._spreads:
            self._spreads[nodes] = _linear(self._confidence, nodes)
        return np.ascontiguousarray((self._spreads[nodes] @ mass.T).T)


class _Grids:
    """Masses of many rows on the grids that were asked for, with their cosine sums."""

    def __init__(self, many: ManyReleased, mass: FloatArray, weight: FloatArray) -> None:
        self._many, self._mass, self._weight = many, mass, weight
        self._nodes = _width(1.0).nodes
        self._usual = many.spread(mass, self._nodes)
        self._waves = scipy.fft.dct(self._usual, type=1)
        self._dense = many.spread(weight, self._nodes)

    def errors(self, width: float, rows: IntArray) -> FloatArray:
        """Return errors at one width."""
        at = _width(width)
        if at.nodes != self._nodes:
            return self._narrow(at, rows)
        return at.size(self._waves[rows]) / (self._dense[rows] @ at.total + at.offset)

    def compared(self, width: float, rows: IntArray) -> FloatArray:
        """Return errors at one width; infinity and -1 where they are above or below it for sure."""
        at = _width(width)
        if at.nodes != self._nodes:
            return self._narrow(at, rows)
        # The error is at least the sum of smoothed masses, and at most that of absolute ones.
        own, whole = self._usual[rows], self._dense[rows] @ at.total + at.offset
        least, most = np.abs(own @ at.total) / whole, np.abs(own) @ at.total / whole
        found = np.where(least > width + _MARGIN, np.inf, -1.0)
        due = (found < 0) & (most > width - _MARGIN)
        found[due] = at.size(self._waves[rows[due]]) / whole[due]
        return found

    def _narrow(self, at: _Width, rows: IntArray) -> FloatArray:
        """Return errors at a width that has a finer grid."""
        found = np.empty(len(rows))
        few = max(1, _AT_ONCE // (4 * at.nodes))
        for start in range(0, len(rows), few):
            part = rows[start : start + few]
            grid = self._many.spread(_rows(self._mass, part), at.nodes)
            weight = self._many.spread(_rows(self._weight, part), at.nodes)
            whole = weight @ at.total + at.offset
            found[start : start + few] = at.size(scipy.fft.dct(grid, type=1)) / whole
        return found


class ReflectedSmooth:
    """:func:`smallcal.metrics.smooth.reflected_smooth` of many sets of masses.

    Examples
    --------
    >>> smooth = ReflectedSmooth(np.array([0.25]), nodes=3)
    >>> smooth(np.array([[2.0], [1.0]]), 5.0).round(6).tolist()
    [[2.0, 2.0, 2.0], [1.0, 1.0, 1.0]]
    """

    def __init__(self, position: FloatArray, *, nodes: int) -> None:
        self._spread = _linear(position, nodes)

    def __call__(self, mass: FloatArray, width: float) -> FloatArray:
        """Smooth each row of masses (k, n); shape (k, nodes)."""
        return smoothed_grid(np.ascontiguousarray((self._spread @ mass.T).T), width)


class ManyExact:
    """The smooth calibration error, as defined, of many sets of masses at the same confidences.

    ``guess`` is about how large it will be; it decides the grid to begin with, not the result.

    Examples
    --------
    >>> confidence, residual = np.array([0.9, 0.7]), np.array([[-0.1, 0.7]])
    >>> ManyExact(confidence, guess=0.3)(residual / 2).round(4).tolist()
    [0.3]
    """

    def __init__(self, confidence: FloatArray, *, guess: float) -> None:
        self._first = max(guess / 2, _FIRST_WIDTH)
        # Equal confidences act as one sample; residuals that cancel there cancel at every width.
        self._position, self._ties = confidence, None
        position, place = np.unique(confidence, return_inverse=True)
        if len(position) < len(confidence):
            one = np.ones((len(confidence), 1))
            self._position, self._ties = position, _sparse(place[:, None], one, len(position))
        self._spreads: dict[int, csr_array] = {}

    def __call__(self, mass: FloatArray) -> FloatArray:
        """Return the error of each row of masses (k, n), residuals over the number of samples."""
        if self._ties is not None:
            mass = (self._ties @ mass.T).T
        least = np.abs(mass.sum(axis=1))
        found, floor = least.copy(), np.maximum(least, NARROWEST)
        left = np.flatnonzero(np.abs(mass).sum(axis=1) - least > 1e-12)
        width = self._first
        while len(left):
            unsolved = []
            few = max(1, _AT_ONCE // _cells(width))
            for start in range(0, len(left), few):
                rows = left[start : start + few]
                error, narrower = self._solved(_rows(mass, rows), np.maximum(floor[rows], width))
                last = floor[rows] >= width
                solved = ~narrower | last
                found[rows[solved]] = np.maximum(error, least[rows])[solved]
                unsolved.append(rows[~solved])
            left, width = np.concatenate(unsolved), max(width / 4, NARROWEST)
        return np.asarray(found)

    def _solved(self, mass: FloatArray, width: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return where E(s) = s at or above a width, and where s is below it, E(width) instead."""
        waves = self._waves(mass, float(width.min()))
        error = _errors_at(width, waves)
        narrower = error < width
        rows = np.flatnonzero(~narrower & (error - width > _SMALL_STEP))
        # E falls, so that s lies between the width and E(width).
        error[rows] = _crossing(waves[rows], width[rows], error[rows])
        return error, narrower

    def _waves(self, mass: FloatArray, width: float) -> FloatArray:
        """Return a_k = sum_i mass_i cos(pi k position_i), for the cosines that a width leaves."""
        cells = _cells(width)
        if cells not in self._spreads:
            self._spreads[cells] = _cubic(self._position, cells)
        grid = np.ascontiguousarray((self._spreads[cells] @ mass.T).T)
        grid[:, [0, -1]] *= 2  # the transform counts the ends half
        return np.asarray(scipy.fft.dct(grid, type=1)[:, : waves_left(width)] / 2)


def _cells(width: float) -> int:
    """Return a power of two that gives a width at least eight cells."""
    return max(64, 1 << (math.ceil(8 / width) - 1).bit_length())


def _cubic(position: FloatArray, cells: int) -> csr_array:
    """Share a sample between four nodes, so that cubics are summed as they are."""
    left, x = shares(position, cells + 1)
    weights = [
        -x * (x - 1) * (x - 2) / 6,
        (x + 1) * (x - 1) * (x - 2) / 2,
        -(x + 1) * x * (x - 2) / 2,
        (x + 1) * x * (x - 1) / 6,
    ]
    node = np.abs(left[:, None] + np.arange(-1, 3))  # beyond an end is its mirror image
    node = np.where(node > cells, 2 * cells - node, node)
    return _sparse(node, np.column_stack(weights), cells + 1)


def _crossing(waves: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the width s of each row at which E(s) = s, by secants that keep it enclosed.

    At ``low``, E is ``high``; the crossing lies between the two.
    """
    above, width = high - low, high.copy()
    below = _errors_at(high, waves) - high
    low, high = low.copy(), high.copy()
    left, last = np.arange(len(low)), np.zeros(len(low))
    for _ in range(_MOST_STEPS):
        left = left[(high[left] - low[left] > _SMALL_STEP) & (above[left] > below[left])]
        if not len(left):
            break
        a, b, fa, fb = low[left], high[left], above[left], below[left]
        new = np.clip((a * fb - b * fa) / (fb - fa), a, b)
        moved = np.abs(new - width[left])
        width[left] = new
        f = _errors_at(new, waves[left]) - new
        up = f > 0
        # An end that stays twice is taken for half as far (Illinois), or it would stay for ever.
        above[left] = np.where(up, f, np.where(last[left] < 0, fa / 2, fa))
        below[left] = np.where(up, np.where(last[left] > 0, fb / 2, fb), f)
        last[left] = np.where(up, 1, -1)
        low[left], high[left] = np.where(up, new, a), np.where(up, b, new)
        left = left[(moved > _SMALL_STEP) & (np.abs(f) > _SMALL_STEP)]
    return width


def _errors_at(width: FloatArray, waves: FloatArray) -> FloatArray:
    """Return E of each row's width: :func:`smallcal.metrics.smooth` with coarser cells."""
    if not len(waves):
        return np.empty(0)
    some = min(waves.shape[1], waves_left(float(width.min())))
    frequency = math.pi * np.arange(some)
    damped = waves[:, :some] * np.exp(-((frequency * width[:, None]) ** 2) / 2)
    cells = max(64, 1 << some.bit_length())  # more than two for each wave
    value = scipy.fft.dct(damped, type=1, n=cells + 1)
    step = np.empty((len(waves), cells))
    ripple = scipy.fft.dst(damped[:, 1:] / frequency[1:], type=1, n=cells - 1)
    step[:, 0], step[:, -1] = ripple[:, 0], -ripple[:, -1]
    np.subtract(ripple[:, 1:], ripple[:, :-1], out=step[:, 1:-1])
    step += damped[:, :1] / cells
    # Integrate |v|, from v on the nodes and its integral over each cell.
    negative = np.signbit(value)
    row, cell = np.nonzero(negative[:, :-1] != negative[:, 1:])
    added = split_cells(value[row, cell], value[row, cell + 1], step[row, cell], cells=cells)
    total = np.abs(step, out=step).sum(axis=1)
    return np.asarray(total + np.bincount(row, added, len(waves)))

"""Smooth calibration error (Błasiok & Nakkiran 2023): as released, and as defined.

The definition smooths the residuals c - b with a Gaussian kernel K reflected at 0 and 1,

    E(s) = integral over t in [0, 1] of |(1/n) sum_i K_s(t, c_i) (c_i - b_i)|,

and takes the width s where E(s) = s. E never increases, so there is one such width, and
|mean(c - b)| <= E(s) <= mean |c - b|.

:func:`smece` reproduces the authors' released estimator (relplot 1.0.3), with its grid, its
half-weighted end nodes and its coarse search, because published numbers come from it.
:func:`smece_exact` solves the definition.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from smallcal.data.predictions import FloatArray, IntArray
from smallcal.metrics.binned import bin_sums
from smallcal.metrics.measure import measure
from smallcal.metrics.scored import Scored

#: Below this width the exact error is bounded instead of solved: 0.01 percentage points.
NARROWEST = 1e-4

#: The released estimator's narrowest width, how often it halves, and what it adds to densities.
RELEASED_NARROWEST = 1e-3
RELEASED_HALVINGS = 10
RELEASED_DENSITY_OFFSET = 1e-4

# exp(-x^2 / 2) is below 1e-16 beyond this x.
_GAUSSIAN_REACH = 8.6
_TAYLOR_TERMS = 8


@measure
def smece(scored: Scored) -> float:
    """Smooth calibration error, as the authors' released estimator computes it.

    Equal to ``relplot.smECE`` 1.0.3. On smooth data it is within 0.1 percentage points of
    :func:`smece_exact`; where many confidences are 1.0 the two part, in either direction,
    because the released grid gives samples at the very end half their weight.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> round(smece([0, 1], [[0.9, 0.1], [0.7, 0.3]]), 4)
    0.2995
    """
    low, high = 0.0, 1.0
    for _ in range(RELEASED_HALVINGS):
        middle = (low + high) / 2
        if middle < RELEASED_NARROWEST or middle < _released_error(scored, middle):
            low = middle
        else:
            high = middle
    return _released_error(scored, high)


def _released_error(scored: Scored, width: float) -> float:
    kernel = released_kernel(width)
    nodes = len(kernel)
    masses = (scored.residual, np.ones(scored.n))
    grids = np.stack([_spread(scored.confidence, mass, nodes) for mass in masses])
    # The mirror does not repeat the end nodes, so what lies on them counts half.
    mirrored = np.pad(grids, ((0, 0), (nodes - 1, nodes - 1)), mode="reflect")
    length = scipy.fft.next_fast_len(mirrored.shape[1], real=True)
    smoothed = scipy.fft.irfft(
        scipy.fft.rfft(mirrored, length) * scipy.fft.rfft(kernel, length), length
    )
    first = nodes - 1 + nodes // 2
    on_nodes = smoothed[:, first : first + nodes]
    place = np.linspace(0, 1, max(round(10 / width), 200))
    node = np.linspace(0, 1, nodes)
    residual, density = (np.interp(place, node, row) for row in on_nodes)
    return float(np.abs(residual).sum() / (density + RELEASED_DENSITY_OFFSET).sum())


def released_kernel(width: float) -> FloatArray:
    """Return the released estimator's kernel, on as many nodes as its grid has."""
    offset = np.linspace(-0.5, 0.5, max(2000, round(20 / width)) // 2 + 1)
    found = np.exp(-(offset**2) / (2 * width**2)) / (math.sqrt(2 * math.pi) * width)
    return np.asarray(found)


def shares(position: FloatArray, nodes: int) -> tuple[IntArray, FloatArray]:
    """Return the node left of each position, and the share that the next one gets."""
    scaled = position * (nodes - 1)
    left = np.minimum(scaled.astype(np.int64), nodes - 2)
    return left, scaled - left


def _spread(position: FloatArray, mass: FloatArray, nodes: int) -> FloatArray:
    """Share each sample's mass between the two grid nodes it lies between."""
    left, share = shares(position, nodes)
    return bin_sums(left, (1 - share) * mass, nodes) + bin_sums(left + 1, share * mass, nodes)


@measure
def smece_exact(scored: Scored) -> float:
    """Smooth calibration error as it is defined: the width s at which E(s) = s.

    E(s) is the integral over [0, 1] of the absolute value of the residuals c - b smoothed with
    a Gaussian of width s reflected at both ends (see the module's first lines).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.

    Returns
    -------
    float
        Between ``|mean(c - b)|`` and 1, accurate to 1e-8. A value below 1e-4 is a lower bound,
        E(1e-4), and less than 1e-4 from the fixed point.

    Examples
    --------
    >>> round(smece_exact([0, 1], [[0.9, 0.1], [0.7, 0.3]]), 4)
    0.3
    """
    # Equal confidences act as one sample; residuals that cancel there cancel at every width.
    position, inverse = np.unique(scored.confidence, return_inverse=True)
    mass = bin_sums(inverse, scored.residual, len(position)) / scored.n
    least, upper = abs(float(mass.sum())), float(np.abs(mass).sum())
    floor = max(least, NARROWEST)
    while upper - least > 1e-12:
        lower = max(floor, upper / 4)
        waves = _cosine_sums(position, mass, waves_left(lower))
        error = _error_at(lower, waves)
        if error < lower:  # the fixed point is narrower, unless we are at the floor already
            if lower == floor:
                return max(error, least)
            upper = lower
            continue
        # E(upper) <= upper holds up to rounding; a hair above it holds for certain.
        upper += 1e-9
        return float(
            scipy.optimize.brentq(
                lambda s, a: _error_at(s, a) - s, lower, upper, (waves,), xtol=1e-12
            )
        )
    return least


def reflected_smooth(
    position: FloatArray, mass: FloatArray, width: float, *, nodes: int
) -> FloatArray:
    """Return masses in [0, 1] smoothed with the reflected Gaussian, on an even grid with both ends.

    At each t of the grid, sum_i K_s(t, position_i) mass_i. Masses are shared between the two nodes
    they lie between first, which is right to (1 / (width x nodes))^2 / 8. Many sets of masses at
    the same positions: :class:`smallcal.metrics.smooth_many.ReflectedSmooth`.

    Examples
    --------
    >>> reflected_smooth(np.array([0.25]), np.array([2.0]), 5.0, nodes=3).round(6).tolist()
    [2.0, 2.0, 2.0]
    """
    return smoothed_grid(_spread(position, mass, nodes), width)


def smoothed_grid(grid: FloatArray, width: float) -> FloatArray:
    """Return masses on the nodes of even grids, shape (..., nodes), smoothed; changes ``grid``."""
    nodes = grid.shape[-1]
    # This transform counts the ends half; what lies there has no less weight.
    grid[..., [0, -1]] *= 2
    waves = scipy.fft.dct(grid, type=1) / 2
    damped = waves * np.exp(-((math.pi * np.arange(nodes) * width) ** 2) / 2)
    return np.asarray(scipy.fft.dct(damped, type=1))


def waves_left(width: float) -> int:
    """Return how many cosines a Gaussian of this width leaves above rounding error."""
    return math.ceil(_GAUSSIAN_REACH / (math.pi * width)) + 1


def _cosine_sums(position: FloatArray, mass: FloatArray, modes: int) -> FloatArray:
    """Return a_k = sum_i mass_i cos(pi k position_i) for k = 0 .. modes - 1.

    Samples move to the nearest of many nodes, so that the sums are Fourier transforms; the
    Taylor series of exp(i pi k (node + offset)) in the offset makes up for the move. With 16
    nodes per mode its argument is below 0.1, and eight terms leave an error of 1e-13.
    """
    cells = _fine_grid(modes)
    scaled = position * cells
    node = np.rint(scaled).astype(np.int64)
    offset = scaled - node
    angle = 1j * math.pi * np.arange(modes) / cells
    sums = np.zeros(modes, dtype=np.complex128)
    power = np.ones(modes, dtype=np.complex128)
    for term in range(_TAYLOR_TERMS):
        transform = scipy.fft.rfft(bin_sums(node, mass, cells + 1), 2 * cells)
        sums += power * np.conj(transform[:modes])
        mass = mass * offset / (term + 1)
        power *= angle
    return sums.real


def _fine_grid(modes: int) -> int:
    """Return a power of two that gives every mode at least 16 cells."""
    return max(4096, 1 << (16 * modes - 1).bit_length())


def _error_at(width: float, waves: FloatArray) -> float:
    """Return E(width), the integral of the absolute smoothed residual.

    Cosines are the eigenfunctions of reflected smoothing: it multiplies the k-th by
    exp(-(pi k width)^2 / 2). The smoothed residual and its antiderivative are therefore
    known exactly on any grid.
    """
    modes = min(len(waves), waves_left(width))
    frequency = math.pi * np.arange(modes)
    damped = waves[:modes] * np.exp(-((frequency * width) ** 2) / 2)
    cells = _fine_grid(modes)  # at least 43 cells per width
    value = scipy.fft.dct(np.pad(damped, (0, cells + 1 - modes)), type=1)
    ripple = scipy.fft.dst(np.pad(damped[1:] / frequency[1:], (0, cells - modes)), type=1)
    step = np.diff(ripple, prepend=0.0, append=0.0) + damped[0] / cells
    return _absolute_sum(value, step)


def _absolute_sum(value: FloatArray, step: FloatArray) -> float:
    """Integrate |v| over the cells, given v on the nodes and its integral over each cell."""
    left, right = value[:-1], value[1:]
    total = float(np.abs(step).sum())
    crossing = np.signbit(left) != np.signbit(right)
    added = split_cells(left[crossing], right[crossing], step[crossing], cells=len(step))
    return total + float(added.sum())


def split_cells(left: FloatArray, right: FloatArray, step: FloatArray, *, cells: int) -> FloatArray:
    """Return what cells in which the sign changes add to the integral of |v|, beyond |step|."""
    # Split the cell at the zero of the chord. A wrong zero matters only to second order, and the
    # cubic through both ends is good to the fourth.
    s = left / (left - right)
    slope = left * s * (1 - s) ** 2 - right * s**2 * (1 - s)
    before = step * s**2 * (3 - 2 * s) + slope / cells
    return np.asarray(np.abs(before) + np.abs(step - before) - np.abs(step))

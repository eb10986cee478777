"""Binned calibration errors without the noise of the samples they are measured on.

The summed gap of a bin is a true gap plus noise, and its absolute value is too large on average:
near zero noise of either sign counts as error. :func:`without_noise` replaces the absolute value by
a function whose mean over the noise is |true gap| to within 0.16 standard errors, wherever the true
gap lies. No function does this exactly. This one has the smallest largest bias among even cubic
splines that multiply the standard error by at most 1.6 (compare Cai and Low 2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

import numpy as np
import scipy

from smallcal.data.predictions import FloatArray, IntArray
from smallcal.metrics.binned import DEFAULT_BINS, bin_sums, ece, equal_mass, equal_width
from smallcal.metrics.measure import measure
from smallcal.metrics.scored import Scored

#: How each error cuts the confidences into bins.
CUTS: Mapping[str, Callable[[FloatArray, int], IntArray]] = MappingProxyType(
    {"ece15": equal_width, "adaece15": equal_mass}
)

#: Beyond so many standard errors the sign of a gap is known, and nothing is changed.
_REACH = 4.0
_VALUES = (-1.553, -0.725, 0.896, 2.171, 2.847, 2.983, 2.833, 2.401, _REACH)
_FLAT, _STEEP = np.zeros(()), np.ones(())  # its slopes at zero and where it ends


def without_noise(gaps: FloatArray, noise: FloatArray) -> FloatArray:
    """Return what noisy gaps add to the sum of absolute true gaps: right on average.

    Single terms may be negative; only sums of many mean anything.

    Parameters
    ----------
    gaps : ndarray of shape (..., q)
    noise : ndarray of shape (q,)
        Their standard errors. Where one is 0, the gap is taken as it is.

    Examples
    --------
    >>> without_noise(np.array([-5.0, 0.5]), np.array([1.0, 0.0])).tolist()
    [5.0, 0.5]
    >>> noise = np.random.default_rng(0).normal(size=(100_000, 1))
    >>> found = without_noise(noise, np.ones(1))
    >>> round(float(np.abs(noise).mean()), 1), round(float(found.mean()), 1)
    (0.8, 0.2)
    """
    size = np.abs(gaps)
    scale = np.where(noise > 0, noise, 1.0)
    ratio = np.where(noise > 0, size / scale, _REACH)
    near = ratio < _REACH
    found = size.copy()
    found[near] = np.broadcast_to(scale, size.shape)[near] * _spline()(ratio[near])
    return found


@cache
def _spline() -> scipy.interpolate.CubicSpline[np.float64]:
    knots = np.linspace(0.0, _REACH, len(_VALUES))
    return scipy.interpolate.CubicSpline(knots, _VALUES, bc_type=((1, _FLAT), (1, _STEEP)))


@measure
def debiased_ece(scored: Scored, *, bins: int = DEFAULT_BINS) -> float:
    """Calibration error of the confidence with the noise of the samples taken off.

    See :func:`without_noise`. The sum over bins is cut off at 0 and at the plain value, so that for
    a calibrated model about two fifths of what noise shows remains.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Column of the true class.
    y_proba : array-like of shape (n, C)
        Class probabilities.
    bins : int, default 15
        Number of bins of equal width.

    Returns
    -------
    float
        Between 0 and the plain value that :func:`smallcal.metrics.ece` gives.

    Examples
    --------
    >>> y_true, y_proba = [0] * 60 + [1] * 40, [[0.8, 0.2]] * 100
    >>> round(debiased_ece(y_true, y_proba), 4)  # a gap of four standard errors is no noise
    0.2
    >>> y_true = [0] * 78 + [1] * 22
    >>> round(debiased_ece(y_true, y_proba), 4)  # and one of half a standard error may be all noise
    0.0
    """
    index = equal_width(scored.confidence, bins)
    return min(max(0.0, _debiased(scored, index, bins)), ece.of(scored, bins=bins))


def estimate(name: str, scored: Scored) -> float:
    """Return the error named, one of :data:`CUTS`, without noise; it may be below zero."""
    return _debiased(scored, CUTS[name](scored.confidence, DEFAULT_BINS), DEFAULT_BINS)


def _debiased(scored: Scored, index: IntArray, bins: int) -> float:
    return float(without_noise(*summed_gaps(scored, index, bins=bins)).sum())


def summed_gaps(
    scored: Scored, index: IntArray, *, bins: int = DEFAULT_BINS
) -> tuple[FloatArray, FloatArray]:
    """Return each bin's summed gap over n, and the standard error that noise gives it."""
    gap, noise, share = binned_gaps(
        scored.confidence,
        scored.residual,
        index,
        bins=bins,
        evenly=False,
        clusters=scored.clusters,
    )
    return share * gap, share * np.sqrt(noise)


def binned_gaps(
    confidence: FloatArray,
    residual: FloatArray,
    index: IntArray | None = None,
    *,
    bins: int = DEFAULT_BINS,
    evenly: bool = True,
    clusters: IntArray | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each bin's mean gap, the variance that noise gives it, and its share of samples.

    ``residual`` is confidence minus correctness; ``index`` the bin of each sample, by default of
    equal width. Bins without samples have zeros in all three. Where chances of being correct are
    off on the whole, noise is taken to be that of chances off by the same everywhere, or, if not
    ``evenly``, by more where the confidence is doubtful: near 1 there is little room.
    Noise of samples in clusters is larger by as much as the squared sums of clusters are, inside
    bins, than the squares of single samples.
    """
    index = equal_width(confidence, bins) if index is None else index
    count = bin_sums(index, np.ones(len(confidence)), bins)
    full = count > 0
    size, share = count[full], count[full] / len(confidence)
    gap = bin_sums(index, residual, bins)[full] / size

    room = np.ones(len(confidence)) if evenly else confidence * (1 - confidence)

    def noise_if(shift: float) -> FloatArray:
        """Variances of the gaps if chances of being correct are off by so much on average."""
        chance = np.clip(confidence - shift * room / max(room.mean(), 1e-300), 0.0, 1.0)
        return np.asarray(bin_sums(index, chance * (1 - chance), bins)[full] / size**2)

    # Accuracies, of a bin or of all samples, would give no variance where all are correct by
    # luck. So only the part of the mean gap that is above the noise moves the chances.
    shift, before = float(share @ gap), noise_if(0.0)
    above = math.sqrt(max(0.0, shift**2 - float(share**2 @ before)))
    found = np.zeros((3, bins))
    found[:, full] = gap, noise_if(math.copysign(above, shift)), share
    if clusters is not None:
        own = residual - found[0][index]
        cells = np.unique(clusters * bins + index, return_inverse=True)[1]
        whole, single = (float(each @ each) for each in (np.bincount(cells, own), own))
        found[1] *= max(1.0, whole / max(single, 1e-300))
    return found[0], found[1], found[2]

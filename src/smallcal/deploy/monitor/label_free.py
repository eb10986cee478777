"""Evidence of drift without labels: a stream's counts against those of the calibration split.

Cut a continuous distribution at ranks of n values drawn from it: whatever it is, the chances of
the bins are Dirichlet, with as many parameters' worth in each bin as it holds of the n + 1 gaps
between the values. So without drift a stream's counts have a known distribution (Pólya's), with
the smallness of the split in it. The ratio of any other distribution of counts to that one is a
nonnegative martingale that starts at 1: it ever reaches 1 / alpha with probability at most alpha,
however often one looks. The other distribution here is a mixture of Pólya's with tilted means.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, logsumexp

from smallcal.data.predictions import FloatArray

#: How far the log of a bin's share may lean, over half the range of bins, in both directions.
TILTS = (0.25, 0.5, 1.0, 2.0)

#: Concentration of each tilted Dirichlet distribution, as a share of the split's own.
CONCENTRATIONS = (1.0, 0.25, 0.0625)

#: Share of the mixture that expects nothing in particular: any change of shape.
_OPEN_SHARE = 0.1

#: What a group's count in the split is given on top: groups are not cut at its ranks.
GROUP_PRIOR = 0.5


def log_evidence(counts: FloatArray, prior: FloatArray) -> FloatArray:
    """Return the log of the e-value against "these counts come from where the split did".

    Parameters
    ----------
    counts : array of shape (..., b)
        Of the stream, in each bin; looks may stand on the axes before.
    prior : array of shape (b,)
        Dirichlet parameters that the split gives the bins.

    Examples
    --------
    >>> split = np.full(10, 25.0)
    >>> calm, leaning = log_evidence(np.array([np.full(10, 100), np.arange(10) * 22]), split)
    >>> bool(calm < 0), bool(leaning > np.log(1000))
    (True, True)
    """
    means, weights = _alternatives(prior)
    seen = np.asarray(counts, dtype=np.float64)[..., None, :]
    mixed = logsumexp(_log_polya(seen, means), axis=-1, b=weights)
    return np.asarray(mixed - _log_polya(seen[..., 0, :], prior))


def pooled(parts: list[FloatArray]) -> FloatArray:
    """Return the log of the mean of e-values, which is one again.

    Examples
    --------
    >>> np.exp(pooled([np.array([0.0]), np.log([3.0])])).round(9).tolist()
    [2.0]
    """
    return np.asarray(np.logaddexp.reduce(parts) - np.log(len(parts)))


def _alternatives(prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the Dirichlet parameters of each part of the mixture, and its share."""
    bins, total = len(prior), prior.sum()
    lean = np.linspace(-1, 1, bins)
    parts = [np.full(bins, 0.5)]
    for tilt in (sign * size for size in TILTS for sign in (1, -1)):
        mean = prior * np.exp(tilt * lean)
        parts += [mean / mean.sum() * max(share * total, bins / 2) for share in CONCENTRATIONS]
    leaning = len(parts) - 1
    shares = np.array([_OPEN_SHARE, *[(1 - _OPEN_SHARE) / leaning] * leaning])
    return np.array(parts), shares


def _log_polya(counts: FloatArray, prior: FloatArray) -> FloatArray:
    """Return the log-probability of a sequence with these counts, bins' chances Dirichlet."""
    total, n = prior.sum(axis=-1), counts.sum(axis=-1)
    each = (gammaln(prior + counts) - gammaln(prior)).sum(axis=-1)
    return np.asarray(gammaln(total) - gammaln(total + n) + each)

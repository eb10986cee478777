"""Slope and bias of the log-odds, from what the old split knew and what new rows say.

The log-odds l of a claim become

    l' = l + (a - 1) x + b,    x = l held within +-FAR,

with slope a and bias b; the proportions of the other classes get a power of their own (``tail``).
Before the new rows (a, b) is normal around (1, 0), the old fit itself. Its covariance is the
inverse of what the old split knew of the two, the expected information of its own confidences, and
more on top, s^2 for each of the two: what has moved since. How large s is nobody knows. It is
half-normal, its scale sqrt(CALM^2 + MOVED d), where d says how far the bins that a monitor counts
find the model's own confidences from those of the split (0 to 1, without labels). All values of s
count, each by how likely it makes the outcomes of the new rows (Laplace).

CALM and MOVED were chosen on calibration splits alone: pairs of a calibrator and new rows, of the
same model or of another. Each family of models left out in turn, the others chose these of 25 in 11
cases of 16: `benchmarks/refresh_study.py --choose`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from smallcal.calibrators.confidence_shift import BIASES, FAR, SLOPES
from smallcal.calibrators.evidence import Evidence
from smallcal.calibrators.objectives import sigmoid, softplus
from smallcal.data.checks import BoolArray, FloatArray
from smallcal.deploy.refresh.tail import WORTH, Tail, tail_of

#: The usual move where confidences look as before, and its square where they look altogether other.
CALM, MOVED = 0.05, 3.0
#: Values of s.
SCALES = np.geomspace(0.02, 2.0, 21)
#: Slopes and biases lie within about 1 of the old ones, however little a split knew.
_WEAK = 1.0

_STEPS, _CLOSE = 100, 1e-12
#: Log-odds over which information is summed up.
_GRID = np.arange(-60, 60 + 1 / 32, 1 / 16)
#: How narrow confidences are at most, as the sum of the two parameters of a beta distribution.
_NARROWEST = 1e4
_TWO_SIDED = 1.959963984540054


class Known(NamedTuple):
    """What is known of a calibrator before the new rows.

    Attributes
    ----------
    information : array of shape (2, 2)
        Of the old split, on slope and bias.
    bins : array or None
        Gaps between ranked confidences of the split in each bin; see ``Bins.spacings``.
    wrong : float
        Wrong predictions to be expected among the rows of the split.
    """

    information: FloatArray
    bins: FloatArray | None = None
    wrong: float = 0.0


def information(n: float, mean: float, square: float) -> FloatArray:
    """Return what n claims tell of slope and bias: from the mean of their confidences and squares.

    In between a beta distribution is taken for theirs.

    Examples
    --------
    >>> odds = np.random.default_rng(0).normal(1.5, 1.0, 1000)
    >>> p = sigmoid(odds)
    >>> known = information(1000, p.mean(), (p**2).mean())
    >>> round(float(known[0, 0] / np.sum(p * (1 - p) * odds**2)), 1)
    1.0
    """
    mean = min(max(mean, 1e-6), 1 - 1e-6)
    spread = max(square - mean**2, mean * (1 - mean) / (_NARROWEST + 1))
    both = max(mean * (1 - mean) / spread - 1, 1e-2)
    # Of the log-odds: a factor p (1 - p) more than of the probability.
    log = -both * (mean * softplus(-_GRID) + (1 - mean) * softplus(_GRID))
    share = np.exp(log - log.max())
    p, x = sigmoid(_GRID), np.clip(_GRID, -FAR, FAR)
    weight = n * share / share.sum() * p * (1 - p)
    across = float(weight @ x)
    return np.array([[weight @ x**2, across], [across, weight.sum()]])


def distance(counts: FloatArray, before: FloatArray) -> float:
    """Return how far shares are from those before, 0 to 1, less twice what chance alone does.

    Half the triangular discrimination.

    Examples
    --------
    >>> before = np.full(10, 40.0)
    >>> distance(np.full(10, 5), before), distance(np.eye(10)[0] * 1000, before) > 0.7
    (0.0, True)
    """
    n, total = counts.sum(), before.sum()
    if not n:
        return 0.0
    new, old = counts / n, before / total
    both = new + old
    apart = float(np.sum((new - old) ** 2 / np.where(both > 0, both, 1.0))) / 2
    return max(0.0, apart - (len(counts) - 1) / 2 * float(1 / n + 1 / total))


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is believed of slope and bias, and what it is worth on the new rows.

    Attributes
    ----------
    rows : int
        New rows.
    slope, bias : float
    slope_interval, bias_interval : (float, float)
        95 %.
    moved : float
        How far the model's own confidences are from the split's, 0 to 1.
    scale : float
        The move that the new rows speak for.
    before, after : float
        Mean log-loss of the claims of the new rows as they are, and with each row's left out of
        what shifts it.
    gain_interval : (float, float)
        Of the difference, 95 %.
    tail : Tail
        What is believed of the power of the other classes.
    """

    rows: int
    slope: float
    bias: float
    slope_interval: tuple[float, float]
    bias_interval: tuple[float, float]
    moved: float
    scale: float
    before: float
    after: float
    gain_interval: tuple[float, float]
    tail: Tail

    @property
    def better(self) -> bool:
        """Whether the new rows are likelier with it: the gate."""
        return self.rows * (self.before - self.after) > WORTH


def posterior(evidence: Evidence, known: Known) -> Posterior:
    """Return slope and bias of new rows, and whether they are better than none.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> odds = rng.normal(2.0, 1.0, 2000)
    >>> known = Known(information(200, 0.85, 0.74))
    >>> sure = posterior(Evidence.of(odds, rng.random(2000) < sigmoid(0.5 * odds)), known)
    >>> round(sure.slope, 1), sure.better
    (0.6, True)
    """
    moved = 0.0
    if known.bins is not None and evidence.bins:
        moved = distance(np.array(evidence.bins, dtype=np.float64), known.bins)
    usual = np.sqrt(CALM**2 + MOVED * moved)
    rows, spread = _Rows.of(evidence), np.linalg.inv(known.information + _WEAK * np.eye(2))
    priors = np.linalg.inv(spread + SCALES[:, None, None] ** 2 * np.eye(2))
    modes = _modes(rows, priors)
    found = _Modes.of(rows, modes, priors)
    # Scales lie evenly in their logarithm.
    chances = np.log(SCALES) - (SCALES / usual) ** 2 / 2
    log = found.log_evidence + chances
    share = np.exp(np.maximum(log - log.max(), -500.0))
    share /= share.sum()
    mean = share @ modes
    apart = modes - mean
    covariance = np.einsum(
        "s,sij->ij", share, found.covariance + apart[:, :, None] * apart[:, None]
    )
    half = _TWO_SIDED * np.sqrt(np.diag(covariance))
    before, after, interval = _compared(rows, found, share)
    return Posterior(
        rows=evidence.rows,
        slope=float(np.clip(1 + mean[0], *SLOPES)),
        bias=float(np.clip(mean[1], *BIASES)),
        slope_interval=(max(SLOPES[0], 1 + float(mean[0] - half[0])), 1 + float(mean[0] + half[0])),
        bias_interval=(float(mean[1] - half[1]), float(mean[1] + half[1])),
        moved=moved,
        scale=float(share @ SCALES),
        before=before,
        after=after,
        gain_interval=interval,
        tail=tail_of(evidence, known.wrong, (SCALES, chances)),
    )


class _Rows(NamedTuple):
    """Log-odds, what slope and bias are multiplied with, and the rows right and wrong there."""

    odds: FloatArray
    given: FloatArray
    right: FloatArray
    wrong: FloatArray

    @classmethod
    def of(cls, evidence: Evidence) -> _Rows:
        odds, right, wrong = evidence.arrays()
        given = np.stack([np.clip(odds, -FAR, FAR), np.ones(len(odds))], axis=1)
        return cls(odds, given, right, wrong)

    def shifted(self, modes: FloatArray) -> FloatArray:
        """Return the log-odds under each of several slopes and biases, shape (s, k)."""
        return np.asarray(self.odds + modes @ self.given.T)

    def lost(self, shifted: FloatArray) -> FloatArray:
        return np.asarray(softplus(-shifted) @ self.right + softplus(shifted) @ self.wrong)

    def curvature(self, shifted: FloatArray) -> FloatArray:
        p = sigmoid(shifted)
        weight = (self.right + self.wrong) * p * (1 - p)
        return np.asarray(np.einsum("sk,ki,kj->sij", weight, self.given, self.given))


def _modes(rows: _Rows, priors: FloatArray) -> FloatArray:
    """Return the likeliest (a - 1, b) under each prior: Newton within bounds, for all at once."""
    low, high = np.array([SLOPES[0] - 1, BIASES[0]]), np.array([SLOPES[1] - 1, BIASES[1]])
    modes = np.zeros((len(priors), 2))

    def objective(at: FloatArray) -> FloatArray:
        held = np.einsum("si,sij,sj->s", at, priors, at) / 2
        return np.asarray(rows.lost(rows.shifted(at)) + held)

    value = objective(modes)
    for _ in range(_STEPS):
        shifted = rows.shifted(modes)
        p = sigmoid(shifted)
        slope = (rows.right * (1 - p) - rows.wrong * p) @ rows.given
        slope -= np.einsum("sij,sj->si", priors, modes)
        step = _within(slope, rows.curvature(shifted) + priors, modes <= low, modes >= high)
        length = np.ones(len(modes))
        for _ in range(30):  # halved until it does not make things worse
            tried = np.clip(modes + length[:, None] * step, low, high)
            reached = objective(tried)
            worse = reached > value + _CLOSE * np.abs(value)
            if not worse.any():
                break
            length[worse] /= 2
        moved = np.abs(tried - modes).max()
        modes, value = tried, reached
        if moved < _CLOSE:
            break
    return modes


def _within(
    slope: FloatArray, curvature: FloatArray, at_low: BoolArray, at_high: BoolArray
) -> FloatArray:
    """Return Newton's step; what would leave its bounds stays where it is."""
    held = (at_low & (slope < 0)) | (at_high & (slope > 0))
    free = ~held
    kept = curvature * free[:, :, None] * free[:, None] + np.eye(2) * held[:, :, None]
    return np.asarray(np.linalg.solve(kept, np.where(held, 0.0, slope)[:, :, None])[:, :, 0])


class _Modes(NamedTuple):
    """Of each scale: log-odds of the rows, the covariance of slope and bias, the log-evidence."""

    shifted: FloatArray
    covariance: FloatArray
    log_evidence: FloatArray

    @classmethod
    def of(cls, rows: _Rows, modes: FloatArray, priors: FloatArray) -> _Modes:
        shifted = rows.shifted(modes)
        curvature = rows.curvature(shifted) + priors
        log = -rows.lost(shifted) - np.einsum("si,sij,sj->s", modes, priors, modes) / 2
        volumes = np.linalg.slogdet(priors)[1] - np.linalg.slogdet(curvature)[1]
        return cls(shifted, np.linalg.inv(curvature), log + volumes / 2)


def _compared(
    rows: _Rows, found: _Modes, share: FloatArray
) -> tuple[float, float, tuple[float, float]]:
    """Return the mean loss before, after with each row left out, and an interval of the gain.

    Leaving a row out moves its log-odds by one Newton step, and makes those scales likelier that
    it was unlikely under.
    """
    leverage = np.einsum("ki,sij,kj->sk", rows.given, found.covariance, rows.given)
    p = sigmoid(found.shifted)
    room = np.maximum(1 - p * (1 - p) * leverage, 0.05)
    n = float(np.sum(rows.right + rows.wrong))
    before, after, squares = 0.0, 0.0, 0.0
    for holds, count in ((1.0, rows.right), (0.0, rows.wrong)):
        sign = 1 - 2 * holds
        without = found.shifted - leverage * (holds - p) / room
        log = np.log(share)[:, None] + softplus(sign * without)
        each = np.exp(log - log.max(axis=0))
        left_out = np.sum(each * without, axis=0) / each.sum(axis=0)
        old, new = softplus(sign * rows.odds), softplus(sign * left_out)
        before += float(count @ old)
        after += float(count @ new)
        squares += float(count @ (old - new) ** 2)
    gain = (before - after) / n
    half = _TWO_SIDED * np.sqrt(max(squares / n - gain**2, 0.0) / max(n - 1, 1.0))
    return before / n, after / n, (float(gain - half), float(gain + half))

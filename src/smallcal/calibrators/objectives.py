"""What a fit minimises: loss and derivatives per sample in the inverse temperature.

One kernel serves every objective. For a row with prediction ``top``, gaps
``d_j = z_j - z_top <= 0`` and inverse temperature ``b``, let ``S = sum_{j != top} exp(b d_j)``.
Then the top confidence is ``c = 1 / (1 + S)``, its log-odds are ``L = -log S``, and with ``m``
and ``v`` the mean and variance of ``d_j`` under weights proportional to ``exp(b d_j)``,
``j != top``,

    dL/db = -m,    d2L/db2 = -v.

So each objective is a short function of ``L``, ``m``, ``v`` and whether the prediction is
right. Everything is in log space: nothing is clipped, and a confidence of 1 - 1e-300 has exact
derivatives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from smallcal.data.masks import squared_norms
from smallcal.data.predictions import BoolArray, FloatArray, IntArray, Predictions
from smallcal.errors import InputError, choose

#: Rows x classes per block of the kernel: 512 kB of float64 stays in a core's own cache.
_BLOCK_SIZE = 65_536

SOFTECE_BINS = 15
SOFTECE_BANDWIDTH = 0.05
SOFTECE_DELTA = 1e-3


def sigmoid(x: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-x)) without overflow.

    Examples
    --------
    >>> sigmoid(np.array([-1000.0, 0.0, 50.0])).round(3).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.asarray(1 / (1 + np.exp(-np.maximum(x, -700))))


def softplus(x: FloatArray) -> FloatArray:
    """Return log(1 + exp(x)); the same as ``np.logaddexp(0, x)``, several times faster.

    Examples
    --------
    >>> softplus(np.array([-800.0, 0.0, 800.0])).round(3).tolist()
    [0.0, 0.693, 800.0]
    """
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


@dataclass(frozen=True, eq=False)
class Gaps:
    """What the objectives need of a calibration split, computed once.

    Attributes
    ----------
    rest : ndarray of shape (n, C - 1)
        Logits of the classes not predicted, minus the largest of them: at most 0.
    best : ndarray of shape (n,)
        That largest one minus the top logit: minus the margin, at most 0.
    label : ndarray of shape (n,)
        Logit of the true class minus the top logit; 0 where the prediction is right.
    correct : ndarray of bool, shape (n,)
    weight : ndarray of shape (n,), or None
    n : int
        Number of samples.
    weights : ndarray of shape (n,)
        Of every sample: ones where none were given.
    total : float
        What they count together: their number, or the sum of their weights.
    scratch : ndarray
        Room for one block of the kernel; fresh memory would cost as much as the arithmetic.
    """

    rest: FloatArray
    best: FloatArray
    label: FloatArray
    correct: BoolArray
    weight: FloatArray | None
    scratch: FloatArray
    n: int = field(init=False)
    weights: FloatArray = field(init=False)
    total: float = field(init=False)

    def __post_init__(self) -> None:
        weights = np.ones(len(self.best)) if self.weight is None else self.weight
        known = {"n": len(self.best), "weights": weights, "total": float(weights.sum())}
        for name, value in known.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, preds: Predictions) -> Gaps:
        """Build the gaps of checked predictions."""
        every = np.arange(preds.n)
        predicted = preds.predicted
        top = preds.logits[every, predicted].astype(np.float64)
        label = preds.logits[every, preds.labels] - top
        # The order of the other classes is irrelevant: the last one takes the top's place.
        rest = preds.logits[:, :-1].astype(np.float64)
        moved = predicted < rest.shape[1]
        rest[every[moved], predicted[moved]] = preds.logits[moved, -1]
        # Twice as quick as rest.max(axis=1).
        second = np.maximum.reduceat(rest.reshape(-1), every * rest.shape[1])
        rest -= second[:, None]
        size = min(max(1, _BLOCK_SIZE // rest.shape[1]), preds.n)
        scratch = np.empty((size, rest.shape[1]))
        return cls(rest, second - top, label, preds.correct, preds.weight, scratch)

    def take(self, rows: IntArray) -> Gaps:
        """Return the gaps of some rows."""
        weight = None if self.weight is None else self.weight[rows]
        parts = (self.rest[rows], self.best[rows], self.label[rows], self.correct[rows])
        return Gaps(*parts, weight, self.scratch)


@dataclass(frozen=True, eq=False)
class Moments:
    """The kernel's result at given inverse temperatures; arrays have shape (n,).

    Attributes
    ----------
    beta : inverse temperature, one for all or one per sample
    log_odds : log c - log(1 - c) of the top confidence c
    mean, variance : of the gaps d_j over the classes not predicted
    confidence, doubt : c and 1 - c, each accurate when tiny
    """

    beta: float | FloatArray
    log_odds: FloatArray
    mean: FloatArray
    variance: FloatArray
    confidence: FloatArray
    doubt: FloatArray


def moments(gaps: Gaps, beta: float | FloatArray) -> Moments:
    """Evaluate the kernel; ``beta`` is one inverse temperature, or one per sample."""
    total, first, second = np.empty((3, gaps.n))
    ones = np.ones(gaps.rest.shape[1])
    for rows, rest, weight in _weights(gaps, beta):
        np.matmul(weight, ones, out=total[rows])
        weight *= rest
        np.matmul(weight, ones, out=first[rows])
        np.einsum("ij,ij->i", weight, rest, out=second[rows])
    # Moments are taken about the runner-up's gap, where the weight sits: m2 - m1² keeps its
    # digits even when the gaps are thousands.
    shifted = first / total
    variance = np.maximum(second / total - shifted**2, 0)
    odds = -(beta * gaps.best + np.log(total))
    return Moments(beta, odds, gaps.best + shifted, variance, sigmoid(odds), sigmoid(-odds))


class Seen(NamedTuple):
    """A split as a fit sees it: its record, its gaps, and the kernel at temperature 1."""

    preds: Predictions
    gaps: Gaps
    raw: Moments

    @classmethod
    def of(cls, preds: Predictions) -> Seen:
        """Look at a split."""
        gaps = Gaps.of(preds)
        return cls(preds, gaps, moments(gaps, 1.0))

    def moved(self, logits: FloatArray) -> Seen:
        """Return the same split with other logits, float64."""
        norms = squared_norms(logits)
        return Seen.of(replace(self.preds, logits=logits, squared_norms=norms))


def log_odds(gaps: Gaps, beta: float | FloatArray) -> FloatArray:
    """Return the log-odds of the top confidence alone, at half the cost of the moments."""
    total = np.empty(gaps.n)
    ones = np.ones(gaps.rest.shape[1])
    for rows, _, weight in _weights(gaps, beta):
        np.matmul(weight, ones, out=total[rows])
    return np.asarray(-(beta * gaps.best + np.log(total)))


def losses(gaps: Gaps, beta: float | FloatArray, odds: FloatArray) -> dict[str, float]:
    """Return the losses that an artefact records, from the log-odds of the confidence."""
    return {
        "nll": float((softplus(-odds) - beta * gaps.label).mean()),
        "top_label_bce": float(softplus(np.where(gaps.correct, -odds, odds)).mean()),
        "mean_confidence": float(sigmoid(odds).mean()),
    }


def _weights(
    gaps: Gaps, beta: float | FloatArray
) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Give block after block: its rows, the gaps there, and exp(beta x gap) in the scratch."""
    size = len(gaps.scratch)
    for start in range(0, gaps.n, size):
        rest = gaps.rest[start : start + size]
        rows = slice(start, start + len(rest))
        weight = gaps.scratch[: len(rest)]
        np.multiply(rest, beta[rows, None] if isinstance(beta, np.ndarray) else beta, out=weight)
        np.exp(weight, out=weight)
        yield rows, rest, weight


class Terms(NamedTuple):
    """Loss per sample with its first and second derivative in the inverse temperature.

    ``slope[i]`` is the derivative of the summed loss in sample i's own inverse temperature.
    ``curvature`` sums to the second derivative when the samples share one inverse temperature;
    for objectives that add over samples it also is each sample's own second derivative.
    """

    loss: FloatArray
    slope: FloatArray
    curvature: FloatArray


@dataclass(frozen=True)
class Objective:
    """A named objective.

    ``unimodal`` says that one descent finds the minimum in a shared inverse temperature; the
    others are scanned first. ``additive`` says that it is a sum over samples.
    """

    name: str
    terms: Callable[[Gaps, Moments], Terms]
    summary: str
    unimodal: bool = True
    additive: bool = True


def _nll(gaps: Gaps, m: Moments) -> Terms:
    loss = softplus(-m.log_odds) - m.beta * gaps.label
    slope = m.doubt * m.mean - gaps.label
    curvature = m.confidence * m.doubt * m.mean**2 + m.doubt * m.variance
    return Terms(loss, slope, curvature)


def _residual(gaps: Gaps, m: Moments) -> FloatArray:
    """Correctness minus confidence, without cancellation."""
    return np.where(gaps.correct, m.doubt, -m.confidence)


def _bce(gaps: Gaps, m: Moments) -> Terms:
    residual = _residual(gaps, m)
    loss = softplus(np.where(gaps.correct, -m.log_odds, m.log_odds))
    slope = residual * m.mean
    curvature = m.confidence * m.doubt * m.mean**2 + residual * m.variance
    return Terms(loss, slope, curvature)


def _confidence_derivatives(m: Moments) -> tuple[FloatArray, FloatArray]:
    spread = m.confidence * m.doubt
    first = -spread * m.mean
    second = spread * ((m.doubt - m.confidence) * m.mean**2 - m.variance)
    return first, second


def _brier(gaps: Gaps, m: Moments) -> Terms:
    residual = _residual(gaps, m)
    first, second = _confidence_derivatives(m)
    return Terms(residual**2, -2 * residual * first, 2 * first**2 - 2 * residual * second)


def _softece(gaps: Gaps, m: Moments) -> Terms:
    """Soft-binned calibration error, the L1 form smoothed at zero.

    With bin weights w_im of sample i in bin m, A_m = sum_i w_im (c_i - b_i) and
    M_m = sum_i w_im, the loss is (1/n) sum_m h(A_m, M_m) with h = sqrt(A² + delta² M²). As h is
    homogeneous of degree one, h = A h_A + M h_M, which splits the loss exactly over samples.
    """
    weight = gaps.weights
    w, a = _softece_bins(m.confidence, -_residual(gaps, m))
    first, second = (column[:, None] for column in _confidence_derivatives(m))
    a1, w1 = a[1] * first, w[1] * first
    a2 = a[2] * first**2 + a[1] * second
    w2 = w[2] * first**2 + w[1] * second

    big_a, big_m, slope_a, slope_m = (weight @ part for part in (a[0], w[0], a1, w1))
    delta2 = SOFTECE_DELTA**2
    h = np.maximum(np.sqrt(big_a**2 + delta2 * big_m**2), 1e-300)
    h_a, h_m = big_a / h, delta2 * big_m / h
    bend = delta2 * (big_m * slope_a - big_a * slope_m) / h**3

    loss = a[0] @ h_a + w[0] @ h_m
    slope = a1 @ h_a + w1 @ h_m
    curvature = a1 @ (bend * big_m) - w1 @ (bend * big_a) + a2 @ h_a + w2 @ h_m
    return Terms(loss, slope, curvature)


def _softece_bins(
    c: FloatArray, gap: FloatArray
) -> tuple[tuple[FloatArray, ...], tuple[FloatArray, ...]]:
    """Return soft bin weights w, and a = w (c - b), each with two derivatives in c."""
    variance = SOFTECE_BANDWIDTH**2
    centres = (np.arange(SOFTECE_BINS) + 0.5) / SOFTECE_BINS
    exponent = -((c[:, None] - centres) ** 2) / (2 * variance)
    w0 = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    w0 /= w0.sum(axis=1, keepdims=True)
    offset = centres - (w0 @ centres)[:, None]
    w1 = w0 * offset / variance
    spread = (w0 * offset**2).sum(axis=1)[:, None]
    w2 = w0 * (offset**2 - spread) / variance**2
    column = gap[:, None]
    return (w0, w1, w2), (w0 * column, w1 * column + w0, w2 * column + 2 * w1)


def mixed(weight: float) -> Objective:
    """Return the objective NLL + weight x BCE of the top label.

    Examples
    --------
    >>> mixed(3).name
    'mixed(3)'
    """
    if not 0 <= weight < float("inf"):
        raise InputError(
            f"the weight of mixed(...) must be finite and not negative; got {weight}",
            code="option-range",
        )

    def terms(gaps: Gaps, m: Moments) -> Terms:
        parts = zip(_nll(gaps, m), _bce(gaps, m), strict=True)
        return Terms(*(nll + weight * bce for nll, bce in parts))

    short = f"{weight:g}"
    exact = short if float(short) == weight else repr(float(weight))
    return Objective(f"mixed({exact})", terms, "log-loss plus weighted top-label log-loss")


OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {
        row.name: row
        for row in (
            Objective("nll", _nll, "log-loss: negative log-likelihood of the true class"),
            Objective("bce", _bce, "top-label log-loss: log-loss of the confidence"),
            Objective("brier", _brier, "squared error of the top confidence", unimodal=False),
            Objective(
                "softece",
                _softece,
                "soft-binned calibration error",
                unimodal=False,
                additive=False,
            ),
            mixed(1.0),
        )
    }
)


def objective(name: str) -> Objective:
    """Return an objective by name; ``mixed(L)`` takes any weight L, ``mixed`` is ``mixed(1)``.

    Examples
    --------
    >>> objective("bce").name, objective("mixed(0.3)").name
    ('bce', 'mixed(0.3)')
    """
    return OBJECTIVES[name] if name in OBJECTIVES else _weighted(name)


def _weighted(name: str) -> Objective:
    """Return ``mixed(L)``, or ``mixed``."""
    match = re.fullmatch(r"mixed(?:\(([0-9.eE+-]+)\))?", name) if isinstance(name, str) else None
    if match is None:
        known = ["nll", "bce", "brier", "softece", "mixed(weight)"]
        raise InputError(
            f"unknown objective {name!r}; {choose(name, known)}", code="unknown-choice"
        )
    try:
        weight = float(match.group(1) or 1)
    except ValueError:
        raise InputError(f"the weight in {name!r} is not a number", code="option-format") from None
    return mixed(weight)

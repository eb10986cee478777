"""What kind of drift: whether how frequent the classes are explains it, or more has changed.

Under label shift, p(x | y) is as it was and only p(y) moved, by a factor w_y. Then all that is
watched follows: a bin's share becomes the sum over classes of w_y times what the class had there,
and a row's true probabilities are p(y | x) w_y, normalised. So w is estimated from how often each
class is predicted, by the EM algorithm (Saerens et al. 2002; with the confusions of Lipton et al.
2018), the split is weighed with it, and what is left of the drift is tested. If nothing is left,
the same w says how far confidence is off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc

from smallcal.calibrators.class_table import UNIT, ClassTable
from smallcal.data.plain import plain_fields
from smallcal.data.predictions import FloatArray

#: What is left of the drift counts as something below this p-value.
_LEVEL = 0.05

#: Replicates that show how well w is known; fewer where each is dear.
_REPLICATES, _FEWER, _MANY_CLASSES = 100, 40, 100

#: Steps of EM at most, and the change of a frequency that ends it.
_STEPS, _NO_CHANGE = 300, 1e-6

#: Strength of the old frequencies where next to nothing is held back, as a share of the evidence.
_FREE = 1e-3

#: Share of the moves of frequencies that is believed: never none of it, never all.
_LEAST_SHARE, _LARGEST_SHARE = 1e-3, 0.999


class Seen(NamedTuple):
    """What a diagnosis looks at: the split's table, and counts of rows.

    Attributes
    ----------
    table : ClassTable
    predicted : tuple of int
        Rows predicted as each class.
    bins : tuple of (str, tuple of int)
        Rows in each bin of the confidence, and of the score where there is one.
    """

    table: ClassTable
    predicted: tuple[int, ...]
    bins: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class ClassShift:
    """What frequencies of classes explain of a drift.

    Attributes
    ----------
    kind : {"frequencies", "more", "unclear", "unknown"}
        Only frequencies moved; more than these did; it cannot be told yet; or not at all, since
        there is no table of classes.
    p_value : float or None
        Of "frequencies explain all of it".
    gap, low, high : float or None
        Accuracy minus mean confidence that the new frequencies lead to, with a 95 % interval for
        what chance does to the estimate.
    within_classes : float or None
        The same by predicted class, signs left out, averaged over rows.
    before, now : tuple of float
        Frequencies of classes in the split, and estimated.
    """

    kind: str
    p_value: float | None = None
    gap: float | None = None
    low: float | None = None
    high: float | None = None
    within_classes: float | None = None
    before: tuple[float, ...] = ()
    now: tuple[float, ...] = ()

    def within(self, tolerance: float) -> bool:
        """Whether only frequencies moved, and confidence is off by no more than the tolerance."""
        worst = max(abs(self.low or 0.0), abs(self.high or 0.0))
        return self.kind == "frequencies" and worst <= tolerance

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return plain_fields(self)


UNKNOWN = ClassShift("unknown")


def diagnose(seen: Seen) -> ClassShift:
    """Say whether frequencies of classes explain a drift, and what they do to confidence.

    Examples
    --------
    >>> p = np.repeat([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], [200, 200, 400], axis=0)
    >>> bins = np.repeat([2, 0, 1], [200, 200, 400])
    >>> table = ClassTable.of(p, [(bins, 3), None])
    >>> likelier = 2 * p[:, 0] + 0.4 * p[:, 1]                 # class 0 five times as frequent
    >>> counts = np.bincount(bins, likelier).round().astype(int)
    >>> first = int(likelier[:400].sum())
    >>> found = diagnose(Seen(table, (first, counts.sum() - first), (("confidence", counts),)))
    >>> found.kind, round(found.now[0], 1) > round(found.before[0], 1)
    ('frequencies', True)
    """
    model, n = _Model.of(seen.table), sum(seen.table.predicted) / UNIT
    counts = np.array(seen.predicted, dtype=np.float64)
    rows = counts.sum()
    # The split is a sample too: its noise and that of the rows count as one.
    worth = rows * n / (rows + n)
    far = worth * float(((counts / rows - model.predicted) ** 2 / model.predicted).sum())
    held = strength((len(counts) - 1) / max(far, 1e-300), worth)
    # Frequencies that are held back explain too little, those that are not too much.
    likely, free = (model.estimate(counts, worth, believed) for believed in (held, _FREE * worth))
    alone, unmoved = _tests(seen, n, likely)
    alone_free, _ = _tests(seen, n, free)
    kind = "unclear"
    if max(alone, alone_free) < _LEVEL:
        kind = "more"
    elif min(alone, alone_free) >= _LEVEL > unmoved:
        kind = "frequencies"
    gap, within = model.gap(likely.w)
    spread = 1.96 * float(np.std([model.gap(each)[0] for each in likely.others]))
    return ClassShift(
        kind,
        p_value=max(alone, alone_free),
        gap=gap,
        low=gap - spread,
        high=gap + spread,
        within_classes=within,
        before=tuple(model.before.tolist()),
        now=tuple((model.before * likely.w).tolist()),
    )


def diagnose_with(seen: Seen, w: FloatArray, others: FloatArray) -> ClassShift:
    """Say whether these factors of classes explain a drift; ``others`` are those of replicates.

    For scores: which outcome is the likelier one may be the same of every row, and say nothing.
    """
    alone, unmoved = _tests(seen, sum(seen.table.predicted) / UNIT, _Weights(w, others))
    kind = "more" if alone < _LEVEL else "frequencies" if unmoved < _LEVEL else "unclear"
    return ClassShift(kind, p_value=alone)


class _Weights(NamedTuple):
    """By how much each class became more frequent, and the same of replicates."""

    w: FloatArray
    others: FloatArray


class _Model(NamedTuple):
    """A table as shares of samples.

    ``given`` is the chance of each prediction (row) given the class (column).
    """

    joint: FloatArray
    given: FloatArray
    before: FloatArray
    predicted: FloatArray
    certainty: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, table: ClassTable) -> _Model:
        joint = table.joint
        before = np.maximum(joint.sum(axis=0), 1e-12)
        total = sum(table.predicted)
        # Half a sample more each: a class that the split never predicted may be predicted now.
        shares = np.array(table.predicted) + UNIT / 2
        levels = (np.array(table.certainty) / total, np.array(table.squares) / total)
        return cls(joint, joint / before, before / before.sum(), shares / shares.sum(), *levels)

    def estimate(self, counts: FloatArray, worth: float, strength: float) -> _Weights:
        """Return the factors of classes from counts that are worth so many samples."""
        shares = counts / counts.sum()
        found = self.frequencies(worth * shares[None], strength)[0]
        few = _FEWER if len(counts) > _MANY_CLASSES else _REPLICATES
        drawn = np.random.default_rng(0).multinomial(max(round(worth), 1), shares, size=few)
        others = self.frequencies(drawn.astype(np.float64), strength, found)
        return _Weights(found / self.before, others / self.before)

    def frequencies(
        self, counts: FloatArray, strength: float, start: FloatArray | None = None
    ) -> FloatArray:
        """Return the likeliest frequencies of classes, a row for each row of predicted classes.

        ``strength`` samples' worth of the old frequencies are believed beforehand.
        """
        found = np.tile(self.before if start is None else start, (len(counts), 1))
        old, total = strength * self.before, counts.sum(axis=1, keepdims=True) + strength
        for _ in range(_STEPS):
            mixed = np.maximum(found @ self.given.T, 1e-300)
            better = (found * ((counts / mixed) @ self.given) + old) / total
            better /= better.sum(axis=1, keepdims=True)
            done = float(np.abs(better - found).max()) < _NO_CHANGE
            found = better
            if done:
                break
        return found

    def gap(self, w: FloatArray) -> tuple[float, float]:
        """Return expected accuracy minus mean confidence, overall and by predicted class.

        A row predicted as k with confidence c becomes w_k c + u (1 - c) times as likely, with u
        the mean factor of the classes that k is taken for, and w_k c of that is right.
        """
        others = self.joint.copy()
        np.fill_diagonal(others, 0.0)
        u = others @ w / np.maximum(others.sum(axis=1), 1e-300)
        right, doubt = w * self.certainty, self.certainty - self.squares
        confidence = w * self.squares + u * doubt
        total = float((right + u * (self.joint.sum(axis=1) - self.certainty)).sum())
        each = right - confidence
        return float(each.sum()) / total, float(np.abs(each).sum()) / total


def strength(by_chance: float, worth: float) -> float:
    """Return how many samples' worth of the old frequencies to believe.

    Empirical Bayes: classes that move no more than chance moves them say that frequencies did not,
    and the further beyond that, the less is held back. ``by_chance`` is how far chance moves them
    over how far they moved, both squared.

    Examples
    --------
    >>> strength(0.5, 300), round(strength(0.1, 300), 1)
    (300.0, 33.3)
    """
    share = min(max(1 - by_chance, _LEAST_SHARE), _LARGEST_SHARE)
    return worth * (1 - share) / share


def _tests(seen: Seen, n: float, weights: _Weights) -> tuple[float, float]:
    """Return the smallest p-values over what is watched, as often as that may be tried."""
    found = [
        _left_over(seen.table.sums(name), np.array(counts), n, weights)
        for name, counts in seen.bins
    ]
    alone, unmoved = (min(1.0, len(found) * min(each)) for each in zip(*found, strict=True))
    return alone, unmoved


def _left_over(
    sums: FloatArray, counts: FloatArray, n: float, weights: _Weights
) -> tuple[float, float]:
    """Return p-values of "the weighed split is where the rows are from", and of the plain split.

    Chi-square, with the noise of the rows, of the split as weighed, and of the weights.
    """
    rows, shares = counts.sum(), counts / counts.sum()

    def weighed(factors: FloatArray) -> FloatArray:
        total = sums @ factors
        return np.asarray(total / total.sum())

    unsure = np.cov(np.array([weighed(each) for each in weights.others]).T)
    found = []
    for factors in (weights.w, np.ones_like(weights.w)):
        mean = weighed(factors)
        squares = sums @ factors**2 / (sums @ factors).sum()
        noise = _multinomial(mean, mean) / rows + _multinomial(squares, mean) / n + unsure
        apart = (shares - mean)[:-1]  # the last follows from the others
        chi = float(apart @ np.linalg.pinv(noise[:-1, :-1], hermitian=True) @ apart)
        found.append(float(chdtrc(len(counts) - 1, max(chi, 0.0))))
    return found[0], found[1]


def _multinomial(squares: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the covariance of shares of weighed samples."""
    return np.asarray(np.diag(squares) - np.outer(mean, mean) * squares.sum())

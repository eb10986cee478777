"""Slopes of a loss at the pooled temperature, and groups of samples cut by a signal.

Where the mean slopes of groups differ, one temperature is wrong for each of them: see
:mod:`smallcal.advice.signal_to_noise`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps import fit_temperature
from smallcal.calibrators.maps.groups import group_members, group_thresholds
from smallcal.calibrators.objectives import Gaps, Moments, moments, objective
from smallcal.calibrators.signals import STATISTICS, Observed, SignalFit, fit_signal
from smallcal.calibrators.signals.crossfit import risks_of_outcomes
from smallcal.data.predictions import BoolArray, FloatArray, IntArray, Predictions
from smallcal.data.special import softmax

#: The signal that is the class the model predicts.
PREDICTED_CLASS = "predicted_class"
#: A class is a group of its own if it is predicted so often.
_OFTEN = 10

#: Makes draws of outcomes: which predictions are right, and the slopes.
Drawn = Callable[[np.random.Generator, int], tuple[BoolArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Slopes:
    """Each sample's dl/dT at the pooled temperature, and what it would be otherwise.

    Attributes
    ----------
    slope : ndarray of shape (n,)
    curvature : float
        Mean d²l/dT².
    information : ndarray of shape (n,)
        Each slope's variance if the probabilities at the pooled temperature are right: of top-label
        log-loss c (1 - c) (d log-odds / dT)², of log-loss the variance of the logits, over T⁴.
    drawn : callable
        ``drawn(rng, draws)``: outcomes as these probabilities give them, and the slopes that go
        with them, each of shape (draws, n).
    """

    seen: Observed
    temperature: float
    slope: FloatArray
    curvature: float
    information: FloatArray
    drawn: Drawn
    note: str

    @classmethod
    def of(cls, preds: Predictions, *, seed: int, loss: str = "bce") -> Slopes:
        """Fit the pooled temperature of a loss, "bce" or "nll", and take the slopes there."""
        care, goal, gaps = Discipline(seed=seed), objective(loss), Gaps.of(preds)
        raw = moments(gaps, 1.0)
        pooled = fit_temperature(goal, gaps, bounds=care.bounds)
        beta = 1 / pooled.value
        state = moments(gaps, beta)
        terms = goal.terms(gaps, state)
        # From b = 1/T to T: dl/dT = -b² dl/db, d²l/dT² = b⁴ d²l/db² + 2 b³ dl/db.
        bend = beta**4 * terms.curvature + 2 * beta**3 * terms.slope
        outcomes = _by_class_drawn if loss == "nll" else _by_correctness_drawn
        information, drawn = outcomes(preds, state, beta)
        note = ""
        if pooled.unidentified:
            all_of_them = "right" if preds.correct.all() else "wrong"
            note = f"every prediction is {all_of_them}, so signals cannot be compared"
        elif pooled.at_bound:
            note = "the pooled temperature lies at a bound, where slopes do not average zero"
        return cls(
            Observed.of(preds, gaps, raw, care),
            pooled.value,
            -(beta**2) * terms.slope,
            float(bend.mean()),
            information,
            drawn,
            note,
        )

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.slope)

    def score(self, name: str, correct: BoolArray | None = None) -> SignalFit:
        """Fit a signal, on these samples or as if ``correct`` had been the outcome."""
        if correct is None:
            return fit_signal(name, self.seen)
        preds = self.seen.preds
        other = (preds.predicted + 1) % preds.n_classes
        drawn = replace(preds, labels=np.where(correct, preds.predicted, other))
        return fit_signal(name, replace(self.seen, preds=drawn))

    def drawn_risks(self, correct: BoolArray) -> FloatArray:
        """Return the risks out of fold, (m, n), as if these had been the outcomes; NaN for none."""
        return risks_of_outcomes(self.seen, self.seen.rows.columns(STATISTICS), ~correct)


def _by_correctness_drawn(
    preds: Predictions, state: Moments, beta: float
) -> tuple[FloatArray, Drawn]:
    """Return information and draws of top-label log-loss, which sees "right" or "wrong" only."""
    per_odds = -(beta**2) * state.mean
    right, wrong = state.doubt * per_odds, -state.confidence * per_odds

    def drawn(rng: np.random.Generator, draws: int) -> tuple[BoolArray, FloatArray]:
        correct = rng.random((draws, preds.n)) < state.confidence
        return correct, np.where(correct, right, wrong)

    return -right * wrong, drawn


def _by_class_drawn(preds: Predictions, state: Moments, beta: float) -> tuple[FloatArray, Drawn]:
    """Return information and draws of NLL, which sees the class."""
    every = np.arange(preds.n)
    z = preds.logits.astype(np.float64)
    gap = z - z[every, preds.predicted][:, None]
    mean = state.doubt * state.mean
    spread = state.confidence * state.doubt * state.mean**2 + state.doubt * state.variance
    # One rising list of all samples' cumulated probabilities: sample i's lie between i and i + 1.
    places = (np.cumsum(softmax(beta * z), axis=1) + every[:, None]).reshape(-1)
    first = every * preds.n_classes

    def drawn(rng: np.random.Generator, draws: int) -> tuple[BoolArray, FloatArray]:
        found = np.searchsorted(places, rng.random((draws, preds.n)) + every, side="right")
        label = np.clip(found - first, 0, preds.n_classes - 1)
        slope = -(beta**2) * (mean - gap[every, label])
        return label == preds.predicted, slope

    return beta**4 * spread, drawn


@dataclass(frozen=True, eq=False)
class Groups:
    """Samples cut into groups by a signal."""

    signal: str
    member: IntArray
    learned: bool
    note: str = ""

    @classmethod
    def of(cls, slopes: Slopes, name: str, n_groups: int) -> Groups:
        """Cut the samples as grouped maps do, or by what the model predicts."""
        if name == PREDICTED_CLASS:
            member = _by_class(slopes.seen.preds.predicted)
            one = "one class alone is predicted often enough" if not member.any() else ""
            return cls(name, member, learned=False, note=slopes.note or one)
        fit = slopes.score(name)
        member = cut(fit.scores, n_groups)
        note = slopes.note
        if not note and fit.signal.kind == "none":
            note = "too few wrong or right predictions to learn it"
        elif not note and len(np.unique(member)) < 2:
            note = "it is the same for all samples"
        return cls(name, member, fit.signal.n_parameters > 0, note)

    @property
    def count(self) -> int:
        """Number of groups, none of them empty."""
        return int(self.member.max()) + 1

    @property
    def indicator(self) -> FloatArray:
        """Membership, shape (n, K)."""
        return np.eye(self.count)[self.member]


def _by_class(predicted: IntArray) -> IntArray:
    """Return a group for each class that is predicted often, and one for all others."""
    counts = np.bincount(predicted)
    often = counts >= _OFTEN
    column = np.where(often[predicted], predicted, -1)
    return np.unique(column, return_inverse=True)[1].reshape(-1)


def cut(scores: FloatArray, n_groups: int) -> IntArray:
    """Return each sample's group; empty groups are closed up."""
    member = group_members(scores, group_thresholds(scores, n_groups))
    return np.unique(member, return_inverse=True)[1].reshape(-1)


def variances(slope: FloatArray, member: IntArray) -> tuple[float, float]:
    """Return the variance of group means, groups weighted by size, and that within groups."""
    counts = np.bincount(member)
    means = np.bincount(member, weights=slope) / counts
    between = counts @ (means - slope.mean()) ** 2 / len(slope)
    return float(between), float(((slope - means[member]) ** 2).mean())

"""Cross-validate several methods on the same folds: losses on samples they were not fitted on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from smallcal.advice.calibrated_split import scored_on
from smallcal.calibrators.method import Method
from smallcal.calibrators.objectives import Seen
from smallcal.calibrators.signals.crossfit import stratified_folds
from smallcal.data.predictions import BoolArray, FloatArray, IntArray, Predictions
from smallcal.errors import InputError, SmallcalError
from smallcal.io.progress import Advance
from smallcal.io.threads import in_order
from smallcal.metrics import Metric, Scored

#: What a fit, or another package's fit, raises when a fold is too thin for it.
_UNFITTABLE = (SmallcalError, ValueError, ArithmeticError, RuntimeError)

#: Share of samples that a single split holds out.
HELD_OUT_SHARE = 0.2

#: Folds of probabilities out of fold.
N_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Folds:
    """Which samples are held out together.

    Attributes
    ----------
    of : ndarray of shape (n_repeats, n), int64
        The fold in which each sample is held out; -1 where it never is.
    n_folds : int
    """

    of: IntArray
    n_folds: int

    @property
    def n_repeats(self) -> int:
        """How often the samples are cut anew."""
        return int(self.of.shape[0])

    def parts(self, repeat: int, fold: int) -> tuple[BoolArray, BoolArray]:
        """Return which samples are held out, and which are not."""
        held = self.of[repeat] == fold
        return held, ~held

    @property
    def tested(self) -> IntArray:
        """Samples that are held out at all."""
        return np.flatnonzero(self.of[0] >= 0)


def rarer(preds: Predictions) -> int:
    """Return how many predictions are wrong, or right if these are fewer; of scores, outcomes."""
    right = int(preds.came.sum())
    return min(right, preds.n - right)


def repeated_folds(preds: Predictions, *, n_repeats: int, n_folds: int, seed: int) -> Folds:
    """Cut the samples into folds with equal shares of wrong predictions, several times.

    Repeat r has the folds of ``StratifiedKFold(n_folds, shuffle=True, random_state=seed + r)``.
    Where fewer predictions than folds are wrong (or right) there are as many folds as those;
    with fewer than two, chance alone decides. Clusters stay whole.
    """
    fewest = rarer(preds)
    count = min(n_folds, fewest) if fewest >= 2 else min(n_folds, preds.n)
    if preds.clusters is not None:
        count = min(count, len(np.unique(preds.clusters)))
    seeds = [(seed + repeat) % 2**32 for repeat in range(n_repeats)]
    cuts = [stratified_folds(~preds.came, count, s, preds.clusters) for s in seeds]
    return Folds(np.array(cuts), count)


def single_split(preds: Predictions, *, seed: int) -> Folds:
    """Hold out a fifth once, class by class.

    Where classes have too few samples for that, right and wrong predictions are shared out
    evenly instead; where there are too few of these, chance alone decides.
    """
    from sklearn.model_selection import StratifiedShuffleSplit  # slow to load, seldom asked for

    fold = np.full((1, preds.n), -1)
    for strata in (preds.labels, preds.came, np.zeros(preds.n)):
        cut = StratifiedShuffleSplit(1, test_size=HELD_OUT_SHARE, random_state=seed)
        try:
            _, held = next(cut.split(strata, strata))
        except ValueError:  # a class with one sample, or more classes than places
            continue
        fold[0, held] = 0
        break
    return Folds(fold, 1)


@dataclass(eq=False)
class HeldOut:
    """How one method did on samples it was not fitted on.

    Attributes
    ----------
    folds : dict of metric to ndarray of shape (n_repeats, n_folds)
    samples : dict of metric to ndarray
        For metrics that are means over samples: each tested sample's value, averaged over
        repeats.
    n_parameters : int
        Of the largest fit.
    flags : dict of flag to int
        In how many fits it was raised.
    failures : list of str
        Why a fold could not be fitted or measured, for each such fold.
    """

    folds: dict[str, FloatArray]
    samples: dict[str, FloatArray]
    n_parameters: int = 0
    flags: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def held_out_losses(
    preds: Predictions,
    methods: Mapping[str, Method],
    folds: Folds,
    metrics: Sequence[Metric],
    *,
    advance: Advance = lambda fits: None,
) -> dict[str, HeldOut]:
    """Fit each method without each fold, and measure it there.

    The whole method is fitted anew: its own folds, thresholds and temperatures see nothing of
    the fold that is held out. A fold in which a method cannot be fitted is a reason, not the
    end of the others.
    """
    shape = (folds.n_repeats, folds.n_folds)
    found = {
        name: HeldOut(
            {metric.name: np.full(shape, np.nan) for metric in metrics},
            {metric.name: np.zeros(preds.n) for metric in metrics if metric.values is not None},
        )
        for name in methods
    }

    def without(cut: tuple[int, int]) -> dict[str, _Applied | str]:
        held, rest = (np.flatnonzero(each) for each in folds.parts(*cut))
        tested, seen = preds.take(held), Seen.of(preds.take(rest))
        return {name: _applied(method, seen, tested) for name, method in methods.items()}

    # What methods see of a fold's rows is the same: one thread fits them all.
    cuts = product(range(folds.n_repeats), range(folds.n_folds))
    threads = 1 if any(method.threads == 1 for method in methods.values()) else None
    for cut, results in in_order(without, cuts, threads=threads):
        for name, applied in results.items():
            if isinstance(applied, str):
                found[name].failures.append(applied)
            else:
                _measure(found[name], applied, metrics, folds, cut)
        advance(len(methods))
    for entry in found.values():
        for metric, values in entry.samples.items():
            entry.samples[metric] = values[folds.tested] / folds.n_repeats
    return found


class _Applied(NamedTuple):
    """What a fit gives the rows held out, and what is told of it."""

    view: Scored
    n_parameters: int
    flags: tuple[str, ...]


def _applied(method: Method, seen: Seen, tested: Predictions) -> _Applied | str:
    """Fit a method and apply it to other rows; or return why it cannot be fitted."""
    try:
        fitted = method.fit(seen, record=False)
        view = scored_on(fitted, tested)
    except _UNFITTABLE as error:
        return " ".join(str(error).split())
    return _Applied(view, fitted.n_parameters, tuple(fitted.flags))


def _measure(
    entry: HeldOut,
    applied: _Applied,
    metrics: Sequence[Metric],
    folds: Folds,
    where: tuple[int, int],
) -> None:
    view, n_parameters, flags = applied
    entry.n_parameters = max(entry.n_parameters, n_parameters)
    for flag in flags:
        entry.flags[flag] = entry.flags.get(flag, 0) + 1
    held, _ = folds.parts(*where)
    for metric in metrics:
        entry.folds[metric.name][where] = metric.of(view)
        if metric.values is not None:
            entry.samples[metric.name][held] += metric.values(view)


def out_of_fold(
    method: Method, preds: Predictions, *, seed: int, instead: FloatArray | None = None
) -> FloatArray:
    """Return probabilities, as metrics take them, by fits that have not seen the row.

    They are not adjusted for ``keep_predictions``. ``instead`` has those of a fold that is too
    small to be fitted without, or has no group; where it is not given, that is an error.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> preds = Predictions.of(val.logits, val.labels)
    >>> out_of_fold(sc.TemperatureScaling()._compose(), preds, seed=0).shape == val.logits.shape
    True
    """
    shape = preds.logits.shape if preds.score is None else preds.n
    proba = np.zeros(shape) if instead is None else np.array(instead, dtype=np.float64)
    folds = repeated_folds(preds, n_repeats=1, n_folds=N_FOLDS, seed=seed)
    for fold in range(folds.n_folds):
        held, rest = (np.flatnonzero(each) for each in folds.parts(0, fold))
        try:
            fitted = method.fit(preds.take(rest), record=False)
            proba[held] = replace(fitted, keep_predictions=False).on(preds.take(held))
        except InputError:
            if instead is None:
                raise
    return proba

"""What groups of a signal show by chance alone: draws behind the p-values of signal and noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from smallcal.advice.slopes import Groups, Slopes, cut
from smallcal.calibrators.objectives import sigmoid
from smallcal.data.predictions import BoolArray, FloatArray
from smallcal.io.progress import Advance

#: How outcomes, or slopes, are drawn where a signal means nothing.
NULLS = ("resample", "permutation")

#: Drawn labels at a time: 16 MB of slopes.
_BLOCK_SIZE = 2_000_000

#: Sums of the same numbers in another order differ by less; a tie must count as a tie.
_ROUNDING = 1e-9


def exceedances(
    slopes: Slopes,
    grouped: Mapping[str, Groups],
    n_groups: int,
    null: str,
    n_null: int,
    rng: np.random.Generator,
    advance: Advance,
) -> dict[str, int]:
    """Return in how many draws each signal's statistic is as large as the observed one."""
    statistic = _between if null == "permutation" else _standardised
    exceeded = dict.fromkeys(grouped, 0)
    if slopes.note:  # nothing varies, or nothing is pooled well: no p-value means anything
        return exceeded
    observed = {
        name: float(statistic(slopes, slopes.slope[None], groups.indicator)[0])
        for name, groups in grouped.items()
    }
    for correct, drawn in _draws(slopes, null, n_null, rng):
        for name, groups in grouped.items():
            if groups.note:
                continue
            if groups.learned and correct is not None:
                values = _relearned(slopes, name, n_groups, correct, drawn)
            else:
                values = statistic(slopes, drawn, groups.indicator)
            exceeded[name] += int((values >= observed[name] * (1 - _ROUNDING)).sum())
        advance(len(drawn))
    return exceeded


def _draws(
    slopes: Slopes, null: str, n_null: int, rng: np.random.Generator
) -> Iterator[tuple[BoolArray | None, FloatArray]]:
    """Yield blocks of drawn outcomes, if any, and the slopes that go with them."""
    size = max(1, _BLOCK_SIZE // slopes.n)
    for start in range(0, n_null, size):
        shape = (min(size, n_null - start), slopes.n)
        if null == "permutation":
            yield None, rng.permuted(np.broadcast_to(slopes.slope, shape), axis=1)
        else:
            yield slopes.drawn(rng, shape[0])


def _between(slopes: Slopes, drawn: FloatArray, indicator: FloatArray) -> FloatArray:
    """Return B of each row of slopes."""
    counts = indicator.sum(axis=0)
    means = drawn @ indicator / counts - drawn.mean(axis=1, keepdims=True)
    return np.asarray(means**2 @ counts / slopes.n)


def _standardised(slopes: Slopes, drawn: FloatArray, indicator: FloatArray) -> FloatArray:
    """Return, for each row of slopes, the groups' squared sums in units of their variance.

    The pooled temperature follows a draw: to first order each sample's slope moves by its share
    of the information. Divided by the overall variance in the same units, so that
    miscalibration that has nothing to do with the groups does not look like theirs.
    """
    information = slopes.information @ indicator
    total = information.sum()
    sums = drawn @ indicator
    sums = sums - sums.sum(axis=1, keepdims=True) * (information / total)
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = np.where(information > 0, sums**2 / information, 0.0).sum(axis=1)
        spread = np.einsum("ij,ij->i", drawn, drawn) / total
        return np.where(spread > 0, squares / spread, 0.0)


def _relearned(
    slopes: Slopes, name: str, n_groups: int, correct: BoolArray, drawn: FloatArray
) -> FloatArray:
    """Return the statistic with the signal learned from each draw's own outcomes.

    An out-of-fold score has not seen its sample's outcome but all others': an error pushes the
    scores of the samples around it, and so errors gather in groups even where nothing is wrong.
    """
    values = np.zeros(len(drawn))
    for i, scores in enumerate(_scores_drawn(slopes, name, correct)):
        if scores is not None:
            groups = Groups(name, cut(scores, n_groups), learned=True)
            values[i] = _standardised(slopes, drawn[i : i + 1], groups.indicator)[0]
    return values


def _scores_drawn(slopes: Slopes, name: str, correct: BoolArray) -> Iterator[FloatArray | None]:
    """Yield the signal's scores for draw after draw of outcomes; None where it learns nothing."""
    if name == "risk":
        for risks in slopes.drawn_risks(correct):
            yield None if np.isnan(risks).any() else sigmoid(risks)
        return
    for outcome in correct:
        fit = slopes.score(name, outcome)
        yield None if fit.signal.kind == "none" else fit.scores

"""Meta-Cal: one temperature for the samples worth a confidence, and "no idea" for the rest.

Ma and Blaschko, "Meta-Cal: Well-controlled Post-hoc Calibration by Ranking" (ICML 2021). The
entropy of the raw softmax ranks the samples. Those at or above a threshold θ are *rejected*:
their probabilities are made uniform. Those below are scaled by one temperature. A held-out part
of the split chooses θ so that one of two promises holds on new data; the temperature is fitted
on the other samples below θ.
"""

from __future__ import annotations

import numpy as np

from smallcal.calibrators.maps.base import MapFit, Split, recipe
from smallcal.calibrators.maps.groups import UNIFORM, GroupMap
from smallcal.calibrators.maps.temperature import (
    fit_temperature,
    one_sided,
    scalar_fallback,
    temperature_flags,
    weighted_rows,
)
from smallcal.data.predictions import MIN_FIT_SAMPLES, BoolArray, FloatArray
from smallcal.errors import InputError

CONSTRAINTS = ("miscoverage", "accuracy")

_DEFAULT_MISCOVERAGE = 0.05
_HELD_OUT_SHARE = 0.1
_MOST_HELD_OUT = 500
#: With fewer than 1 / 0.05 samples the default threshold would be the largest entropy seen.
_LEAST_HELD_OUT = 20
_ACCURACY_BINS = 20


@recipe("rejecting", care="threshold from a held-out tenth")
def fit_rejecting(
    split: Split, *, constraint: str = "miscoverage", level: float | None = None
) -> MapFit:
    """Choose the entropy from which samples are rejected, and a temperature for those below.

    Parameters
    ----------
    split : Split
        Its scores are the entropies of softmax(z), shape (n,).
    constraint : {"miscoverage", "accuracy"}
        What the threshold promises: "miscoverage" that of the samples predicted rightly no
        more than a share ``level`` is rejected; "accuracy" that of the samples accepted a
        share ``level`` is predicted rightly.
    level : float, optional
        Default 0.05 for "miscoverage"; for "accuracy" the level that halves the split's error
        rate.

    Returns
    -------
    MapFit
        A :class:`~smallcal.calibrators.maps.groups.GroupMap` with one threshold and the
        temperatures (T, ``UNIFORM``). Rejected samples get 1/C, up to about a millionth per
        unit of logit: just enough to keep the argmax. Where the split is too small or too
        one-sided for this, or the promise means accepting or rejecting every sample, the result
        is one temperature for all with the flag ``scalar_fallback``.

    Notes
    -----
    The threshold is chosen on a tenth of the samples (at least 20, at most 500), drawn at
    random, and the temperature on the others: a promise checked on the samples that were
    tuned would be too good. Weights count in the temperature only; samples of weight zero are
    left out.

    Examples
    --------
    >>> from smallcal.calibrators.maps.temperature import split_of
    >>> from smallcal.calibrators.signals import statistics
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(400, 5)) * 3
    >>> y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)  # true temperature: 2
    >>> fit = fit_rejecting(split_of(z, y, scores=statistics(z)[:, 3]), level=0.2)
    >>> [round(t, 1) for t in fit.map.steps], sum(fit.counts)
    ([2.0, 1000000.0], 400)
    """
    target = _level(split, constraint, level)
    rows = weighted_rows(split)
    if one_sided(split):
        return scalar_fallback(split)
    order = np.random.default_rng([split.discipline.seed, 4]).permutation(rows)
    size = min(max(round(_HELD_OUT_SHARE * len(rows)), _LEAST_HELD_OUT), _MOST_HELD_OUT)
    held_out, rest = order[:size], np.sort(order[size:])
    choose = _miscoverage_threshold if constraint == "miscoverage" else _accuracy_threshold
    threshold = choose(split.scores[held_out], split.gaps.correct[held_out], target)
    if threshold is None:
        return scalar_fallback(split)
    rows = rest[split.scores[rest] < threshold]
    above = int((split.scores >= threshold).sum())
    counts = (split.gaps.n - above, above)
    if min(counts) == 0 or len(rows) < MIN_FIT_SAMPLES:
        return scalar_fallback(split)
    fitted = fit_temperature(split.goal, split.gaps.take(rows), bounds=split.discipline.bounds)
    flags = {name: [0] for name in temperature_flags(fitted)}
    return MapFit(GroupMap((threshold,), (fitted.value, UNIFORM)), counts, flags)


def _level(split: Split, constraint: str, level: float | None) -> float:
    """Return the level to promise, checked."""
    if constraint not in CONSTRAINTS:
        raise InputError(f"constraint must be one of {', '.join(CONSTRAINTS)}; got {constraint!r}")
    if level is None:
        errors = 1 - float(split.gaps.correct.mean())
        return _DEFAULT_MISCOVERAGE if constraint == "miscoverage" else 1 - errors / 2
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1; got {level}")
    return level


def _miscoverage_threshold(entropy: FloatArray, correct: BoolArray, level: float) -> float | None:
    """Return the entropy that a share ``level`` of the right predictions reaches."""
    if not correct.any():
        return None
    return float(np.quantile(entropy[correct], 1 - level, method="higher"))


def _accuracy_threshold(entropy: FloatArray, correct: BoolArray, target: float) -> float | None:
    """Return the largest entropy up to which accuracy reaches the target, or None.

    The accuracy of all samples up to an entropy falls as that entropy rises, but for noise; an
    isotonic fit removes the noise, and between its points it is read off linearly. None means
    that every sample would be accepted, or none.
    """
    # Imported here: calibrators are applied where scikit-learn is not installed.
    from sklearn.isotonic import IsotonicRegression

    cuts = np.unique(np.quantile(entropy, np.arange(1, _ACCURACY_BINS + 1) / _ACCURACY_BINS))
    accepted = entropy <= cuts[:, None]
    count = accepted.sum(axis=1)
    accuracy = (accepted & correct).sum(axis=1) / count
    smooth = IsotonicRegression(increasing=False).fit(cuts, accuracy, sample_weight=count)
    fitted = smooth.predict(cuts)
    enough = np.flatnonzero(fitted >= target - 1e-12)  # rounding must not reject the target
    if len(enough) in (0, len(cuts)):
        return None
    around = slice(enough[-1], enough[-1] + 2)
    return float(np.interp(-target, -fitted[around], cuts[around]))

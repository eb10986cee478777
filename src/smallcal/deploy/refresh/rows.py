"""New labelled rows, as a refresh takes them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators.evidence import LEAST, Evidence, tails
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.given import Given, checked, coded, labelled
from smallcal.calibrators.group_effects import claims_of
from smallcal.data.checks import BoolArray, FloatArray, IntArray
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError

#: Rows at a time, so that memory does not grow with them.
_BLOCK = 2**14
#: Probabilities that are looked at for a temperature.
_NUMBERS = 2**18
_CLOSE, _HALVINGS = 1e-12, 40


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows with labels.

    Attributes
    ----------
    preds : Predictions
    codes : array of int, or None
        Their places among the groups that the calibrator knows.
    """

    preds: Predictions
    codes: IntArray | None = None

    @classmethod
    def of(
        cls, fitted: FittedCalibrator, X: object, y: object, features: object, groups: object
    ) -> Rows:
        """Check what the user gave against what the calibrator takes."""
        if not fitted.deployable:
            raise InputError(
                f"{fitted.method} is for comparison only; there is nothing to refresh",
                code="method-unsuitable",
            )
        if y is None:
            raise InputError("refresh needs labels, and there are none", code="no-labels")
        preds = labelled(fitted, X, y, features=features, groups=groups)
        if not preds.n:
            raise InputError("there are no rows to learn from", code="empty")
        known = groups if fitted.groups is not None else None
        return cls(preds, coded(fitted.groups, known, preds.n))

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Of the rows, and of the same without groups: a fit may have known none."""
        if self.preds.groups is None:
            return (self.preds.sha256(),)
        bare = replace(self.preds, groups=None, group_names=())
        return self.preds.sha256(), bare.sha256()

    @property
    def named(self) -> NDArray[np.str_] | None:
        """The group of each row, where there are groups."""
        return self.preds.group_labels

    def _blocks(self) -> Iterator[Given]:
        preds = self.preds
        labels = preds.labels
        given = Given(preds.logits, preds.features, labels, self.codes)
        for start in range(0, preds.n, _BLOCK):
            yield given.take(slice(start, start + _BLOCK))

    def counted(self, fitted: FittedCalibrator) -> Evidence:
        """Return what the rows say of the confidence of a calibrator."""
        found = Evidence()
        plain = replace(fitted, input="logits")  # logarithms and log-odds are taken already
        reference = fitted.reference
        for given in self._blocks():
            assert given.labels is not None
            proba = _proba(plain, given)
            odds, holds = claims_of(proba, given.labels, claim=fitted.claim)
            bins = None
            if reference is not None:
                watched = plain.watch(given.logits, features=given.features).confidence
                bins = reference.confidence.count(watched)
            other = tails(proba, given.labels, proba.argmax(axis=1))
            found = found + Evidence.of(odds, holds, bins, other)
        return found

    def claims(self, fitted: FittedCalibrator) -> tuple[FloatArray, IntArray]:
        """Return the confidence of each row, and the class or outcome that it is in."""
        plain = replace(fitted, input="logits")
        each = self._blocks()
        found = [fitted.claims(_proba(plain, given), given.logits) for given in each]
        confidence, claimed = (np.concatenate(each) for each in zip(*found, strict=True))
        return confidence, claimed

    def holds(self, claimed: IntArray) -> BoolArray:
        """Return which claims hold."""
        return np.asarray(claimed == self.preds.labels)

    def temperatures(self, fitted: FittedCalibrator) -> FloatArray:
        """Return what the logits of each row are divided by."""
        plain = replace(fitted, input="logits")
        each = (
            plain.temperature(given.logits, features=given.features) for given in self._blocks()
        )
        return np.concatenate(list(each))

    def factors(self, fitted: FittedCalibrator, means: tuple[float, ...]) -> list[float]:
        """Return by how much temperatures would change for each of some mean confidences.

        Some of the rows will do, where there are many numbers.
        """
        some = self.preds.take(np.arange(min(self.preds.n, max(1, _NUMBERS // fitted.n_classes))))
        codes = None if self.codes is None else self.codes[: some.n]
        given = Given(some.logits, some.features, None, codes)
        proba = _proba(replace(fitted, input="logits"), given)
        gaps = np.log(np.maximum(proba, LEAST)) - np.log(proba.max(axis=1, keepdims=True))
        scored = None if fitted.claim is None else proba.argmax(axis=1) == fitted.claim

        def mean(log: float) -> float:
            top = 1 / np.exp(gaps / np.exp(log)).sum(axis=1)
            return float(np.mean(top if scored is None else np.where(scored, top, 1 - top)))

        here = mean(0.0)
        return [_factor(mean, here, wanted) for wanted in means]


def _factor(mean: Callable[[float], float], here: float, wanted: float) -> float:
    """Return the factor on the temperature that gives a mean confidence."""
    low, high = -3.0, 3.0
    if abs(wanted - here) < _CLOSE:
        return 1.0
    falling = mean(high) < mean(low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if (mean(middle) > wanted) == falling else (low, middle)
    return float(np.exp((low + high) / 2))


def _proba(plain: FittedCalibrator, given: Given) -> FloatArray:
    rows = checked(plain, given.logits.astype(np.float64), given.features, None)
    return plain.calibrate(rows._replace(groups=given.groups))

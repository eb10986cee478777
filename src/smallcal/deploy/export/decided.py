"""Decisions written down as arithmetic, and what exporters know of groups by name."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from smallcal.calibrators.decision import NEVER, thresholds_of
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.group_effects import GroupEffects
from smallcal.calibrators.program import Value, given
from smallcal.deploy.export.origin import plain_words


class NamedGroups(NamedTuple):
    """What an export looks up by the name of a row's group.

    Attributes
    ----------
    names : tuple of str
    effects : tuple of float
        What is added to the log-odds of the confidence, one for each name; none at all where the
        calibrator has no effects of groups.
    limits : tuple of tuple of float
        Of each name the threshold of each decision by group; none where there is no such.
    """

    names: tuple[str, ...]
    effects: tuple[float, ...] = ()
    limits: tuple[tuple[float, ...], ...] = ()

    @property
    def n_limits(self) -> int:
        """Decisions by group."""
        return len(self.limits[0]) if self.limits else 0

    @property
    def unknown(self) -> tuple[float, ...]:
        """The thresholds of a group that is not among the names: none is ever reached."""
        return (NEVER,) * self.n_limits


def grouped(fitted: FittedCalibrator) -> GroupEffects | None:
    """Return the effects of groups that an export must ask for the group to apply."""
    return fitted.groups if fitted.groups is not None and fitted.groups.sigma else None


def named_groups(fitted: FittedCalibrator) -> NamedGroups | None:
    """Return what is known of groups: effects, thresholds or both; None where nothing is.

    Examples
    --------
    >>> import smallcal as sc
    >>> cal = sc.Identity().fit([[2.0, 0.0]] * 10, [0] * 10).fitted_
    >>> named_groups(cal) is None
    True
    """
    known_rules = thresholds_of(fitted.decisions).values()
    effects, own = grouped(fitted), [each for each in known_rules if each.by == "group"]
    known = {} if effects is None else dict(zip(effects.names, effects.effects, strict=True))
    names = tuple(dict.fromkeys([*known, *(name for each in own for name in each.names)]))
    if not names:
        return None
    levels = [dict(zip(each.names, each.levels.tolist(), strict=False)) for each in own]
    return NamedGroups(
        names,
        tuple(known.get(name, 0.0) for name in names) if known else (),
        tuple(tuple(each.get(name, NEVER) for each in levels) for name in names) if own else (),
    )


class Rule(NamedTuple):
    """What a file says of a decision: its column, its promise, and whether it asks for groups."""

    column: str
    promise: str
    by_group: bool

    def lines(self, before: str) -> str:
        """Return the promise in lines that can stand in any file, something before each."""
        plain = plain_words(self.promise.replace(";", ","))
        return textwrap.fill(plain, 96, initial_indent=before, subsequent_indent=before)


def rules_of(fitted: FittedCalibrator) -> list[Rule]:
    """Return the decisions that exports carry, in the order of the program's."""
    known = thresholds_of(fitted.decisions)
    return [Rule(column, each.promise, each.by == "group") for column, each in known.items()]


def confidence_of(fitted: FittedCalibrator, probabilities: Value, kept: Value | None) -> Value:
    """Return the probability that the prediction is correct.

    ``probabilities`` are those before :func:`smallcal.calibrators.softmax.put_first`, ``kept`` is 1
    at the model's own prediction where predictions are kept.
    """
    if fitted.claim is not None:
        return probabilities.dot(_one(fitted.claim, fitted.n_classes))
    return probabilities.largest() if kept is None else kept.inner(probabilities)


def flags_of(
    fitted: FittedCalibrator, probabilities: Value, kept: Value | None
) -> Iterator[tuple[str, Value]]:
    """Yield the column of each threshold, and 1 where the confidence reaches it.

    The arguments are those of :func:`confidence_of`.
    """
    known = thresholds_of(fitted.decisions)
    n_limits = sum(each.by == "group" for each in known.values())
    limits, place = given("limits", n_limits), 0
    confidence = confidence_of(fitted, probabilities, kept)
    predicted = probabilities.at_top() if kept is None else kept
    for column, each in known.items():
        if each.by == "group":
            level = limits if n_limits == 1 else limits.dot(_one(place, n_limits))
            place += 1
            yield column, confidence.reached(level)
        elif each.by == "class" and fitted.claim is None:
            # Of the predicted class the factor is 1, of the others 0: the sum is its threshold.
            yield column, confidence.reached(predicted.dot(each.levels[:-1]))
        else:
            own = fitted.claim if each.by == "class" and fitted.claim is not None else 0
            yield column, confidence.reached(float(each.levels[own]))


def _one(place: int, width: int) -> list[float]:
    return [float(i == place) for i in range(width)]


def told(fitted: FittedCalibrator) -> str:
    """Return the decisions as JSON, for the metadata of a file."""
    keys = ("risk", "confidence", "rule", "by", "promise")
    found = thresholds_of(fitted.decisions)
    return json.dumps(
        {column: {key: getattr(each, key) for key in keys} for column, each in found.items()}
    )

"""Numbers of a choice: what a rule takes, what that gives, and what it costs over models."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal_lab.studies.catalogue import STUDIES
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.reproduce.quantity import TEST, Fit, Number, Quantity, plain
from smallcal_lab.studies.reproduce.reference import ALL_REGIMES, Value
from smallcal_lab.studies.reproduce.summaries import Sample, Summary, Told
from smallcal_lab.studies.tables.choices import lowest


def _pair(fit: Fit, metric: str) -> dict[str, float]:
    return {label: fit(metric, label) for label in _TWO}


#: One group and three, by label.
_TWO = _ONE, _THREE = tuple(plain(entry).label for entry in STUDIES["selector"].entries)


def selected(fit: Fit) -> str:
    """Return what the one-standard-error rule takes."""
    return _THREE if fit("accepted_repeat", _THREE, part=TEST) else _ONE


def held_out(fit: Fit) -> str:
    """Return what is best on a fifth of the draw that was held out."""
    return _best(fit, "nested-k", f"held_out_{STUDIES['nested-k'].settings['loss']}")


def oracle(fit: Fit) -> str:
    """Return what is best on the test split."""
    return _best(fit, "oracle-k", STUDIES["oracle-k"].metrics[0])


def better(fit: Fit) -> str:
    """Return the better of one group and three."""
    return lowest(_pair(fit, "ece15"))


def _best(fit: Fit, study: str, metric: str) -> str:
    labels = [plain(entry).label for entry in STUDIES[study].entries]
    return lowest({label: fit(metric, label, part=TEST) for label in labels})


def of_choice(choose: Callable[[Fit], str]) -> Number:
    """Return the metric of what is chosen, or how many groups that has."""

    def number(value: Value, fit: Fit) -> float:
        label = choose(fit)
        if value.measured == "groups_chosen":
            return float(_GROUPS[label])
        return fit(value.measured, label)

    return number


#: Groups of the entries of a choice, by label.
_GROUPS = {
    plain(entry).label: entry.options.get("n_groups", 1 if entry.name == "tva-ts" else 3)
    for name in ("selector", "nested-k", "oracle-k")
    for entry in STUDIES[name].entries
}


def excess(value: Value, fit: Fit) -> float:
    """Return the ECE above that of the better of one group and three."""
    pair = _pair(fit, "ece15")
    label = value.label if value.label in pair else selected(fit)
    return pair[label] - min(pair.values())


def selector(number: Number, summary: Summary | None = None) -> Quantity:
    """Return a number of the choice between one group and three."""
    return Quantity("selector", number, "selector", summary, chosen_clean=True)


def _cases(sample: Sample) -> FloatArray:
    """Return a number for each model, or for each fit where single ones are counted."""
    if sample.value.set in (CLEAN, ALL_REGIMES):
        return np.array([table.mean() for table in sample.tables])
    return sample.fits


def mean_case(sample: Sample) -> Told:
    """Return the mean over models, or fits."""
    return float(_cases(sample).mean()), 0.0


def largest_case(sample: Sample) -> Told:
    """Return the largest of models, or fits."""
    return float(_cases(sample).max()), 0.0


def three(value: Value, fit: Fit) -> list[float]:
    """Return the ECE of one group, of three, and of what the rule takes."""
    pair = _pair(fit, "ece15")
    return [pair[_ONE], pair[_THREE], pair[selected(fit)]]


def told_apart(sign: int, *, followed: bool) -> Summary:
    """Return how many models three groups help (or hurt, with a sign of -1), or are told apart.

    Told apart: what the rule takes keeps more than half of a gain, or takes on less than half of
    a harm.
    """
    margin = 0.002  # the paper's 0.2 points

    def summary(sample: Sample) -> Told:
        means = np.array([table.mean(axis=(0, 1, 2)) for table in sample.tables])
        gain, own = sign * (means[:, 0] - means[:, 1]), sign * (means[:, 0] - means[:, 2])
        there = gain > margin
        told = own > gain / 2 if sign > 0 else own < gain / 2
        return float((there & told).sum() if followed else there.sum()), 0.0

    return summary


def share_of_wrong(sample: Sample) -> Told:
    """Return how often the rule takes three groups where one is better."""
    fits = np.concatenate([table.mean(axis=2).reshape(-1, 3) for table in sample.tables])
    worse = fits[fits[:, 1] > fits[:, 0]]
    return float((worse[:, 2] == worse[:, 1]).mean()) if len(worse) else float("nan"), 0.0

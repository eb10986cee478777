"""What a printed number is: which study measures it, and how that study's rows become it.

Each kind of number is a row of ``QUANTITIES``. The study gives the probe and its settings; a
quantity says which entries are fitted, and what is read of each fit on each set. Numbers of
single fits become the printed one in :mod:`smallcal.studies.reproduce.summaries`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.data.predictions import FloatArray
from smallcal.metrics import METRICS
from smallcal.studies.catalogue import STUDIES
from smallcal.studies.frame import CLEAN
from smallcal.studies.reproduce.reference import ALL_REGIMES, UNITS, Part, Value, label_of
from smallcal.studies.reproduce.summaries import Sample, Summary, Told
from smallcal.studies.study import Entry
from smallcal.studies.tables.diagnostics import lowest
from smallcal.studies.tables.shift import rank_interval

#: The test split as a set.
_TEST: Part = (CLEAN, 0)


class Fit:
    """What was measured of one draw of one cell, on one set."""

    def __init__(
        self,
        numbers: Mapping[tuple[str, str], Mapping[tuple[int, str, int], float]],
        draw: int,
        part: Part,
    ) -> None:
        self._numbers, self._draw, self._part = numbers, draw, part

    def __call__(self, metric: str, label: str, *, part: Part | None = None) -> float:
        """Return a metric of a label, on the set or on another."""
        kind, severity = part or self._part
        return self._numbers[metric, label][self._draw, kind, severity]


#: What is read of a fit: a number, or several.
Number = Callable[[Value, Fit], float | Sequence[float]]


def own(value: Value, fit: Fit) -> float:
    """Return the metric of the value's method."""
    return fit(value.measured, value.label)


def other(value: Value, fit: Fit) -> float:
    """Return the metric of the method that the value's is compared with."""
    return fit(value.measured, value.against)


@dataclass(frozen=True)
class Quantity:
    """A kind of printed number.

    Attributes
    ----------
    study : str
        Name in ``STUDIES``: its probe and settings are used.
    number : callable
        What is read of a fit.
    choice : str
        A study whose entries are fitted, with its baseline, in place of the value's own method.
    summary : callable, optional
        How single numbers become the printed one, where the value's kind does not say it.
    rival : callable
        What is taken off for a difference.
    also : tuple of Entry
        What is fitted beside.
    chosen_clean : bool
        Whether the study only chooses, on clean samples, what may be measured on others.
    metrics : tuple of str
        What the probe is asked for, beside the value's own metric.
    settings : dict
        Of the study, where its own are not meant.
    """

    study: str
    number: Number
    choice: str = ""
    summary: Summary | None = None
    rival: Number = other
    also: tuple[Entry, ...] = ()
    chosen_clean: bool = False
    metrics: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def entries(self, value: Value) -> tuple[Entry, ...]:
        """Return what must be fitted; first the value's own method."""
        found = [plain(entry) for entry in STUDIES[self.choice].entries] if self.choice else []
        found += self.also
        found += map(plain, value.entries)
        if not self.choice and value.method is not None:
            found.insert(0, Entry(value.label, value.method, value.options))
        if value.against in METHODS or value.against in ALIASES:
            found.append(Entry(value.against))
        return tuple(found)

    def runs(self, *, shifted: bool) -> dict[str, bool]:
        """Return the studies that are run for it, and whether on shifted samples too.

        What is chosen on clean samples may be used on others.
        """
        if self.chosen_clean and shifted:
            return {self.study: False, "shift": True}
        return {self.study: shifted}


def plain(entry: Entry) -> Entry:
    """Return an entry whose label says what it is."""
    return Entry(label_of(entry.name, entry.options), entry.name, entry.options)


# --- what is read of a fit


def _named(metric: str, method: str = "") -> Number:
    """Return a metric under another name, or of another method."""
    return lambda value, fit: fit(metric.format(value.measured), method or value.label)


def _steps(value: Value, fit: Fit) -> list[float]:
    """Return the temperatures of a fit."""
    found: list[float] = []
    while len(found) < value.options.get("n_groups", 3):
        try:
            found.append(fit(f"temperature{len(found)}", value.label, part=_TEST))
        except KeyError:
            break
    return found


def _step(value: Value, fit: Fit) -> float:
    """Return the lowest or the highest temperature; the only one where there is one."""
    return max(_steps(value, fit)) if value.part == "high" else min(_steps(value, fit))


def _ratio(value: Value, fit: Fit) -> float:
    return max(_steps(value, fit)) / min(_steps(value, fit))


def _pair(fit: Fit, metric: str) -> dict[str, float]:
    return {label: fit(metric, label) for label in _TWO}


#: One group and three, by label.
_TWO = _ONE, _THREE = tuple(plain(entry).label for entry in STUDIES["selector"].entries)


def selected(fit: Fit) -> str:
    """Return what the one-standard-error rule takes."""
    return _THREE if fit("accepted_repeat", _THREE, part=_TEST) else _ONE


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
    return lowest({label: fit(metric, label, part=_TEST) for label in labels})


def _of_choice(choose: Callable[[Fit], str]) -> Number:
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


def _excess(value: Value, fit: Fit) -> float:
    """Return the ECE above that of the better of one group and three."""
    pair = _pair(fit, "ece15")
    label = value.label if value.label in pair else selected(fit)
    return pair[label] - min(pair.values())


def _selector(number: Number, summary: Summary | None = None) -> Quantity:
    return Quantity("selector", number, "selector", summary, chosen_clean=True)


# --- what is not a mean


def _cases(sample: Sample) -> FloatArray:
    """Return a number for each model, or for each fit where single ones are counted."""
    if sample.value.set in (CLEAN, ALL_REGIMES):
        return np.array([table.mean() for table in sample.tables])
    return sample.fits


def _mean_case(sample: Sample) -> Told:
    return float(_cases(sample).mean()), 0.0


def _largest_case(sample: Sample) -> Told:
    return float(_cases(sample).max()), 0.0


def _three(value: Value, fit: Fit) -> list[float]:
    """Return the ECE of one group, of three, and of what the rule takes."""
    pair = _pair(fit, "ece15")
    return [pair[_ONE], pair[_THREE], pair[selected(fit)]]


def _kept(sign: int, *, followed: bool) -> Summary:
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


def _share_of_wrong(sample: Sample) -> Told:
    """Return how often the rule takes three groups where one is better."""
    fits = np.concatenate([table.mean(axis=2).reshape(-1, 3) for table in sample.tables])
    worse = fits[fits[:, 1] > fits[:, 0]]
    return float((worse[:, 2] == worse[:, 1]).mean()) if len(worse) else float("nan"), 0.0


def _count_cells(sign: int) -> Summary:
    """Return in how many models a difference is below zero, or above; as printed, to 0.01 points.

    Models within the tolerance of a rounding edge may be on either side.
    """

    def summary(sample: Sample) -> Told:
        points = 100 * np.array([table.mean() for table in sample.tables])
        shown = np.sign(np.round(points, 2))
        edge = np.abs(np.abs(points) - 0.005) <= 100 * sample.near
        return float((shown == sign).sum()), float(edge.sum())

    return summary


def _gains(sample: Sample) -> tuple[FloatArray, list[FloatArray]]:
    """Return the raw error, and the gain over each rival: means for each corruption."""
    kinds = len({kind for kind, _ in sample.parts})
    means = sample.tables[0].mean(axis=(0, 1))
    raw, *rivals, ours = means.reshape(kinds, -1, means.shape[-1]).mean(axis=1).T
    return raw, [rival - ours for rival in rivals]


def _spearman_raw(sample: Sample) -> Told:
    raw, gains = _gains(sample)
    return rank_interval(gains[0], raw)[0], 0.0


def _spearman_gains(sample: Sample) -> Told:
    _, gains = _gains(sample)
    return rank_interval(gains[0], gains[1])[0], 0.0


def _best_of(sample: Sample) -> Told:
    """Return under how many corruptions all rivals are beaten; near zero either will do."""
    _, gains = _gains(sample)
    least = np.min(gains, axis=0)
    return float((least > 0).sum()), float((np.abs(least) <= sample.near).sum())


def _heterogeneity(summary: Summary) -> Quantity:
    """Return a number of all corruptions together."""
    settings = STUDIES["heterogeneity"].settings
    labels = (settings["raw"], *settings["rivals"], settings["gain_of"])
    return Quantity(
        "heterogeneity",
        lambda value, fit: [fit("ece15", label) for label in labels],
        choice="heterogeneity",
        summary=summary,
    )


def _models(sign: int) -> Quantity:
    """Return a number of models that are won, tied or lost, by ECE."""
    return Quantity(
        "clean",
        lambda value, fit: fit("ece15", value.label),
        summary=_count_cells(sign),
        rival=lambda value, fit: fit("ece15", value.against),
        metrics=("ece15",),
    )


def _changed(value: Value, fit: Fit) -> list[float]:
    return [fit("changed", plain(entry).label) for entry in value.entries]


def _count(sample: Sample) -> Told:
    return float(sum(table.size for table in sample.tables)), 0.0


def _count_above_zero(sample: Sample) -> Told:
    return float(sum((table > 0).sum() for table in sample.tables)), 0.0


#: Names of numbers, or of methods that only the paper has, to what they are: the first that fits.
QUANTITIES: Mapping[str, Quantity] = {
    # numbers of a choice, of all corruptions, of all methods
    r".*/ece_above_the_better_of_two": _selector(_excess, _mean_case),
    r".*/largest_ece_above_the_better_of_two": _selector(_excess, _largest_case),
    r".*/regimes_helped": _selector(_three, _kept(1, followed=False)),
    r".*/regimes_helped_and_kept": _selector(_three, _kept(1, followed=True)),
    r".*/regimes_hurt": _selector(_three, _kept(-1, followed=False)),
    r".*/regimes_hurt_and_avoided": _selector(_three, _kept(-1, followed=True)),
    r".*/share_of_three_where_one_is_better": _selector(_three, _share_of_wrong),
    r".*/models_won": _models(-1),
    r".*/models_tied": _models(0),
    r".*/models_lost": _models(1),
    r".*/spearman_gain_and_raw_ece": _heterogeneity(_spearman_raw),
    r".*/spearman_gain_over_tva_and_over_smart": _heterogeneity(_spearman_gains),
    r".*/corruptions_best_of_19": _heterogeneity(_best_of),
    r".*/rows_checked": Quantity("top1-audit", _changed, summary=_count),
    r".*/rows_changed": Quantity("top1-audit", _changed, summary=_count_above_zero),
    # methods that only the paper has
    r"K of 1 or 3 by .*/.*": _selector(_of_choice(selected)),
    r"the better of K=1 and K=3 .*/.*": _selector(_of_choice(better)),
    r"SRTS-BCE with the best K .*/.*": Quantity("oracle-k", _of_choice(oracle), "oracle-k"),
    r"SRTS-BCE with K chosen .*/.*": Quantity("nested-k", _of_choice(held_out), "nested-k"),
    r"SRTS-BCE with thresholds made anew .*/.*": Quantity(
        "requantize", _named("{}_requantized", "srts-bce"), also=(Entry("srts-bce"),)
    ),
    r"SRTS-BCE with the groups of the clean images/.*": Quantity(
        "paired-clean", _named("{}_paired_clean", "srts-bce"), also=(Entry("srts-bce"),)
    ),
    # numbers that a probe gives
    r".*/parameters": Quantity("efficiency", own, settings={"repeats": 1}),
    r".*/(coverage|risk|gap)_at\d+": Quantity("thresholds", own),
    r".*/(risk|gap)_at_tva_coverage\d+": Quantity("matched-coverage", own, also=(Entry("tva-ts"),)),
    r".*/selective_risk\d+": Quantity("deployment", own),
    r".*/temperature": Quantity("audit", _step),
    r".*/temperature_ratio": Quantity("audit", _ratio),
    r".*/(temperature\d|threshold\d|share_of_.*)": Quantity("audit", own),
    r".*/signal_to_noise.*": Quantity(
        "signal-to-noise", own, also=(Entry("tva-ts"),), settings={"n_null": 19}
    ),
    r".*/hcfp90_of_all": Quantity("k-ablation-nll", own, metrics=("hcfp90",)),
    r".*/auroc_(risk|confidence)": Quantity("risk-score", own),
    r".*/mean_risk": Quantity("risk-flow", own),
}

#: Metrics by themselves: on clean samples, on others, and within a third of the margins.
_CLEAN, _SHIFTED = Quantity("clean", own), Quantity("shift", own)
_WITHIN = Quantity(
    "within-margin",
    lambda value, fit: fit(f"{value.measured}_margin_{value.set.rpartition('-')[2]}", value.label),
)

#: Why a number cannot be had from logits, whatever the study: its name to the reason.
REASONS: Mapping[str, str] = {
    r".*/.*_time": "no tolerance can be stated for times",
    r".*/signal_to_noise_random": "the paper does not say over how many random groups it is a mean",
    r".*/spearman_calibration_gain_and_test_gain": (
        "the paper does not say which samples three of its cells have"
    ),
    r"LTS-scalar/.*": "the paper does not say what its method is",
    r"SRTS-NLL by a head's temperature/.*": "its method routes by a head that logits do not hold",
}


def quantity_of(value: Value) -> Quantity | str:
    """Return what a value is, or why it cannot be computed.

    Examples
    --------
    >>> from smallcal.studies.reproduce.reference import load_reference
    >>> audit = next(v for v in load_reference().values if v.measured == "temperature_ratio")
    >>> quantity_of(audit).study
    'audit'
    """
    name = f"{value.method or value.paper_method}/{value.measured}"
    reasons = (reason for key, reason in REASONS.items() if re.fullmatch(key, name))
    if reason := next(reasons, ""):
        return reason
    if value.set == "calibration":
        return "no study measures on the calibration split"
    if value.unit not in UNITS:
        return "its unit is not known"
    if value.method is not None and not _is_method(value.method):
        return "its method is none of smallcal's"
    if value.against and not _is_method(value.against):
        return _against_a_choice(value)
    found = _metric_alone(value) or _named_in(name)
    if found is None:
        return f"its {'metric' if value.method is not None else 'method'} is none of smallcal's"
    return found if found.study in STUDIES else "no study measures it"


def _metric_alone(value: Value) -> Quantity | None:
    if value.metric not in METRICS or value.method is None:
        return None
    if "-margin-" in value.set:
        return _WITHIN
    return _CLEAN if value.set == CLEAN else _SHIFTED


def _is_method(name: str) -> bool:
    return name in METHODS or name in ALIASES


def _named_in(name: str) -> Quantity | None:
    found = (quantity for key, quantity in QUANTITIES.items() if re.fullmatch(key, name))
    return next(found, None)


def _against_a_choice(value: Value) -> Quantity | str:
    """Return a difference from what only the paper has a name for."""
    rival = _named_in(f"{value.against}/{value.measured}")
    if rival is None:
        return "its method is none of smallcal's"
    return replace(rival, number=own, rival=rival.number)

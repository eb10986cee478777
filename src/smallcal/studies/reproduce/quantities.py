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
    """Return a metric of another name, or of another method."""
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


def _largest(sample: Sample) -> Told:
    return float(sample.fits.max()), 0.0


def _mean_of_fits(sample: Sample) -> Told:
    """Return the mean over all fits; over models first where these are what is counted."""
    if sample.value.set == ALL_REGIMES:
        return float(np.mean([table.mean() for table in sample.tables])), 0.0
    return float(sample.fits.mean()), 0.0


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


def _changed(value: Value, fit: Fit) -> list[float]:
    return [fit("changed", plain(entry).label) for entry in value.entries]


def _count(sample: Sample) -> Told:
    return float(sum(table.size for table in sample.tables)), 0.0


def _count_above_zero(sample: Sample) -> Told:
    return float(sum((table > 0).sum() for table in sample.tables)), 0.0


#: Names of numbers, or of methods that only the paper has, to what they are: the first that fits.
QUANTITIES: Mapping[str, Quantity] = {
    # methods that only the paper has
    r"K of 1 or 3 by .*/(?!.*above).*": _selector(_of_choice(selected)),
    r"the better of K=1 and K=3 .*/.*": _selector(_of_choice(better)),
    r"SRTS-BCE with the best K .*/.*": Quantity("oracle-k", _of_choice(oracle), "oracle-k"),
    r"SRTS-BCE with K chosen .*/.*": Quantity("nested-k", _of_choice(held_out), "nested-k"),
    r"SRTS-BCE with thresholds made anew .*/.*": Quantity(
        "requantize", _named("{}_requantized", "srts-bce"), also=(Entry("srts-bce"),)
    ),
    r"SRTS-BCE with the groups of the clean images/.*": Quantity(
        "paired-clean", _named("{}_paired_clean", "srts-bce"), also=(Entry("srts-bce"),)
    ),
    # numbers of a choice, of all corruptions, of all methods
    r".*/ece_above_the_better_of_two": _selector(_excess, _mean_of_fits),
    r".*/largest_ece_above_the_better_of_two": _selector(_excess, _largest),
    r".*/spearman_gain_and_raw_ece": _heterogeneity(_spearman_raw),
    r".*/spearman_gain_over_tva_and_over_smart": _heterogeneity(_spearman_gains),
    r".*/corruptions_best_of_19": _heterogeneity(_best_of),
    r".*/rows_checked": Quantity("top1-audit", _changed, summary=_count),
    r".*/rows_changed": Quantity("top1-audit", _changed, summary=_count_above_zero),
    # numbers that a probe gives
    r".*/parameters": Quantity("efficiency", own, settings={"repeats": 1}),
    r".*/(coverage|risk|gap)_at\d+": Quantity("thresholds", own),
    r".*/(risk|gap)_at_tva_coverage\d+": Quantity("matched-coverage", own, also=(Entry("tva-ts"),)),
    r".*/selective_risk\d+": Quantity("deployment", own),
    r".*/temperature": Quantity("audit", _step),
    r".*/temperature_ratio": Quantity("audit", _ratio),
    r".*/(temperature\d|threshold\d|share_of_.*)": Quantity("audit", own),
    r".*/signal_to_noise.*": Quantity("signal-to-noise", own, also=(Entry("tva-ts"),)),
}

#: Metrics by themselves, on clean samples and on others.
_CLEAN, _SHIFTED = Quantity("clean", own), Quantity("shift", own)

#: Why a number cannot be had from logits, whatever the study: its name to the reason.
REASONS: Mapping[str, str] = {
    r".*/.*_time": "no tolerance can be stated for times",
    r".*/signal_to_noise_random": "the paper does not say over how many random groups it is a mean",
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
    if value.unit not in UNITS:
        return "its unit is not known"
    if value.method is not None and not _is_method(value.method):
        return "its method is none of smallcal's"
    if value.against and not _is_method(value.against):
        return _against_a_choice(value)
    if value.metric in METRICS and value.method is not None:
        return _CLEAN if value.set == CLEAN else _SHIFTED
    unknown = "metric" if value.method is not None else "method"
    return _named_in(name) or f"its {unknown} is none of smallcal's"


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

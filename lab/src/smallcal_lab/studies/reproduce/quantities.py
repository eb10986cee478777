"""What a printed number is: which study measures it, and how that study's rows become it.

Each kind of number is a row of ``QUANTITIES``. The study gives the probe and its settings; a
quantity says which entries are fitted, and what is read of each fit on each set. Numbers of
single fits become the printed one in :mod:`smallcal_lab.studies.reproduce.summaries`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.data.predictions import FloatArray
from smallcal.metrics import METRICS
from smallcal_lab.studies.catalogue import STUDIES
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.reproduce.choices import (
    better,
    excess,
    held_out,
    largest_case,
    mean_case,
    of_choice,
    oracle,
    selected,
    selector,
    share_of_wrong,
    three,
    told_apart,
)
from smallcal_lab.studies.reproduce.quantity import TEST, Fit, Number, Quantity, own, plain
from smallcal_lab.studies.reproduce.reference import UNITS, Value
from smallcal_lab.studies.reproduce.summaries import Sample, Summary, Told
from smallcal_lab.studies.study import Entry
from smallcal_lab.studies.tables.shift import rank_interval

# --- what is read of a fit


def _named(metric: str, method: str = "") -> Number:
    """Return a metric under another name, or of another method."""
    return lambda value, fit: fit(metric.format(value.measured), method or value.label)


def _steps(value: Value, fit: Fit) -> list[float]:
    """Return the temperatures of a fit."""
    found: list[float] = []
    while len(found) < value.options.get("n_groups", 3):
        try:
            found.append(fit(f"temperature{len(found)}", value.label, part=TEST))
        except KeyError:
            break
    return found


def _step(value: Value, fit: Fit) -> float:
    """Return the lowest or the highest temperature; the only one where there is one."""
    return max(_steps(value, fit)) if value.part == "high" else min(_steps(value, fit))


def _ratio(value: Value, fit: Fit) -> float:
    return max(_steps(value, fit)) / min(_steps(value, fit))


# --- what is not a mean


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
    r".*/ece_above_the_better_of_two": selector(excess, mean_case),
    r".*/largest_ece_above_the_better_of_two": selector(excess, largest_case),
    r".*/regimes_helped": selector(three, told_apart(1, followed=False)),
    r".*/regimes_helped_and_kept": selector(three, told_apart(1, followed=True)),
    r".*/regimes_hurt": selector(three, told_apart(-1, followed=False)),
    r".*/regimes_hurt_and_avoided": selector(three, told_apart(-1, followed=True)),
    r".*/share_of_three_where_one_is_better": selector(three, share_of_wrong),
    r".*/models_won": _models(-1),
    r".*/models_tied": _models(0),
    r".*/models_lost": _models(1),
    r".*/spearman_gain_and_raw_ece": _heterogeneity(_spearman_raw),
    r".*/spearman_gain_over_tva_and_over_smart": _heterogeneity(_spearman_gains),
    r".*/corruptions_best_of_19": _heterogeneity(_best_of),
    r".*/rows_checked": Quantity("top1-audit", _changed, summary=_count),
    r".*/rows_changed": Quantity("top1-audit", _changed, summary=_count_above_zero),
    # methods that only the paper has
    r"K of 1 or 3 by .*/.*": selector(of_choice(selected)),
    r"the better of K=1 and K=3 .*/.*": selector(of_choice(better)),
    r"SRTS-BCE with the best K .*/.*": Quantity("oracle-k", of_choice(oracle), "oracle-k"),
    r"SRTS-BCE with K chosen .*/.*": Quantity("nested-k", of_choice(held_out), "nested-k"),
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
    r"SRTS-NLL by a head's temperature/.*": (
        "its method is random, and no standard deviation is given"
    ),
}


def quantity_of(value: Value) -> Quantity | str:
    """Return what a value is, or why it cannot be computed.

    Examples
    --------
    >>> from smallcal_lab.studies.reproduce.reference import load_reference
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

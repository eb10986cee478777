"""What a printed number is: which study measures it, and how that study's rows become it.

Each kind of number is a row of ``QUANTITIES``. The study gives the probe and its settings; a
quantity says which entries are fitted, and what is read of each fit on each set. Numbers of
single fits become the printed one in :mod:`smallcal_lab.studies.reproduce.summaries`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.data.predictions import FloatArray
from smallcal.metrics import METRICS
from smallcal_lab.studies.catalogue import STUDIES
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.reproduce.reference import ALL_REGIMES, TEST, UNITS, Part, Value, label_of
from smallcal_lab.studies.reproduce.summaries import Sample, Summary, Told
from smallcal_lab.studies.study import Entry
from smallcal_lab.studies.tables.choices import MARGIN, lowest
from smallcal_lab.studies.tables.shift import rank_interval

#: One fit on one set: ``fit(metric, label)`` is what was measured, ``part=TEST`` on the test split.
Fit = Callable[..., float]
#: What is read of a fit: a number, or several.
Number = Callable[[Value, Fit], float | Sequence[float]]
_Row = TypeVar("_Row")


class UncheckedError(Exception):
    """Why a value cannot be checked."""


def require(met: object, reason: str) -> None:
    """Raise unless a value can be checked."""
    if not met:
        raise UncheckedError(reason)


def plain(entry: Entry) -> Entry:
    """Return an entry whose label says what it is."""
    return Entry(label_of(entry.name, entry.options), entry.name, entry.options)


def labels_of(study: str) -> list[str]:
    """Return the labels of a study's entries that say what they are."""
    return [plain(entry).label for entry in STUDIES[study].entries]


def own(value: Value, fit: Fit) -> float:
    """Return the metric of the value's method."""
    return fit(value.measured, value.label)


@dataclass(frozen=True)
class Quantity:
    """A kind of printed number.

    ``study`` has the probe and the settings, which ``settings`` may replace; with ``choice`` its
    entries are fitted in place of the value's own method. ``number`` is what is read of a fit,
    ``summary`` makes the printed number where the value's kind does not say how, ``rival`` is
    taken off for a difference. ``also`` is fitted beside, and ``metrics`` are measured.
    """

    study: str
    number: Number
    choice: bool = False
    summary: Summary | None = None
    rival: Number = lambda value, fit: fit(value.measured, value.against)
    also: tuple[Entry, ...] = ()
    metrics: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def entries(self, value: Value) -> tuple[Entry, ...]:
        """Return what must be fitted; first the value's own method."""
        found = [plain(entry) for entry in STUDIES[self.study].entries] if self.choice else []
        found += [*self.also, *map(plain, value.entries)]
        if not self.choice and value.method is not None:
            found.insert(0, Entry(value.label, value.method, value.options))
        if _is_method(value.against):
            found.append(Entry(value.against))
        return tuple(found)


def _temperatures(choose: Callable[[Value, list[float]], float]) -> Quantity:
    """Return a number of the temperatures of a fit."""

    def number(value: Value, fit: Fit) -> float:
        found: list[float] = []
        with suppress(KeyError):  # a fit may have fewer groups than asked for
            for group in range(value.options.get("n_groups", 3)):
                found.append(fit(f"temperature{group}", value.label, part=TEST))
        return choose(value, found)

    return Quantity("audit", number)


# --- choices: what a rule takes, what that gives, and what it costs over models


#: One group and three, by label.
_ONE, _THREE = labels_of("selector")
#: Groups of the entries of a choice, by label.
_GROUPS = {_ONE: 1, _THREE: 3} | {
    plain(entry).label: entry.options["n_groups"]
    for name in ("nested-k", "oracle-k")
    for entry in STUDIES[name].entries
}


def _selected(fit: Fit) -> str:
    """Return what the one-standard-error rule takes."""
    return _THREE if fit("accepted_repeat", _THREE, part=TEST) else _ONE


def _choice(study: str, choose: Callable[[Fit], str]) -> Quantity:
    """Return the metric of what is chosen among a study's entries, or how many groups it has."""

    def number(value: Value, fit: Fit) -> float:
        label = choose(fit)
        return _GROUPS[label] if value.measured == "groups_chosen" else fit(value.measured, label)

    return Quantity(study, number, choice=True)


def _lowest(study: str, metric: str, **part: Part) -> Quantity:
    """Return a number of the entry of a study that has the lowest metric."""
    labels = labels_of(study)
    return _choice(study, lambda fit: lowest({one: fit(metric, one, **part) for one in labels}))


def _selector(number: Number, summary: Summary) -> Quantity:
    """Return a number of the choice between one group and three, over all models."""
    return Quantity("selector", number, choice=True, summary=summary)


def _three(value: Value, fit: Fit) -> list[float]:
    """Return the ECE of one group, of three, and of what the rule takes."""
    return [fit("ece15", label) for label in (_ONE, _THREE, _selected(fit))]


def _excess(value: Value, fit: Fit) -> float:
    """Return the ECE above that of the better of one group and three."""
    label = value.label if value.label in (_ONE, _THREE) else _selected(fit)
    return fit("ece15", label) - min(fit("ece15", one) for one in (_ONE, _THREE))


def _cases(sample: Sample) -> FloatArray:
    """Return a number for each model, or for each fit where single ones are counted."""
    of_models = sample.value.set in (CLEAN, ALL_REGIMES)
    return np.array([table.mean() for table in sample.tables]) if of_models else sample.fits


def _told_apart(sign: int, *, followed: bool) -> Summary:
    """Return how many models three groups help (or hurt, with a sign of -1), or are told apart.

    Told apart: what the rule takes keeps more than half of a gain, or takes on less than half of
    a harm.
    """

    def summary(sample: Sample) -> Told:
        means = np.array([table.mean(axis=(0, 1, 2)) for table in sample.tables])
        gain, kept = sign * (means[:, 0] - means[:, 1]), sign * (means[:, 0] - means[:, 2])
        told = kept > gain / 2 if sign > 0 else kept < gain / 2
        there = gain > MARGIN
        return float((there & told).sum() if followed else there.sum())

    return summary


def _share_of_wrong(sample: Sample) -> Told:
    """Return how often the rule takes three groups where one is better."""
    fits = np.concatenate([table.mean(axis=2).reshape(-1, 3) for table in sample.tables])
    worse = fits[fits[:, 1] > fits[:, 0]]
    return float((worse[:, 2] == worse[:, 1]).mean()) if len(worse) else float("nan")


# --- all corruptions, all models, all methods


def _heterogeneity(summary: Summary) -> Quantity:
    """Return a number of all corruptions together."""
    settings = STUDIES["heterogeneity"].settings
    labels = (settings["raw"], *settings["rivals"], settings["gain_of"])
    return Quantity(
        "heterogeneity",
        lambda value, fit: [fit("ece15", label) for label in labels],
        choice=True,
        summary=summary,
    )


def _gains(sample: Sample) -> FloatArray:
    """Return the raw error, and the gain over each rival: means for each corruption."""
    kinds = len({kind for kind, _ in sample.parts})
    means = sample.tables[0].mean(axis=(0, 1))
    raw, *rivals, ours = means.reshape(kinds, -1, means.shape[-1]).mean(axis=1).T
    return np.array([raw, *(rival - ours for rival in rivals)])


def _spearman(*rows: int) -> Quantity:
    """Return the rank correlation of two of these."""
    return _heterogeneity(lambda sample: rank_interval(*_gains(sample)[list(rows)])[0])


def _best_of(sample: Sample) -> Told:
    """Return under how many corruptions all rivals are beaten; near zero either will do."""
    least = np.min(_gains(sample)[1:], axis=0)
    return float((least > 0).sum()), float((np.abs(least) <= sample.near).sum())


def _models(sign: int) -> Quantity:
    """Return in how many models a difference in ECE, to 0.01 points, is below zero, or above.

    Models within the tolerance of a rounding edge may be on either side.
    """

    def summary(sample: Sample) -> Told:
        points = 100 * np.array([table.mean() for table in sample.tables])
        edge = np.abs(np.abs(points) - 0.005) <= 100 * sample.near
        return float((np.sign(np.round(points, 2)) == sign).sum()), float(edge.sum())

    return Quantity(
        "clean",
        lambda value, fit: fit("ece15", value.label),
        summary=summary,
        rival=lambda value, fit: fit("ece15", value.against),
        metrics=("ece15",),
    )


def _rows(count: Callable[[FloatArray], Any]) -> Quantity:
    """Return how many predictions of all methods were checked, or changed."""
    return Quantity(
        "top1-audit",
        lambda value, fit: [fit("changed", plain(entry).label) for entry in value.entries],
        summary=lambda sample: float(sum(map(count, sample.tables))),
    )


def _control(study: str, name: str) -> Quantity:
    """Return a metric of grouped temperatures under a control that nobody could deploy."""
    return Quantity(
        study,
        lambda value, fit: fit(f"{value.measured}_{name}", "srts-bce"),
        also=(Entry("srts-bce"),),
    )


_TVA = (Entry("tva-ts"),)
#: Names of numbers, or of methods that only the paper has, to what they are: the first that fits.
QUANTITIES: Mapping[str, Quantity] = {
    # numbers of a choice, of all corruptions, of all methods
    r".*/ece_above_the_better_of_two": _selector(_excess, lambda s: _cases(s).mean()),
    r".*/largest_ece_above_the_better_of_two": _selector(_excess, lambda s: _cases(s).max()),
    r".*/regimes_helped": _selector(_three, _told_apart(1, followed=False)),
    r".*/regimes_helped_and_kept": _selector(_three, _told_apart(1, followed=True)),
    r".*/regimes_hurt": _selector(_three, _told_apart(-1, followed=False)),
    r".*/regimes_hurt_and_avoided": _selector(_three, _told_apart(-1, followed=True)),
    r".*/share_of_three_where_one_is_better": _selector(_three, _share_of_wrong),
    r".*/models_won": _models(-1),
    r".*/models_tied": _models(0),
    r".*/models_lost": _models(1),
    r".*/spearman_gain_and_raw_ece": _spearman(1, 0),
    r".*/spearman_gain_over_tva_and_over_smart": _spearman(1, 2),
    r".*/corruptions_best_of_19": _heterogeneity(_best_of),
    r".*/rows_checked": _rows(np.size),
    r".*/rows_changed": _rows(lambda table: (table > 0).sum()),
    # methods that only the paper has
    r"K of 1 or 3 by .*/.*": _choice("selector", _selected),
    r"the better of K=1 and K=3 .*/.*": _lowest("selector", "ece15"),
    r"SRTS-BCE with the best K .*/.*": _lowest("oracle-k", "ece15", part=TEST),
    r"SRTS-BCE with K chosen .*/.*": _lowest("nested-k", "held_out_ece15", part=TEST),
    r"SRTS-BCE with thresholds made anew .*/.*": _control("requantize", "requantized"),
    r"SRTS-BCE with the groups of the clean images/.*": _control("paired-clean", "paired_clean"),
    # numbers that a probe gives
    r".*/parameters": Quantity("efficiency", own, settings={"repeats": 1}),
    r".*/(coverage|risk|gap)_at\d+": Quantity("thresholds", own),
    r".*/(risk|gap)_at_tva_coverage\d+": Quantity("matched-coverage", own, also=_TVA),
    r".*/selective_risk\d+": Quantity("deployment", own),
    r".*/temperature": _temperatures(lambda v, all_: max(all_) if v.part == "high" else min(all_)),
    r".*/temperature_ratio": _temperatures(lambda value, all_: max(all_) / min(all_)),
    r".*/(temperature\d|threshold\d|share_of_.*)": Quantity("audit", own),
    r".*/signal_to_noise.*": Quantity("signal-to-noise", own, also=_TVA, settings={"n_null": 19}),
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


def quantity_of(value: Value) -> Quantity:
    """Return what a value is; raise if it cannot be computed."""
    name = f"{value.method or value.paper_method}/{value.measured}"
    unknown = "its method is none of smallcal's"
    reason = _first(REASONS, name)
    require(reason is None, reason or "")
    require(value.set != "calibration", "no study measures on the calibration split")
    require(value.unit in UNITS, "its unit is not known")
    require(value.method is None or _is_method(value.method), unknown)
    if value.against and not _is_method(value.against):
        # A difference from what only the paper has a name for.
        if rival := _first(QUANTITIES, f"{value.against}/{value.measured}"):
            return replace(rival, number=own, rival=rival.number)
        raise UncheckedError(unknown)
    if value.metric in METRICS and value.method is not None:
        if "-margin-" in value.set:
            return _WITHIN
        return _CLEAN if value.set == CLEAN else _SHIFTED
    if found := _first(QUANTITIES, name):
        return found
    raise UncheckedError("its metric is none of smallcal's" if value.method else unknown)


def _first(rows: Mapping[str, _Row], name: str) -> _Row | None:
    """Return the first row whose pattern fits a name; None if none does."""
    return next((row for pattern, row in rows.items() if re.fullmatch(pattern, name)), None)


def _is_method(name: str) -> bool:
    return name in METHODS or name in ALIASES

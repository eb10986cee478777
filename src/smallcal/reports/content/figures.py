"""The figures of a report: what each shows, in numbers and in words; nothing is drawn here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from smallcal import plots
from smallcal.data.plain import plain
from smallcal.metrics import METRICS
from smallcal.metrics.debiased import CUTS
from smallcal.metrics.units import PERCENT
from smallcal.plots.shift_errors_plot import errors_of
from smallcal.reports.content.measure import CLASSIC, Measured
from smallcal.reports.content.words import listed, with_interval
from smallcal.reports.samples import Samples
from smallcal.reports.settings import RAW

#: Samples shown where each is a mark of its own, spread evenly over the test samples.
_MARKS = 1_000

#: Resamples behind a band, which is drawn a millimetre wide.
BAND_BOOT = 200

#: What the document says of a figure, in order: in ``alt`` it all in words, then what draws it.
_KEYS = ("id", "title", "caption", "alt", "plot", "data")
Spec = tuple[str, str, str, str, str, Any]


def figure_specs(
    measured: Measured,
    chosen: str,
    test: Samples,
    *,
    shifted: Sequence[Mapping[str, Any]],
    bootstrap: tuple[int, float, int],
) -> Iterator[dict[str, Any]]:
    """Yield every figure, as soon as its numbers are there.

    ``shifted`` are the rows of :mod:`smallcal.reports.content.shift`; ``bootstrap`` is (n_boot,
    level, seed).
    """
    n_boot, level, _ = bootstrap
    specs = chain(
        _forests(measured) if n_boot else [],
        _of_confidence(measured, chosen, test, bootstrap),
        _of_groups(measured, chosen, test, level=level),
        _of_temperature(measured, chosen, test),
        _of_shift(shifted, level=level) if shifted and n_boot else [],
    )
    return specs_of(specs)


def specs_of(specs: Iterable[Spec]) -> Iterator[dict[str, Any]]:
    """Yield figures as the document has them."""
    return (plain(dict(zip(_KEYS, spec, strict=True))) for spec in specs)


def _forests(measured: Measured) -> Iterator[Spec]:
    for metric in measured.two:
        if all(math.isnan(row[metric].low) for row in measured.result.intervals.values()):
            continue
        parts = [
            f"{name} {with_interval(metric, row, signed=True)}, {verdict}"
            for name in measured.result.differences
            for row, verdict, _ in [measured.difference(name, RAW, metric)]
        ]
        yield (
            f"forest-{metric.replace('_', '-')}",
            f"{METRICS[metric].title}: difference from {measured.claim.raw}",
            f"Left of zero is better. {100 * measured.result.level:g} % intervals, paired by "
            f"sample.{' Debiased.' if metric in CUTS else ''}",
            f"Difference in {METRICS[metric].title} from {measured.claim.raw}: {'; '.join(parts)}.",
            "forest",
            plots.forest_data(measured.result, metric=metric),
        )


def _of_confidence(
    measured: Measured, chosen: str, test: Samples, bootstrap: tuple[int, float, int]
) -> Iterator[Spec]:
    """Yield what is put side by side: the uncalibrated model, the classic and the chosen method."""
    n_boot, level, seed = min(bootstrap[0], BAND_BOOT), *bootstrap[1:]
    names = [name for name in dict.fromkeys([RAW, CLASSIC, chosen]) if name in measured.fits]
    labels, claim = test.preds.labels, measured.claim
    probas = {name: measured.fits[name].scored for name in names}
    what, met = claim.confidence, claim.accuracy.capitalize()

    def each(metric: str) -> str:
        return listed([f"{n} {with_interval(metric, measured.value(n, metric))}" for n in names])

    yield (
        "reliability",
        "Reliability",
        f"{met} against {what} in 15 bins; bands are exact {100 * level:g} % intervals. "
        "On the diagonal a model is calibrated; below it, it is overconfident.",
        f"Reliability diagram in 15 bins of {what}. ECE: {each('ece15')}.",
        "reliability",
        plots.reliability_data(labels, probas, level=level),
    )
    spread = plots.confidence_histogram_data(labels, probas)
    said = listed([f"{name} {PERCENT.value(row.confidence)}" for name, row in spread.items()])
    accuracy = PERCENT.value(measured.points[RAW]["accuracy"])
    yield (
        "confidence-histogram",
        f"How {claim.confidences} are spread",
        f"Dashed lines are mean {claim.confidences}; the solid line is the {claim.accuracy} they "
        "should meet.",
        f"Histogram of {claim.confidences}. Mean {what}: {said}. {met} of {claim.raw}: {accuracy}.",
        "confidence_histogram",
        spread,
    )
    if not n_boot:  # what follows has bands of resamples
        return
    smooth = plots.smooth_reliability_data(
        labels, probas, level=level, n_boot=n_boot, random_state=seed
    )
    said = listed([f"{name} {PERCENT.value(row.smece)}" for name, row in smooth.items()])
    yield (
        "smooth-reliability",
        "Reliability without bins",
        f"{met} against {what}, smoothed at the width that the smooth calibration error "
        f"finds; bands are {100 * level:g} % intervals over resampled test samples.",
        f"Smoothed reliability diagram. Smooth calibration error: {said}.",
        "smooth_reliability",
        smooth,
    )
    yield (
        "risk-coverage",
        f"{claim.rate.capitalize()} of what is kept",
        f"If only the most {claim.sure} share of samples is kept, how many of them "
        f"{claim.are_wrong}; bands are {100 * level:g} % intervals, point by point.",
        f"Risk-coverage curves. Area under the curve: {each('aurc')}.",
        "risk_coverage",
        plots.risk_coverage_data(labels, probas, level=level, n_boot=n_boot, random_state=seed),
    )


def _of_groups(measured: Measured, chosen: str, test: Samples, *, level: float) -> Iterator[Spec]:
    """Yield what only groups have: nothing where the chosen method has none."""
    fit = measured.fits[chosen]
    if not fit.deployable or len(fit.fitted.map.steps) < 2 or measured.kind == "score":
        return
    preds = test.preds
    given: dict[str, Any] = {"calibrator": fit.fitted, "level": level, "features": preds.features}
    matched = plots.matched_confidence_data(preds.labels, preds.logits, **given)
    steps = "; ".join(matched)
    yield (
        "matched-confidence",
        f"Groups of {fit.name} at the same confidence",
        "Reliability within each group, at the confidence that one temperature for all gives. "
        "Where groups differ at the same confidence, one temperature cannot calibrate all of "
        "them; exact "
        f"{100 * level:g} % intervals.",
        f"Reliability diagrams by group: {steps}.",
        "matched_confidence",
        matched,
    )
    residuals = plots.group_residuals_data(preds.labels, preds.logits, **given)
    said = []
    for stage, row in residuals.items():
        ends = zip(row.residual, row.low, row.high, strict=True)
        each = [
            f"{PERCENT.difference(middle)} ({PERCENT.interval(low, high, signed=True)})"
            for middle, low, high in ends
        ]
        said.append(f"{stage}: {', '.join(each)}")
    yield (
        "group-residuals",
        f"Remaining miscalibration in each group of {fit.name}",
        "Accuracy minus mean confidence: below zero a group is overconfident, above zero "
        "underconfident. "
        f"Exact {100 * level:g} % intervals.",
        f"Accuracy minus confidence by group, lowest score first. {'; '.join(said)}.",
        "group_residuals",
        residuals,
    )


def _of_temperature(measured: Measured, chosen: str, test: Samples) -> Iterator[Spec]:
    fit = measured.fits[chosen]
    if not fit.deployable or not fit.routed or measured.kind == "score":
        return
    preds = test.preds
    rows = np.unique(np.linspace(0, preds.n - 1, min(preds.n, _MARKS)).astype(np.int64))
    features = None if preds.features is None else preds.features[rows]
    found = plots.temperature_signal_data(fit.fitted, preds.logits[rows], features=features)
    low, middle, high = np.quantile(found.temperature, [0.05, 0.5, 0.95])
    every = len(rows) == preds.n
    count = "the test samples" if every else f"{len(rows):,} of the test samples"
    yield (
        "temperature",
        f"Temperatures of {fit.name}",
        f"The temperature that divides each sample's logits, for {count}. Above 1 it lowers the "
        "confidence, below 1 it raises it.",
        f"Temperature against {found.label}: half of the samples lie below {middle:.3f}, nine "
        f"in ten between {low:.3f} and {high:.3f}; one temperature for all samples would be "
        f"{found.pooled:.3f}.",
        "temperature_signal",
        found,
    )


def _of_shift(rows: Sequence[Mapping[str, Any]], *, level: float) -> Iterator[Spec]:
    sets = [f"{row['kind']} {row['severity']}".strip() for row in rows]
    found = {}
    for name in rows[0]["values"]:
        values = [row["values"][name] for row in rows]
        numbers = [
            (row["accuracy"]["value"], *(row["ece15"][key] for key in ("value", "low", "high")))
            for row in values
        ]
        found[name] = errors_of(sets, numbers, metric="ece15", level=level)
    said = [f"{name} {PERCENT.value(row.error.mean())} on average" for name, row in found.items()]
    yield (
        "shift-errors",
        "Calibration error under shift",
        "Each mark is the debiased error of a shifted set, against the accuracy there; bars are "
        f"{100 * level:g} % intervals.",
        f"Debiased ECE on {len(rows)} shifted sets against their accuracy: {listed(said)}.",
        "shift_errors",
        found,
    )

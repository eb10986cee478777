"""What is measured of each fit. A probe takes a fitted entry's surroundings and yields numbers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from smallcal.catalogue import method
from smallcal.data import FloatArray, Predictions
from smallcal.estimators import make
from smallcal.evaluation import evaluate
from smallcal.metrics import Scored
from smallcal.metrics.selective import selective_risk_of
from smallcal.metrics.threshold import (
    coverage_at_threshold_of,
    hcfp_of,
    risk_at_threshold_of,
)
from smallcal.shell import BaseCalibrator
from smallcal.studies.collection import Cell
from smallcal.studies.description import Study
from smallcal.studies.units import CLEAN, FAILED, Entry, Task, draw_rows

#: A number with the set it was measured on: set, severity, metric, value.
Found = tuple[str, int, str, float]


@dataclass(frozen=True, eq=False)
class Site:
    """Where an entry is fitted and measured."""

    study: Study
    cell: Cell
    cal: Predictions

    def fit(self, entry: Entry) -> BaseCalibrator:
        """Fit an entry on the draw; folds are seeded by the cell's seed."""
        estimator = make(entry.name, **entry.options)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=self.cell.seed)
        return estimator.fit(self.cal.logits, self.cal.labels, features=self.cal.features)


def measure(study: Study, cell: Cell, task: Task) -> list[dict[str, Any]]:
    """Fit and measure every entry of a study on one draw; a failure is a row that says why."""
    split = cell.read("calibration")
    rows = draw_rows(split.labels, task.budget, seed=cell.seed, draw=task.draw)
    site = Site(study, cell, split.take(rows))
    found: list[dict[str, Any]] = []
    for entry in study.entries:
        if "features" in method(entry.name).needs and split.features is None:
            continue  # nothing to fit it on: the tables leave it out
        about = {
            "cell": cell.name,
            "dataset": cell.dataset,
            "backbone": cell.backbone,
            "seed": cell.seed,
            "budget": len(rows),
            "draw": task.draw,
            "label": entry.label,
            "method": entry.name,
        }
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                numbers = list(PROBES[study.probe](site, entry))
        except Exception as error:  # noqa: BLE001 - one unit's failure must not stop the others
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            found.append({**about, "metric": FAILED, "value": float("nan"), "error": reason})
            continue
        found += [
            {**about, "set": name, "severity": severity, "metric": metric, "value": float(value)}
            for name, severity, metric, value in numbers
        ]
    return found


def applied(fitted: BaseCalibrator, preds: Predictions) -> FloatArray:
    """Return a calibrator's probabilities; diagnostics that read labels get them."""
    needs = fitted.fitted_.signal.needs
    return fitted.predict_proba(
        preds.logits,
        features=preds.features if "features" in needs else None,
        y=preds.labels if "labels" in needs else None,
    )


def _clean(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics on the test split."""
    test = site.cell.read("test")
    scores = evaluate(test.labels, applied(site.fit(entry), test), metrics=site.study.metrics)
    for name, value in scores.items():
        yield CLEAN, 0, name, value


def _shifted(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics and occupancy on the test split and on every shifted one, all maps frozen."""
    fitted = site.fit(entry)
    for name, severity, preds in sets_of(site.cell):
        proba = applied(fitted, preds)
        for metric, value in evaluate(preds.labels, proba, metrics=site.study.metrics).items():
            yield name, severity, metric, value
        yield from _occupancy(fitted, preds, name, severity)


def sets_of(cell: Cell) -> Iterator[tuple[str, int, Predictions]]:
    """Yield the test split and every shifted one, with its kind and severity."""
    yield CLEAN, 0, cell.read("test")
    for shift in cell.shifts:
        yield shift.kind, shift.severity, cell.read(shift)


def _occupancy(
    fitted: BaseCalibrator, preds: Predictions, name: str, severity: int
) -> Iterator[Found]:
    if len(fitted.fitted_.map.steps) < 2:
        return
    share = np.bincount(fitted.group(preds.logits), minlength=len(fitted.temperatures_)) / preds.n
    for group, value in enumerate(share):
        yield name, severity, f"occupancy{group}", float(value)


def _requantized(site: Site, entry: Entry) -> Iterator[Found]:
    """Under shift: thresholds cut anew at the shifted samples' own quantiles, a control."""
    fitted = site.fit(entry)
    for name, severity, preds in sets_of(site.cell):
        deployed = fitted.group(preds.logits) if len(fitted.fitted_.map.steps) > 1 else None
        for suffix, groups in (("", deployed), ("_requantized", _thirds(fitted, preds))):
            yield from _by_groups(site, fitted, preds, groups, (name, severity, suffix))


def _paired_clean(site: Site, entry: Entry) -> Iterator[Found]:
    """Under shift: each sample keeps the group of its clean twin, which nobody has in use."""
    fitted = site.fit(entry)
    routed = len(fitted.fitted_.map.steps) > 1
    test = site.cell.read("test")
    clean = fitted.group(test.logits) if routed else None
    for shift in site.cell.shifts:
        if not shift.paired:
            continue
        preds = site.cell.read(shift)
        deployed = fitted.group(preds.logits) if routed else None
        for suffix, groups in (("", deployed), ("_paired_clean", clean)):
            yield from _by_groups(site, fitted, preds, groups, (shift.kind, shift.severity, suffix))


def _thirds(fitted: BaseCalibrator, preds: Predictions) -> Any:
    if len(fitted.fitted_.map.steps) < 2:
        return None
    scores = fitted.fitted_.scores(preds.logits)
    levels = np.arange(1, len(fitted.temperatures_)) / len(fitted.temperatures_)
    return np.searchsorted(np.quantile(scores, levels), scores, side="right")


def _by_groups(
    site: Site,
    fitted: BaseCalibrator,
    preds: Predictions,
    groups: Any,
    where: tuple[str, int, str],
) -> Iterator[Found]:
    """Metrics when samples are put into given groups; without groups, as fitted."""
    from smallcal.special import softmax

    name, severity, suffix = where
    if groups is None:
        proba = applied(fitted, preds)
    else:
        proba = softmax(preds.logits / fitted.temperatures_[groups][:, None])
    for metric, value in evaluate(preds.labels, proba, metrics=site.study.metrics).items():
        yield name, severity, metric + suffix, value


def _thresholds(site: Site, entry: Entry) -> Iterator[Found]:
    """Coverage, risk and confident errors at fixed confidence thresholds."""
    test = site.cell.read("test")
    scored = Scored.of(test.labels, applied(site.fit(entry), test))
    for threshold in site.study.settings["thresholds"]:
        at = f"@{threshold:g}"
        yield CLEAN, 0, f"coverage{at}", coverage_at_threshold_of(scored, threshold=threshold)
        yield CLEAN, 0, f"risk{at}", risk_at_threshold_of(scored, threshold=threshold)
        yield CLEAN, 0, f"hcfp{at}", hcfp_of(scored, threshold=threshold)


def _matched_coverage(site: Site, entry: Entry) -> Iterator[Found]:
    """Risk among the most confident samples, at coverages that are the same for all."""
    test = site.cell.read("test")
    scored = Scored.of(test.labels, applied(site.fit(entry), test))
    for coverage in site.study.settings["coverages"]:
        yield CLEAN, 0, f"risk@{coverage:g}", selective_risk_of(scored, coverage=coverage)


def _top1(site: Site, entry: Entry) -> Iterator[Found]:
    """Accuracy before and after, and the predictions that changed."""
    test = site.cell.read("test")
    proba = applied(site.fit(entry), test)
    changed = proba.argmax(axis=1) != test.predicted
    yield CLEAN, 0, "accuracy", float((proba.argmax(axis=1) == test.labels).mean())
    yield CLEAN, 0, "accuracy_before", float(test.correct.mean())
    yield CLEAN, 0, "changed", float(changed.mean())


def _efficiency(site: Site, entry: Entry) -> Iterator[Found]:
    """Seconds to fit and microseconds a sample to apply: medians of repeats."""
    test = site.cell.read("test")
    repeats = site.study.settings["repeats"]
    fits, applies = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        fitted = site.fit(entry)
        middle = time.perf_counter()
        applied(fitted, test)
        applies.append(time.perf_counter() - middle)
        fits.append(middle - begin)
    yield CLEAN, 0, "fit_seconds", float(np.median(fits))
    yield CLEAN, 0, "apply_microseconds", 1e6 * float(np.median(applies)) / test.n
    yield CLEAN, 0, "parameters", float(fitted.n_parameters_)


Probe = Callable[[Site, Entry], Iterator[Found]]

PROBES: Mapping[str, Probe] = MappingProxyType(
    {
        "clean": _clean,
        "shifted": _shifted,
        "requantized": _requantized,
        "paired_clean": _paired_clean,
        "thresholds": _thresholds,
        "matched_coverage": _matched_coverage,
        "top1": _top1,
        "efficiency": _efficiency,
    }
)

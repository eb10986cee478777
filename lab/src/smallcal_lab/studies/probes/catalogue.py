"""What is measured of each fit. A probe takes a fitted entry's surroundings and yields numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from smallcal.metrics import METRICS, Scored
from smallcal.metrics.selective import selective_risk
from smallcal.metrics.threshold import coverage_at_threshold, risk_at_threshold
from smallcal.statistics.compare import evaluate
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.probes.base import Found, Probe, Site, applied, clean, sets_of
from smallcal_lab.studies.probes.diagnostics import (
    audited,
    gated,
    held_out,
    signal_and_noise,
    temperatures,
)
from smallcal_lab.studies.probes.risk import risk_flow, risk_scored, within_margin
from smallcal_lab.studies.probes.shift import paired_clean, requantized, shifted
from smallcal_lab.studies.study import Entry


def _deployed(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics and the risk at given coverages, on the test split and on every shifted one."""
    fitted, settings = site.fit(entry), site.study.settings
    for name, severity, preds in sets_of(site.cell):
        proba = applied(fitted, preds)
        scored = Scored.of(preds.labels, proba)
        yield name, severity, evaluate(preds.labels, proba, metrics=settings["metrics"])
        for coverage in settings["coverages"]:
            risk = selective_risk.of(scored, coverage=coverage)
            yield name, severity, {f"selective_risk{_percent(coverage)}": risk}


def _thresholds(site: Site, entry: Entry) -> Iterator[Found]:
    """Coverage, risk, and confidence minus accuracy of what is kept at fixed thresholds."""
    fitted = site.fit(entry)
    for name, severity, preds in sets_of(site.cell):
        scored = Scored.of(preds.labels, applied(fitted, preds))
        for threshold in site.study.settings["thresholds"]:
            at, kept = f"_at{_percent(threshold)}", scored.confidence >= threshold
            coverage = coverage_at_threshold.of(scored, threshold=threshold)
            yield name, severity, {f"coverage{at}": coverage}
            if kept.any():
                risk = risk_at_threshold.of(scored, threshold=threshold)
                gap = float(scored.residual[kept].mean())
                yield name, severity, {f"risk{at}": risk, f"gap{at}": gap}


def _matched_coverage(site: Site, entry: Entry) -> Iterator[Found]:
    """Risk and gap when every method keeps as many as the baseline does at each threshold."""
    fitted, reference = site.fit(entry), site.fit(site.baseline)
    for name, severity, preds in sets_of(site.cell):
        scored = Scored.of(preds.labels, applied(fitted, preds))
        theirs = Scored.of(preds.labels, applied(reference, preds))
        yield name, severity, {"aurc": METRICS["aurc"].of(scored)}
        for threshold in site.study.settings["thresholds"]:
            at = f"_at_tva_coverage{_percent(threshold)}"
            kept = int((theirs.confidence >= threshold).sum())
            if not kept:
                continue
            risk = selective_risk.of(scored, coverage=kept / scored.n)
            confidence = np.sort(scored.confidence)[-kept:].mean()
            yield name, severity, {f"risk{at}": risk, f"gap{at}": float(confidence) - (1 - risk)}


def _percent(share: float) -> str:
    return f"{100 * share:g}"


def _top1(site: Site, entry: Entry) -> Iterator[Found]:
    """Accuracy before and after, the predictions that changed, and metrics."""
    test = site.cell.read("test")
    fitted = site.fit(entry)
    proba, after = applied(fitted, test), fitted.predict_proba(test.logits).argmax(axis=1)
    found = {"accuracy": after == test.labels, "accuracy_before": test.correct}
    found["changed"] = after != test.predicted
    yield CLEAN, 0, {metric: float(holds.mean()) for metric, holds in found.items()}
    yield CLEAN, 0, evaluate(test.labels, proba, metrics=site.study.settings["metrics"])


def _efficiency(site: Site, entry: Entry) -> Iterator[Found]:
    """Seconds to fit and microseconds a sample to apply: medians of repeats, threads fixed."""
    from joblib import cpu_count
    from threadpoolctl import threadpool_limits

    test, settings = site.cell.read("test"), site.study.settings
    threads = min(settings["threads"], cpu_count())
    fits: list[float] = []
    applies: list[float] = []
    with threadpool_limits(threads):
        while len(fits) < settings["repeats"] and sum(fits) <= settings["seconds"]:
            begin = time.perf_counter()
            fitted = site.fit(entry)
            middle = time.perf_counter()
            applied(fitted, test)
            applies.append(time.perf_counter() - middle)
            fits.append(middle - begin)
    apply_microseconds = 1e6 * float(np.median(applies)) / test.n
    yield CLEAN, 0, {"fit_seconds": np.median(fits), "apply_microseconds": apply_microseconds}
    yield CLEAN, 0, {"parameters": fitted.n_parameters_, "threads": threads, "repeats": len(fits)}


PROBES: Mapping[str, Probe] = MappingProxyType(
    {
        "clean": clean,
        "shifted": shifted,
        "requantized": requantized,
        "paired_clean": paired_clean,
        "thresholds": _thresholds,
        "matched_coverage": _matched_coverage,
        "top1": _top1,
        "efficiency": _efficiency,
        "deployed": _deployed,
        "gated": gated,
        "held_out": held_out,
        "audited": audited,
        "signal_to_noise": signal_and_noise,
        "temperatures": temperatures,
        "within_margin": within_margin,
        "risk_scored": risk_scored,
        "risk_flow": risk_flow,
    }
)

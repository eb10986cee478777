"""What is measured of a choice between entries, of a fit's own numbers, and before any fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from smallcal.advice.calibrated_split import CalibratedSplit, ordered
from smallcal.advice.cross_validate import (
    Folds,
    HeldOut,
    held_out_losses,
    rarer,
    repeated_folds,
    single_split,
)
from smallcal.advice.select_walk import MIN_EACH, walk
from smallcal.advice.signal_to_noise import OBJECTIVES, signal_to_noise
from smallcal.data.predictions import Predictions
from smallcal.metrics import Scored
from smallcal.metrics.table import chosen_metrics
from smallcal.statistics.compare import evaluate
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.probes.base import (
    Found,
    Site,
    applied,
    clean,
    is_grouped,
    scores_of,
    sets_of,
)
from smallcal_lab.studies.probes.shift import occupancy
from smallcal_lab.studies.study import Entry


def gated(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics on all test sets, and whether each rule takes the entry in the baseline's place.

    All rules look at the same folds, of the calibration split alone.
    """
    fitted = site.fit(entry)
    for name, severity, test in sets_of(site.cell):
        yield name, severity, scores_of(fitted, test, site.study.metrics)
    if is_grouped(fitted):
        steps = fitted.fitted_.map.steps
        yield CLEAN, 0, {"temperature_ratio": max(steps) / min(steps)}
    if entry.label == site.study.baseline:
        return
    settings, preds = site.study.settings, _double(site.cal)
    folds = repeated_folds(
        preds, n_repeats=settings["repeats"], n_folds=settings["folds"], seed=site.cell.seed
    )
    loss = settings["loss"]
    found = _losses(site, preds, (site.baseline, entry), folds, loss)
    for rule in settings["rules"]:
        row = walk(found, loss=loss, rule=rule, enough=rarer(preds) >= MIN_EACH)[-1]
        accepted = float(row.verdict == "accepted")
        yield CLEAN, 0, {f"accepted_{rule}": accepted, f"gain_{rule}": row.gain}
        yield CLEAN, 0, {f"standard_error_{rule}": row.standard_error}


def held_out(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics on the test split, and the loss on a fifth of the draw that was held out."""
    yield from clean(site, entry)
    loss, preds = site.study.settings["loss"], _double(site.cal)
    folds = single_split(preds, seed=site.cell.seed)
    found = _losses(site, preds, (entry,), folds, loss)[entry.label]
    if not found.failures:
        yield CLEAN, 0, {f"held_out_{loss}": found.folds[loss].mean()}


def _losses(
    site: Site, preds: Predictions, entries: tuple[Entry, ...], folds: Folds, loss: str
) -> dict[str, HeldOut]:
    methods = {entry.label: site.estimator(entry)._compose() for entry in entries}
    return held_out_losses(preds, methods, folds, chosen_metrics(dict.fromkeys([loss, "nll"])))


def _double(preds: Predictions) -> Predictions:
    return replace(preds, logits=preds.logits.astype(np.float64))


def temperatures(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics on the test split, and the temperatures of the fit: each, their range and ratio."""
    fitted, test = site.fit(entry), site.cell.read("test")
    proba = applied(fitted, test)
    yield CLEAN, 0, evaluate(test.labels, proba, metrics=site.study.metrics)
    if "hcfp90" in site.study.metrics:  # the paper's tables of NLL count them among all samples
        scored = Scored.of(test.labels, proba)
        sure = (scored.confidence >= 0.9) & ~scored.correct
        yield CLEAN, 0, {"hcfp90_of_all": float(sure.mean())}
    steps = fitted.fitted_.map.steps
    if steps:
        low, high = min(steps), max(steps)
        found = {"temperature_low": low, "temperature_high": high, "temperature_ratio": high / low}
        yield CLEAN, 0, found | {f"temperature{i}": t for i, t in enumerate(steps)}
        yield CLEAN, 0, {"pooled_temperature": fitted.pooled_temperature_}


def audited(site: Site, entry: Entry) -> Iterator[Found]:
    """Numbers of a fit: temperatures, thresholds, whether they hold up, and its groups."""
    fitted = site.fit(entry)
    yield CLEAN, 0, _numbers(CalibratedSplit.of(fitted.fitted_, site.cal))
    for name, severity, preds in sets_of(site.cell):
        yield name, severity, occupancy(fitted, preds)


def _numbers(shown: CalibratedSplit) -> dict[str, float]:
    """Return the numbers of one fit, with the names of the paper's reference values."""
    steps, flags = np.array(shown.fitted.map.steps), shown.fitted.flags
    found = {f"temperature{i}": float(t) for i, t in enumerate(steps)}
    if not shown.regressed:  # a group begins at the threshold of its number
        found |= {f"threshold{i}": float(edge) for i, edge in enumerate(shown.edges, 1)}
    found["pooled_temperature"] = shown.fitted.pooled_temperature
    found["share_of_fits_at_bounds"] = float(shown.saturated())
    found["share_of_fits_pooled_groups"] = float(bool({"fallback", "no_router"} & set(flags)))
    if shown.n_bands > 1:
        direction = shown.risk_direction()
        found["share_of_fits_risk_in_order"] = float(ordered(shown.error_rates(), direction))
        if len(steps):
            rising = ordered(steps, direction, strict=True)
            found["share_of_fits_temperatures_in_order"] = float(rising)
    return found


def signal_and_noise(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics on the test split, and what grouping by the entry's signal promises."""
    yield from clean(site, entry)
    composed = site.estimator(entry)._compose()
    if composed.map != "groups" or composed.objective not in OBJECTIVES:
        return
    found = signal_to_noise(
        site.cal.logits,
        site.cal.labels,
        signals=(composed.signal,),
        input="logits",
        objective=composed.objective,
        n_groups=composed.options["n_groups"],
        n_null=site.study.settings["n_null"],
        features=site.cal.features,
        random_state=site.cell.seed,
    )
    row = found.rows[0]
    ratios = {"": row.ratio, "_floor": row.floor, "_random": found.random_ratio}
    yield CLEAN, 0, {f"signal_to_noise{name}": ratio for name, ratio in ratios.items()}
    yield CLEAN, 0, {"predicted_gain": row.predicted_gain, "p_value": row.p_value}

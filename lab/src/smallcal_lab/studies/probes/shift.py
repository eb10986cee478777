"""What is measured under shift: the calibrator as it is deployed, and two controls nobody has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps.groups import GroupMap, group_thresholds
from smallcal.calibrators.signals import row_blocks
from smallcal.calibrators.softmax import scaled_softmax
from smallcal.data.predictions import FloatArray, IntArray, Predictions
from smallcal.errors import InputError
from smallcal.statistics.compare import evaluate
from smallcal_lab.studies.collection import Cell
from smallcal_lab.studies.probes.base import Found, Site, groups_of, is_grouped, scores_of, sets_of
from smallcal_lab.studies.study import Entry, Study

if TYPE_CHECKING:
    from smallcal.calibrators.base import BaseCalibrator


def shifted(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics and groups on the test split and on every shifted one, all maps frozen."""
    fitted = site.fit(entry)
    for name, severity, preds in sets_of(site.cell, fitted):
        yield name, severity, site.scores(entry, fitted, name, severity, preds)
        yield name, severity, occupancy(fitted, preds)


def occupancy(fitted: BaseCalibrator, preds: Predictions) -> dict[str, float]:
    """Return the share of samples in each group, if there are groups."""
    if not is_grouped(fitted):
        return {}
    count = np.bincount(groups_of(fitted, preds), minlength=len(fitted.temperatures_))
    return {f"share_of_group{i}": share for i, share in enumerate(count / preds.n)}


def requantized(site: Site, entry: Entry) -> Iterator[Found]:
    """Under shift: thresholds cut anew at the shifted samples' own quantiles, a control."""
    fitted = site.fit(entry)
    for name, severity, preds in sets_of(site.cell):
        yield name, severity, scores_of(fitted, preds, site.study.metrics)
        if is_grouped(fitted):
            yield name, severity, _control(site.study, preds, recut(fitted.fitted_, preds))


def recut(fitted: FittedCalibrator, preds: Predictions) -> FloatArray:
    """Return probabilities with as many samples in one group as in the other."""
    own = fitted.map
    if not isinstance(own, GroupMap):
        raise InputError(f"{fitted.method} has no thresholds that could be recomputed")
    scores = fitted.scores(preds.logits, labels=preds.labels, features=preds.features)
    cuts = group_thresholds(scores, len(own.temperatures))
    again = replace(fitted, map=replace(own, thresholds=tuple(cuts.tolist())))
    proba = again.predict_proba(preds.logits, labels=preds.labels, features=preds.features)
    return preds.measured(proba)


def paired_clean(site: Site, entry: Entry) -> Iterator[Found]:
    """Under shift: each sample keeps the group of its clean twin, which nobody has in use."""
    fitted = site.fit(entry)
    twins = groups_of(fitted, site.cell.read("test")) if is_grouped(fitted) else None
    for name, severity, preds in paired_sets(site.cell):
        yield name, severity, scores_of(fitted, preds, site.study.metrics)
        if twins is not None:
            again = with_groups(fitted.fitted_, preds, twins)
            yield name, severity, _control(site.study, preds, again)


def paired_sets(cell: Cell) -> Iterator[tuple[str, int, Predictions]]:
    """Yield every shifted set whose rows are the test rows, with its kind and severity."""
    test = cell.read("test")
    for shift in cell.shifts:
        if not shift.paired:
            continue
        preds = cell.read(shift)
        if not np.array_equal(preds.labels, test.labels):
            raise InputError(
                f"{shift.file} is marked as paired, but its labels are not those of the test split"
            )
        yield shift.kind, shift.severity, preds


def with_groups(fitted: FittedCalibrator, preds: Predictions, groups: IntArray) -> FloatArray:
    """Return probabilities with samples in given groups, whatever their scores say."""
    temperature = np.array(fitted.map.steps)[groups]
    out = np.empty_like(preds.logits)
    for block in row_blocks(preds.logits):
        scaled_softmax(block, temperature[block.rows], out=out[block.rows])
    return preds.measured(out)


def _control(study: Study, preds: Predictions, proba: FloatArray) -> dict[str, float]:
    """Return metrics of what nobody could deploy, under names of their own."""
    found = evaluate(preds.labels, proba, metrics=study.metrics)
    return {f"{metric}_{study.settings['control']}": value for metric, value in found.items()}

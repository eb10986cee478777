"""New labels for a calibrator that is in use: its old fit is what is believed before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smallcal.calibrators.class_table import UNIT
from smallcal.calibrators.confidence_shift import ConfidenceShift
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.holder import fitted_of
from smallcal.calibrators.later import with_later, without_last
from smallcal.deploy.batches import distinctive, once
from smallcal.deploy.refresh.changes import Refreshed, changes
from smallcal.deploy.refresh.posterior import Known, information, posterior
from smallcal.deploy.refresh.rows import Rows
from smallcal.errors import InputError

if TYPE_CHECKING:
    from smallcal.calibrators.base import BaseCalibrator

#: How narrow the confidences of a split usually are, where a file does not say: see `information`.
_USUAL_NARROWNESS = 2.8


def refresh(
    calibrator: BaseCalibrator | FittedCalibrator,
    X: object,
    y: object,
    *,
    features: object = None,
    groups: object = None,
) -> Refreshed:
    """Let new labelled rows update a fitted calibrator.

    The log-odds of the confidence in the predicted class (of a score: in outcome 1) get a slope
    and a bias, the proportions of the other classes a power. Before the new rows these are 1, 0
    and 1, as sure as the old split made them, and less so the further the model's own confidences
    have moved. Predictions never change. What is kept of the rows is counts, to which the next
    refresh adds: row after row in any order ends where one refresh with all rows does.

    New numbers are taken only where the new rows are likelier with them, each row left out of
    what it is judged by. Otherwise the calibrator gives the probabilities it gave, and keeps the
    counts.

    Parameters
    ----------
    calibrator : fitted estimator or FittedCalibrator
        Of any method that can be saved, refreshed before or not.
    X : array-like of shape (n, C)
        What the calibrator takes (logits, probabilities, or scores), of rows that neither the fit
        nor an earlier refresh has seen. One row will do.
    y : array-like of shape (n,)
        Labels, or outcomes of scores.
    features : array-like of shape (n, d), optional
    groups : array-like of shape (n,), optional
        The group of each row, for calibrators that were fitted with groups.

    Returns
    -------
    Refreshed
        Its ``calibrator`` is the new one; print it to see what changed. Certified thresholds are
        set aside: certify again.

    Examples
    --------
    >>> import smallcal as sc
    >>> val, test = sc.load_demo("cal"), sc.load_demo("test")
    >>> cal = sc.TemperatureScaling().fit(val.logits, val.labels)
    >>> louder = 2 * test.logits                                # the model was changed
    >>> found = sc.refresh(cal, louder[:300], test.labels[:300])
    >>> found.applied, 0.4 < found.slope < 0.7
    (True, True)
    >>> more = sc.refresh(found.calibrator, louder[300:310], test.labels[300:310])
    >>> more.rows, more.rows_in_all
    (10, 310)
    """
    given = fitted_of(calibrator)
    base, before = _before(given)
    rows = Rows.of(base, X, y, features, groups)
    batches = _batches(rows, base, before)
    evidence = before.evidence + rows.counted(base)
    found = posterior(evidence, knowledge(base))
    slope, bias = (found.slope, found.bias) if found.better else (1.0, 0.0)
    power = found.tail.power if found.tail.better else 1.0
    counts = evidence.odds, evidence.right, evidence.wrong, evidence.bins
    kept = (*counts, evidence.tail, evidence.spread, batches)
    after = with_later(base, ConfidenceShift(slope, bias, power, *kept))
    return changes(rows, given, after, found)


def _before(fitted: FittedCalibrator) -> tuple[FittedCalibrator, ConfidenceShift]:
    """Return the calibrator without its last refresh, and that refresh."""
    if fitted.later and isinstance(last := fitted.later[-1], ConfidenceShift):
        return without_last(fitted), last
    return fitted, ConfidenceShift(1.0, 0.0)


def _batches(rows: Rows, base: FittedCalibrator, before: ConfidenceShift) -> tuple[str, ...]:
    """Return the fingerprints of the batches with that of these rows; refuse what was seen."""
    own = rows.fingerprints
    if base.data.get("sha256") in own:
        raise InputError(
            "these are the rows that the calibrator was fitted on, and nothing new: refresh it "
            "with new rows",
            code="rows-of-the-fit",
        )
    if not distinctive(rows.preds.logits):
        return before.batches
    return once(before.batches, own, f"these {rows.preds.n:,} rows were used by an earlier refresh")


def knowledge(fitted: FittedCalibrator) -> Known:
    """Return what the split of a fit tells of slope and bias.

    Its file keeps sums of confidences and of their squares; an older one has the mean alone.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> few, all = (
    ...     knowledge(sc.TemperatureScaling().fit(val.logits[:n], val.labels[:n]).fitted_)
    ...     for n in (100, 1000)
    ... )
    >>> bool(np.all(np.diag(all.information) > 5 * np.diag(few.information)))
    True
    """
    n, reference = float(fitted.data["n"]), fitted.reference
    table = None if reference is None else reference.classes
    if table is None:
        mean = float(fitted.fit_metrics["after"]["mean_confidence"])
        square = mean**2 + mean * (1 - mean) / (_USUAL_NARROWNESS + 1)
    else:
        sums = (table.predicted, table.certainty, table.squares)
        rows, first, second = (np.array(each, dtype=np.float64) / UNIT for each in sums)
        if fitted.claim is not None:  # to be sure of outcome 0 is to doubt outcome 1
            others = np.arange(len(rows)) != fitted.claim
            second[others] += rows[others] - 2 * first[others]
            first[others] = rows[others] - first[others]
        mean, square = (float(each.sum() / rows.sum()) for each in (first, second))
    bins = None if reference is None else reference.confidence.spacings
    return Known(information(n, mean, square), bins, n * (1 - mean))

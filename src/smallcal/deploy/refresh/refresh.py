"""New labels for a calibrator that is in use: its old fit is what is believed before them."""

from __future__ import annotations

import numpy as np

from smallcal.calibrators.base import BaseCalibrator
from smallcal.calibrators.class_table import UNIT
from smallcal.calibrators.confidence_shift import BATCHES, ROWS_OF_A_BATCH, ConfidenceShift
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.later import with_later, without_last
from smallcal.data.checks import FloatArray
from smallcal.deploy.refresh.changes import Refreshed, changes
from smallcal.deploy.refresh.posterior import Known, information, posterior
from smallcal.deploy.refresh.rows import Rows
from smallcal.errors import InputError

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
    and a bias. Before the new rows they are 1 and 0, as sure as the old split made them, and less
    so the further the model's own confidences have moved. Predictions never change. What is
    kept of the rows is counts, to which the next refresh adds: row after row in any order ends
    where one refresh with all rows does.

    The new ones are taken only where the new rows are likelier with them, each row left out of
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
    given = calibrator._fitted() if isinstance(calibrator, BaseCalibrator) else calibrator
    if not isinstance(given, FittedCalibrator):
        raise InputError(f"calibrator must be a fitted one; got {type(given).__name__}")
    base, before = _before(given)
    rows = Rows.of(base, X, y, features, groups)
    batches = _batches(rows, base, before)
    evidence = before.evidence + rows.counted(base)
    known = Known(
        knowledge(base), None if base.reference is None else base.reference.confidence.spacings
    )
    found = posterior(evidence, known)
    taken = (found.slope, found.bias) if found.better else (1.0, 0.0)
    shift = ConfidenceShift(
        *taken, evidence.odds, evidence.right, evidence.wrong, evidence.bins, batches
    )
    after = with_later(base, shift)
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
            "with rows it has not seen"
        )
    if rows.preds.n < ROWS_OF_A_BATCH:
        return before.batches
    if set(own) & set(before.batches):
        raise InputError(
            f"these {rows.preds.n:,} rows were taken in by an earlier refresh; they would count "
            "twice"
        )
    return (*before.batches, own[0])[-BATCHES:]


def knowledge(fitted: FittedCalibrator) -> FloatArray:
    """Return what the split of a fit tells of slope and bias.

    Its file keeps sums of confidences and of their squares; an older one has the mean alone.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> few, all = (
    ...     sc.TemperatureScaling().fit(val.logits[:n], val.labels[:n]).fitted_ for n in (100, 1000)
    ... )
    >>> bool(np.all(np.diag(knowledge(all)) > 5 * np.diag(knowledge(few))))
    True
    """
    n = float(fitted.data["n"])
    table = None if fitted.reference is None else fitted.reference.classes
    if table is None:
        mean = float(fitted.fit_metrics["after"]["mean_confidence"])
        return information(n, mean, mean**2 + mean * (1 - mean) / (_USUAL_NARROWNESS + 1))
    sums = (table.predicted, table.certainty, table.squares)
    rows, first, second = (np.array(each, dtype=np.float64) / UNIT for each in sums)
    if fitted.claim is not None:  # what is sure of outcome 0 is that outcome 1 does not come
        others = np.arange(len(rows)) != fitted.claim
        second[others] += rows[others] - 2 * first[others]
        first[others] = rows[others] - first[others]
    return information(n, first.sum() / rows.sum(), second.sum() / rows.sum())

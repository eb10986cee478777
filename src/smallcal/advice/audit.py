"""Audit a calibrator on labelled data: what it fitted, and whether refits agree with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal.advice.audit_findings import Audit, findings_of, verdict_of
from smallcal.advice.audit_groups import group_rows
from smallcal.advice.calibrated_split import LEVELS, CalibratedSplit
from smallcal.advice.recommend import Recommendation, default_of, recommend
from smallcal.advice.refits import (
    HELD_OUT,
    MOST,
    Refits,
    Spread,
    bands_of,
    gather_refits,
    resample_counts,
)
from smallcal.advice.signal_to_noise import AUDITED, SignalToNoise, signal_to_noise
from smallcal.calibrators.catalogue import resolve_method
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.method import Method
from smallcal.data.checks import whole_number
from smallcal.data.predictions import MIN_FIT_SAMPLES, FloatArray, Predictions
from smallcal.errors import InputError
from smallcal.io.progress import Advance
from smallcal.io.threads import one_core_each

if TYPE_CHECKING:
    from smallcal.calibrators.base import BaseCalibrator


@one_core_each()
def audit(
    logits: object,
    labels: object,
    *,
    method: str = "default",
    options: Mapping[str, Any] | None = None,
    keep_predictions: bool = False,
    calibrator: BaseCalibrator | None = None,
    apply_to: Mapping[str, object] | None = None,
    n_refits: int | None = None,
    size: int | None = None,
    n_null: int = 499,
    input: str | None = None,
    features: object = None,
    groups: object = None,
    random_state: int = 0,
    advance: Advance = lambda steps: None,
) -> Audit:
    """Inspect a calibrator: its numbers, how refits agree with them, and what to make of that.

    Parameters
    ----------
    logits : array-like of shape (n, C)
    labels : array-like of shape (n,)
        The calibration split, or, with ``calibrator``, any labelled split of the same model.
    method : str
        Fitted here, unless a calibrator is given.
    options : mapping, optional
        Options of that method.
    keep_predictions : bool
        If True, the method keeps the model's predictions; see :class:`smallcal.Calibrator`.
    calibrator : fitted estimator, optional
        For instance what :func:`smallcal.load` returns. Its own numbers are shown, and refits
        use its method and options.
    apply_to : mapping of str to array, optional
        Logits of other samples, or pairs of logits and features: which share of them falls into
        each group. Labels are not needed.
    n_refits : int, optional
        Resamples, each with a new fit. By default 25, and 25 more unless both halves of those lead
        to the same findings.
    size : int, optional
        Draw this many samples without replacement for each refit. By default as many as there
        are, with replacement; a row drawn twice enters once, with weight 2.
    n_null : int
        Draws behind the p-values of :func:`smallcal.signal_to_noise`; 0 leaves that table out. One
        number per row has no other signals to depend on: scores have no such table.
    input : {"logits", "probabilities", "score"}
    features : array-like of shape (n, d), optional
    groups : array-like of shape (n,), optional
        The group of each sample: effects of groups are fitted, and confidence is held against
        accuracy in each, before and after.
    random_state : int
    advance : callable, optional
        Told how many refits, and draws for p-values, were done or need not be.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> found = sc.audit(val.logits, val.labels, method="srts-bce", n_refits=20, n_null=0)
    >>> len(found.bands), found.shares["saturated"]
    (3, 0.0)
    >>> found.verdict.split(":")[0]
    'Usable with care'
    """
    known = None if calibrator is None else calibrator._fitted()
    given: dict[str, Any] = {"features": features, "groups": groups}
    given["score"] = None if known is None else known.score
    kind = known.input if known is not None and input is None else input
    preds = Predictions.of(logits, labels, input=kind, **given)
    input = kind or "logits"
    preds.require_fittable()
    limit = MOST if n_refits is None else whole_number(n_refits, "n_refits", least=2)
    if size is not None and not MIN_FIT_SAMPLES <= size < preds.n:
        raise InputError(
            f"size must be at least {MIN_FIT_SAMPLES} and less than the {preds.n:,} samples there "
            f"are; got {size}",
            code="option-range",
        )
    kept: dict[str, Any] = {"keep_predictions": keep_predictions, "random_state": random_state}
    composed = resolve_method(method, options=options, input=input, **kept)
    if calibrator is not None:
        composed = calibrator._compose()
    fitted = _subject(preds, composed, calibrator, input)
    if preds.score is not None:
        flags = {**preds.score.flags(logits), **fitted.flags}
        fitted = replace(fitted, score=preds.score, flags=flags)
    audited = CalibratedSplit.of(fitted, preds)
    draws = resample_counts(preds.n, limit, size=size, random_state=random_state)

    def judged(some: Refits) -> list[str]:
        found = findings_of(_summary(audited, some, preds, size, {}, None), fitted)
        return [finding.level for finding in found]

    until = judged if n_refits is None else None
    refits = gather_refits(audited, composed, preds, draws, advance, judged=until)
    advance(limit - refits.n - refits.n_failed)
    signals = None
    if n_null and preds.score is None:
        signals = signal_to_noise(
            preds.logits,
            preds.labels,
            signals=AUDITED,
            input="logits",
            n_null=n_null,
            random_state=random_state,
            advance=advance,
        )
    occupancy = {
        name: _occupancy(audited, name, given, input) for name, given in (apply_to or {}).items()
    }
    usual = composed.origin or composed
    advised = (
        Recommendation.of(fitted)
        if calibrator is None and usual.name == default_of(preds.kind)
        else recommend(preds, keep_predictions=keep_predictions)
    )
    bare = replace(
        _summary(audited, refits, preds, size, occupancy, signals), recommendation=advised
    )
    foreign = calibrator is not None and fitted.data.get("sha256") != preds.sha256()
    rows = group_rows(composed, fitted, preds, foreign=foreign, seed=random_state)
    bare = replace(bare, groups=rows)
    found = findings_of(bare, fitted, foreign=foreign)
    return replace(bare, findings=found, verdict=verdict_of(found))


def _subject(
    preds: Predictions, composed: Method, calibrator: BaseCalibrator | None, input: str
) -> FittedCalibrator:
    """Return the fitted calibrator that is audited."""
    if "labels" in composed.needs:
        raise InputError(
            f"{composed.name} reads the labels of what it predicts; there is nothing to audit",
            code="method-unsuitable",
        )
    if calibrator is None:
        return composed.fit(preds)
    fitted = calibrator._fitted()
    if fitted.input != input:
        raise InputError(
            f"this calibrator was fitted on {fitted.input}; the samples are said to be {input}",
            code="input-differs",
        )
    if fitted.n_classes != preds.n_classes:
        raise InputError(
            f"this calibrator is for {fitted.n_classes} classes; logits have {preds.n_classes}",
            code="columns-differ",
        )
    return fitted


def _occupancy(audited: CalibratedSplit, name: str, given: object, input: str) -> tuple[float, ...]:
    if not audited.n_bands:
        raise InputError(
            f"{audited.fitted.method} has neither groups nor temperatures that samples could fall "
            "into: leave out ",
            python="apply_to",
            shell="--apply-to",
            code="method-unsuitable",
        )
    logits, features = given if isinstance(given, tuple) else (given, None)
    try:
        shares = audited.occupancy(logits, features, input=input)
    except InputError as error:
        raise error.about(name) from error
    return tuple(shares.tolist())


def _summary(
    audited: CalibratedSplit,
    refits: Refits,
    preds: Predictions,
    size: int | None,
    occupancy: dict[str, tuple[float, ...]],
    signals: SignalToNoise | None,
) -> Audit:
    fitted = audited.fitted
    resampling = f"{preds.n:,} draws with replacement from {preds.n:,} samples"
    if size is not None:
        resampling = f"{size:,} of {preds.n:,} samples, without replacement"
    rank = refits.numbers.get("rank")
    sd = refits.confidence_sd()
    keys = ("saturated", "risk_ordered", "rising", "falling", "same_order", "beats_raw")
    shares = {key: refits.numbers[key] for key in keys if key in refits.numbers}
    return Audit(
        method=fitted.method,
        n=preds.n,
        n_errors=int((~preds.came).sum()),
        n_classes=preds.n_classes,
        n_parameters=fitted.n_parameters,
        resampling=resampling,
        n_refits=refits.n + refits.n_failed,
        n_failed=refits.n_failed,
        pooled_temperature=refits.spread("pooled", fitted.pooled_temperature),
        banded_by="" if not audited.n_bands else "temperature" if audited.regressed else "groups",
        bands=bands_of(audited, refits),
        thresholds=tuple(
            refits.spread(f"threshold{i}", edge)
            for i, edge in enumerate(() if audited.regressed else audited.edges)
        ),
        quantiles=_quantiles(audited.temperature, refits) if audited.regressed else {},
        occupancy=occupancy,
        flags={name: count / refits.n for name, count in sorted(refits.flags.items())},
        shares={key: float(np.mean(values)) for key, values in shares.items()},
        rank_correlation=None if not rank else Spread.of(1.0, rank),
        confidence_sd={"mean": float(sd.mean()), "p95": float(np.quantile(sd, 0.95))},
        held_out={
            key: refits.spread(key, refits.on_all[key])
            for metric in (*HELD_OUT, "ece15_floor")
            for key in (metric, f"raw_{metric}")
            if key in refits.numbers
        },
        signals=signals,
        input=preds.kind,
    )


def _quantiles(temperature: FloatArray | None, refits: Refits) -> dict[str, Spread]:
    point = np.quantile(np.asarray(temperature), LEVELS)
    return {
        f"{level:g}": refits.spread(f"level{level}", value)
        for level, value in zip(LEVELS, point.tolist(), strict=True)
    }

"""Fit the methods, measure them once, and compare any two of them from the same resamples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from smallcal.advice.calibrated_split import scored_on
from smallcal.advice.recommend import default_of
from smallcal.calibrators import catalogue
from smallcal.calibrators.catalogue import resolve_method
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps import TemperatureMap
from smallcal.calibrators.summary import accuracy_line
from smallcal.data.claims import CLAIMS, Claim
from smallcal.data.predictions import IntArray
from smallcal.errors import MissingExtraError
from smallcal.io.progress import Advance
from smallcal.io.threads import in_order
from smallcal.metrics import METRICS, Metric, Scored
from smallcal.metrics.debiased import debiased_ece
from smallcal.reports.content.shown import COMPARED, shown_of, told_of
from smallcal.reports.samples import Samples
from smallcal.reports.settings import RAW
from smallcal.statistics.compare import Comparison, Table, compare_of, points_of
from smallcal.statistics.interval import Interval, interval_of
from smallcal.statistics.noise import FLOORED, Floor, noise_floors_of

#: The method everybody knows; differences from it are shown where it was fitted.
CLASSIC = "ts-nll"


@dataclass(frozen=True, eq=False)
class Fit:
    """One fitted method and its predictions of the test samples.

    Attributes
    ----------
    name, asked : str
        Its true name, and the one it was asked for by, which may be an alias.
    fitted : FittedCalibrator
    scored : Scored
        With the confidence of ``predict``.
    predicted : ndarray of shape (n,)
        What it predicts.
    deployable : bool
        Whether it may be recommended.
    routed : bool
        Whether samples may get different temperatures.
    """

    name: str
    asked: str
    fitted: FittedCalibrator
    scored: Scored
    predicted: IntArray
    deployable: bool
    routed: bool


class Difference(NamedTuple):
    """A difference of two methods with its interval, what it amounts to, and by what chance.

    ``verdict`` is "better", "worse" or "tie", and nothing where there were no resamples.
    """

    row: Interval
    verdict: str
    p_value: float


@dataclass(frozen=True, eq=False)
class Measured:
    """All methods on the test samples.

    Attributes
    ----------
    fits : dict of str to Fit
        By true name, the uncalibrated model first.
    failures : dict of str to str
        Methods that could not be fitted, and why.
    points : dict of str to dict of str to float
        Every metric there is, without intervals.
    result : Comparison
        With resampled values, so that any two methods can be compared.
    floors : dict of str to dict of str to Floor
        None of them where nothing is resampled.
    debiased : dict of str to float
        ece15 with the expected noise taken off.
    kind : {"logits", "score"}
        What rows hold.
    default : FittedCalibrator or None
        The default, whether or not it was asked for; None if it could not be fitted.
    """

    fits: dict[str, Fit]
    failures: dict[str, str]
    points: dict[str, dict[str, float]]
    result: Comparison
    floors: dict[str, dict[str, Floor]]
    debiased: dict[str, float]
    kind: str = "logits"
    default: FittedCalibrator | None = None

    @property
    def claim(self) -> Claim:
        """The words for what is claimed of a row."""
        return CLAIMS[self.kind]

    @property
    def shown(self) -> tuple[str, ...]:
        """What the tables show."""
        return shown_of(self.kind)

    @property
    def compared(self) -> tuple[str, ...]:
        """What differences are taken of."""
        return tuple(name for name in COMPARED if name in self.shown)

    @property
    def two(self) -> dict[str, str]:
        """The two numbers of the verdict, and what people call them; the second decides."""
        return dict(list(self.told.items())[:2])

    @property
    def told(self) -> dict[str, str]:
        """What the outcome rests on: how well calibrated, and at what price."""
        return told_of(self.kind)

    def value(self, method: str, metric: str) -> Interval:
        """Return a metric of a method with its interval."""
        return self.result.value_intervals[method][metric]

    def difference(self, method: str, baseline: str, metric: str) -> Difference:
        """Return method minus baseline, paired by sample."""
        return paired(self.result, method, baseline, metric)


def measure(
    names: Mapping[str, str],
    calibration: Samples,
    test: Samples,
    *,
    bootstrap: tuple[int, float, int],
    keep_predictions: bool = False,
    advance: Advance = lambda steps: None,
) -> Measured:
    """Fit on one split, measure on the other.

    ``names`` maps true names to those that were asked for; ``bootstrap`` is (n_boot, level, seed).
    """
    n_boot, level, seed = bootstrap
    how = {"keep_predictions": keep_predictions, "random_state": seed}
    fits, failures = fit_all(names, calibration, test, how, advance=advance)
    scored = {name: fit.scored for name, fit in fits.items()}
    points = points_of(scored, list(METRICS.values()))
    kind = test.preds.kind
    shown = shown_of(kind)
    rows = [METRICS[name] for name in shown]
    result = compared(scored, rows, points=points, bootstrap=bootstrap, advance=advance)
    floored = [name for name in shown if name in FLOORED] if n_boot else []
    usual = default_of(kind)
    default = fits[usual].fitted if usual in fits else None
    if usual not in names:
        default = resolve_method(usual, keep_predictions=keep_predictions, random_state=seed).fit(
            replace(calibration.preds, features=None)
        )
    return Measured(
        fits=fits,
        failures=failures,
        points=points,
        result=result,
        floors=noise_floors_of(scored, floored, level=level, random_state=seed),
        debiased={name: debiased_ece.of(view) for name, view in scored.items()},
        kind=kind,
        default=default,
    )


def fit_all(
    names: Mapping[str, str],
    calibration: Samples,
    test: Samples,
    how: Mapping[str, Any],
    *,
    advance: Advance = lambda steps: None,
) -> tuple[dict[str, Fit], dict[str, str]]:
    """Fit each method; one that fails is a reason, not the end of the others.

    ``how`` has ``keep_predictions`` and ``random_state``.
    """

    def tried(name: str) -> Fit | Exception:
        try:
            return _fit(name, names[name], calibration, test, how)
        except Exception as error:  # noqa: BLE001 - the other methods' results must not be lost
            return error

    fits: dict[str, Fit] = {}
    failures: dict[str, str] = {}
    threads = 1 if any(catalogue.method(name).threads == 1 for name in names) else None
    for name, found in in_order(tried, names, threads=threads):
        if isinstance(found, Fit):
            fits[name] = found
        elif isinstance(found, MissingExtraError):
            failures[name] = str(found)
        elif name == RAW:
            raise found
        else:
            failures[name] = " ".join(f"{type(found).__name__}: {found}".split())
        advance(1)
    return fits, failures


def _fit(name: str, asked: str, calibration: Samples, test: Samples, how: Mapping[str, Any]) -> Fit:
    # The records hold logits, whatever came in; what is saved says what came in.
    method = resolve_method(name, **how)
    cal, preds = calibration.preds, test.preds
    cal = cal if "features" in method.needs else replace(cal, features=None)
    # Others are compared with the uncalibrated model; effects of groups would make it another.
    fitted = method.fit(replace(cal, groups=None) if name == RAW else cal)
    scored = scored_on(fitted, preds)
    return Fit(
        name=name,
        asked=asked,
        fitted=fitted,
        deployable=fitted.deployable and fitted.signal.rowwise,
        scored=scored,
        predicted=fitted.predicted(scored.proba, preds.logits),
        routed=isinstance(fitted.map, TemperatureMap) and len(fitted.map.steps) != 1,
    )


def compared(
    scored: Mapping[str, Scored],
    metrics: Sequence[Metric],
    *,
    points: Table | None = None,
    bootstrap: tuple[int, float, int],
    advance: Advance = lambda steps: None,
) -> Comparison:
    """Compare methods with the uncalibrated model; without resamples, values have no intervals.

    ``points`` has their metrics, these and perhaps others, if they are known.
    """
    result = compare_of(
        scored, metrics, points=points, baseline=RAW, bootstrap=bootstrap, advance=advance
    )
    if bootstrap[0]:
        return result
    bare = {
        name: {metric: _bare(value, result.level) for metric, value in row.items()}
        for name, row in result.values.items()
    }
    return replace(result, value_intervals=bare)


def _bare(value: float, level: float) -> Interval:
    """Return a number without an interval."""
    return interval_of(value, np.empty(0), unit="test samples", level=level)


def paired(result: Comparison, method: str, baseline: str, metric: str) -> Difference:
    """Return the difference of any two methods of a comparison, paired by sample.

    It is better or worse only where its interval lies on one side of zero.
    """
    if not result.n_boot:
        one, other = (result.values[name][metric] for name in (method, baseline))
        return Difference(_bare(one - other, result.level), "", 1.0)
    row = result.paired(method, baseline, metric)
    return Difference(row, row.verdict(METRICS[metric].better), chance_of(row))


def chance_of(row: Interval) -> float:
    """Return the two-sided p-value of "it is zero", from the spread of the resamples.

    The law is taken as normal: the share of resamples beyond zero is too coarse to be corrected
    for many comparisons.

    Examples
    --------
    >>> draws = np.array([-1.0, 1.0] * 50)
    >>> [round(chance_of(interval_of(x, draws + x, unit="")), 4) for x in (0.0, 1.96)]
    [1.0, 0.05]
    """
    if len(row.values) <= row.n_undefined:
        return 1.0
    centre, spread = abs(float(np.nanmean(row.values))), float(np.nanstd(row.values))
    if not centre:
        return 1.0
    return math.erfc(centre / spread / math.sqrt(2)) if spread else 0.0


def result_tables(measured: Measured) -> dict[str, Any]:
    """Return the document's ``methods``, ``failures``, ``metrics`` and ``differences``."""
    methods = [_method(fit) for fit in measured.fits.values()]
    known = [name for name in (RAW, CLASSIC) if name in measured.fits]
    differences = [_differences(measured, name) for name in known]
    rows = [
        {
            "method": name,
            "debiased_ece15": measured.debiased[name],
            "points": measured.points[name],
            "cells": {metric: _cell(measured, name, metric) for metric in measured.shown},
        }
        for name in measured.fits
    ]
    columns = [
        {
            "name": name,
            "summary": METRICS[name].told(measured.kind),
            "better": METRICS[name].better,
            "percent": METRICS[name].percent,
            "unit": METRICS[name].unit.sign,
            "floored": name in FLOORED,
        }
        for name in measured.shown
    ]
    return {
        "methods": methods,
        "failures": measured.failures,
        "metrics": {"columns": columns, "rows": rows, "note": _note(measured.claim)},
        "differences": differences,
    }


def _note(claim: Claim) -> str:
    return (
        f"Floor: what a perfectly calibrated model with these {claim.confidences} would show on "
        "average; an error near this noise floor is no evidence of miscalibration. Debiased: the "
        "error minus the noise, an estimate for an endless test split; intervals of ECE and "
        "adaptive ECE are for this value."
    )


def _method(fit: Fit) -> dict[str, Any]:
    fitted = fit.fitted
    return {
        "name": fit.name,
        "asked": fit.asked,
        "summary": catalogue.METHODS[fit.name].summary,
        "n_parameters": fitted.n_parameters,
        "preserves_argmax": fitted.preserves_argmax,
        "deployable": fit.deployable,
        "pooled_temperature": fitted.pooled_temperature,
        "accuracy_line": accuracy_line(fitted),
        "flags": [
            {"name": name, "groups": list(groups), "meaning": fitted.flag_text(name)}
            for name, groups in fitted.flags.items()
        ],
    }


def _differences(measured: Measured, baseline: str) -> dict[str, Any]:
    """Return the table of paired differences from one method."""
    rows = []
    for name in measured.fits:
        if name == baseline:
            continue
        cells = {}
        for metric in measured.compared:
            row, verdict, _ = measured.difference(name, baseline, metric)
            cells[metric] = {
                **row.numbers,
                "win_rate": row.win_rate(METRICS[metric].better),
                "verdict": verdict,
            }
        rows.append({"method": name, "metrics": cells})
    return {"baseline": baseline, "metrics": list(measured.compared), "rows": rows}


def _cell(measured: Measured, method: str, metric: str) -> dict[str, Any]:
    row, unit = measured.value(method, metric), METRICS[metric].unit
    floor = measured.floors[method].get(metric)
    return {
        **row.numbers,
        "text": unit.value(row.plain),
        "interval_text": row.ends(unit) if row.n_boot else "",
        "floor": None if floor is None else floor.mean,
        "floor_high": None if floor is None else floor.high,
    }

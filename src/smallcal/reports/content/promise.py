"""What can be promised of a calibrator's confident rows, and whether what was promised holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from smallcal.advice.calibrated_split import scored_on
from smallcal.advice.certify import certificate_of
from smallcal.advice.certify_words import percent
from smallcal.calibrators.decision import Threshold, thresholds_of
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.data.checks import BoolArray, IntArray
from smallcal.data.groups import group_codes
from smallcal.data.shown import command
from smallcal.metrics import Scored
from smallcal.reports.content.measure import Fit
from smallcal.reports.samples import Samples
from smallcal.reports.settings import Settings
from smallcal.statistics.groups import holm
from smallcal.statistics.interval import binomial_interval

#: Shares of errors that people ask for.
RISKS = (0.01, 0.02, 0.05, 0.1)
#: How sure such a promise is.
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False, kw_only=True)
class Certified:
    """A calibrator whose decisions are checked, and the test samples as it takes them.

    Attributes
    ----------
    fitted : FittedCalibrator
    test : Samples
    source : str
        The file as it was named; empty where there is none.
    """

    fitted: FittedCalibrator
    test: Samples
    source: str = ""


def promised(
    fit: Fit,
    calibration: Samples,
    test: Samples,
    settings: Settings,
    *,
    chosen_on_test: bool,
    certified: Certified | None = None,
) -> dict[str, Any]:
    """Return what thresholds the test samples could promise, and how a certified one did on them.

    Where calibration and test samples are the same they can guarantee nothing.
    """
    same = calibration.facts["sha256"] == test.facts["sha256"]
    rows = [] if same else [_row(fit.scored, risk, test) for risk in RISKS]
    return {
        "method": fit.name,
        "confidence": CONFIDENCE,
        "n": test.preds.n,
        "flattered": "same" if same else "chosen" if chosen_on_test else "",
        "rows": rows,
        "command": _command(rows, calibration, test, settings) if fit.deployable else None,
        "calibrator": None if certified is None else certified.source,
        "checked": [] if certified is None else list(_checked(certified)),
    }


def _row(scored: Scored, risk: float, test: Samples) -> dict[str, Any]:
    found = certificate_of(
        scored.confidence.astype(np.float64),
        scored.correct,
        risk=risk,
        level=CONFIDENCE,
        input=test.preds.kind,
        sha256=test.facts["sha256"],
    )
    (row,) = found.rows
    keys = ("threshold", "accepted", "errors", "bound", "coverage", "low", "high", "best")
    return {"risk": risk, **{key: getattr(row, key) for key in keys}, "text": found.sentences[0]}


def _command(
    rows: Sequence[Mapping[str, Any]], calibration: Samples, test: Samples, settings: Settings
) -> str | None:
    """Return the line that keeps the boldest promise there is, where the samples are files."""
    risks = [row["risk"] for row in rows if row["threshold"] is not None]
    if not risks or not calibration.file or not test.file:
        return None
    extra = settings.verb_options.get("certify", settings.verb_options.get("apply", []))
    risk = percent(min(risks)).replace(" ", "")
    words = ["certify", "cal.json", test.file, *extra, "--risk", risk, "-o", "certified.json"]
    return command(["smallcal", *words])


def _checked(certified: Certified) -> Iterator[dict[str, Any]]:
    """Yield what each threshold of a calibrator did to the test samples."""
    fitted, preds = certified.fitted, certified.test.preds
    scored = scored_on(fitted, preds)
    claimed = np.ones(preds.n, dtype=np.int64)
    if not scored.outcome:
        claimed = fitted.predicted(scored.proba, preds.logits)
    # Rows have another fingerprint where their groups are known.
    seen = {preds.sha256(), replace(preds, groups=None, group_names=()).sha256()}
    for column, rule in thresholds_of(fitted.decisions).items():
        codes = np.zeros(preds.n, dtype=np.int64)
        if rule.by == "class":
            codes = claimed
        elif rule.by == "group":
            named = preds.group_labels
            codes = np.full(preds.n, -1) if named is None else group_codes(named, rule.names)
        yield {
            "column": column,
            "promise": rule.promise,
            "risk": rule.risk,
            "confidence": rule.confidence,
            "rule": rule.rule,
            "by": rule.by,
            "same_rows": rule.sha256 in seen,
            "without_group": int(np.count_nonzero(codes < 0)),
            "rows": _judged(rule, list(_parts(rule, scored, codes))),
        }


def _parts(rule: Threshold, scored: Scored, codes: IntArray) -> Iterator[dict[str, Any]]:
    """Yield counts of each class or group that the samples have, or of all."""
    accepted = np.asarray(scored.confidence.astype(np.float64) >= rule.levels[codes])
    for place, name in enumerate(rule.names):
        mine = codes == place
        if mine.any():
            yield {
                "name": name,
                "threshold": rule.thresholds[place],
                **_counts(accepted[mine], scored.correct[mine], rule.rule),
            }


def _counts(accepted: BoolArray, correct: BoolArray, rule: str) -> dict[str, Any]:
    n, k, wrong = len(accepted), int(accepted.sum()), int((accepted & ~correct).sum())
    tried = k if rule == "accepted" else n
    counts, sizes = np.array([k, wrong], dtype=float), np.array([n, tried], dtype=float)
    low, high = binomial_interval(counts, sizes, level=CONFIDENCE)
    rate: dict[str, Any] = {"rate": None, "rate_low": None, "rate_high": None}
    if tried:
        rate = {"rate": wrong / tried, "rate_low": float(low[1]), "rate_high": float(high[1])}
    share = {"share": k / n, "low": float(low[0]), "high": float(high[0])}
    return {"n": n, "accepted": k, "errors": wrong, **share, **rate}


def _judged(rule: Threshold, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Say of each row whether the promise held: "kept", "broken" beyond chance, or "above"."""
    chances = {
        str(place): float(scipy.special.bdtrc(row["errors"] - 1, _tried(row, rule.rule), rule.risk))
        for place, row in enumerate(rows)
        if row["errors"]
    }
    broken = holm(chances, 1 - CONFIDENCE)
    return [
        {**row, "verdict": "broken" if str(place) in broken else _verdict(row, rule.risk)}
        for place, row in enumerate(rows)
    ]


def _tried(row: Mapping[str, Any], rule: str) -> int:
    return int(row["accepted"] if rule == "accepted" else row["n"])


def _verdict(row: Mapping[str, Any], risk: float) -> str:
    if row["rate"] is None:
        return "none"
    return "kept" if row["rate"] <= risk else "above"

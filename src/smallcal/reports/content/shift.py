"""What becomes of calibration where the test samples change: one row per shifted set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smallcal.advice.calibrated_split import CalibratedSplit
from smallcal.errors import InputError
from smallcal.reports.content.measure import RAW, Advance, Fit, applied, paired, verdict_of
from smallcal.reports.content.routing import shares_of
from smallcal.reports.samples import Samples
from smallcal.statistics.compare import Comparison, compare

METRICS = ("accuracy", "confidence_gap", "ece15", "top_label_bce", "nll")


def shift_rows(
    shifted: Mapping[tuple[str, str], Samples],
    fits: Mapping[str, Fit],
    chosen: str,
    calibration: Samples,
    *,
    bootstrap: tuple[int, float, int],
    advance: Advance = lambda steps: None,
) -> list[dict[str, Any]]:
    """Measure the raw model and the chosen method on every shifted set.

    ``bootstrap`` is (n_boot, level, seed).
    """
    n_boot, level, seed = bootstrap
    shown = CalibratedSplit.of(fits[chosen].fitted, calibration.preds)
    usual = shares_of(shown, calibration) if shown.n_bands > 1 else []
    rows = []
    for (kind, severity), samples in shifted.items():
        _require_columns(samples, calibration)
        probas = {
            name: applied(fits[name].fitted, samples) for name in dict.fromkeys([RAW, chosen])
        }
        result = compare(
            samples.preds.labels,
            probas,
            baseline=RAW,
            metrics=METRICS,
            n_boot=n_boot,
            level=level,
            random_state=seed,
            advance=advance,
        )
        here = shares_of(shown, samples) if usual else []
        rows.append(
            {
                "kind": kind,
                "severity": severity,
                **samples.to_dict(),
                "values": _values(result),
                "differences": _differences(result, chosen) if chosen != RAW else {},
                "occupancy": here,
                "calibration_occupancy": usual,
                "moved": sum(abs(a - b) for a, b in zip(here, usual, strict=True)) / 2,
            }
        )
    return rows


def _require_columns(samples: Samples, calibration: Samples) -> None:
    if samples.preds.n_classes != calibration.preds.n_classes:
        raise InputError(
            f"{samples.source} has {samples.preds.n_classes} columns and {calibration.source} has "
            f"{calibration.preds.n_classes}; both must come from one model"
        )
    if samples.input != calibration.input:
        raise InputError(
            f"{samples.source} holds {samples.input} and {calibration.source} holds "
            f"{calibration.input}; use one kind"
        )


def _values(result: Comparison) -> dict[str, dict[str, Any]]:
    return {
        name: {
            metric: {"value": row.point, "low": row.low, "high": row.high}
            for metric, row in table.items()
        }
        for name, table in result.value_intervals.items()
    }


def _differences(result: Comparison, chosen: str) -> dict[str, dict[str, Any]]:
    found = {}
    for metric in ("ece15", "top_label_bce", "nll"):
        row = paired(result, chosen, RAW, metric)
        found[metric] = {
            "value": row.point,
            "low": row.low,
            "high": row.high,
            "verdict": verdict_of(metric, row),
        }
    return found

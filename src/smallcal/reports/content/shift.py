"""What becomes of calibration where the test samples change: one row per shifted set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smallcal.advice.calibrated_split import CalibratedSplit, scored_on
from smallcal.io.progress import Advance
from smallcal.metrics import METRICS
from smallcal.reports.content.measure import Fit, compared, paired
from smallcal.reports.samples import Samples
from smallcal.reports.settings import RAW

_SHOWN = ("accuracy", "confidence_gap", "ece15", "top_label_bce", "nll")
_COMPARED = ("ece15", "top_label_bce", "nll")


def shift_rows(
    shifted: Mapping[tuple[str, str], Samples],
    fits: Sequence[Fit],
    calibration: Samples,
    *,
    shown: CalibratedSplit | None,
    bootstrap: tuple[int, float, int],
    advance: Advance = lambda steps: None,
) -> list[dict[str, Any]]:
    """Measure the uncalibrated model and the chosen method, in this order, on every shifted set.

    ``shown`` is what the chosen method does to the calibration samples, if it has several
    temperatures; ``bootstrap`` is (n_boot, level, seed).
    """
    raw, chosen = fits
    usual = _shares(shown, calibration)
    rows = []
    for (kind, severity), samples in shifted.items():
        preds = samples.preds
        scored = {fit.name: scored_on(fit.fitted, preds) for fit in fits}
        metrics = [METRICS[name] for name in _SHOWN]
        result = compared(scored, metrics, bootstrap=bootstrap, advance=advance)
        here = _shares(shown, samples)
        names = _COMPARED if chosen is not raw else ()
        differences = {name: paired(result, chosen.name, RAW, name) for name in names}
        rows.append(
            {
                "kind": kind,
                "severity": severity,
                **samples.facts,
                "values": {
                    name: {metric: row.numbers for metric, row in table.items()}
                    for name, table in result.value_intervals.items()
                },
                "differences": {
                    metric: {**row.numbers, "verdict": verdict}
                    for metric, (row, verdict, _) in differences.items()
                },
                "occupancy": here,
                "calibration_occupancy": usual,
                "moved": sum(abs(a - b) for a, b in zip(here, usual, strict=True)) / 2,
            }
        )
    return rows


def _shares(shown: CalibratedSplit | None, samples: Samples) -> list[float]:
    """Return the share of samples in each group or band of a calibrator."""
    if shown is None:
        return []
    found: list[float] = shown.occupancy(samples.preds.logits, samples.preds.features).tolist()
    return found

"""Where confidence and accuracy part: by class, by risk and by confidence.

A class may have three samples. A bootstrap of three right predictions knows no doubt, so gaps here
have exact intervals: that of Clopper and Pearson for the accuracy, less the mean confidence, which
is known. Samples whose chances differ spread less than the binomial law says, so the interval is on
the safe side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import binom

from smallcal.advice.calibrated_split import CalibratedSplit
from smallcal.calibrators.maps.groups import group_members
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.metrics import Scored
from smallcal.metrics.binned import bin_table
from smallcal.reports.content.measure import RAW, Measured
from smallcal.reports.samples import Samples
from smallcal.statistics.groups import by_group, holm
from smallcal.statistics.interval import binomial_interval

#: Where bands of confidence begin, after 0.
BANDS = (0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Gap:
    """How far confidence lies from accuracy in a group.

    Attributes
    ----------
    group : str
    n, n_correct : int
    accuracy, confidence : float
    gap, low, high : float
        Confidence minus accuracy, positive where the model is too sure; exact interval.
    p_value : float
        Of "accuracy is what the confidence says", before any correction.
    raw_gap : float
        The raw model's, on the same samples.
    """

    group: str
    n: int
    n_correct: int
    accuracy: float
    confidence: float
    gap: float
    low: float
    high: float
    p_value: float
    raw_gap: float


def gaps_of(
    scored: Scored, raw: Scored, codes: IntArray, names: Sequence[str], *, level: float
) -> list[Gap]:
    """Return the gap of each group that has samples; ``codes`` numbers the names.

    Examples
    --------
    >>> view = Scored.of([0, 0, 1, 1], [[0.9, 0.1]] * 4)
    >>> (row,) = gaps_of(view, view, np.zeros(4, dtype=np.int64), ["all"], level=0.95)
    >>> row.n_correct, round(row.gap, 2), row.low < 0 < row.high
    (2, 0.4, True)
    """
    table = bin_table(scored, codes, bins=len(names))
    before = bin_table(raw, codes, bins=len(names))
    full = np.flatnonzero(table.count)
    n, confidence, accuracy = table.count[full], table.confidence[full], table.accuracy[full]
    right = np.rint(n * accuracy)
    low, high = binomial_interval(right, n.astype(float), level=level)
    p_values = exact_p_values(right, n, confidence)
    return [
        Gap(
            group=names[code],
            n=int(n[i]),
            n_correct=int(right[i]),
            accuracy=float(accuracy[i]),
            confidence=float(confidence[i]),
            gap=float(confidence[i] - accuracy[i]),
            low=float(confidence[i] - high[i]),
            high=float(confidence[i] - low[i]),
            p_value=float(p_values[i]),
            raw_gap=float(before.confidence[code] - before.accuracy[code]),
        )
        for i, code in enumerate(full.tolist())
    ]


def exact_p_values(right: FloatArray, n: IntArray, chance: FloatArray) -> FloatArray:
    """Return twice the smaller tail of the binomial law, the test that the interval inverts."""
    below, above = binom.cdf(right, n, chance), binom.sf(right - 1, n, chance)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(below, above)))


def class_rows(measured: Measured, method: str, test: Samples) -> list[dict[str, Any]]:
    """Return one row per predicted class, those least explained by chance first."""
    names = [test.class_name(column) for column in range(test.preds.n_classes)]
    scored, raw = measured.scored[method], measured.scored[RAW]
    codes = np.asarray(scored.proba.argmax(axis=1), dtype=np.int64)
    # Rows are put in order by column, as two classes may have the same name.
    rows = gaps_of(scored, raw, codes, [str(c) for c in range(len(names))], level=_level(measured))
    off = set(holm({row.group: row.p_value for row in rows}, 1 - _level(measured)))
    truth = np.bincount(test.preds.labels, minlength=len(names))
    found = [
        {
            **asdict(row),
            "group": names[int(row.group)],
            "column": int(row.group),
            "n_true": int(truth[int(row.group)]),
            "off": row.group in off,
        }
        for row in rows
    ]
    return sorted(found, key=lambda row: (row["p_value"], -abs(row["gap"]), row["column"]))


def group_tables(
    measured: Measured,
    method: str,
    calibration: Samples,
    test: Samples,
    *,
    bootstrap: tuple[int, float, int],
) -> list[dict[str, Any]]:
    """Return gaps and errors by risk group and by band of confidence.

    Holm's correction is for all groups of all tables together.
    """
    tables: list[dict[str, Any]] = []
    for by, codes, names in _groupings(measured, method, calibration, test):
        rows = gaps_of(
            measured.scored[method],
            measured.scored[RAW],
            codes,
            names,
            level=_level(measured),
        )
        errors = _errors(measured, method, test, codes, bootstrap)
        shown = [{**asdict(row), **errors.get(names.index(row.group), {})} for row in rows]
        tables.append({"by": by, "rows": shown})
    keyed = {f"{i} {row['group']}": row for i, table in enumerate(tables) for row in table["rows"]}
    off = set(holm({key: row["p_value"] for key, row in keyed.items()}, 1 - _level(measured)))
    for key, row in keyed.items():
        row["off"] = key in off
    return tables


def worst(
    tables: Sequence[dict[str, Any]], classes: Sequence[dict[str, Any]], *, limit: int = 10
) -> list[dict[str, Any]]:
    """Return the groups of any kind that are off beyond chance, the largest gaps first."""
    found = [{"by": table["by"], **row} for table in tables for row in table["rows"] if row["off"]]
    found += [{"by": "predicted class", **row} for row in classes if row["off"]]
    return sorted(found, key=lambda row: -abs(row["gap"]))[:limit]


def _level(measured: Measured) -> float:
    return measured.result.level


def _errors(
    measured: Measured,
    method: str,
    test: Samples,
    codes: IntArray,
    bootstrap: tuple[int, float, int],
) -> dict[int, dict[str, Any]]:
    """Return each group's ece15 with its interval, and whether it differs from the others'."""
    if len(np.unique(codes)) < 2:
        return {}
    n_boot, level, seed = bootstrap
    found = by_group(
        test.preds.labels,
        measured.scored[method].proba,
        codes,
        metrics=["ece15"],
        n_boot=n_boot,
        level=level,
        random_state=seed,
    )
    return {
        int(name): {
            "ece15": row["ece15"].interval.point,
            "ece15_low": row["ece15"].interval.low,
            "ece15_high": row["ece15"].interval.high,
            "ece15_differs": row["ece15"].differs,
        }
        for name, row in found.items()
    }


def _groupings(
    measured: Measured, method: str, calibration: Samples, test: Samples
) -> list[tuple[str, IntArray, list[str]]]:
    """Return ways to cut the test samples: their name, each sample's group, the groups' names."""
    confidence = measured.scored[method].confidence
    edges = [0.0, *BANDS, 1.0]
    bands = [f"{100 * a:g} to {100 * b:g} %" for a, b in pairwise(edges)]
    codes = np.digitize(confidence, BANDS).astype(np.int64)
    found = [(f"confidence of {method}", codes, bands)]
    for name, fit in measured.fits.items():
        if not fit.deployable or not fit.routed or (name != method and not fit.fitted.map.steps):
            continue
        shown = CalibratedSplit.of(fit.fitted, calibration.preds)
        if shown.n_bands > 1:
            what = "third" if shown.regressed else "group"
            by = f"thirds by temperature of {name}" if shown.regressed else f"groups of {name}"
            names = [f"{what} {i}" for i in range(shown.n_bands)]
            found.append((by, _bands(shown, test), names))
    return found


def _bands(shown: CalibratedSplit, test: Samples) -> IntArray:
    """Return the group of each test sample, or its third as the calibration samples cut them."""
    preds, fitted = test.preds, shown.fitted
    if not shown.regressed:
        return fitted.group(preds.logits, features=preds.features)
    temperature = fitted.temperature(preds.logits, features=preds.features)
    return group_members(temperature, np.array(shown.edges))

"""Where confidence and accuracy part: by class, by risk and by confidence.

Gaps have exact intervals: see :mod:`smallcal.statistics.gaps`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from smallcal.data.claims import CLAIMS
from smallcal.data.predictions import IntArray, Predictions
from smallcal.metrics import METRICS, Scored
from smallcal.reports.content.measure import Fit, Measured
from smallcal.reports.content.routing import Bands
from smallcal.reports.settings import RAW
from smallcal.statistics.gaps import gaps_of, mark_off
from smallcal.statistics.groups import by_group_of

#: Where bands of confidence begin, after 0.
BANDS = (0.5, 0.7, 0.9)
#: The same of probabilities of an outcome, which may be rare.
OUTCOME_BANDS = (0.1, 0.3, 0.5, 0.7, 0.9)
#: More groups than this have no errors of their own, which take a bootstrap each.
_MANY = 100
#: What a table of the groups that the user named is called.
NAMED = "named group"


def gap_tables(
    measured: Measured,
    method: str,
    *,
    class_names: Sequence[str],
    bands: Bands | None,
    test: Predictions,
    bootstrap: tuple[int, float, int],
) -> dict[str, Any]:
    """Return the gaps of a method: of classes, of groups, and the worst of both.

    Parameters
    ----------
    bands : Bands, or None
        The method's own groups or bands, where it has several temperatures.
    test : Predictions
        The test samples, with the groups that the user named, if any.
    bootstrap : tuple
        ``(n_boot, level, seed)``, for the groups' errors.
    """
    fit, raw = measured.fits[method], measured.fits[RAW].scored
    scored, level = fit.scored, bootstrap[1]
    # A score predicts no class.
    classes = [] if scored.outcome else _class_rows(fit, raw, class_names, level=level)
    tables: list[dict[str, Any]] = []
    for by, codes, names in _groupings(scored, method, bands, test):
        known = np.flatnonzero(codes >= 0)
        views = (scored.take(known), raw.take(known)) if len(known) < scored.n else (scored, raw)
        rows = gaps_of(*views, codes[known], names, level=level)
        errors = _errors(views[0], codes[known], bootstrap)
        entries = [{**asdict(row), **errors.get(names.index(row.group), {})} for row in rows]
        tables.append({"by": by, "rows": entries})
    # Holm's correction is for all classes, and for all groups of all tables together.
    for family in (classes, [row for table in tables for row in table["rows"]]):
        mark_off(family, level=level)
    return {
        "classes": {"method": method, "rows": classes},
        "groups": {"method": method, "tables": tables, "worst": worst(tables, classes)},
    }


def _class_rows(
    fit: Fit, raw: Scored, names: Sequence[str], *, level: float
) -> list[dict[str, Any]]:
    """Return one row per predicted class, those least explained by chance first."""
    scored = fit.scored
    truth = np.bincount(scored.labels, minlength=len(names))
    # Rows are found again by column, as two classes may have the same name.
    gaps = gaps_of(scored, raw, fit.predicted, [str(c) for c in range(len(names))], level=level)
    rows = [
        {
            **asdict(row),
            "group": names[int(row.group)],
            "column": int(row.group),
            "n_true": int(truth[int(row.group)]),
        }
        for row in gaps
    ]
    return sorted(rows, key=lambda row: (row["p_value"], -abs(row["gap"]), row["column"]))


def _groupings(
    scored: Scored, method: str, bands: Bands | None, test: Predictions
) -> Iterator[tuple[str, IntArray, list[str]]]:
    """Yield ways to cut the test samples: their name, each sample's group, the groups' names."""
    if test.groups is not None and len(test.group_names) > 1:
        yield NAMED, test.groups, list(test.group_names)
    cuts = OUTCOME_BANDS if scored.outcome else BANDS
    names = [f"{100 * a:g} to {100 * b:g} %" for a, b in pairwise([0.0, *cuts, 1.0])]
    what = CLAIMS[scored.kind].confidence
    yield f"{what} of {method}", np.digitize(scored.confidence, cuts).astype(np.int64), names
    if bands is None:
        return
    thirds = bands.shown.regressed
    what = "third" if thirds else "group"
    by = f"thirds by temperature of {method}" if thirds else f"groups of {method}"
    yield by, bands.test, [f"{what} {i}" for i in range(bands.shown.n_bands)]


def _errors(
    scored: Scored, codes: IntArray, bootstrap: tuple[int, float, int]
) -> dict[int, dict[str, Any]]:
    """Return each group's ece15 with its interval, and whether it differs from the others'."""
    if not 2 <= len(np.unique(codes)) <= _MANY or not bootstrap[0]:
        return {}
    found = by_group_of(scored, codes, [METRICS["ece15"]], bootstrap=bootstrap)
    return {
        int(name): {
            "ece15": row["ece15"].interval.plain,
            "ece15_debiased": row["ece15"].interval.point,
            "ece15_low": row["ece15"].interval.low,
            "ece15_high": row["ece15"].interval.high,
            "ece15_note": row["ece15"].interval.note,
            "ece15_differs": row["ece15"].differs,
        }
        for name, row in found.items()
    }


def worst(
    tables: Sequence[dict[str, Any]], classes: Sequence[dict[str, Any]], *, limit: int = 10
) -> list[dict[str, Any]]:
    """Return the groups of any kind that are off beyond chance, the largest gaps first."""
    found = [{"by": table["by"], **row} for table in tables for row in table["rows"] if row["off"]]
    found += [{"by": "predicted class", **row} for row in classes if row["off"]]
    return sorted(found, key=lambda row: -abs(row["gap"]))[:limit]

"""Paired differences with their intervals, one row each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from smallcal.errors import InputError
from smallcal.metrics import METRICS
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal.statistics.compare import Comparison
from smallcal.statistics.interval import Better

#: Colour and mark of each verdict; in grey the marks tell them apart, and that a tie is hollow.
_LOOKS = {
    "better": style.Look(style.PALETTE[0], "o", "-"),
    "worse": style.Look(style.PALETTE[1], "X", "-"),
    "tie": style.Look(style.GREY, "D", "-"),
}


@dataclass(frozen=True, kw_only=True)
class ForestRow:
    """One difference.

    Attributes
    ----------
    label : str
    value, low, high : float
        The difference and its interval, in the unit drawn.
    wide_low, wide_high : float
        An interval that also counts what the first takes as given; the same where there is none.
    verdict : {"better", "worse", "tie"}
        By the wider interval: a tie where it holds zero.
    """

    label: str
    value: float
    low: float
    high: float
    wide_low: float
    wide_high: float
    verdict: str


@dataclass(frozen=True, kw_only=True)
class Forest:
    """Rows in the order given, and what the axis says."""

    rows: tuple[ForestRow, ...]
    xlabel: str


def forest_data(
    differences: object, *, metric: str | None = None, better: Better = "lower"
) -> Forest:
    """Return what :func:`forest` draws.

    Parameters
    ----------
    differences : Comparison, or rows
        What ``sc.compare(..., n_boot=...)`` returns; or mappings with ``label``, ``value``,
        ``low``, ``high`` and, if there is a second interval (say, one that also refits),
        ``wide_low`` and ``wide_high``.
    metric : str, optional
        Which metric of a comparison; its first by default.
    better : {"lower", "higher", "zero"}
        Which differences are good, for rows; a comparison knows.

    Examples
    --------
    >>> found = forest_data([{"label": "a", "value": -1.0, "low": -2.0, "high": -0.5}])
    >>> found.rows[0].verdict
    'better'
    """
    if better not in get_args(Better):
        raise InputError(
            f"better must be one of {', '.join(get_args(Better))}; got {better!r}",
            code="unknown-choice",
        )
    if isinstance(differences, Comparison):
        return _of_comparison(differences, metric)
    if metric is not None:
        raise InputError(
            "metric is for a comparison; rows are drawn as they are", code="options-conflict"
        )
    if isinstance(differences, Mapping | str) or not isinstance(differences, Iterable):
        raise InputError(
            "differences must be a comparison with intervals, or rows with label, value, low, high",
            code="option-type",
        )
    rows = tuple(_row(entry, number, better) for number, entry in enumerate(differences))
    if not rows:
        raise InputError("differences is empty; pass at least one row", code="empty")
    return Forest(rows=rows, xlabel="difference")


def _row(entry: object, number: int, better: Better) -> ForestRow:
    if not isinstance(entry, Mapping) or not {"label", "value", "low", "high"} <= set(entry):
        raise InputError(
            f"row {number} of differences must have label, value, low and high", code="array-type"
        )
    names = ("value", "low", "high", "wide_low", "wide_high")
    given: dict[str, Any] = {"wide_low": entry["low"], "wide_high": entry["high"], **entry}
    try:
        numbers = {name: float(given[name]) for name in names}
    except (TypeError, ValueError):
        raise InputError(
            f"row {number} of differences holds something not a number", code="array-type"
        ) from None
    if not all(map(math.isfinite, numbers.values())):
        raise InputError(
            f"row {number} of differences ({entry['label']}) is not finite", code="array-type"
        )
    if numbers["low"] > numbers["high"] or numbers["wide_low"] > numbers["wide_high"]:
        raise InputError(
            f"row {number} of differences ({entry['label']}): low is above high", code="array-type"
        )
    low = min(numbers["low"], numbers["wide_low"])
    high = max(numbers["high"], numbers["wide_high"])
    verdict = "tie"
    if better != "zero" and (low > 0 or high < 0):
        verdict = "better" if (high < 0) == (better == "lower") else "worse"
    return ForestRow(label=str(entry["label"]), verdict=verdict, **numbers)


def _of_comparison(found: Comparison, metric: str | None) -> Forest:
    if not found.intervals:
        raise InputError(
            "differences has no intervals: compare two methods with n_boot above 0",
            code="no-interval",
        )
    known = list(next(iter(found.intervals.values())))
    name = known[0] if metric is None else metric
    if name not in known:
        raise InputError(
            f"metric {name!r} was not compared; there are {', '.join(known)}", code="metric-unknown"
        )
    unit = METRICS[name].unit
    rows = []
    for number, (method, row) in enumerate(found.intervals.items()):
        point, (low, high) = row[name].point, row[name]
        if math.isnan(low):
            continue
        ends = {"value": point, "low": low, "high": high}
        scaled = {end: unit.scale * value for end, value in ends.items()}
        rows.append(_row({"label": method, **scaled}, number, METRICS[name].better))
    if not rows:
        why = row[name].note or "undefined in every resample"
        raise InputError(f"no difference in {name} has an interval: {why}", code="no-interval")
    label = f"{METRICS[name].title}, difference from {found.baseline} ({unit.change})"
    return Forest(rows=tuple(rows), xlabel=label)


@draws(forest_data, size=lambda found: (6.2, 1.3 + 0.36 * len(found.rows)))
def forest(ax: style.Axes, found: Forest) -> None:
    """Draw paired differences with their intervals, and call each by its interval.

    The thick bar is the first interval, the thin one the wider. A difference whose wider interval
    holds zero is a tie, whatever its size.

    Examples
    --------
    >>> forest([{"label": "a", "value": -1.0, "low": -2.0, "high": -0.5}]).get_xlabel()
    'difference'
    """
    n = len(found.rows)
    ax.axvline(0, **style.REFERENCE)
    for verdict in _LOOKS:
        rows = {n - 1 - i: row for i, row in enumerate(found.rows) if row.verdict == verdict}
        if rows:
            _draw_rows(ax, rows, verdict)
    ax.set_yticks(np.arange(n)[::-1], [style.literal(row.label) for row in found.rows])
    ax.set_ylim(-0.6, n - 0.4)
    # Beside long labels there is little room for numbers.
    ax.locator_params(axis="x", nbins=6)
    style.dress(ax, xlabel=found.xlabel, ylabel="")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    style.legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)


def _draw_rows(ax: style.Axes, rows: dict[int, ForestRow], verdict: str) -> None:
    """Draw the rows of one verdict at their heights."""
    look, y, chosen = _LOOKS[verdict], list(rows), rows.values()
    thin = ([row.wide_low for row in chosen], [row.wide_high for row in chosen])
    thick = ([row.low for row in chosen], [row.high for row in chosen])
    # Unsnapped: rounded to pixels, the two bars and the mark would not share one middle.
    ax.hlines(y, *thin, color=look.color, linewidth=1.1, zorder=2, snap=False)
    ax.hlines(y, *thick, color=look.color, linewidth=3.2, alpha=0.55, zorder=2, snap=False)
    style.marks(
        ax,
        [row.value for row in chosen],
        y,
        look,
        hollow=verdict == "tie",
        label=verdict,
        markersize=7,
        zorder=3,
        tips=[_text(row) for row in chosen],
        name=f"forest-{verdict}",
    )


def _text(row: ForestRow) -> str:
    wide = ""
    if (row.wide_low, row.wide_high) != (row.low, row.high):
        wide = f"; wider {row.wide_low:+.3g} to {row.wide_high:+.3g}"
    return f"{row.label}: {row.value:+.3g} ({row.low:+.3g} to {row.high:+.3g}{wide}): {row.verdict}"

"""An audit in a notebook: the verdict, what it rests on, and how far refits agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from smallcal.advice.audit_findings import Audit
from smallcal.advice.refits import Spread
from smallcal.data.claims import CLAIMS
from smallcal.metrics import METRICS
from smallcal.metrics.units import PERCENT, SHARE
from smallcal.reports.notebook import pictures
from smallcal.reports.notebook.markup import (
    Safe,
    beside,
    findings,
    folded,
    label,
    named,
    said,
    table,
    tag,
    title,
)
from smallcal.reports.notebook.pictures import Axis, Bar


def audit_view(found: Audit) -> Iterator[Safe]:
    """Show the verdict and its findings, temperatures over refits, and gaps of groups."""
    rows = "scores" if found.input == "score" else f"samples of {found.n_classes:,} classes"
    yield title("Audit", f"of {found.method} on {found.n:,} {rows}")
    advised = [] if found.recommendation is None else [found.recommendation.sentence]
    yield said(tag("b", found.verdict), *advised)
    yield findings((each.level, each.text) for each in found.findings)
    yield beside(_temperatures(found), _picture(found))
    if found.groups:
        yield _groups(found)
    yield folded("On samples that refits left out", _held_out(found), _shares(found))
    yield said(
        f"{found.n_refits:,} refits, each on {found.resampling}. Brackets hold the middle half of "
        "them.",
        kind="note",
    )


def _temperatures(found: Audit) -> Safe:
    rows = [["one for all", *_cells(found.pooled_temperature), "", ""]]
    name = _band_name(found)
    for i, band in enumerate(found.bands):
        rate = "" if band.error_rate is None else SHARE.value(band.error_rate)
        rows.append([f"{name} {i}", *_cells(band.temperature), f"{band.n:,}", rate])
    heads = ["temperature", "here", "median of refits", "samples", CLAIMS[found.input].rate]
    return table(heads, rows, more="rows")


def _band_name(found: Audit) -> str:
    return "group" if found.banded_by == "groups" else "third"


def _cells(spread: Spread) -> list[str]:
    middle = f"{spread.median:.3g} [{spread.low:.3g}, {spread.high:.3g}]"
    return [f"{spread.point:.4g}", middle]


def _picture(found: Audit) -> Safe:
    """Draw temperatures and where the middle half of the refits has them."""
    spreads = {"one for all": found.pooled_temperature}
    spreads |= {f"{_band_name(found)} {i}": band.temperature for i, band in enumerate(found.bands)}
    rows = [
        Bar(name, each.point, each.low, each.high, f"{name}: T = {', refits '.join(_cells(each))}")
        for name, each in spreads.items()
    ]
    axis = Axis("temperature, bars: middle half of refits", 1.0)
    return pictures.bars(rows, axis, words="; ".join(row.tip for row in rows))


def _groups(found: Audit) -> Safe:
    claim = CLAIMS[found.input]
    rows = (
        [
            named(row["group"]),
            f"{row['n']:,}",
            _gap(row, "raw_"),
            _gap(row, ""),
            f"{row['effect']:+.3f}" if row["effect"] else "",
        ]
        for row in found.groups
    )
    gap = f"{claim.confidence} minus {claim.accuracy}"
    heads = ["group", "samples", "before", "after", "effect"]
    return table(
        heads,
        rows,
        caption=f"In each group, {gap} in points",
        total=len(found.groups),
        more="groups",
    )


def _gap(row: dict[str, Any], side: str) -> Safe:
    shown = tag("span", PERCENT.number(row[f"{side}gap"], signed=True))
    return Safe(f"{shown} {label('care', 'off')}") if row[f"{side}off"] else shown


def _held_out(found: Audit) -> Safe:
    rows = []
    for name in ("top_label_bce", "ece15", "nll"):
        pair = [found.held_out.get(key) for key in (f"raw_{name}", name)]
        unit = METRICS[name].unit
        if all(each is not None for each in pair):
            told = [unit.spread(each.mean, each.sd) for each in pair if each is not None]
            rows.append([unit.heading(name), *told])
    raw = CLAIMS[found.input].raw.removeprefix("the ")
    return table(["metric, mean ± s.d.", raw, found.method], rows) if rows else Safe("")


def _shares(found: Audit) -> Safe:
    rows = [[key.replace("_", " "), SHARE.value(share)] for key, share in found.shares.items()]
    rows += [[f"flag {key}", SHARE.value(share)] for key, share in found.flags.items()]
    return table(["in refits", "share"], rows) if rows else Safe("")
